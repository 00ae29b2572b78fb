"""Owns ``make mutate``: changes the modules of the table bit by bit and lists the changes that no unit test notices.

Must not know what a change is. An entry of explained.toml says of a change why no test can notice it.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import sys
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mutate.modules import MODULES, ROOT, source_of, tests_of
from mutate.mutations import mutations
from mutate.session import Reach, Subject, noticed_at_import, noticed_in_session, tame_hypothesis

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mutate.mutations import Mutation

_BEFORE_FORKS = ("cryptography.hazmat.primitives.ciphers.aead", "pydantic", "yaml")
"""Slow to import, and wanted by the tests of many modules."""
EXPLAINED = Path(__file__).parent / "explained.toml"


class Outcome(NamedTuple):
    """What came of one module."""

    tried: int
    survivors: int
    """Without those that are explained."""
    explained: int


def main() -> int:
    """Try the changes of the modules that the command line names; the exit code is 0 when all are noticed."""
    arguments = _arguments()
    os.chdir(ROOT)
    tame_hypothesis()
    for slow in _BEFORE_FORKS:
        importlib.import_module(slow)
    entries = {
        (entry["file"], entry["function"], entry["change"]): entry["reason"]
        for entry in tomllib.loads(EXPLAINED.read_text()).get("explained", [])
    }
    left = 0
    print(f"{'module':<44}{'changes':>8}{'explained':>10}{'survivors':>10}{'seconds':>9}", flush=True)
    for name in arguments.module or MODULES:
        module, _, function = name.partition(":")
        if module not in MODULES:
            sys.exit(f"{module} is not in tests/mutate/modules.py; add it there with its tests.")
        began = time.monotonic()
        outcome = _try(module, function, entries)
        seconds = time.monotonic() - began
        print(f"{name:<44}{outcome.tried:>8}{outcome.explained:>10}{outcome.survivors:>10}{seconds:>9.0f}", flush=True)
        left += outcome.survivors
    return 1 if left else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mutate", description="List the changes that no unit test notices.")
    parser.add_argument(
        "module", nargs="*", help="these modules of the table only, or a function: MODULE:FUNCTION, MODULE:CLASS.METHOD"
    )
    return parser.parse_args()


def _try(module: str, function: str, entries: dict[tuple[str, str, str], str]) -> Outcome:
    source = source_of(module)
    file = str(source.relative_to(ROOT))
    tree = ast.parse(source.read_text())
    subject = Subject(module, source, tree)
    every = mutations(tree)
    tries = [one for one in every if not function or one.function == function]
    present = {(file, one.function, one.change) for one in every}
    survivors = explained = 0
    for where, name, change in entries:
        if where == file and (where, name, change) not in present:
            print(f"  {file} {name}: explained.toml explains what is not there: {change}", flush=True)
            survivors += 1
    for one, tests in _unnoticed(subject, tries, tests_of(module)):
        if (file, one.function, one.change) in entries:
            explained += 1
            continue
        reach = f"{tests} tests run the line" if tests else "no test runs the line"
        print(f"  {file}:{one.line} {one.function}: {one.change}  ({reach})", flush=True)
        survivors += 1
    return Outcome(len(tries), survivors, explained)


def _unnoticed(subject: Subject, tries: list[Mutation], tests: list[Path]) -> Iterator[tuple[Mutation, int]]:
    """Yield each change that no test notices, as soon as that is known, and how many tests run the changed line."""
    answers = noticed_in_session(subject, tries, tests)
    failed = next(answers, None)
    if failed is None:
        sys.exit(f"The tests of {subject.name} end without a result; run them with pytest to see why.")
    if failed:
        sys.exit(f"These tests fail although nothing is changed: {', '.join(failed)}")
    reaches = [Reach(node, seconds, frozenset(lines)) for node, seconds, lines in next(answers)]
    tried = set()
    for number, is_noticed in answers:
        tried.add(number)
        if not is_noticed:
            yield tries[number], sum(reach.runs(tries[number]) for reach in reaches)
    for number, mutation in enumerate(tries):
        if number not in tried and not noticed_at_import(subject, mutation, reaches):
            yield mutation, sum(reach.runs(mutation) for reach in reaches)


if __name__ == "__main__":
    sys.exit(main())
