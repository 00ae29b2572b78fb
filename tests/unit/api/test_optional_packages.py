"""Programs in an installation from which packages are really absent: a folder of links to all other packages."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

from gapless_api.cli.optional_packages import COMMANDS

ROOT = Path(__file__).parents[3]
PACKAGES = ("crds", "kafka", "archive", "sender", "spark", "operator")


def run(folder: Path, absent: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``gapless`` without the packages whose names begin with `absent`."""
    site = folder / "site"
    site.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith(absent) and entry.suffix != ".pth":
            (site / entry.name).symlink_to(entry)
    own = [ROOT / name for name in PACKAGES if f"gapless_{name}" != absent]
    paths = [str(path) for path in [*own, site]]
    program = f"import sys; sys.path[:0] = {paths!r}\nfrom gapless_api.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, *arguments], capture_output=True, text=True, check=False, cwd=folder
    )


@pytest.mark.parametrize(
    ("absent", "arguments", "words"),
    [
        (
            "pyarrow",
            ("segments", "verify", "--archive=archive"),
            "pyarrow; install it, or gapless-archive[parquet] from the release",
        ),
        ("gapless_spark", ("audit",), "gapless audit is a command of gapless-spark; install it from the release"),
        ("gapless_sender", ("resend", "--help"), "gapless resend is a command of gapless-sender"),
    ],
)
def test_an_absent_package_is_one_sentence(tmp_path: Path, absent: str, arguments: tuple[str, ...], words: str) -> None:
    (tmp_path / "archive").mkdir()
    ended = run(tmp_path, absent, *arguments)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1), ended.stderr
    assert ended.stderr.startswith("gapless: not installed: ")
    assert words in ended.stderr


@pytest.mark.parametrize("name", PACKAGES)
def test_no_message_sends_anybody_to_a_public_index_for_a_name_of_ours(name: str) -> None:
    for file in (ROOT / name).rglob("*.py"):
        assert not re.search(r"pip\d? install\W+gapless", file.read_text(encoding="utf-8")), file


def test_a_command_that_no_package_has_is_unknown(tmp_path: Path) -> None:
    ended = run(tmp_path, "gapless_spark", "audlt")
    assert ended.returncode == 2
    assert "No such command" in ended.stderr


def test_every_command_of_our_packages_is_known() -> None:
    registered: dict[str, dict[str, str]] = {}
    for name in PACKAGES:
        project = tomllib.loads((ROOT / name / "pyproject.toml").read_text())["project"]
        for group, entries in project.get("entry-points", {}).items():
            if re.fullmatch(r"gapless\.(\w+_)?commands", group) and project["name"] != "gapless-api":
                registered.setdefault(group, {}).update(dict.fromkeys(entries, project["name"]))
    assert {group: registered[group] for group in COMMANDS} == COMMANDS
