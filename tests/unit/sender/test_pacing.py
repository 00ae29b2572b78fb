"""The proof that the pace is exact, bounded, and shared."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless_sender.pace.pacing import (
    BURST_SECONDS,
    CATCH_UP_FACTOR,
    CATCH_UP_SECONDS,
    MAX_SLEEP_SECONDS,
    Pace,
    PaceState,
    SystemClock,
    wire_bits,
)
from kit.machine.examples import examples


class SteppedClock:
    """Time that passes only while somebody sleeps, and then a little too long, as real sleeps do."""

    def __init__(self, overshoot_seconds: Callable[[], float] = lambda: 0.0) -> None:
        self.seconds = 1_000_000.0
        self._overshoot_seconds = overshoot_seconds
        self.longest_sleep = 0.0

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.longest_sleep = max(self.longest_sleep, seconds)
        self.seconds += seconds + self._overshoot_seconds()


def sent_at(pace: Pace, clock: SteppedClock, seconds: float, events: int = 1, bits: int = 0) -> list[float]:
    """The moments (from 0) of all admissions within `seconds`."""
    start = clock.now()
    moments = []
    while True:
        pace.admit(events, bits)
        moment = clock.now() - start
        if moment >= seconds:
            return moments
        moments.append(moment)


def most_within(moments: list[float], window_seconds: float) -> int:
    """The most admissions in any window of that length."""
    most = first = 0
    for last, moment in enumerate(moments):
        while moments[first] < moment - window_seconds:
            first += 1
        most = max(most, last - first + 1)
    return most


@pytest.mark.parametrize("rate", [0.4, 1, 10, 500, 5000, 50_000])
@pytest.mark.parametrize("overshoot_seconds", [0.0, 0.0001, 0.002])
def test_the_rate_is_right_within_two_percent_over_every_window(rate: float, overshoot_seconds: float) -> None:
    generator = random.Random(1)
    clock = SteppedClock(lambda: generator.uniform(0, 2 * overshoot_seconds))
    moments = sent_at(Pace(rate, clock=clock), clock, 60 if rate <= 500 else 12)
    for window in (1, 10, 60):
        for start in range(0, int(moments[-1]) - window + 1, window):
            count = sum(start <= moment < start + window for moment in moments)
            assert abs(count - rate * window) <= max(0.02 * rate * window, 1)


@pytest.mark.parametrize("rate", [1, 500, 50_000])
def test_no_burst_is_larger_than_allowed(rate: float) -> None:
    clock = SteppedClock(lambda: 0.0002)
    moments = sent_at(Pace(rate, clock=clock), clock, 2)
    assert most_within(moments, 0.0) <= max(rate * BURST_SECONDS, 1)


@pytest.mark.parametrize("rate", [10, 1000, 50_000])
def test_a_stall_is_not_made_good_by_a_large_burst(rate: float) -> None:
    clock = SteppedClock(lambda: 0.0001)
    pace = Pace(rate, clock=clock)
    sent_at(pace, clock, 1)
    clock.seconds += 60
    moments = sent_at(pace, clock, 1)
    assert most_within(moments, 0.0) <= max(rate * BURST_SECONDS, 1)
    assert most_within(moments, 0.005) <= max(CATCH_UP_FACTOR * rate * 0.005 + rate * BURST_SECONDS, 2)
    assert len(moments) <= rate * (1 + CATCH_UP_SECONDS + BURST_SECONDS) + 1


def test_bits_are_paced_too_and_the_slower_limit_rules() -> None:
    clock = SteppedClock()
    datagram = wire_bits(1400, 1, 28)
    assert datagram == 11_424
    assert len(sent_at(Pace(None, 1000 * datagram, clock=clock), clock, 10, bits=datagram)) == pytest.approx(
        10_000, 0.01
    )
    assert len(sent_at(Pace(100, 1000 * datagram, clock=clock), clock, 10, bits=datagram)) == pytest.approx(1000, 0.02)
    assert len(sent_at(Pace(5000, 100 * datagram, clock=clock), clock, 10, bits=datagram)) == pytest.approx(1000, 0.02)


def test_two_limits_do_not_slow_each_other() -> None:
    clock = SteppedClock()
    pace = Pace(1000, 1_000_000, clock=clock)
    start = clock.now()
    for _ in range(1000):
        pace.admit(1, 0)
        pace.admit(0, 1000)
    assert clock.now() - start == pytest.approx(1.0, 0.02)


@pytest.mark.parametrize("limits", [(None, None), (0, 0), (-1, -1)])
def test_without_limits_nothing_waits(limits: tuple[float | None, float | None]) -> None:
    clock = SteppedClock()
    pace = Pace(*limits, clock=clock)
    assert pace.unlimited
    assert pace.rates == (None, None)
    for _ in range(1000):
        pace.admit(10**9, 10**12)
    assert clock.longest_sleep == 0
    assert pace.largest_burst(1, 11_424) > 10**6


@given(st.floats(0.01, 1e6), st.floats(1e3, 1e11), st.floats(0.001, 50), st.integers(300, 600_000))
def test_the_largest_burst_is_within_the_limit_and_never_nothing(
    events_per_second: float, bits_per_second: float, events: float, bits: int
) -> None:
    most = Pace(events_per_second, bits_per_second).largest_burst(events, bits)
    assert most >= 1
    if most > 1:
        assert most * events <= events_per_second * BURST_SECONDS * 1.000001
        assert most * bits <= bits_per_second * BURST_SECONDS * 1.000001


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(1, 2000), st.integers(1, 64), st.integers(0, 2**32))
def test_admissions_of_several_events_keep_the_same_rate(rate: int, most_at_once: int, seed: int) -> None:
    generator = random.Random(seed)
    clock = SteppedClock(lambda: generator.uniform(0, 0.001))
    pace = Pace(rate, clock=clock)
    start, events = clock.now(), 0
    while events < rate * 20:
        count = generator.randint(1, most_at_once)
        pace.admit(count, 0)
        events += count
    assert abs(clock.now() - start - events / rate) <= most_at_once / rate + BURST_SECONDS + CATCH_UP_SECONDS


def test_a_long_wait_is_slept_in_naps() -> None:
    clock = SteppedClock()
    pace = Pace(0.01, clock=clock)
    pace.admit(1, 0)
    start = clock.now()
    pace.admit(1, 0)
    assert clock.now() - start == pytest.approx(100)
    assert clock.longest_sleep <= MAX_SLEEP_SECONDS


def test_a_sleep_that_raises_ends_the_wait() -> None:
    class Stopped(Exception):  # noqa: N818 -- not an error
        pass

    class StoppingClock(SteppedClock):
        def sleep(self, seconds: float) -> None:
            raise Stopped(seconds)

    pace = Pace(0.01, clock=StoppingClock())
    pace.admit(1, 0)
    with pytest.raises(Stopped):
        pace.admit(1, 0)


def test_the_rate_can_be_changed_while_running() -> None:
    clock = SteppedClock()
    pace = Pace(1000, clock=clock)
    assert len(sent_at(pace, clock, 2)) == pytest.approx(2000, 0.01)
    pace.set_rates(50)
    assert pace.rates == (50, None)
    assert len(sent_at(pace, clock, 10)) == pytest.approx(500, 0.01)
    pace.set_rates(None, 1e6)
    assert len(sent_at(pace, clock, 10, bits=1000)) == pytest.approx(10_000, 0.01)
    pace.set_rates(None)
    assert pace.unlimited


def test_a_faster_rate_shortens_a_wait_that_has_begun() -> None:
    clock = SteppedClock()
    pace = Pace(0.001, clock=clock)
    pace.admit(1, 0)

    original = clock.sleep

    def sleep_and_change(seconds: float) -> None:
        original(seconds)
        if pace.rates[0] != 10:
            pace.set_rates(10)

    clock.sleep = sleep_and_change  # type: ignore[method-assign]
    start = clock.now()
    pace.admit(1, 0)
    assert clock.now() - start < 0.5


def test_several_paces_of_one_budget_keep_one_rate_together() -> None:
    clock = SteppedClock(lambda: 0.0001)
    budget = PaceState.shared()
    first = Pace(1000, clock=clock, state=budget)
    paces = [first, *(Pace(clock=clock, state=PaceState(os.dup(budget.fileno()))) for _ in range(3))]
    assert all(pace.rates == (1000, None) for pace in paces), "joining a budget does not change it"
    start, events = clock.now(), 0
    while clock.now() - start < 10:
        for pace in paces:
            pace.admit(1, 0)
            events += 1
    assert events == pytest.approx(10_000, 0.02)
    paces[3].set_rates(10)
    assert first.rates == (10, None)


_SHARD = """
import os, sys, time
from gapless_sender.pace.pacing import PaceState, Pace
pace = Pace(state=PaceState(int(sys.argv[1])))
deadline = time.monotonic() + 60
admitted = 0
print("ready", flush=True)
sys.stdin.readline()
while time.monotonic() < deadline:
    pace.admit(1, 0)
    admitted += 1
    os.write(1, b".")
"""


def _read_from(shards: list[subprocess.Popen[bytes]], events: int) -> None:
    """Wait until each has sent so many more."""
    for shard in shards:
        assert shard.stdout
        assert len(shard.stdout.read(events)) == events


def test_processes_share_a_budget_and_a_killed_one_leaves_the_lock_behind() -> None:
    budget = PaceState.shared()
    pace = Pace(2000, state=budget)
    shards = [
        subprocess.Popen(
            [sys.executable, "-c", _SHARD, str(budget.fileno())],
            pass_fds=[budget.fileno()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(3)
    ]
    try:
        for shard in shards:
            assert shard.stdout
            assert shard.stdout.readline() == b"ready\n"
        began = time.monotonic()
        for shard in shards:
            assert shard.stdin
            shard.stdin.write(b"\n")
            shard.stdin.flush()
        _read_from(shards, 300)
        shards[0].kill()
        _read_from(shards[1:], 300)  # They go on, and so does this process: whoever was killed kept no lock.
        pace.admit(1, 0)
        for shard in shards:
            shard.kill()
        seconds = time.monotonic() - began
        sent = 3 * 300 + 2 * 300 + sum(len(shard.stdout.read()) for shard in shards if shard.stdout)
    finally:
        for shard in shards:
            shard.kill()
            shard.communicate()
    assert sent <= 2000 * (seconds + BURST_SECONDS + CATCH_UP_SECONDS) + 3


def test_a_budget_of_one_process_cannot_be_handed_on() -> None:
    with pytest.raises(ValueError, match="not shared"):
        PaceState().fileno()
    budget = PaceState.shared()
    budget.close()
    PaceState().close()


def test_on_the_real_clock_it_is_never_too_fast() -> None:
    clock = SystemClock()
    pace = Pace(20_000, clock=clock)
    began = clock.now()
    for _ in range(8000):
        pace.admit(1, 0)
    seconds = clock.now() - began
    assert seconds >= 8000 / 20_000 - BURST_SECONDS - CATCH_UP_SECONDS
