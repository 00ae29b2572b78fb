"""The systemd units of the examples are valid, and say what their README says."""

from __future__ import annotations

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest

from gapless_api.base.exit_codes import ExitCode
from gapless_api.base.settings import resolve
from gapless_mirror.settings.table import MIRROR

FOLDER = Path(__file__).parents[3] / "examples" / "systemd"
UNIT = FOLDER / "gapless-mirror@.service"
SECONDS = 60


def settings() -> configparser.SectionProxy:
    read = configparser.RawConfigParser(strict=False)
    read.optionxform = str  # type: ignore[assignment,method-assign]
    read.read(UNIT, encoding="utf-8")
    return read["Service"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed here")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    (tmp_path / UNIT.name).write_bytes(UNIT.read_bytes())
    done = verify(tmp_path / "gapless-mirror@orders.service")
    assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / UNIT.name).write_text(UNIT.read_text(encoding="utf-8").replace("KillMode=mixed", "KillMode=gently"))
    assert "gently" in verify(tmp_path / "gapless-mirror@orders.service").stderr, "it looks at the unit"


def verify(unit: Path) -> subprocess.CompletedProcess[str]:
    shutil.copy(unit.parent / UNIT.name, unit)
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)


def test_a_stop_is_graceful_and_a_failure_is_tried_again_unless_it_cannot_help() -> None:
    found = settings()
    assert set(map(int, found["SuccessExitStatus"].split())) == {ExitCode.INTERRUPTED, ExitCode.TERMINATED}
    assert int(found["RestartPreventExitStatus"]) == ExitCode.BAD_CONFIGURATION
    assert found["Restart"] == "on-failure"
    assert (found["KillMode"], found["KillSignal"]) == ("mixed", "SIGTERM")
    assert found["SyslogLevel"] == "info", "normal output is no error"


def test_the_service_has_no_rights_and_locks_itself() -> None:
    found = settings()
    assert (found["User"], found["CapabilityBoundingSet"], found["NoNewPrivileges"]) == ("gapless-mirror", "", "yes")
    assert found["ProtectSystem"] == "strict"
    assert found["ExecStart"].startswith("/usr/bin/flock --nonblock --no-fork ")


def test_gapless_mirror_understands_the_settings_of_the_readme(tmp_path: Path) -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    text = page.split("```properties\n")[1].split("```")[0]
    file = tmp_path / "mirror-orders.properties"
    file.write_text("".join(f"{line.strip()}\n" for line in text.splitlines()))
    found = resolve(MIRROR, file=file, environment={}, options={})
    assert not found.ignored
    assert (found.values["name"], found.values["workers"]) == ("orders", 2)
