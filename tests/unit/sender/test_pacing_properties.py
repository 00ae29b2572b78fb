"""The proof of the pace's two promises over any window of time, whoever shares it and whatever happens to it.

Never more than rate x window and a burst; and, while somebody wants to send and machines let him, never less than that
without a burst. Time is simulated: every sharer tries, sleeps too long, and tries again.
"""

from __future__ import annotations

import heapq
import itertools
import math
import multiprocessing
import os
import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless_sender.pace.pace_state import PaceState
from gapless_sender.pace.pacing import BURST_SECONDS, CATCH_UP_SECONDS, Pace, Paces
from kit.machine.examples import examples

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

START = 1_000_000.0
STEPS = 3_000
SHARERS = 4
WAYS = st.sampled_from(["alone", "shards", "programs"])
RATES = st.sampled_from([0.2, 1, 3.7, 10, 500, 5_000, 50_000, 2_000_000])


class WaitingError(Exception):
    """Raised in place of sleeping, so that one thread can play all senders."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


@dataclass
class SimulatedClock:
    seconds: float = START

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        raise WaitingError(seconds)


@dataclass
class Play:
    """Sharers that send all they may, one after the other as their sleeps end."""

    clock: SimulatedClock
    senders: Sequence[Pace | Paces]
    amount: Callable[[], tuple[float, float]]
    """Events and bits of the next admission."""
    oversleep: Callable[[], float]
    moments: list[float] = field(default_factory=list)
    amounts: list[tuple[float, float]] = field(default_factory=list)
    sharer_of: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._order = 0
        self._due: list[tuple[float, int, int]] = []
        for sharer in range(len(self.senders)):
            self._later(sharer, 0.0)
        self._wanted = [self.amount() for _ in self.senders]

    def _later(self, sharer: int, seconds: float) -> None:
        self._order += 1
        heapq.heappush(self._due, (self.clock.seconds + seconds, self._order, sharer))

    def go_on(self, steps: int = STEPS) -> None:
        """Play until so many tries are made."""
        for _ in range(steps):
            moment, _, sharer = heapq.heappop(self._due)
            self.clock.seconds = max(self.clock.seconds, moment)
            requested = self._wanted[sharer]
            try:
                self.senders[sharer].admit(*requested)
            except WaitingError as waiting:
                self._later(sharer, waiting.seconds + self.oversleep())
            else:
                self.moments.append(self.clock.seconds)
                self.amounts.append(requested)
                self.sharer_of.append(sharer)
                self._wanted[sharer] = self.amount()
                self._later(sharer, 0.0)


def most_above(moments: Sequence[float], amounts: Sequence[float], allowed: Callable[[float], float]) -> float:
    """By how much the fullest window exceeds what `allowed`, an integral of the rate, lets through in it."""
    worst, lowest = float("-inf"), float("inf")
    before = 0.0
    for moment, total in zip(moments, accumulate(amounts), strict=True):
        lowest = min(lowest, before - allowed(moment))
        worst = max(worst, total - allowed(moment) - lowest)
        before = total
    return worst


def most_below(moments: Sequence[float], amounts: Sequence[float], allowed: Callable[[float], float]) -> float:
    """By how much the emptiest window between two admissions falls short of what `allowed` lets through."""
    worst, highest = float("-inf"), float("-inf")
    before = 0.0
    for moment, total in zip(moments, accumulate(amounts), strict=True):
        worst = max(worst, highest - (before - allowed(moment)))
        highest = max(highest, total - allowed(moment))
        before = total
    return worst


def sharing(how: str, rates: tuple[float | None, float | None], clock: SimulatedClock) -> list[Pace]:
    """The paces of those who share one budget in this way."""
    if how == "alone":
        return [Pace(*rates, clock=clock)]
    if how == "programs":
        with tempfile.TemporaryDirectory() as folder:  # What is mapped stays.
            path = Path(folder) / "budget"
            return [Pace(*rates, clock=clock, state=PaceState.in_file(path)) for _ in range(SHARERS)]
    budget = PaceState.shared()
    first = Pace(*rates, clock=clock, state=budget)
    return [first, *(Pace(clock=clock, state=PaceState(os.dup(budget.fileno()))) for _ in range(SHARERS - 1))]


def burst_of(rate: float, largest: float) -> float:
    """What a window may have above its rate: a burst, or one admission, what is made good, and what is rounded."""
    rounded = rate * STEPS * math.ulp(START)  # Due times are rounded at each admission, perhaps always the same way.
    return (max(rate * BURST_SECONDS, largest) + rate * CATCH_UP_SECONDS) * (1 + 1e-6) + rounded


def largest_of(rate: float) -> int:
    return max(int(rate * BURST_SECONDS), 1)


@settings(max_examples=examples(80), deadline=None)
@given(RATES, WAYS, st.integers(0, 2**32), st.sampled_from([0.0, 0.002, 0.05, 3.0]))
def test_no_window_has_more_than_the_rate_and_a_burst(rate: float, how: str, seed: int, longest_stall: float) -> None:
    generator = random.Random(seed)
    clock, most = SimulatedClock(), largest_of(rate)
    play = Play(
        clock,
        sharing(how, (rate, None), clock),
        lambda: (generator.randint(1, most), 0.0),
        lambda: generator.random() * longest_stall,
    )
    play.go_on()
    above = most_above(play.moments, [events for events, _ in play.amounts], lambda at: rate * (at - START))
    assert above <= burst_of(rate, most)


@settings(max_examples=examples(80), deadline=None)
@given(RATES, WAYS, st.integers(0, 2**32), st.sampled_from([0.0, 0.0005, 0.002]))
def test_no_window_has_less_than_the_rate_without_a_burst(rate: float, how: str, seed: int, oversleep: float) -> None:
    generator = random.Random(seed)
    clock, most = SimulatedClock(), largest_of(rate)
    play = Play(
        clock,
        sharing(how, (rate, None), clock),
        lambda: (generator.randint(1, most), 0.0),
        lambda: generator.random() * oversleep,
    )
    play.go_on()
    below = most_below(play.moments, [events for events, _ in play.amounts], lambda at: rate * (at - START))
    assert below <= burst_of(rate, most) + rate * oversleep


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from([10, 500, 50_000]), st.sampled_from([1e5, 1e7, 1e9]), WAYS, st.integers(0, 2**32))
def test_both_limits_hold_at_once_and_the_tighter_one_is_used_up(
    rate: float, bit_rate: float, how: str, seed: int
) -> None:
    generator = random.Random(seed)
    clock, bits = SimulatedClock(), 11_424.0
    play = Play(clock, sharing(how, (rate, bit_rate), clock), lambda: (1.0, bits), lambda: generator.random() * 0.001)
    play.go_on()
    events = [found for found, _ in play.amounts]
    assert most_above(play.moments, events, lambda at: rate * (at - START)) <= burst_of(rate, 1)
    sent_bits = [found for _, found in play.amounts]
    assert most_above(play.moments, sent_bits, lambda at: bit_rate * (at - START)) <= burst_of(bit_rate, bits)
    tighter = min(rate, bit_rate / bits)
    assert most_below(play.moments, events, lambda at: tighter * (at - START)) <= burst_of(tighter, 1) + tighter / 1e3


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(RATES, min_size=2, max_size=6), WAYS, st.integers(0, 2**32))
def test_a_rate_that_changes_while_running_holds_from_then_on(rates: list[float], how: str, seed: int) -> None:
    generator = random.Random(seed)
    clock = SimulatedClock()
    paces = sharing(how, (rates[0], None), clock)
    most = largest_of(min(rates))
    play = Play(clock, paces, lambda: (generator.randint(1, most), 0.0), lambda: generator.random() * 0.002)
    changes = [(START, rates[0])]
    play.go_on(STEPS // 4)
    for rate in rates[1:]:
        clock.seconds += generator.random() * 0.001
        changes.append((clock.seconds, rate))
        for pace in paces if how == "programs" else paces[-1:]:
            pace.set_rates(rate)
        play.go_on(STEPS // 4)
    ends = [moment for moment, _ in changes[1:]] + [float("inf")]

    def allowed(at: float) -> float:
        parts = zip(changes, ends, strict=True)
        return sum(rate * max(min(at, end) - begin, 0.0) for (begin, rate), end in parts)

    rises = sum(max(new - old, 0.0) for (_, old), (_, new) in itertools.pairwise(changes))
    extra = rises * CATCH_UP_SECONDS
    if how == "programs":  # What is due counts in seconds there, so a slower rate begins after it.
        extra += sum(max(largest_of(old), old * BURST_SECONDS) for (_, old), _ in itertools.pairwise(changes))
    events = [found for found, _ in play.amounts]
    assert most_above(play.moments, events, allowed) <= burst_of(max(rates), most) + extra
    last = [index for index, moment in enumerate(play.moments) if moment > changes[-1][0] + 1 / min(rates[-2:])]
    below = most_below([play.moments[i] for i in last], [events[i] for i in last], allowed)
    assert below <= burst_of(rates[-1], most) + rates[-1] * 0.002


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.sampled_from([1, 50, 1_000, 20_000]), min_size=2, max_size=4), st.integers(0, 2**32))
def test_programs_with_rates_of_their_own_share_the_time_of_one_budget(rates: list[float], seed: int) -> None:
    """Each admission costs its own program's time, so that nobody is above his rate and all together use 100 %."""
    generator = random.Random(seed)
    clock = SimulatedClock()
    with tempfile.TemporaryDirectory() as folder:
        paces = [Pace(rate, clock=clock, state=PaceState.in_file(Path(folder) / "budget")) for rate in rates]
    play = Play(clock, paces, lambda: (1.0, 0.0), lambda: generator.random() * 0.001)
    play.go_on()
    by_sharer = play.sharer_of
    costs = [1 / rates[sharer] for sharer in by_sharer]
    largest = max(1 / min(rates), BURST_SECONDS)
    assert most_above(play.moments, costs, lambda at: at - START) <= (largest + CATCH_UP_SECONDS) * (1 + 1e-6)
    assert most_below(play.moments, costs, lambda at: at - START) <= largest + CATCH_UP_SECONDS + 0.002
    for sharer, rate in enumerate(rates):
        own = [moment for moment, who in zip(play.moments, by_sharer, strict=True) if who == sharer]
        assert most_above(own, [1.0] * len(own), lambda at, rate=rate: rate * (at - START)) <= burst_of(rate, 1)


@given(st.sampled_from([1e9, 1e12, 1e18]))
def test_a_huge_rate_never_waits_long_nor_loses_count(rate: float) -> None:
    clock = SimulatedClock()
    pace = Pace(rate, rate, clock=clock)
    for _ in range(1000):
        clock.seconds += 1e-4
        pace.admit(min(rate * BURST_SECONDS / 100, 16_000), 0.0)


def test_copies_cost_bits_and_an_event_is_one_event() -> None:
    clock = SimulatedClock()
    bits, copies = 11_424.0, 3
    play = Play(clock, [Pace(1000, 1e9, clock=clock)], lambda: (1 / copies, bits), lambda: 0.0001)
    play.go_on()
    seconds = play.moments[-1] - START
    assert len(play.moments) / seconds == pytest.approx(1000 * copies, 0.02)
    play = Play(clock, [Pace(1000, 1e6, clock=clock)], lambda: (1 / copies, bits), lambda: 0.0001)
    begun = clock.seconds
    play.go_on()
    assert len(play.moments) / (play.moments[-1] - begun) == pytest.approx(1e6 / bits, 0.02)


def test_a_pace_of_several_takes_notice_of_a_limit_that_comes_later() -> None:
    clock = SimulatedClock()
    own, link = Pace(0, clock=clock), Pace(0, clock=clock)
    both = Paces(own, link)
    assert both.unlimited
    link.set_rates(100)
    assert not both.unlimited
    assert both.rates == (100, None)
    play = Play(clock, [both], lambda: (1.0, 0.0), lambda: 0.0)
    play.go_on()
    assert len(play.moments) / (play.moments[-1] - START) == pytest.approx(100, 0.02)


def test_a_faster_rate_lets_go_of_a_long_wait_in_a_file_too() -> None:
    clock = SimulatedClock()
    with tempfile.TemporaryDirectory() as folder:
        paces = [Pace(0.001, clock=clock, state=PaceState.in_file(Path(folder) / "budget")) for _ in range(2)]
    paces[0].admit(1, 0)
    with pytest.raises(WaitingError):
        paces[1].admit(1, 0)
    for pace in paces:
        pace.set_rates(1000)
    clock.seconds += 0.01
    paces[1].admit(1, 0)


def test_children_made_by_fork_keep_to_a_rate_that_the_parent_changes() -> None:
    with tempfile.TemporaryDirectory() as folder:
        budgets = [PaceState.shared(), PaceState.in_file(Path(folder) / "budget")]
    for budget in budgets:
        pace = Pace(5, state=budget)
        ours, theirs = multiprocessing.Pipe()
        child = multiprocessing.get_context("fork").Process(target=_say_rates, args=(pace, theirs))
        child.start()
        assert ours.recv() == (5, None)
        pace.set_rates(7, 9)
        ours.send("changed")
        assert ours.recv() == (7, 9)
        child.join()


def _say_rates(pace: Pace, pipe: Connection) -> None:
    pipe.send(pace.rates)
    pipe.recv()
    pipe.send(pace.rates)
