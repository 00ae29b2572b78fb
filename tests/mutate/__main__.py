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
from typing import NamedTuple

from mutate.modules import MODULES, ROOT, source_of, tests_of
from mutate.mutations import Mutation, mutations
from mutate.session import Reach, Subject, noticed_at_import, noticed_in_session, tame_hypothesis

_BEFORE_FORKS = ("cryptography.hazmat.primitives.ciphers.aead", "pydantic", "yaml")
"""Slow to import, and wanted by the tests of many modules."""
EXPLAINED = Path(__file__).parent / "explained.toml"


class Survivor(NamedTuple):
    """A change that no test noticed."""

    file: str
    line: int
    function: str
    change: str
    tests: int
    """How many run the changed line."""


class Outcome(NamedTuple):
    """What came of one module."""

    tried: int
    survivors: list[Survivor]
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
        print(
            f"{name:<44}{outcome.tried:>8}{outcome.explained:>10}{len(outcome.survivors):>10}{seconds:>9.0f}",
            flush=True,
        )
        for one in outcome.survivors:
            tests = f"{one.tests} tests run the line" if one.tests else "no test runs the line"
            print(f"  {one.file}:{one.line} {one.function}: {one.change}  ({tests})", flush=True)
        left += len(outcome.survivors)
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
    noticed, reaches = _noticed(subject, tries, tests_of(module))
    survivors = [
        Survivor(file, one.line, one.function, one.change, sum(reach.runs(one) for reach in reaches))
        for number, one in enumerate(tries)
        if not noticed[number]
    ]
    unexplained = [one for one in survivors if (file, one.function, one.change) not in entries]
    present = {(file, one.function, one.change) for one in every}
    unexplained += [
        Survivor(file, 0, name, f"explained.toml explains what is not there: {change}", 0)
        for where, name, change in entries
        if where == file and (where, name, change) not in present
    ]
    return Outcome(len(tries), unexplained, len(survivors) - len([one for one in unexplained if one.line]))


def _noticed(subject: Subject, tries: list[Mutation], tests: list[Path]) -> tuple[dict[int, bool], list[Reach]]:
    answers = noticed_in_session(subject, tries, tests)
    failed = next(answers, None)
    if failed is None:
        sys.exit(f"The tests of {subject.name} end without a result; run them with pytest to see why.")
    if failed:
        sys.exit(f"These tests fail although nothing is changed: {', '.join(failed)}")
    reaches = [Reach(node, seconds, frozenset(lines)) for node, seconds, lines in next(answers)]
    noticed: dict[int, bool] = dict(answers)
    for number, mutation in enumerate(tries):
        if number not in noticed:
            noticed[number] = noticed_at_import(subject, mutation, reaches)
    return noticed, reaches


if __name__ == "__main__":
    sys.exit(main())
