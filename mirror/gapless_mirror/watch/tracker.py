"""When a cause becomes a stall, and when the stall ends. Pure.

A cause must last: short elections, restarts and open transactions are normal. Stalls are grouped by reason and topic,
so that a broker failure is reported once for each topic and not for each partition. Time while this program or its
machine was suspended does not count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gapless_api.wire.mirror_progress import StallReason
    from gapless_mirror.watch.stall import Cause

STALL_AFTER_SECONDS = 30.0
"""With a check every few seconds, a stall is reported within 60 seconds."""
_CauseKey = tuple["StallReason", str, int | None, int | None, int]


@dataclass(frozen=True, slots=True)
class Stall:
    """Partitions or lanes that make no progress for one reason."""

    reason: StallReason
    topic: str
    """Of the source; empty when no single topic is concerned."""
    partitions: tuple[int, ...]
    """Ascending; empty when no partitions are concerned."""
    lanes: tuple[int, ...]
    since: float
    """When it was first reported, in seconds since 1970."""
    sentence: str

    @property
    def count(self) -> int:
        """The number of stalled partitions or lanes; 1 for a cluster."""
        return len(self.partitions) or len(self.lanes) or 1


class Changes(NamedTuple):
    """What has changed since the last update."""

    begun: tuple[Stall, ...]
    ended: tuple[Stall, ...]


class StallTracker:
    """The current stalls, updated at each check."""

    def __init__(self, after_seconds: float = STALL_AFTER_SECONDS, *, max_interval_seconds: float = 20.0) -> None:
        """Track no causes yet.

        Args:
            after_seconds: how long a cause must last to be a stall.
            max_interval_seconds: a longer time between two updates counts as this.
        """
        self._after_seconds = after_seconds
        self._max_interval_seconds = max_interval_seconds
        self._lasted: dict[_CauseKey, float] = {}
        self._updated_at: float | None = None
        self._stalls: dict[tuple[StallReason, str], Stall] = {}
        self._fading: set[tuple[StallReason, str]] = set()
        """Stalls that the last check did not find; they end if the next one does not find them either."""

    @property
    def stalls(self) -> tuple[Stall, ...]:
        """The current stalls, the longest first."""
        return tuple(sorted(self._stalls.values(), key=lambda stall: (stall.since, stall.reason, stall.topic)))

    def update(self, causes: Iterable[Cause], *, now: float, wall_clock: float) -> Changes:
        """Update the stalls.

        Args:
            causes: found by a check.
            now: on the monotonic clock.
            wall_clock: seconds since 1970.
        """
        elapsed = 0.0 if self._updated_at is None else min(now - self._updated_at, self._max_interval_seconds)
        self._updated_at = now
        current = list(causes)
        lasted = {_key(cause): 0.0 for cause in current}
        for key in lasted:
            if key in self._lasted:
                lasted[key] = self._lasted[key] + elapsed
        self._lasted = lasted
        lasting = [cause for cause in current if cause.is_certain or lasted[_key(cause)] >= self._after_seconds]
        stalls = _group(lasting, wall_clock)
        for group, stall in stalls.items():
            if group in self._stalls:
                stalls[group] = replace(stall, since=self._stalls[group].since)
        before, fading = self._stalls, self._fading
        self._fading = before.keys() - stalls.keys() - fading
        stalls |= {key: before[key] for key in self._fading}
        self._stalls = stalls
        return Changes(
            tuple(stall for key, stall in stalls.items() if key not in before),
            tuple(stall for key, stall in before.items() if key not in stalls),
        )


def _key(cause: Cause) -> _CauseKey:
    return cause.reason, cause.topic, cause.partition, cause.lane, cause.instance


def _group(causes: Iterable[Cause], wall_clock: float) -> dict[tuple[StallReason, str], Stall]:
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
