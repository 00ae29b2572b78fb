"""The proof that announcements and rotations keep the receiver's rules."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_sender.wire.key_schedule import KeyDuty, KeySchedule, KeyStep, KeyTimings

RECEIVER_IGNORES_SECONDS = 1.0
TIMINGS = KeyTimings()


def send_times(steps: tuple[KeyStep, ...], now: float) -> tuple[list[float], float]:
    """When the key goes out, and when the steps are over."""
    sent = []
    for step in steps:
        now += step.wait_seconds
        if step.send:
            sent.append(now)
    return sent, now


def test_a_key_is_announced_often_enough_and_settles_before_the_first_event() -> None:
    sent, over = send_times(KeySchedule().first_announcement(), 100.0)
    assert len(sent) == TIMINGS.announcements >= 2
    assert sent[0] == 100.0
    assert all(later - earlier > RECEIVER_IGNORES_SECONDS for earlier, later in pairwise(sent))
    assert over - sent[-1] == pytest.approx(TIMINGS.settle_seconds)


@given(st.floats(0, 100))
def test_a_rotation_drains_first_and_is_never_ignored_as_too_early(seconds_since_announcement: float) -> None:
    schedule = KeySchedule()
    schedule.announced(1000.0)
    now = 1000.0 + seconds_since_announcement
    steps = schedule.rotation(now)
    sent, over = send_times(steps, now)
    assert steps[0].wait_seconds >= TIMINGS.drain_seconds
    assert sent[0] - 1000.0 > RECEIVER_IGNORES_SECONDS
    assert len(sent) == TIMINGS.announcements
    assert over > sent[-1]


def test_keys_rotate_after_the_time_they_were_in_use() -> None:
    schedule = KeySchedule(rotate_every_seconds=500)
    schedule.announced(0.0)
    schedule.in_use(3.0)
    assert schedule.due(10.0) == KeyDuty.NOTHING
    schedule.announced(480.0)
    assert schedule.due(502.9) == KeyDuty.NOTHING
    assert schedule.due(503.0) == KeyDuty.ROTATE
    schedule.in_use(510.0)
    schedule.announced(510.0)
    assert schedule.due(520.0) == KeyDuty.NOTHING


def test_without_a_period_keys_rotate_when_they_are_exhausted_only() -> None:
    schedule = KeySchedule(KeyTimings(reannounce_seconds=0))
    schedule.announced(0.0)
    schedule.in_use(0.0)
    assert schedule.due(1e9) == KeyDuty.NOTHING
    assert schedule.due(1.0, exhausted=True) == KeyDuty.ROTATE


def test_the_key_is_announced_again_from_time_to_time() -> None:
    schedule = KeySchedule()
    schedule.announced(0.0)
    schedule.in_use(0.0)
    assert schedule.due(59.9) == KeyDuty.NOTHING
    assert schedule.due(60.0) == KeyDuty.REANNOUNCE
    schedule.announced(60.0)
    assert schedule.due(61.0) == KeyDuty.NOTHING
