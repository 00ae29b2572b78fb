"""Owns what one cut through SQL reads of each lane: a bounded number of offsets from the positions on; pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gapless_kafka.mirror.lanes.identity import HEARTBEAT_TOPIC
from gapless_kafka.mirror.lanes.sources import SourceView
from gapless_kafka.reading.cuts import Slice

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.mirror.lanes.records import LanePosition
    from gapless_kafka.mirror.lanes.sources import SourceTopic

MAX_OFFSETS = 200_000
"""Of a lane in one cut, so that a cut takes seconds."""


def lane_slices(
    ends: Mapping[TopicPartition, int],
    positions: Mapping[TopicPartition, LanePosition],
    topic_partitions: Iterable[tuple[SourceTopic, int]],
    *,
    most: int = MAX_OFFSETS,
) -> tuple[Slice, ...]:
    """What a cut reads of a lane: up to `most` offsets, divided among its partitions that have more.

    A partition whose position is before the start of its log, or belongs to another topic ID, is read from the start of
    the log; the lane that gets the rows finds out and decides.
    """
    pending = []
    for topic, partition in topic_partitions:
        topic_partition = (topic.name, partition)
        position = positions.get(topic_partition)
        first = topic.first_offsets[partition]
        if position is None:
            first = max(first, topic.start_offset(partition))
        elif position.source_id in {"", topic.id}:
            first = max(first, position.next_offset)
        end = ends.get(topic_partition, topic.end_offsets[partition])
        if first < end:
            pending.append((topic_partition, first, end))
    share = max(most // max(len(pending), 1), 1)
    return tuple(
        Slice(topic, partition, first, min(end, first + share), may_begin_later=False)
        for (topic, partition), first, end in pending
    )


def view_until(view: SourceView, slices: tuple[Slice, ...], number: int) -> SourceView:
    """The view in which each partition of some slices ends where its slice ends, and all others have nothing new."""
    ends = {(one.topic, one.partition): one.end_offset for one in slices}
    topics = {
        name: replace(
            topic,
            end_offsets=tuple(ends.get((name, partition), 0) for partition in range(len(topic.end_offsets))),
        )
        for name, topic in view.topics.items()
    }
    return SourceView(topics, view.problems, number)


def divided_slices(slices: Iterable[Slice]) -> tuple[tuple[Slice, ...], tuple[Slice, ...]]:
    """Slices of records, and those of heartbeats, which the statement neither changes nor leaves out."""
    found = tuple(slices)
    beats = tuple(one for one in found if one.topic == HEARTBEAT_TOPIC)
    return tuple(one for one in found if one.topic != HEARTBEAT_TOPIC), beats


def max_partitions(view: SourceView) -> int:
    """How many partitions a topic needs to which records of every other one may be sent; heartbeats never are."""
    topics = (topic for name, topic in view.topics.items() if name != HEARTBEAT_TOPIC)
    return max((len(topic.first_offsets) for topic in topics), default=0)
