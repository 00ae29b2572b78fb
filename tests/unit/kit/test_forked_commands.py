"""A forked command has its own arguments, environment, folder, output and exit code, like a new process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.machine.forked_commands import ForkedCommands

PROGRAM = """
import atexit, os, sys, time
STARTED_IN = os.getpid()
def main():
    if "wait" in sys.argv:
        time.sleep(60)
    if "kill" in sys.argv:
        os.kill(os.getpid(), 9)
    atexit.register(print, "the end")
    print(sys.argv[1:], sorted(os.environ), os.getcwd(), os.getpid() != STARTED_IN)
    print("trouble", file=sys.stderr)
    return len(sys.argv)
"""


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ForkedCommands]:
    (tmp_path / "probing.py").write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    made = ForkedCommands("probing:main", "json")
    yield made
    made.close()


def test_each_run_has_its_own_surroundings_and_is_a_process(commands: ForkedCommands, tmp_path: Path) -> None:
    for arguments in (["one"], ["two", "three"]):
        done = commands.run(*arguments, env={"ONLY": "this"}, cwd=tmp_path)
        assert done.returncode == 1 + len(arguments)
        assert done.stdout == f"{arguments} ['ONLY'] {tmp_path} True\nthe end\n"
        assert done.stderr == "trouble\n"


def test_a_signal_is_told_as_for_any_process(commands: ForkedCommands) -> None:
    assert commands.run("kill").returncode == -9
    assert commands.run("after").returncode == 2


def test_a_command_that_does_not_end_is_killed_and_the_next_one_runs(commands: ForkedCommands) -> None:
    with pytest.raises(TimeoutError):
        commands.run("wait", timeout_seconds=0.5)
    assert commands.run("after").returncode == 2


def test_nothing_stays_behind(commands: ForkedCommands) -> None:
    assert commands.run("one").returncode == 2
    assert commands._server is not None
    process, _ = commands._server
    commands.close()
    assert process.returncode == 0
