"""How the documentation becomes a site: its navigation, and links to files that are not in ``docs``.

A hook of MkDocs (``mkdocs.yml``). Pages stay as they are read in the repository; the site carries the other files that
they link to under ``source/``, so that it is whole without a network.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File, Files, InclusionLevel

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

VERSION = "GAPLESS_SITE_VERSION"
"""The environment variable with the version that the site is of."""
_ROOT = Path(__file__).parents[1]
_DOCS, _OTHERS = "docs", "source"
_CONTENTS = "docs/README.md"
"""The page whose sections and links are the navigation."""
_LINK = re.compile(r"(?P<before>\]\()(?P<path>[^)#\s:]+)(?P<after>[^)\s]*\))")
_ITEM = re.compile(r"(\d+\.|[-*]) +")
_COLUMNS = 4
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_ENTRY = re.compile(r"\]\(([a-z-]+/[^)#]+\.md)\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Take the navigation from the page of contents, and the version from the environment."""
    text = (_ROOT / _CONTENTS).read_text()
    _, *sections = _SECTION.split(text)
    listed = zip(sections[::2], sections[1::2], strict=True)
    config.nav = [{"Home": "README.md"}, {"Architecture": "architecture.md"}]
    for title, content in listed:
        if pages := list(dict.fromkeys(_ENTRY.findall(content))):
            config.nav.append({title: pages})
    if version := os.environ.get(VERSION):
        config.site_name = f"{config.site_name} {version}"
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add each file of the repository that a page links to, those that these link to, and contents of folders."""
    reached = {_place_of(file) for file in files}
    waiting = sorted(reached)
    while waiting:
        for linked in sorted(set(_linked_from(waiting.pop())) - reached):
            reached.add(linked)
            waiting.append(linked)
            file = _ROOT / linked
            source = {"abs_src_path": str(file)} if file.exists() else {"content": _contents(file.parent)}
            files.append(File.generated(config, _uri(linked), inclusion=InclusionLevel.NOT_IN_NAV, **source))
    theme = distribution("mkdocs-material").read_text("licenses/LICENSE")
    files.append(File.generated(config, "assets/licence-of-theme.txt", content=theme))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Let the links of a page lead to the files of the site."""
    place = _place_of(page.file)

    def replaced(match: re.Match[str]) -> str:
        target = _target(place, match["path"])
        if target is None:
            return match[0]
        path = os.path.relpath(_uri(target), Path(page.file.src_uri).parent)
        return f"{match['before']}{path}{match['after']}"

    return _indent(_LINK.sub(replaced, markdown))


def _indent(markdown: str) -> str:
    """Indent what belongs to the items of lists by 4 columns, as Python's Markdown wants it, and not as their text."""
    lines, missing, width, is_code = [], 0, 0, False
    for line in markdown.split("\n"):
        if line.startswith("```"):
            is_code = not is_code
            width = 0
        elif not is_code and (item := _ITEM.match(line)):
            width = len(item[0])
            missing = _COLUMNS - width
        elif line and not line.startswith(" " * width):
            width = 0
        elif line and width:
            line = " " * missing + line  # noqa: PLW2901
        lines.append(line)
    return "\n".join(lines)


def _linked_from(place: str) -> Iterator[str]:
    """Return the files that a page links to, or that a folder without a page of its own has."""
    if not place.endswith(".md"):
        return
    file = _ROOT / place
    for match in _LINK.finditer(file.read_text() if file.exists() else _contents(file.parent)):
        target = _target(place, match["path"])
        if target is not None:
            yield target


def _contents(folder: Path) -> str:
    """Return a page with the files of a folder."""
    names = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith(("_", ".")))
    return "\n".join([f"# {folder.name.capitalize()}", "", *(f"- [{name}]({name})" for name in names)]) + "\n"


def _target(place: str, path: str) -> str | None:
    """Return the file of the repository that a link leads to, ``None`` if there is none: the site is then refused.

    Args:
        place: of the page, in the repository.
        path: of the link.
    """
    target = os.path.normpath(Path(place).parent / path)
    if (_ROOT / target).is_dir():
        return f"{target}/README.md"
    return target if (_ROOT / target).is_file() else None


def _place_of(file: File) -> str:
    """Return where a file of the site is in the repository."""
    other = file.src_uri.removeprefix(f"{_OTHERS}/")
    return other if other != file.src_uri else f"{_DOCS}/{file.src_uri}"


def _uri(place: str) -> str:
    """Return where a file of the repository is in the site."""
    own = place.removeprefix(f"{_DOCS}/")
    return own if own != place else f"{_OTHERS}/{place}"
