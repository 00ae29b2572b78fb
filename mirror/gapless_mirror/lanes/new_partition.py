"""A partition that a lane starts to copy: at its committed position, or where it starts without one. Pure."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from gapless_mirror.lanes.observations import Stop
from gapless_mirror.lanes.progress import PartitionProgress
from gapless_mirror.lanes.records import LanePosition

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_mirror.lanes.control import LaneState
    from gapless_mirror.lanes.setup import LaneSetup
    from gapless_mirror.lanes.sources import SourceTopic


def new_progress(
    topic_partition: TopicPartition,
    topic: SourceTopic,
    state: LaneState,
    setup: LaneSetup,
    start: LanePosition | Stop | None = None,
) -> PartitionProgress:
    """Return a partition that a lane starts to copy, at its committed position or at its start.

    Args:
        topic_partition: of the source.
        topic: of the source.
        state: of the lane.
        setup: what all lanes have in common.
        start: where a partition without a position starts, or why it does not; ``None`` as in a new mirror.
    """
    number, committed = topic_partition[1], state.positions.get(topic_partition)
    position = _start_position(topic, number, committed, setup.epoch)
    stop = start if isinstance(start, Stop) else None
    if isinstance(start, LanePosition):
        position = start
    is_new = committed is None and stop is None
    return PartitionProgress(
        topic_partition,
        position,
        position.next_offset,
        time.monotonic(),
        tail=state.tails.get(topic_partition),
        map_parts=state.map_parts.get(topic_partition, []),
        expired_parts=state.superseded_parts.get(topic_partition, []),
        copy_until=topic.end_offsets[number] if setup.once else None,
        is_new=is_new,
        stop=stop,
        is_undecided=stop is not None,
        is_adopted=committed is not None and not committed.source_partitions,
        is_owed=is_new and (start is not None or number in topic.group_offsets),
        lost_before=position.lost_offsets,
    )


def start_at(topic: SourceTopic, offset: int, epoch: int) -> LanePosition:
    """Return the position of a partition of which nothing before `offset` is copied, in the run `epoch`."""
    return LanePosition(
        target=topic.target,
        source_id=topic.id,
        epoch=epoch,
        start=offset,
        next_offset=offset,
        source_partitions=topic.partitions,
    )


def _start_position(topic: SourceTopic, partition: int, committed: LanePosition | None, epoch: int) -> LanePosition:
    if committed is None:
        return start_at(topic, topic.start_offset(partition), epoch)
    if not committed.source_partitions:
        committed = replace(committed, source_partitions=topic.partitions)
    if committed.target == topic.target:
        return committed
    # The target was renamed: the topic of the new name has no earlier records.
    return replace(committed.without_copies(), target=topic.target, start=committed.next_offset)
