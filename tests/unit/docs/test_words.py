"""The words of texts that users read, and the old names that are gone from the code.

An exception names file patterns, a word and the reason. One that no longer applies fails, so the lists only shrink.
"""

import ast
import fnmatch
import functools
import io
import re
import tokenize
from pathlib import Path

import click
import pytest

from gapless_api.cli.main import gapless

ROOT = Path(__file__).parents[3]

FORBIDDEN = {
    "said": "name the fact, not that it was said",
    "asks for": "requests, requires",
    "asked for": "requested, planned",
    "whole": "complete, all",
    "wanted": "planned, expected",
    "whoever": "everyone who",
    "nobody": "name what does not happen",
    "somebody": "name who acts",
    "anew": "again, from the beginning",
    "made anew": "recreated",
    "by hand": "manually, with kubectl",
    "vouch": "verify",
    "to begin with": "first",
    "is not as it must be": "is invalid",
    "goes on": "continues",
    "go on": "continue",
    "for ever": "forever, permanently",
    "stands still": "is stalled, makes no progress",
    "stood still": "was stalled, made no progress",
    "standstill": "stall",
    "told": "reported, given",
    "everybody": "everyone, all",
    "mend": "fix, remove the cause",
    "mended": "fixed",
}
"""Each word with what to write in its place."""

TEXTS = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/README.md",
    "docs/architecture.md",
    "docs/concepts/*.md",
    "docs/procedures/*.md",
    "docs/runbooks/*.md",
    "docs/reference/*.md",
    "examples/**/*.yaml",
    "examples/**/*.md",
    "charts/gapless/*.md",
    "charts/gapless/values.yaml",
    "charts/gapless/files/alerts.yaml",
    "charts/gapless/templates/*",
    "crds/manifests/*.yaml",
)
"""What users read. docs/development and docs/decisions quote tests and defects in their own words."""

TEXT_EXCEPTIONS: dict[tuple[str, str], str] = {}
"""A pattern of paths and a word, with the reason why it stays."""

OLD_NAMES = (
    "BundleMark",
    "ManifestMark",
    "PartitionExtent",
    "NewestExtents",
    "listed_ranges",
    "read_manifest",
    "write_manifest",
    "by_hand",
    "telling",
    "Telling",
    "Said",
    "standing",
    "freed_memory",
    "stopping",
    "Equipment",
    "shards_of",
    "begun_anew",
    "made_anew",
    "few_records",
    "few_windows",
    "_sing",
    "at_hangup",
    "survive_hangups",
    "written_whole",
    "write_whole",
    "as_tools_write",
    "held_rows",
    "takeover_of",
    "look_at_first_records",
    "in_doubt",
    "left_open",
    "surroundings",
    "waking",
    "wishes",
    "wish",
    "told",
    "MOST_HELD",
    "MOST_READ",
)
"""Names that style gives up: a noun of the field stands in the place of each."""

PRODUCT = ("crds", "kafka", "mirror", "archive", "sender", "spark", "operator")

NAME_EXCEPTIONS: dict[tuple[str, str], str] = {}


def _texts() -> list[Path]:
    return sorted({path for pattern in TEXTS for path in ROOT.glob(pattern) if path.is_file()})


@functools.cache
def _pages() -> list[tuple[str, str]]:
    """The name and the prose of each text, read once for all words."""
    return [(path.relative_to(ROOT).as_posix(), _prose(path.read_text(encoding="utf-8"))) for path in _texts()]


def _word(word: str) -> re.Pattern[str]:
    return re.compile(rf"(?i)(?<![\w`-]){re.escape(word)}(?![\w`-])".replace(r"\ ", r"\s+"))


def _prose(text: str) -> str:
    """The text without what is code, the name of a test or an output that a command prints."""
    return re.sub(r"```.*?```|`[^`\n]*`", " ", text, flags=re.DOTALL)


def _excused(path: str, word: str, exceptions: dict[tuple[str, str], str]) -> bool:
    return any(word == given and fnmatch.fnmatch(path, pattern) for pattern, given in exceptions)


@pytest.mark.parametrize("word", FORBIDDEN)
def test_no_page_uses_the_word(word: str) -> None:
    found = []
    for name, text in _pages():
        if _word(word).search(text) and not _excused(name, word, TEXT_EXCEPTIONS):
            found += [f"{name}: {' '.join(match.group(0).split())}" for match in _lines(word, text)]
    assert found == [], FORBIDDEN[word]


@pytest.mark.parametrize("word", FORBIDDEN)
def test_no_help_text_uses_the_word(word: str) -> None:
    found = [f"{name}: {text}" for name, text in _help_pages() if _word(word).search(text)]
    assert found == [], FORBIDDEN[word]


@pytest.mark.parametrize("word", FORBIDDEN)
def test_no_message_of_a_program_uses_the_word(word: str) -> None:
    assert [message for message in _messages() if _word(word).search(_prose(message))] == [], FORBIDDEN[word]


@functools.cache
def _messages() -> list[str]:
    """The texts in the code of the product that are no docstrings, each with its file; a text has a space."""
    found = []
    for path in sorted(file for room in PRODUCT for file in (ROOT / room).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        found += [
            f"{path.name}: {node.value}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and " " in node.value
            and id(node) not in alone
        ]
    return found


@pytest.mark.parametrize("room", PRODUCT)
def test_no_old_name_is_left_in_the_code(room: str) -> None:
    found = []
    for path in sorted((ROOT / room).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        with path.open("rb") as source:
            tokens = tokenize.tokenize(io.BytesIO(source.read()).readline)
            names = {token.string for token in tokens if token.type == tokenize.NAME}
        found += [f"{name}: {old}" for old in OLD_NAMES if old in names and not _excused(name, old, NAME_EXCEPTIONS)]
        found += [f"{name}: the module's name" for old in OLD_NAMES if path.stem == old]
    assert found == []


def test_every_exception_is_still_needed() -> None:
    for (pattern, word), reason in TEXT_EXCEPTIONS.items():
        pages = [text for name, text in _pages() if fnmatch.fnmatch(name, pattern)]
        assert reason
        assert any(_word(word).search(text) for text in pages), (pattern, word)
    for (pattern, name), reason in NAME_EXCEPTIONS.items():
        modules = [path for path in ROOT.rglob("*.py") if fnmatch.fnmatch(path.relative_to(ROOT).as_posix(), pattern)]
        assert reason
        assert any(re.search(rf"\b{name}\b", path.read_text(encoding="utf-8")) for path in modules), (pattern, name)


def _lines(word: str, text: str) -> list[re.Match[str]]:
    return list(re.finditer(rf"[^\n]*{_word(word).pattern.removeprefix('(?i)')}[^\n]*", text, re.IGNORECASE))


@functools.cache
def _help_pages() -> list[tuple[str, str]]:
    pages = []
    queue: list[tuple[str, click.Command]] = [("gapless", gapless)]
    while queue:
        name, command = queue.pop()
        pages.append((name, command.get_help(click.Context(command, info_name=name))))
        if isinstance(command, click.Group):
            context = click.Context(command)
            below = [(f"{name} {each}", command.get_command(context, each)) for each in command.list_commands(context)]
            queue += [(path, each) for path, each in below if each is not None]
    return pages
