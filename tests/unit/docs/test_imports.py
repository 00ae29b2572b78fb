"""Modules import for their types alone only what costs something, as CONTRIBUTING.md says, and never in a circle."""

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


def test_no_module_imports_itself_through_others() -> None:
    imported = dict(_imports_of(FOLDERS[:-2]))
    left = set(imported)
    while found := {module for module in left if not imported[module] & left}:
        left -= found
    assert sorted(left) == [], "these modules import each other, or one that does"


def _imports_of(packages: tuple[str, ...]) -> Iterator[tuple[str, set[str]]]:
    """Yield each module of the product, and the modules that it names in an import, also in one for types alone."""
    files = {
        ".".join(file.relative_to(ROOT / package).with_suffix("").parts).removesuffix(".__init__"): file
        for package in packages
        for file in (ROOT / package).rglob("gapless_*/**/*.py")
    }
    for name, file in files.items():
        named: set[str] = set()
        for each in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(each, ast.ImportFrom) and each.module:
                named |= {each.module, *(f"{each.module}.{alias.name}" for alias in each.names)}
        yield name, (named & set(files)) - {name}
