"""The proof that a command ends as it should whatever its standard streams are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

GAPLESS = Path(sys.executable).parent / "gapless"
BUNDLE = Path(__file__).parent.parent / "vectors" / "bundle-in-bundle-all.json"
TALKS = """
import os, sys
from gapless_api.cli.standard_streams import guard_standard_streams
guard_standard_streams()
print("before", file=sys.stderr, flush=True)
opened = os.open("/dev/null", os.O_RDONLY)
print("after", file=sys.stderr)
sys.exit(7 if opened > 2 else 1)
"""


def shell(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = ["bash", "-c", script, "bash", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("streams", ["2>&-", ">&-", "<&- >&- 2>&-", "2>/dev/full", "2> >(true)"])
def test_work_goes_on_without_anybody_to_talk_to(streams: str) -> None:
    ended = shell(f'"$1" -c "$2" {streams}', sys.executable, TALKS)
    assert ended.returncode == 7, ended.stderr


@pytest.mark.parametrize("streams", ["2>&-", "<&- 2>&-"])
def test_a_command_ends_with_its_own_code_when_it_cannot_say_why(streams: str) -> None:
    assert shell(f'"$1" bundle show /nowhere {streams}', GAPLESS).returncode == 2
    assert shell(f'"$1" bundle show "$2" {streams}', GAPLESS, BUNDLE).returncode == 0


def test_a_result_that_finds_no_room_is_an_error_in_one_sentence() -> None:
    ended = shell('"$1" bundle show "$2" >/dev/full', GAPLESS, BUNDLE)
    assert ended.returncode == 2
    assert ended.stderr == (
        "gapless: The result cannot be written to standard output (No space left on device); free some space, or "
        "write it elsewhere.\n"
    )


def test_a_reader_that_leaves_early_gets_no_traceback_and_no_exit_code_of_a_defect() -> None:
    ended = shell('"$1" bundle show "$2" | sleep 0; exit ${PIPESTATUS[0]}', GAPLESS, BUNDLE)
    assert ended.returncode in {0, 130}
    assert not ended.stderr
