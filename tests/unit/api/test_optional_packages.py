"""What programs say in an installation from which packages are really absent."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from gapless_api.base.extras import EXTRAS
from gapless_api.cli.optional_packages import COMMANDS
from kit.machine.absent_packages import PARTS, run_without

ROOT = Path(__file__).parents[3]
BUNDLE = ROOT / "tests" / "unit" / "vectors" / "bundle-out-all.json"
WHEELS = f"where WHEELS is the folder wheels of release {metadata.version('gapless-api')}."


@pytest.mark.parametrize(
    ("absent", "arguments", "words", "package"),
    [
        ("pyarrow", ("segments", "verify", "--archive=archive"), "the Python package pyarrow", "gapless[archive]"),
        ("jinja2", ("bundle", "show", str(BUNDLE), "--html=page.html"), "the Python package jinja2", "gapless"),
        ("gapless_spark", ("audit",), "gapless audit is a command of gapless-spark", "gapless"),
        ("gapless_sender", ("resend", "--help"), "gapless resend is a command of gapless-sender", "gapless"),
        ("gapless_operator", ("ledger",), "gapless ledger is a command of gapless-operator", "gapless[kubernetes]"),
        (
            "pyspark",
            ("scan", "--bootstrap-servers=127.0.0.1:1", "--topic=gaps", "--engine=spark"),
            "the Python package pyspark",
            "gapless[spark]",
        ),
    ],
)
def test_an_absent_package_is_one_sentence(
    tmp_path: Path, absent: str, arguments: tuple[str, ...], words: str, package: str
) -> None:
    (tmp_path / "archive").mkdir()
    ended = run_without(tmp_path, (absent,), *arguments)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1), ended.stderr
    assert ended.stderr.startswith("gapless: not installed: ")
    assert words in ended.stderr
    assert ended.stderr.endswith(f"pip install --no-index --find-links=WHEELS '{package}', {WHEELS}\n")


@pytest.mark.parametrize("name", PARTS)
def test_no_message_sends_anybody_to_a_public_index_for_a_name_of_ours(name: str) -> None:
    for file in (ROOT / name).rglob("*.py"):
        assert not re.search(r"pip\d? install\W+gapless", file.read_text(encoding="utf-8")), file


def test_a_command_that_no_package_has_is_unknown(tmp_path: Path) -> None:
    ended = run_without(tmp_path, ("gapless_spark",), "audlt")
    assert ended.returncode == 2
    assert "No such command" in ended.stderr


def test_every_command_of_our_packages_is_known() -> None:
    registered: dict[str, dict[str, str]] = {}
    for name in PARTS:
        project = tomllib.loads((ROOT / name / "pyproject.toml").read_text())["project"]
        for group, entries in project.get("entry-points", {}).items():
            if re.fullmatch(r"gapless\.(\w+_)?commands", group) and project["name"] != "gapless-api":
                registered.setdefault(group, {}).update(dict.fromkeys(entries, project["name"]))
    assert {group: registered[group] for group in COMMANDS} == COMMANDS


def test_each_extra_is_one_of_the_package_and_brings_its_modules() -> None:
    projects = {name: tomllib.loads((ROOT / name / "pyproject.toml").read_text())["project"] for name in PARTS}
    parts = {project["name"]: project for project in projects.values()}
    extras = tomllib.loads((ROOT / "gapless" / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(EXTRAS.values()) - {""} <= set(extras)
    assert f"gapless[{','.join(sorted(set(extras) - {'all'}))}]" in extras["all"]
    for module, extra in EXTRAS.items():
        for needed in extras.get(extra, ()):
            part, _, own = needed.partition("==")[0].rstrip("]").partition("[")
            brought = [line for name in own.split(",") for line in parts[part]["optional-dependencies"][name]]
            assert any(line.replace("-", "_").startswith(module) for line in brought), (module, extra)


def test_the_package_needs_every_part_in_its_own_version() -> None:
    project = tomllib.loads((ROOT / "gapless" / "pyproject.toml").read_text())["project"]
    needed = [
        *project["dependencies"],
        *(line for lines in project["optional-dependencies"].values() for line in lines),
    ]
    pinned = {line.partition("==")[0].partition("[")[0]: line.partition("==")[2] for line in needed if "==" in line}
    parts = [tomllib.loads((ROOT / name / "pyproject.toml").read_text())["project"] for name in PARTS]
    assert pinned == {part["name"]: project["version"] for part in parts}
    assert {part["version"] for part in parts} == {project["version"]}


@pytest.mark.parametrize("name", [*PARTS, "gapless"])
def test_the_licence_of_a_part_is_that_of_the_product(name: str) -> None:
    assert (ROOT / name / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
