"""Times in settings: as in RFC 3339, as dates, and as durations before now."""

from __future__ import annotations

import time

import pytest

from gapless_api.base.quantities import timestamp_ms, timestamp_or_age_ms

NOON = 1_795_176_000_000
"""2026-11-20T12:00:00Z."""
DAY = 86_400_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-20T12:00:00Z", NOON),
        ("2026-11-20 13:00:00.5+01:00", NOON + 500),
        ("2026-11-20", NOON - DAY // 2),
        ("1970-01-01", 0),
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31", -DAY),
    ],
)
def test_a_time_or_a_date_is_its_first_millisecond_in_utc(text: str, expected: int) -> None:
    assert timestamp_ms(text) == timestamp_or_age_ms(text) == expected


@pytest.mark.parametrize(("text", "seconds"), [("2h", 7200), ("1d12h", 129_600), ("0.5m", 30), ("0s", 0)])
def test_a_duration_is_as_long_before_now(text: str, seconds: int) -> None:
    before = time.time_ns() // 1_000_000
    found = timestamp_or_age_ms(text) + seconds * 1000
    assert before <= found <= time.time_ns() // 1_000_000
    with pytest.raises(ValueError, match=r"an RFC 3339 time, such as .*, or a date"):
        timestamp_ms(text)  # it would be another one at each run


REFUSED = ("", "2", "7200", "2 h", "-2h", "2h30", "2w", "2H", "1700000000000", "2026-11-20T12:00:00", "2026-11-31")


@pytest.mark.parametrize("text", [*REFUSED, "20261120", "2026-11", "now", "999999999d", "2026-11-20Z"])
def test_everything_else_is_refused_with_what_can_be_written(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"an RFC 3339 time, .* a date .*, or a duration before now, such as 2h or 1d12h"
    ):
        timestamp_or_age_ms(text)
    with pytest.raises(ValueError, match=r"an RFC 3339 time, such as .*, or a date"):
        timestamp_ms(text)
