from __future__ import annotations

import pytest

from gapless_kafka.access.stall_clock import STALLED_AFTER_SECONDS, StallClock


class Seconds:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


def wait(clock: StallClock, seconds: Seconds, for_seconds: float, *, heard: bool = False) -> None:
    clock.start_wait()
    seconds.now += for_seconds
    clock.end_wait(progress=heard)


def test_waits_without_an_answer_add_up_to_a_stall_and_an_answer_ends_it(seconds: Seconds) -> None:
    clock = StallClock(2.0, now=seconds)
    for _ in range(4):
        wait(clock, seconds, 0.5)
    assert not clock.is_stalled
    wait(clock, seconds, 0.5)
    assert clock.is_stalled
    wait(clock, seconds, 0.5, heard=True)
    assert not clock.is_stalled


def test_what_passes_between_two_waits_does_not_count(seconds: Seconds) -> None:
    clock = StallClock(2.0, now=seconds)
    for _ in range(3):
        wait(clock, seconds, 0.5)
        seconds.now += 3600
    assert clock.silent_seconds == 1.5


def test_a_program_that_was_stopped_while_it_waited_has_not_stalled(seconds: Seconds) -> None:
    clock = StallClock(now=seconds)
    wait(clock, seconds, STALLED_AFTER_SECONDS + 60)
    assert clock.silent_seconds == 1.0


def test_a_question_that_may_take_longer_counts_for_longer(seconds: Seconds) -> None:
    clock = StallClock(now=seconds)
    clock.start_wait()
    seconds.now += 30
    clock.end_wait(progress=False, max_seconds=10)
    assert clock.silent_seconds == 10
