"""The line at the end of each tier: counts, time and the five slowest tests; must not know what they test.

A pytest plugin, loaded by `tests/conftest.py`. pytest's own line stays the last one. If `GAPLESS_TEST_LINES` names a
file, the line is also appended to that, so that a run of several tiers can print all of them at its end.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

SLOWEST = 5
_COUNTED = ("passed", "failed", "error", "skipped", "xfailed", "xpassed")
_STARTED = pytest.StashKey[float]()


def pytest_configure(config: pytest.Config) -> None:
    """Remember when the tier began."""
    config.stash[_STARTED] = time.monotonic()


def duration(seconds: float) -> str:
    """Return a duration as people write it: `8.2 s`, `12 min 3 s`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes:,} min {rest} s"


def slowest(reports: Iterable[pytest.TestReport]) -> list[tuple[str, float]]:
    """Return the slowest tests, each with the time of its set-up, its call and its tear-down."""
    seconds: Counter[str] = Counter()
    for report in reports:
        seconds[report.nodeid.removeprefix("tests/")] += report.duration  # type: ignore[assignment]
    return [(test, float(spent)) for test, spent in seconds.most_common(SLOWEST)]


def closing_line(tier: str, counts: dict[str, int], seconds: float, slow: list[tuple[str, float]]) -> str:
    """Return the line. A count stands behind its word, so that no program takes it for pytest's own."""
    outcomes = ", ".join(f"{outcome}: {counts[outcome]:,}" for outcome in _COUNTED if counts.get(outcome))
    line = f"==> {tier} took {duration(seconds)}; {outcomes or 'no test was run'}"
    if slow:
        line += "; the slowest: " + ", ".join(f"{test} {duration(spent)}" for test, spent in slow)
    return line


def _tier(arguments: list[str], chosen: str) -> str:
    """Return the name of a tier: what pytest was told to run."""
    names = " ".join(Path(argument).as_posix().removeprefix("tests/") for argument in arguments) or "tests"
    return f"{names} ({chosen})" if chosen else names


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> Iterator[None]:
    """Print the line after the list of failures, and before pytest's own; a worker prints nothing."""
    yield
    if hasattr(config, "workerinput"):
        return
    reports = [
        report
        for reported in terminalreporter.stats.values()
        for report in reported
        if isinstance(report, pytest.TestReport)
    ]
    counts = {outcome: len(terminalreporter.getreports(outcome)) for outcome in _COUNTED}
    tier = _tier(config.args, config.getoption("markexpr", ""))
    line = closing_line(tier, counts, time.monotonic() - config.stash[_STARTED], slowest(reports))
    terminalreporter.write_line(line)
    if file := os.environ.get("GAPLESS_TEST_LINES"):
        with Path(file).open("a", encoding="utf-8") as lines:
            lines.write(line + "\n")
