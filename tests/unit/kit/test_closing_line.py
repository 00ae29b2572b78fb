"""Each tier ends with a line of its counts, its time and its five slowest tests; pytest's own line stays the last."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kit.machine.closing_line import closing_line, duration

TESTS = Path(__file__).parents[2]
SEVEN = """
import time
import pytest

@pytest.mark.parametrize("hundredths", range(6))
def test_of_some_time(hundredths):
    time.sleep(hundredths and 0.5 + hundredths / 20)

@pytest.fixture
def slow():
    time.sleep(1)

def test_with_a_slow_fixture(slow):
    assert False

def test_left_out():
    pytest.skip("for no reason")
"""


def run(folder: Path, *options: str) -> tuple[list[str], str]:
    """Run the seven tests in a pytest of their own; return what it printed, and what it kept in a file."""
    (folder / "test_seven.py").write_text(SEVEN)
    (folder / "conftest.py").write_text('pytest_plugins = ["kit.machine.closing_line"]\n')
    kept = folder / "lines.txt"
    finished = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--rootdir",
            folder,
            "-c",
            os.devnull,
            f"--basetemp={folder / 'temporary'}",
            *options,
            folder / "test_seven.py",
        ],
        env={**os.environ, "PYTHONPATH": str(TESTS), "GAPLESS_TEST_LINES": str(kept)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 1, finished.stdout + finished.stderr
    return finished.stdout.strip().splitlines(), kept.read_text()


@pytest.mark.parametrize("options", [(), ("-n", "2")])
def test_a_tier_ends_with_the_line_and_then_pytests_own(tmp_path: Path, options: tuple[str, ...]) -> None:
    lines, kept = run(tmp_path, *options)
    assert re.match(r"1 failed, 6 passed, 1 skipped in ", lines[-1])
    assert kept == lines[-2] + "\n"
    assert "passed: 6, failed: 1, skipped: 1; the slowest: " in lines[-2]
    slow = lines[-2].partition("the slowest: ")[2].split(", ")
    # A set-up counts; of the others the longest sleeps come first.
    names = [entry.partition("::")[2].rpartition(" ")[0].rpartition(" ")[0] for entry in slow]
    assert len(names) == 5
    assert {"test_with_a_slow_fixture", "test_of_some_time[5]"} <= set(names)
    assert "test_of_some_time[0]" not in names


def test_no_program_takes_the_line_for_pytests_own(tmp_path: Path) -> None:
    lines, _ = run(tmp_path)
    assert not re.search(r"\d+ (passed|failed|skipped|error)", lines[-2])


def test_large_counts_have_separators_and_none_is_said() -> None:
    assert "passed: 4,321" in closing_line("unit", {"passed": 4321}, 60.0, [])
    assert closing_line("unit", {}, 0.2, []) == "==> unit took 0.2 s; no test was run"


def test_durations() -> None:
    assert [duration(seconds) for seconds in (0.04, 59.94, 60, 723.4)] == ["0.0 s", "59.9 s", "1 min 0 s", "12 min 3 s"]
