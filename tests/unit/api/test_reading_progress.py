"""Long reading shows how far it is: a bar on a terminal, JSON lines elsewhere; short reading shows nothing."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from gapless_api.cli.reading_progress import SHOWN_AFTER_SECONDS, ReadingProgress
from gapless_api.wire.log_lines import read_line


class Reading:
    """Somebody who reads, and a clock that goes when it is told to."""

    def __init__(self, *, interval_seconds: float = 5.0, on_terminal: bool = False) -> None:
        self.now = 100.0
        self.looks = 0
        self.progress = ReadingProgress(
            "audit", interval_seconds=interval_seconds, on_terminal=on_terminal, now=lambda: self.now
        )

    def after(self, seconds: float, read: int) -> None:
        self.now += seconds

        def look() -> int:
            self.looks += 1
            return read

        self.progress.update(look)


Said = list[dict[str, Any]]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[[], Said]:
    def read() -> Said:
        return [json.loads(line) for line in capsys.readouterr().err.splitlines()]

    return read


def test_what_takes_less_than_two_seconds_shows_nothing_and_asks_nobody(said: Callable[[], Said]) -> None:
    reading = Reading()
    with reading.progress as progress:
        progress.begin(1000)
        for _ in range(3):
            reading.after(SHOWN_AFTER_SECONDS / 4, 500)
    assert (said(), reading.looks) == ([], 0)


def test_after_two_seconds_a_line_says_how_far_it_is_and_more_follow_every_few_seconds(
    said: Callable[[], Said],
) -> None:
    reading = Reading(interval_seconds=5)
    with reading.progress as progress:
        progress.begin(1000)
        for read in (100, 200, 300, 400, 500, 600):
            reading.after(2, read)
        first, second = said()
        assert (first["read"], first["offsets"], first["percent"], first["command"]) == (100, 1000, 10.0, "audit")
        assert first["offsetsPerSecond"] == 50.0
        assert (second["read"], second["etaSeconds"]) == (400, 12.0)
    (last,) = said()
    assert (last["read"], last["percent"], last["etaSeconds"]) == (1000, 100.0, 0.0)


def test_the_lines_are_messages_that_the_operator_reads(capsys: pytest.CaptureFixture[str]) -> None:
    reading = Reading()
    reading.progress.begin(9)
    reading.after(2, 3)
    line = read_line(capsys.readouterr().err.strip())
    assert line is not None
    assert (line.event, line.problem, line.message.read) == ("reading-progress", "", 3)


def test_it_never_goes_back_and_never_beyond_the_end(said: Callable[[], Said]) -> None:
    reading = Reading()
    reading.progress.begin(10)
    for read in (8, 3, 99):
        reading.after(6, read)
    assert [line["read"] for line in said()] == [8, 8, 10]


def test_what_did_not_end_well_does_not_say_that_all_was_read(said: Callable[[], Said]) -> None:
    reading = Reading()
    with contextlib.suppress(KeyboardInterrupt), reading.progress as progress:
        progress.begin(10)
        reading.after(6, 4)
        raise KeyboardInterrupt
    reading.after(6, 5)
    assert [line["read"] for line in said()] == [4], "nor anything afterwards"


def test_reading_that_begins_again_counts_anew(said: Callable[[], Said]) -> None:
    reading = Reading()
    reading.progress.begin(10)
    reading.after(6, 4)
    reading.progress.begin(20)
    reading.after(6, 0)
    assert [(line["read"], line["offsets"], line["etaSeconds"]) for line in said()] == [(4, 10, 9.0), (0, 20, None)]


def test_an_interval_of_0_shows_nothing(said: Callable[[], Said]) -> None:
    for on_terminal in (True, False):
        reading = Reading(interval_seconds=0, on_terminal=on_terminal)
        with reading.progress as progress:
            progress.begin(10)
            reading.after(60, 4)
        assert (said(), reading.looks) == ([], 0)


def test_a_terminal_gets_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    reading = Reading(on_terminal=True)
    with reading.progress as progress:
        progress.begin(10_000)
        reading.after(1, 1_000)
        assert capsys.readouterr().err == ""
        reading.after(1.5, 2_000)
        reading.after(0.3, 4_000)
    shown = capsys.readouterr().err
    assert "audit" in shown
    assert "10,000 of 10,000 offsets" in shown
    assert '"event"' not in shown
