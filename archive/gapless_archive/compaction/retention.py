"""Which segments expire by age or size; must not know how they are removed.

Segments expire only from the beginning of a partition, so that no new hole appears.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_api.codec.canonical import moment_of

if TYPE_CHECKING:
    from gapless_archive.catalog.entry import Segment
    from gapless_archive.catalog.state import TopicState


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What an archive keeps of each topic; everything by default."""

    older_than: timedelta | None = None
    """Segments expire when their newest record is older."""
    keep_bytes: int | None = None
    """The oldest segments expire until the remaining ones have at most so many stored bytes."""
    everything: bool = False
    """All segments expire."""
    least_age: timedelta | None = None
    """Segments with a newer record do not expire, however many bytes they have."""

    def check(self) -> None:
        """Check that no limit is below the least age. Raises ConfigurationError."""
        if self.least_age is None:
            return
        if self.everything:
            raise ConfigurationError("all would remove records that minRetention keeps; give olderThan or keepBytes.")
        if self.older_than is not None and self.older_than < self.least_age:
            raise ConfigurationError(
                f"olderThan is {self.older_than.total_seconds():.0f} seconds, and records are kept for at least "
                f"{self.least_age.total_seconds():.0f} seconds (minRetention); raise olderThan."
            )

    @property
    def is_set(self) -> bool:
        """Whether any segment may expire."""
        return self.everything or self.older_than is not None or self.keep_bytes is not None


def plan_expiry(
    state: TopicState, retention: Retention, now: datetime, *, partitions: Collection[int] | None = None
) -> list[Segment]:
    """Choose the segments that expire, by partition and offset; none when the topic is on hold.

    Args:
        state: of the topic.
        retention: what is kept.
        now: the time.
        partitions: those that may lose segments; ``None`` for all. Only their bytes count for `keep_bytes`.
    """
    if state.is_held:
        return []
    chosen = [number for number in state.partitions if partitions is None or number in partitions]
    if retention.everything:
        return [segment for number in chosen for segment in state.segments(number)]
    queues = [list(state.segments(number)) for number in chosen]
    expired: list[Segment] = []
    if retention.older_than is not None:
        for queue in queues:
            count = _count_older(queue, now - retention.older_than)
            expired += queue[:count]
            del queue[:count]
    if retention.keep_bytes is not None:
        newest = None if retention.least_age is None else now - retention.least_age
        expired += _oldest_over_limit(queues, retention.keep_bytes, newest)
    return sorted(expired, key=lambda segment: (segment.partition, segment.first, segment.end))


def newest_time(segment: Segment) -> datetime:
    """Return the time of the newest record, or when the segment was written if no record has a timestamp."""
    if segment.max_timestamp is not None:
        try:
            return datetime.fromtimestamp(segment.max_timestamp / 1000, UTC)
        except (OverflowError, ValueError, OSError):
            pass  # after the year 9999
    return moment_of(segment.written_at) or datetime.max.replace(tzinfo=UTC)


def _count_older(segments: list[Segment], limit: datetime) -> int:
    """Count the segments at the beginning that are older than `limit`."""
    for count, segment in enumerate(segments):
        if newest_time(segment) >= limit:
            return count
    return len(segments)


def _oldest_over_limit(queues: list[list[Segment]], keep_bytes: int, newest: datetime | None) -> list[Segment]:
    """Return the oldest segments whose removal leaves at most `keep_bytes`; those of a partition in order.

    None has a record of `newest` or later, even if more bytes are left.
    """
    remaining = sum(segment.stored_bytes for queue in queues for segment in queue)
    heads = [(newest_time(queue[0]), number, 0) for number, queue in enumerate(queues) if queue]
    heapq.heapify(heads)
    expired = []
    while remaining > keep_bytes and heads:
        time, number, index = heapq.heappop(heads)
        if newest is not None and time >= newest:
            break  # the heads of all other partitions are newer
        queue = queues[number]
        expired.append(queue[index])
        remaining -= queue[index].stored_bytes
        if index + 1 < len(queue):
            heapq.heappush(heads, (newest_time(queue[index + 1]), number, index + 1))
    return expired
