"""Owns which offsets of each lane one turn through SQL reads: a bounded number from the positions on; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from gapless_api.offsets.ids import MAX_OFFSET, TopicPartition
from gapless_kafka.reading.cuts import Slice
from gapless_mirror.lanes.claims import compare_target, log_in
from gapless_mirror.lanes.identity import HEARTBEAT_TOPIC
from gapless_mirror.lanes.sources import SourceTopic, SourceView

if TYPE_CHECKING:
    from gapless_mirror.lanes.records import LanePosition

MAX_OFFSETS = 200_000
"""Of a lane in one turn, so that a turn takes seconds."""


def lane_slices(
    ends: Mapping[TopicPartition, int],
    positions: Mapping[TopicPartition, LanePosition],
    topic_partitions: Iterable[tuple[SourceTopic, int]],
    *,
    max_offsets: int = MAX_OFFSETS,
) -> tuple[Slice, ...]:
    """Return the slices of a lane for a turn: up to `max_offsets`, divided among its partitions with new offsets.

    A partition whose position is before the start of its log, or has another topic ID, or whose target has lost copies,
    is read from the start of the log; the lane detects and handles that.
    """
    pending = []
    for topic, partition in topic_partitions:
        topic_partition = (topic.name, partition)
        position = positions.get(topic_partition)
        first = topic.first_offsets[partition]
        if position is None:
            first = max(first, topic.start_offset(partition))
        elif position.source_id in {"", topic.id} and not _has_lost_copies(topic, partition, position):
            first = max(first, position.next_offset)
        end = ends.get(topic_partition, topic.end_offsets[partition])
        if first < end:
            pending.append((topic_partition, first, end))
    share = max(max_offsets // max(len(pending), 1), 1)
    return tuple(
        Slice(topic, partition, first, min(end, first + share), may_skip_expired=False)
        for (topic, partition), first, end in pending
    )


def _has_lost_copies(topic: SourceTopic, partition: int, position: LanePosition) -> bool:
    if topic.copy is None or topic.name == HEARTBEAT_TOPIC:
        return False
    return compare_target(topic.name, position, log_in(topic.copy, partition, is_target=True)).is_loss


def positions_beyond(
    ends: Mapping[TopicPartition, int],
    positions: Mapping[TopicPartition, LanePosition],
    topic_partitions: Iterable[tuple[SourceTopic, int]],
) -> dict[TopicPartition, int]:
    """Return the ends that are before what the positions say of their logs, so that the lane checks these."""
    beyond = {}
    for topic, partition in topic_partitions:
        position = positions.get((topic.name, partition))
        end = ends.get((topic.name, partition))
        if position is not None and end is not None and end < max(position.next_offset, position.source_end or 0):
            beyond[topic.name, partition] = end
    return beyond


def view_until(
    view: SourceView, slices: tuple[Slice, ...], number: int, beyond: Mapping[TopicPartition, int]
) -> SourceView:
    """Return a view in which the partitions of `slices` end with their slice, and all others are empty.

    Args:
        view: of the source.
        slices: of the turn.
        number: see `SourceView`.
        beyond: the ends of partitions whose logs the lane must check, because they are before its positions.
    """
    ends = {(each.topic, each.partition): each.end_offset for each in slices}
    topics = {
        name: replace(
            topic,
            seen_ends=topic.end_offsets,
            end_offsets=tuple(ends.get((name, partition), 0) for partition in range(len(topic.end_offsets))),
            high_watermarks=tuple(
                beyond.get((name, partition), MAX_OFFSET) for partition in range(len(topic.end_offsets))
            ),
        )
        for name, topic in view.topics.items()
    }
    return SourceView(topics, view.problems, number)


def split_heartbeats(slices: Iterable[Slice]) -> tuple[tuple[Slice, ...], tuple[Slice, ...]]:
    """Return the slices of records, and those of heartbeats, to which the statement is not applied."""
    every = tuple(slices)
    heartbeats = tuple(each for each in every if each.topic == HEARTBEAT_TOPIC)
    return tuple(each for each in every if each.topic != HEARTBEAT_TOPIC), heartbeats


def max_partitions(view: SourceView) -> int:
    """Return the highest number of partitions of a source topic, without heartbeats."""
    topics = (topic for name, topic in view.topics.items() if name != HEARTBEAT_TOPIC)
    return max((len(topic.first_offsets) for topic in topics), default=0)
