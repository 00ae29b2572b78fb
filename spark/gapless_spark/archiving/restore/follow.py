"""Owns how a restore waits for segments that are late: pauses that double, and when offsets are given up. Pure.

Offsets of which the archive knows why it does not have them are never late.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from gapless_api.offsets.ranges import OffsetRanges
    from gapless_spark.archiving.restore.plan import PartitionPlan

_JITTER = 0.25
_FOREIGN_DELAY_SECONDS = 1800.0
"""As kafka-replicator waits: its segments are found by listing, and may come in any order."""


def pauses(timeout_seconds: float, retries: int) -> list[float]:
    """So many pauses, each twice the one before, which make up the timeout together."""
    first = timeout_seconds / (2**retries - 1)
    return [first * 2**number for number in range(retries)]


def jittered(pause: float, random: Callable[[], float]) -> float:
    """The pause, longer or shorter by up to a quarter, so that several programs do not ask at the same moment.

    Args:
        pause: in seconds.
        random: returns a number from 0 to 1.
    """
    return pause * (1 - _JITTER + 2 * _JITTER * random())


@dataclass(slots=True)
class _Late:
    """Offsets that are missing at the head of a partition."""

    first: int
    tries: int
    next_at: float


@dataclass(slots=True)
class LateSegments:
    """Which partitions wait for segments, and for how long still."""

    timeout_seconds: float
    retries: int
    random: Callable[[], float]
    _late: dict[tuple[str, int], _Late] = field(default_factory=dict)

    def is_given_up(self, source: str, partition: int, first: int | None, now: float) -> bool:
        """Whether an offset has been waited for long enough.

        Args:
            source: that the partition belongs to, and where it goes.
            partition: of the source.
            first: the first offset that is missing at this moment; ``None`` when none is.
            now: seconds of a clock that nobody sets.
        """
        place = (source, partition)
        if first is None:
            self._late.pop(place, None)
            return False
        steps = pauses(self.timeout_seconds, self.retries)
        late = self._late.get(place)
        if late is None or late.first != first:
            self._late[place] = _Late(first, 0, now + jittered(steps[0], self.random))
            return False
        while now >= late.next_at:
            late.tries += 1
            if late.tries >= self.retries:
                return True
            late.next_at += jittered(steps[late.tries], self.random)
        return False


def readable(plan: PartitionPlan, given_up: OffsetRanges) -> OffsetRanges:
    """The offsets to write now: up to the first hole that nobody can explain, or up to what is skipped.

    Args:
        plan: of the partition.
        given_up: the first offsets that are missing, if they have been waited for long enough and are skipped; else
            empty. What follows on them is written later, as it may be late itself.
    """
    if given_up:
        return (plan.ranges | given_up).clip(0, given_up.last_offset)
    return plan.ranges.clip(0, plan.unexplained.first_offset - 1) if plan.unexplained else plan.ranges


def is_too_young(plan: PartitionPlan, delay_seconds: float | None, *, has_begun: bool, now: datetime) -> bool:
    """Whether the first segment of a partition must become older before the restore begins with it.

    Args:
        plan: of the partition.
        delay_seconds: the setting; ``None`` for what suits the layout.
        has_begun: whether something of the partition was restored.
        now: the time.
    """
    if has_begun or not plan.first_written_at:
        return False
    delay = delay_seconds if delay_seconds is not None else _FOREIGN_DELAY_SECONDS if plan.is_foreign else 0.0
    written_at = datetime.fromisoformat(plan.first_written_at).astimezone(UTC)
    return (now - written_at).total_seconds() < delay
