"""Owns when a cause has become a stall, and when that begins and ends. Pure.

A cause must last: elections, restarts and open transactions of a moment are normal. Stalls are grouped by reason and
topic, so that a broker that is gone makes a line for each topic and not for each partition. Time in which this program
or its machine was stopped does not count.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gapless_api.wire.mirror_progress import StallReason
    from gapless_kafka.mirror.watch.stall import Cause

STALL_AFTER_SECONDS = 30.0
"""With a look every few seconds, a stall has its name within 60 seconds."""
_Mark = tuple["StallReason", str, int | None, int | None, int]


@dataclass(frozen=True, slots=True)
class Stall:
    """Some partitions, or lanes, stand still for one reason."""

    reason: StallReason
    topic: str
    """Of the source; empty when it is not about one topic."""
    partitions: tuple[int, ...]
    """Ascending; empty when it is not about partitions."""
    lanes: tuple[int, ...]
    since: float
    """Seconds since 1970 when it was noticed."""
    sentence: str

    @property
    def count(self) -> int:
        """How many partitions, or lanes, stand still; 1 when a cluster does."""
        return len(self.partitions) or len(self.lanes) or 1


class Changes(NamedTuple):
    """What is different since the last look."""

    begun: tuple[Stall, ...]
    ended: tuple[Stall, ...]


class StallTracker:
    """What stands still, look after look."""

    def __init__(self, after_seconds: float = STALL_AFTER_SECONDS, *, longest_gap_seconds: float = 20.0) -> None:
        """A cause is a stall when it has lasted.

        Args:
            after_seconds: for how long.
            longest_gap_seconds: how much a pause between two looks counts at most.
        """
        self._after_seconds = after_seconds
        self._longest_gap_seconds = longest_gap_seconds
        self._lasted: dict[_Mark, float] = {}
        self._looked_at: float | None = None
        self._stalls: dict[tuple[StallReason, str], Stall] = {}
        self._fading: set[tuple[StallReason, str]] = set()
        """Those that the last look did not find: what is tried again now and then is quiet for a moment."""

    @property
    def stalls(self) -> tuple[Stall, ...]:
        """What stands still now, the longest first."""
        return tuple(sorted(self._stalls.values(), key=lambda one: (one.since, one.reason, one.topic)))

    def update(self, causes: Iterable[Cause], *, now: float, wall_clock: float) -> Changes:
        """Take in what was found by a look.

        Args:
            causes: what keeps something from making progress.
            now: on the monotonic clock.
            wall_clock: seconds since 1970.
        """
        passed = 0.0 if self._looked_at is None else min(now - self._looked_at, self._longest_gap_seconds)
        self._looked_at = now
        found = list(causes)
        lasted = {_mark(cause): 0.0 for cause in found}
        for mark in lasted:
            if mark in self._lasted:
                lasted[mark] = self._lasted[mark] + passed
        self._lasted = lasted
        named = [cause for cause in found if cause.at_once or lasted[_mark(cause)] >= self._after_seconds]
        stalls = _grouped(named, wall_clock)
        for key, stall in stalls.items():
            if key in self._stalls:
                stalls[key] = replace(stall, since=self._stalls[key].since)
        before, fading = self._stalls, self._fading
        self._fading = before.keys() - stalls.keys() - fading
        stalls |= {key: before[key] for key in self._fading}
        self._stalls = stalls
        return Changes(
            tuple(stall for key, stall in stalls.items() if key not in before),
            tuple(stall for key, stall in before.items() if key not in stalls),
        )


def _mark(cause: Cause) -> _Mark:
    return cause.reason, cause.topic, cause.partition, cause.lane, cause.mark


def _grouped(causes: Iterable[Cause], wall_clock: float) -> dict[tuple[StallReason, str], Stall]:
    groups: dict[tuple[StallReason, str], list[Cause]] = {}
    for cause in causes:
        groups.setdefault((cause.reason, cause.topic), []).append(cause)
    return {(reason, topic): _stall(reason, topic, group, wall_clock) for (reason, topic), group in groups.items()}


def _stall(reason: StallReason, topic: str, group: list[Cause], wall_clock: float) -> Stall:
    partitions = tuple(sorted({cause.partition for cause in group if cause.partition is not None}))
    lanes = tuple(sorted({cause.lane for cause in group if cause.lane is not None}))
    sentence = group[0].sentence
    more = max(len(partitions), 0 if partitions else len(lanes)) - 1
    if more > 0:
        what = "partitions of the topic" if partitions else "lanes"
        sentence += f" The same applies to {more:,} other {what}."
    return Stall(reason, topic, partitions, lanes, wall_clock, sentence)
