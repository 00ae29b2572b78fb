"""Owns which segments are old enough to go, or too many; must not know how they are removed.

Segments leave from the beginning of a partition only, so what remains has no new hole.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gapless_api.codec.canonical import moment_of

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import timedelta

    from gapless_archive.catalog.entry import Segment
    from gapless_archive.catalog.state import TopicState


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What an archive keeps of each topic; without any of these, all."""

    older_than: timedelta | None = None
    """Segments go when their newest record is older."""
    keep_bytes: int | None = None
    """The oldest segments go until the others have so many stored bytes, or fewer."""
    everything: bool = False
    """All segments go."""

    @property
    def is_set(self) -> bool:
        """Whether anything goes at all."""
        return self.everything or self.older_than is not None or self.keep_bytes is not None


def plan_expiry(
    state: TopicState, retention: Retention, now: datetime, *, partitions: Collection[int] | None = None
) -> list[Segment]:
    """Choose the segments that go, by partition and offset; none when the topic is held.

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
    going: list[Segment] = []
    if retention.older_than is not None:
        for queue in queues:
            count = _count_older(queue, now - retention.older_than)
            going += queue[:count]
            del queue[:count]
    if retention.keep_bytes is not None:
        going += _oldest_beyond(queues, retention.keep_bytes)
    return sorted(going, key=lambda segment: (segment.partition, segment.first, segment.end))


def newest(segment: Segment) -> datetime:
    """The time of the newest record, or when the segment was written if no record has one."""
    if segment.max_timestamp is not None:
        try:
            return datetime.fromtimestamp(segment.max_timestamp / 1000, UTC)
        except (OverflowError, ValueError, OSError):
            pass  # beyond the year 9999
    return moment_of(segment.written_at) or datetime.max.replace(tzinfo=UTC)


def _count_older(segments: list[Segment], limit: datetime) -> int:
    """How many segments from the first one on are older than `limit`."""
    for count, segment in enumerate(segments):
        if newest(segment) >= limit:
            return count
    return len(segments)


def _oldest_beyond(queues: list[list[Segment]], keep_bytes: int) -> list[Segment]:
    """The oldest segments whose removal leaves `keep_bytes` at most; those of a partition in their order."""
    left = sum(segment.stored_bytes for queue in queues for segment in queue)
    heads = [(newest(queue[0]), number, 0) for number, queue in enumerate(queues) if queue]
    heapq.heapify(heads)
    going = []
    while left > keep_bytes and heads:
        _, number, place = heapq.heappop(heads)
        queue = queues[number]
        going.append(queue[place])
        left -= queue[place].stored_bytes
        if place + 1 < len(queue):
            heapq.heappush(heads, (newest(queue[place + 1]), number, place + 1))
    return going
