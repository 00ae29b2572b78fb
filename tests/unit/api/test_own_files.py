"""No command overwrites a file that it reads, or writes two things to one file."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.own_files import check_own_files
from gapless_api.base.settings import Setting, SettingsTable, resolve
from gapless_api.cli.main import gapless
from gapless_api.cli.settings_command import SettingsCommand
from gapless_archive.store.object_store import ObjectAddress
from kit.story.commands import GAPLESS

BUNDLE = '{"type":"all","results":[]}'
WRITTEN = {"report", "html", "logFileName", "checkpoint", "paceFile", "budgetFile", "keyRotationFile", "inventory"}
"""And resendFileName, of a command that writes a bundle."""


def tables() -> Iterator[tuple[str, SettingsTable]]:
    """Yield all commands with settings, and their tables."""

    def below(name: str, command: click.Command) -> Iterator[tuple[str, SettingsTable]]:
        if isinstance(command, SettingsCommand) and command.table is not None:
            yield name, command.table
        if isinstance(command, click.Group):
            for each in command.list_commands(click.Context(command)):
                found = command.get_command(click.Context(command), each)
                if found is not None:
                    yield from below(f"{name} {each}", found)

    yield from below("gapless", gapless)


TABLES = dict(tables())


@pytest.mark.parametrize("command", sorted(TABLES))
def test_every_file_that_a_command_writes_is_known_as_such(command: str) -> None:
    settings = TABLES[command].settings
    files = {setting.name for setting in settings if "FILE" in setting.value_text}
    written = {setting.name for setting in settings if setting.writes}
    assert files & WRITTEN == written - {"resendFileName"}
    assert ("resendFileName" in written) == (command.rsplit(maxsplit=1)[-1] in {"scan", "create", "audit"})
    assert {setting.replaced_by for setting in settings if setting.replaced_by} <= written


@pytest.mark.parametrize("command", ["gapless archive", "gapless restore", "gapless mirror", "gapless compact"])
def test_a_log_is_not_written_into_the_file_of_a_password(command: str, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("secret")
    table = TABLES[command]
    given = {setting.name: "1" for setting in table.settings if setting.required}
    given |= {"s3SecretAccessKeyFile" if command.endswith("compact") else "saslPasswordFile": str(password)}
    if command.endswith("mirror"):
        given = {name.replace("saslPassword", "targetSaslPassword"): text for name, text in given.items()}
    with pytest.raises(ConfigurationError, match=r"logFileName and .*File are the same file"):
        resolve(table, file=None, environment={}, options={**given, "logFileName": str(tmp_path / "." / "password")})


@pytest.mark.parametrize("spelling", ["same", "dots", "symlink", "hard link"])
def test_what_is_written_and_anything_else_are_not_one_file(spelling: str, tmp_path: Path) -> None:
    one = tmp_path / "one"
    two = {"same": one, "dots": tmp_path / "folder" / ".." / "one"}.get(spelling, tmp_path / "two")
    (tmp_path / "folder").mkdir()
    if spelling == "symlink":
        two.symlink_to(one)  # Nothing is there yet.
    if spelling == "hard link":
        one.touch()
        os.link(one, two)
    for name, other in itertools.product(("report", "html"), ("report", "html", "caFile", "older")):
        if name == other or (name, other) == ("report", "older"):
            continue
        for place in (two, (tmp_path / "three", two)):
            with pytest.raises(ConfigurationError, match=r"are the same file \(.*\); give each its own"):
                check_own_files({name: one, other: place}, ("report", "html"), {"older": "report"}, None)
        for elsewhere in (tmp_path / "three", ObjectAddress("bucket", "one"), "one", None):
            check_own_files({name: one, other: elsewhere}, ("report", "html"), {"older": "report"}, None)
    check_own_files({"report": one, "older": two}, ("report",), {"older": "report"}, None)
    check_own_files({"caFile": one, "keyFile": two}, ("report",), {}, None)
    with pytest.raises(ConfigurationError, match="report and the settings file itself are the same file"):
        check_own_files({"report": one}, ("report",), {}, two)


def test_devices_and_folders_are_no_files_of_anybody() -> None:
    table = SettingsTable("X_", (Setting("a", "", parse=Path, writes=True), Setting("b", "", parse=Path, writes=True)))
    options = {"a": "/dev/null", "b": "/dev/null"}
    assert resolve(table, file=None, environment={}, options=options).values["a"] == Path("/dev/null")


@pytest.mark.parametrize("written", ["report", "html", "log-file-name"])
@pytest.mark.parametrize("command", ["scan", "verify"])
def test_a_bundle_is_not_overwritten_by_what_tells_of_it(tmp_path: Path, command: str, written: str) -> None:
    bundle = tmp_path / "bundle.json"
    bundle.write_text(BUNDLE)
    nowhere = ("--bootstrap-servers=127.0.0.1:1", "--connect-timeout=0.1", "--engine=local")
    given = {
        "scan": ("--topic=gaps", f"--resend-file-name={bundle}"),
        "verify": (str(bundle), "--topics=t"),
    }
    done = GAPLESS.run(command, *given[command], *nowhere, f"--{written}={bundle}")
    assert done.returncode == 2
    assert "are the same file" in done.stderr
    assert bundle.read_text() == BUNDLE
