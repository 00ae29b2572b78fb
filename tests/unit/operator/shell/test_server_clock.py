"""The operator uses the API server's time, so that a wrong local clock gives nothing up too early."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from gapless_operator.shell.api.server_clock import ServerClock

TRUE = datetime(2026, 11, 20, 10, 0, 0, tzinfo=UTC)


def clock(ahead: timedelta) -> ServerClock:
    return ServerClock(lambda: TRUE + ahead)


@pytest.mark.parametrize("minutes", [6, -6, 60 * 24 * 365])
def test_a_wrong_clock_is_corrected_by_the_first_response(minutes: int) -> None:
    made = clock(timedelta(minutes=minutes))
    made.update(format_datetime(TRUE, usegmt=True))
    assert made.now() == TRUE


@pytest.mark.parametrize("seconds", [0.0, 0.9, 4.0, -4.0])
def test_a_clock_that_is_right_but_for_seconds_is_used_as_it_is(seconds: float) -> None:
    ahead = timedelta(seconds=seconds)
    made = clock(ahead)
    made.update(format_datetime(TRUE, usegmt=True))
    assert made.now() == TRUE + ahead


def test_time_does_not_jump_to_and_fro_between_answers() -> None:
    made = clock(timedelta(minutes=6))
    for late in (0, 1, 2, 1, 0):
        made.update(format_datetime(TRUE - timedelta(seconds=late), usegmt=True))
        assert made.now() == TRUE


def test_a_corrected_clock_is_followed() -> None:
    made = clock(timedelta(minutes=6))
    made.update(format_datetime(TRUE, usegmt=True))
    made.update(format_datetime(TRUE + timedelta(minutes=6), usegmt=True))
    assert made.now() == TRUE + timedelta(minutes=6)


@pytest.mark.parametrize("nonsense", [None, "", "yesterday"])
def test_an_answer_without_a_date_changes_nothing(nonsense: str | None) -> None:
    made = clock(timedelta(minutes=6))
    made.update(nonsense)
    assert made.now() == TRUE + timedelta(minutes=6)
