"""Modules import for their types alone only what costs something, as CONTRIBUTING.md says."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDERS = ("crds", "kafka", "mirror", "archive", "sender", "spark", "operator", "release", "tests")
CHEAP = {"collections.abc", "contextlib", "datetime", "pathlib", "types", "typing"}
"""Each process loads them anyway."""


@pytest.mark.parametrize("folder", FOLDERS)
def test_nothing_is_imported_for_types_alone_that_is_there_anyway(folder: str) -> None:
    modules = sorted((ROOT / folder).rglob("*.py"))
    assert modules
    assert [each for module in modules for each in _needless(module)] == []


def _needless(module: Path) -> Iterator[str]:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    loaded = {each.module for each in tree.body if isinstance(each, ast.ImportFrom)} | CHEAP
    for block in tree.body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            for each in block.body:
                if isinstance(each, ast.ImportFrom) and each.module in loaded:
                    yield f"{module.relative_to(ROOT)}:{each.lineno} {each.module}"
