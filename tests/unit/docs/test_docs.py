"""The documentation says the same as the code."""

import functools
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from unit.docs.command_tree import COMMANDS, called

ROOT = Path(__file__).parents[3]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])


def test_the_reference_pages_are_as_the_code_says() -> None:
    checked = subprocess.run(
        [sys.executable, ROOT / "docs" / "make_reference.py", "--check"], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_between_pages_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_option_that_a_page_shows_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    commands = re.findall(r"(?m)(?:(?<=`)|(?<=\$ )|^)gapless (?:[a-z]+)(?:[^`]|\n)*?(?=`|\n\n|\n *```)", text)
    shown = {option for command in commands for option in re.findall(r"--[a-zA-Z][a-zA-Z-]+", command)}
    assert shown - _known_options() == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_kubectl_gets_the_kinds_of_the_spark_operator_alone(page: Path) -> None:
    """Where the cluster has no such kind, kubectl shows nothing of the others either."""
    assert re.findall(r"sparkapplications?,|,sparkapplications?", page.read_text(encoding="utf-8")) == []


def test_make_help_lists_every_target_that_has_a_text() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert re.findall(r"(?m)^  make (\S+)", done.stdout) == re.findall(r"(?m)^([^\s:#]+):.*## ", makefile)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_command_of_a_page_has_the_options_that_it_requires(page: Path) -> None:
    """Except those that are shortened by … or have a file of settings."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = re.findall(r"(?m)^ *(?:\$ )?(gapless [a-z][^\n]*?--[^\n]*)$", text)
    complete = [line for line in lines if "…" not in line and ".properties" not in line]
    missing = {line: [option for option in _required_options(line) if option not in line] for line in complete}
    assert {line: options for line, options in missing.items() if options} == {}


def _required_options(line: str) -> list[str]:
    command, _ = called(line.split()[1:])
    entries = re.split(r"\n  (?=-)", command.get_help(click.Context(command)).split("\nOptions:\n")[0])
    return [entry.split()[0] for entry in entries if re.search(r"\[\s*required\s*\]", entry.split("\n\n")[0])]


@functools.cache
def _known_options() -> set[str]:
    params = [param for command in COMMANDS.values() for param in command.params]
    return {option for param in params for option in param.opts} | {"--help", "--help-all", "--version", "--output"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    assert set(re.findall(r"`(test_\w+)`", page.read_text(encoding="utf-8"))) - _written_tests() == set()


@functools.cache
def _written_tests() -> set[str]:
    files = (ROOT / "tests").rglob("test_*.py")
    return {name for file in files for name in re.findall(r"def (test_\w+)", file.read_text(encoding="utf-8"))}
