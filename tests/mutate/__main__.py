"""``make mutate``: it mutates the modules of the table and lists the mutations that no unit test detects.

Must not know what a mutation is. An entry in explained.toml explains why no test can detect a mutation.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from mutate.modules import MODULES, ROOT, source_of, tests_of
from mutate.mutations import Mutation, mutations
from mutate.session import Reach, Subject, configure_hypothesis, is_detected_at_import, run_session

_PRELOADED = ("cryptography.hazmat.primitives.ciphers.aead", "pydantic", "yaml")
"""Imported before the forks, because they are slow and many tests need them."""
EXPLAINED = Path(__file__).parent / "explained.toml"


class Outcome(NamedTuple):
    """The result of one module."""

    tried: int
    survivors: int
    """Without the explained ones."""
    explained: int


def main() -> int:
    """Try the mutations of the modules in the command line; return 0 if all are detected."""
    arguments = _arguments()
    os.chdir(ROOT)
    configure_hypothesis()
    for module in _PRELOADED:
        importlib.import_module(module)
    entries = {
        (entry["file"], entry["function"], entry["change"]): entry["reason"]
        for entry in tomllib.loads(EXPLAINED.read_text()).get("explained", [])
    }
    survivors = 0
    print(f"{'module':<44}{'changes':>8}{'explained':>10}{'survivors':>10}{'seconds':>9}", flush=True)
    for name in arguments.module or MODULES:
        module, _, function = name.partition(":")
        if module not in MODULES:
            sys.exit(f"{module} is not in tests/mutate/modules.py; add it there with its tests.")
        began = time.monotonic()
        outcome = _try(module, function, entries)
        seconds = time.monotonic() - began
        print(f"{name:<44}{outcome.tried:>8}{outcome.explained:>10}{outcome.survivors:>10}{seconds:>9.0f}", flush=True)
        survivors += outcome.survivors
    return 1 if survivors else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mutate", description="List the mutations that no unit test detects.")
    parser.add_argument(
        "module", nargs="*", help="only these modules of the table, or functions: MODULE:FUNCTION, MODULE:CLASS.METHOD"
    )
    return parser.parse_args()


def _try(module: str, function: str, entries: dict[tuple[str, str, str], str]) -> Outcome:
    source = source_of(module)
    file = str(source.relative_to(ROOT))
    tree = ast.parse(source.read_text())
    subject = Subject(module, source, tree)
    all_mutations = mutations(tree)
    selected = [mutation for mutation in all_mutations if not function or mutation.function == function]
    present = {(file, mutation.function, mutation.change) for mutation in all_mutations}
    survivors = explained = 0
    for entry_file, name, change in entries:
        if entry_file == file and (entry_file, name, change) not in present:
            print(f"  {file} {name}: the mutation in explained.toml does not exist: {change}", flush=True)
            survivors += 1
    for mutation, tests in _survivors(subject, selected, tests_of(module)):
        if (file, mutation.function, mutation.change) in entries:
            explained += 1
            continue
        reach = f"{tests} tests run the line" if tests else "no test runs the line"
        print(f"  {file}:{mutation.line} {mutation.function}: {mutation.change}  ({reach})", flush=True)
        survivors += 1
    return Outcome(len(selected), survivors, explained)


def _survivors(subject: Subject, selected: list[Mutation], tests: list[Path]) -> Iterator[tuple[Mutation, int]]:
    """Yield each mutation that no test detects, as soon as it is known, and how many tests run the mutated line."""
    results = run_session(subject, selected, tests)
    failed = next(results, None)
    if failed is None:
        sys.exit(f"The tests of {subject.name} end without a result; run them with pytest to see why.")
    if failed:
        sys.exit(f"These tests fail without a mutation: {', '.join(failed)}")
    reaches = [Reach(node, seconds, frozenset(lines)) for node, seconds, lines in next(results)]
    tried = set()
    for number, is_detected in results:
        tried.add(number)
        if not is_detected:
            yield selected[number], sum(reach.runs(selected[number]) for reach in reaches)
    for number, mutation in enumerate(selected):
        if number not in tried and not is_detected_at_import(subject, mutation, reaches):
            yield mutation, sum(reach.runs(mutation) for reach in reaches)


if __name__ == "__main__":
    sys.exit(main())
