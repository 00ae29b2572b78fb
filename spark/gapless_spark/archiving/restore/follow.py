"""How a restore waits for late segments: exponential pauses, and when to give up offsets. Pure.

Offsets that the archive records as lost are never late.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gapless_api.offsets.ranges import OffsetRanges
    from gapless_spark.archiving.restore.plan import PartitionPlan

_JITTER = 0.25
_FOREIGN_DELAY_SECONDS = 1800.0
"""The delay of kafka-replicator, whose segments are found by listing, and may arrive in any order."""


def pauses(timeout_seconds: float, retries: int) -> list[float]:
    """Return `retries` pauses, each twice as long as the previous one, whose sum is the timeout."""
    first = timeout_seconds / (2**retries - 1)
    return [first * 2**number for number in range(retries)]


def jittered(pause: float, random: Callable[[], float]) -> float:
    """Return the pause, longer or shorter by up to a quarter, so that programs do not retry at the same moment.

    Args:
        pause: in seconds.
        random: returns a number from 0 to 1.
    """
    return pause * (1 - _JITTER + 2 * _JITTER * random())


@dataclass(slots=True)
class _Late:
    """The first missing offset of a partition."""

    first: int
    tries: int
    next_at: float


@dataclass(slots=True)
class LateSegments:
    """The partitions that wait for segments, and their timeouts."""

    timeout_seconds: float
    retries: int
    random: Callable[[], float]
    _late: dict[tuple[str, int], _Late] = field(default_factory=dict)

    def is_given_up(self, source: str, partition: int, first: int | None, now: float) -> bool:
        """Whether the timeout of the first missing offset has expired.

        Args:
            source: of the partition, with its target.
            partition: of the source.
            first: the first missing offset; ``None`` if none is missing.
            now: seconds of a monotonic clock.
        """
        key = (source, partition)
        if first is None:
            self._late.pop(key, None)
            return False
        steps = pauses(self.timeout_seconds, self.retries)
        late = self._late.get(key)
        if late is None or late.first != first:
            self._late[key] = _Late(first, 0, now + jittered(steps[0], self.random))
            return False
        while now >= late.next_at:
            late.tries += 1
            if late.tries >= self.retries:
                return True
            late.next_at += jittered(steps[late.tries], self.random)
        return False


def offsets_to_write(plan: PartitionPlan, given_up: OffsetRanges) -> OffsetRanges:
    """Return the offsets to write now: up to the first unexplained hole, or up to the skipped offsets.

    Args:
        plan: of the partition.
        given_up: the first missing offsets, if their timeout has expired and they are skipped; otherwise empty. The
            following offsets are written later, because they may be late as well.
    """
    if given_up:
        return (plan.ranges | given_up).clip(0, given_up.last_offset)
    return plan.ranges.clip(0, plan.unexplained.first_offset - 1) if plan.unexplained else plan.ranges


def is_too_young(plan: PartitionPlan, delay_seconds: float | None, *, has_begun: bool, now: datetime) -> bool:
    """Whether the first segment of a partition is too young to start the restore with it.

    Args:
        plan: of the partition.
        delay_seconds: the setting; ``None`` for the default of the layout.
        has_begun: whether a part of the partition was already restored.
        now: the time.
    """
    if has_begun or not plan.first_written_at:
        return False
    delay = delay_seconds if delay_seconds is not None else _FOREIGN_DELAY_SECONDS if plan.is_foreign else 0.0
    written_at = datetime.fromisoformat(plan.first_written_at).astimezone(UTC)
    return (now - written_at).total_seconds() < delay
