"""How the first records of partitions are read without the rest; must not know bitmaps or states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.wire.audit_state import Contents
from gapless_kafka.reading.cuts import Cut, Slice
from gapless_kafka.reading.reader import read_slices
from gapless_spark.model.expired_records import (
    FIRST_RECORDS,
    SAMPLE_RECORDS,
    add_sources,
    extend_first_kept,
    start_first_kept,
)

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection


class RecordSpan(NamedTuple):
    """The first records of a partition that are read."""

    first_offset: int
    end_offset: int
    max_records: int
    """An offset may hold no record, for example the marker of a transaction."""


def contents_of(connection: KafkaConnection, cut: Cut, known: Mapping[str, Contents]) -> dict[str, Contents]:
    """Return what the topics of `cut` contain; read Kafka only where records were deleted unread, now or earlier.

    Args:
        connection: to Kafka.
        cut: the unread offsets.
        known: the result of earlier runs.

    Raises:
        SourceUnreachableError: Kafka denies access, or has deleted the offsets.
        SourceStalledError: Kafka sent nothing for a minute.
    """
    contents = {topic.topic: known.get(topic.topic, Contents()) for topic in cut.topics}
    keys = first_keys(connection, _spans_to_read(cut, contents))
    for topic in cut.topics:
        of_topic = contents[topic.topic]
        kept = {first_kept.partition: first_kept for first_kept in of_topic.expired}
        for partition in range(len(topic.end_offsets)):
            new_keys = keys.get((topic.topic, partition))
            if new_keys is not None:
                of_topic = add_sources(of_topic, partition, new_keys)
            if partition in topic.expired:
                kept[partition] = start_first_kept(partition, new_keys or (), kept.get(partition))
            elif new_keys is not None and partition in kept and kept[partition].records < FIRST_RECORDS:
                kept[partition] = extend_first_kept(kept[partition], new_keys)
        contents[topic.topic] = replace(of_topic, expired=tuple(kept[number] for number in sorted(kept)))
    return contents


def _spans_to_read(cut: Cut, contents: Mapping[str, Contents]) -> dict[TopicPartition, RecordSpan]:
    spans: dict[TopicPartition, RecordSpan] = {}
    for topic in cut.topics:
        records_read = {kept.partition: kept.records for kept in contents[topic.topic].expired}
        for partition, (first, end) in enumerate(zip(topic.first_offsets, topic.end_offsets, strict=True)):
            already_read = 0 if partition in topic.expired else records_read.get(partition, FIRST_RECORDS)
            if already_read < FIRST_RECORDS:
                spans[topic.topic, partition] = RecordSpan(first, end, FIRST_RECORDS - already_read)
    if not spans:
        return {}
    for topic in cut.topics:
        if not contents[topic.topic].sources:  # What a topic contains shows where a deleted record cannot have been.
            for partition, (start, end) in enumerate(zip(topic.log_starts, topic.end_offsets, strict=True)):
                spans.setdefault((topic.topic, partition), RecordSpan(start, end, SAMPLE_RECORDS))
    return spans


def first_keys(
    connection: KafkaConnection, spans: Mapping[TopicPartition, RecordSpan]
) -> dict[TopicPartition, list[bytes | None]]:
    """Read the keys of the first records of partitions, in order; the next ones in place of those deleted meanwhile.

    Raises:
        SourceUnreachableError: Kafka denies access.
        SourceStalledError: Kafka sent nothing for a minute.
    """
    keys: dict[TopicPartition, list[bytes | None]] = {partition: [] for partition in spans}
    next_offsets = {partition: span.first_offset for partition, span in spans.items()}
    step = 1
    while True:
        slices = [
            Slice(
                *partition,
                next_offsets[partition],
                min(next_offsets[partition] + step * span.max_records, span.end_offset),
                True,
            )
            for partition, span in spans.items()
            if next_offsets[partition] < span.end_offset and len(keys[partition]) < span.max_records
        ]
        if not slices:
            return {partition: found[: spans[partition].max_records] for partition, found in keys.items()}
        for messages in read_slices(connection, slices, headers=False):
            for message in messages:
                keys[message.topic() or "", message.partition() or 0].append(message.key())
        next_offsets |= {(part.topic, part.partition): part.end_offset for part in slices}
        step *= 4  # where most offsets hold no record


def first_key_of(connection: KafkaConnection, cut: Cut) -> bytes | None:
    """Return the key of the first record with a key in the topics of `cut`. Raises like `first_keys`."""
    spans = {
        (topic.topic, number): RecordSpan(start, end, 1)
        for topic in cut.topics
        for number, (start, end) in enumerate(zip(topic.log_starts, topic.end_offsets, strict=True))
    }
    keys = first_keys(connection, spans)
    return next((key for found in keys.values() for key in found if key is not None), None)
