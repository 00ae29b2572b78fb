"""The proof that pauses double after each failure and stop growing at their bound."""

from __future__ import annotations

from datetime import timedelta

from gapless_api.base.backoff import backoff


def test_a_pause_is_twice_the_one_before_up_to_the_bound() -> None:
    assert [backoff(failures, first=0.5, longest=3.0) for failures in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    minute, hour = timedelta(minutes=1), timedelta(hours=1)
    assert [backoff(failures, first=minute, longest=hour) for failures in (0, 3, 6)] == [minute, 8 * minute, hour]


def test_no_number_of_failures_is_too_many_and_none_too_few() -> None:
    assert backoff(10**9, first=0.001, longest=60.0) == 60.0
    assert backoff(-1, first=0.5, longest=60.0) == 0.5
