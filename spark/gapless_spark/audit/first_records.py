"""Owns how the first records of partitions are looked at without reading the rest; must not know bitmaps or states."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.wire.audit_state import Contents
from gapless_kafka.reading.cuts import Slice
from gapless_kafka.reading.reader import read_slices
from gapless_spark.model.expired_records import FIRST_KEPT, OF_COMPLETE_PARTITIONS, begun, with_keys, with_more

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.reading.cuts import Cut


class Wanted(NamedTuple):
    """Which records of a partition."""

    first_offset: int
    end_offset: int
    most: int
    """How many of them; an offset may hold none, such as the marker of a transaction."""


def contents_of(connection: KafkaConnection, cut: Cut, known: Mapping[str, Contents]) -> dict[str, Contents]:
    """What the topics of `cut` hold. Kafka is asked only where records were deleted unread, now or in an earlier run.

    Args:
        connection: to Kafka.
        cut: what is unread.
        known: what earlier runs have found out.

    Raises:
        SourceUnreachableError: Kafka denies access, or has deleted what was to be read.
        SourceStalledError: nothing came for a minute.
    """
    contents = {topic.topic: known.get(topic.topic, Contents()) for topic in cut.topics}
    keys = first_keys(connection, _wanted(cut, contents))
    for topic in cut.topics:
        found = contents[topic.topic]
        kept = {one.partition: one for one in found.expired}
        for partition in range(len(topic.end_offsets)):
            some = keys.get((topic.topic, partition))
            if some is not None:
                found = with_keys(found, partition, some)
            if partition in topic.expired:
                kept[partition] = begun(partition, some or (), kept.get(partition))
            elif some is not None and partition in kept and kept[partition].records < FIRST_KEPT:
                kept[partition] = with_more(kept[partition], some)
        contents[topic.topic] = replace(found, expired=tuple(kept[number] for number in sorted(kept)))
    return contents


def _wanted(cut: Cut, contents: Mapping[str, Contents]) -> dict[TopicPartition, Wanted]:
    wanted: dict[TopicPartition, Wanted] = {}
    for topic in cut.topics:
        looked_at = {one.partition: one.records for one in contents[topic.topic].expired}
        for partition, (first, end) in enumerate(zip(topic.first_offsets, topic.end_offsets, strict=True)):
            left = FIRST_KEPT if partition in topic.expired else FIRST_KEPT - looked_at.get(partition, FIRST_KEPT)
            if left > 0:
                wanted[topic.topic, partition] = Wanted(first, end, left)
    if not wanted:
        return {}
    for topic in cut.topics:
        if not contents[topic.topic].sources:  # What a topic holds says where a deleted record cannot have been.
            for partition, (start, end) in enumerate(zip(topic.log_starts, topic.end_offsets, strict=True)):
                wanted.setdefault((topic.topic, partition), Wanted(start, end, OF_COMPLETE_PARTITIONS))
    return wanted


def first_keys(
    connection: KafkaConnection, wanted: Mapping[TopicPartition, Wanted]
) -> dict[TopicPartition, list[bytes | None]]:
    """Read the keys of the first records of partitions, in their order; of what is deleted meanwhile, the next ones.

    Raises:
        SourceUnreachableError: Kafka denies access.
        SourceStalledError: nothing came for a minute.
    """
    keys: dict[TopicPartition, list[bytes | None]] = {place: [] for place in wanted}
    next_offsets = {place: one.first_offset for place, one in wanted.items()}
    step = 1
    while True:
        pieces = [
            Slice(*place, next_offsets[place], min(next_offsets[place] + step * one.most, one.end_offset), True)
            for place, one in wanted.items()
            if next_offsets[place] < one.end_offset and len(keys[place]) < one.most
        ]
        if not pieces:
            return {place: found[: wanted[place].most] for place, found in keys.items()}
        for messages in read_slices(connection, pieces):
            for message in messages:
                keys[message.topic() or "", message.partition() or 0].append(message.key())
        next_offsets |= {(piece.topic, piece.partition): piece.end_offset for piece in pieces}
        step *= 4  # where most offsets hold no record


def first_key_of(connection: KafkaConnection, cut: Cut) -> bytes | None:
    """The key of the first record that the topics of `cut` still hold and that has one. Raises like `first_keys`."""
    wanted = {
        (topic.topic, number): Wanted(start, end, 1)
        for topic in cut.topics
        for number, (start, end) in enumerate(zip(topic.log_starts, topic.end_offsets, strict=True))
    }
    keys = first_keys(connection, wanted)
    return next((key for found in keys.values() for key in found if key is not None), None)
