"""Pages that name modules name those that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = ("CONTRIBUTING.md", "docs/architecture.md", "tests/kit/README.md")
_PACKAGES = {
    "gapless_api": "crds",
    "gapless_kafka": "kafka",
    "gapless_mirror": "mirror",
    "gapless_archive": "archive",
    "gapless_sender": "sender",
    "gapless_spark": "spark",
    "gapless_operator": "operator",
    "kit": "tests",
}


@pytest.mark.parametrize("page", PAGES)
def test_every_path_that_a_page_names_exists(page: str) -> None:
    named = re.findall(r"`([a-z_]+(?:/[\w.-]+)+/?)`", (ROOT / page).read_text(encoding="utf-8"))
    here = (ROOT, (ROOT / page).parent)
    assert [path for path in named if not any((folder / path).exists() for folder in here)] == []


@pytest.mark.parametrize("page", [*PAGES, *(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/*/*.md"))])
def test_every_module_that_a_page_names_exists(page: str) -> None:
    named = re.findall(rf"`((?:{'|'.join(_PACKAGES)})(?:\.[A-Za-z_]\w*)+)`", (ROOT / page).read_text(encoding="utf-8"))
    assert [name for name in named if not _exists(name)] == []


def test_the_walks_name_every_package() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert {package for package in _PACKAGES if package in text} >= _PACKAGES.keys() - {"kit"}


def _exists(name: str) -> bool:
    """Whether `name` is a module, a package, or a name that stands in a module."""
    package, *parts = name.split(".")
    path = ROOT / _PACKAGES[package] / package
    for number, part in enumerate(parts):
        if (path / part).is_dir():
            path /= part
        elif (module := path / f"{part}.py").is_file():
            text = module.read_text(encoding="utf-8")
            return all(re.search(rf"\b{re.escape(below)}\b", text) for below in parts[number + 1 :])
        else:
            return False
    return True
