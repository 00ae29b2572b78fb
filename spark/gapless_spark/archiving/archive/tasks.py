"""The tasks of an archiving cycle: read slices, write objects, return the manifests of their segments.

A task that is retried writes new objects; objects that no commit names are deleted later.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gapless_api.base.errors import GaplessError
from gapless_api.base.unexpected import describe
from gapless_api.wire.form import WireError
from gapless_archive.catalog.entry import SEGMENT, Layout
from gapless_archive.segments.level_zero import LevelZeroWriter, TopicSegment
from gapless_archive.segments.peer_level_zero import PeerLevelZeroWriter
from gapless_archive.segments.row_buffer import Coverage, Limits
from gapless_archive.segments.rows import Message, rows_by_partition
from gapless_archive.store.places import PlaceAddress, open_place
from gapless_kafka.access.errors import PartitionUnreadableError

if TYPE_CHECKING:
    import pyarrow as pa

    from gapless_api.offsets.ids import TopicPartition
    from gapless_archive.segments.builder import Origin
    from gapless_archive.store.access import S3Access
    from gapless_kafka.reading.cuts import Slice

MANIFESTS = "topic string, segment string"
"""The columns of a task's result."""


@dataclass(frozen=True, slots=True)
class SliceWriter:
    """Writes slices to the archive. It is sent to executors, with the paths of secrets but not the secrets."""

    address: PlaceAddress
    access: S3Access
    prefixes: Mapping[str, str]
    """Of the object keys, by topic."""
    limits: Mapping[str, Limits]
    """By topic."""
    origins: Mapping[TopicPartition, Origin]
    layout: Layout = "gapless"
    key_firsts: Mapping[TopicPartition, int] = field(default_factory=dict)
    """In the layout of kafka-replicator: where the key of the next object begins."""

    @property
    def needs_complete_partitions(self) -> bool:
        """Whether one task must read a partition completely, because keys of kafka-replicator are contiguous."""
        return self.layout == "kafka-replicator"

    def write(self, slices: Sequence[Slice], batches: Iterable[Sequence[Message]]) -> list[TopicSegment]:
        """Write the records of slices, and return the segments that cover them.

        Raises:
            PartitionUnreadableError: a partition, or one of its records, cannot be archived.
            GaplessError: Kafka cannot be read, or the archive cannot be written.
        """
        place = open_place(self.address, self.access)
        coverages = [self._coverage(slice_) for slice_ in slices]
        writer_class = PeerLevelZeroWriter if self.layout == "kafka-replicator" else LevelZeroWriter
        with place.scratch() as scratch, writer_class(place, scratch, coverages) as writer:
            for messages in batches:
                _add(writer, messages)
            return writer.close()

    def rows(self, slices: Sequence[Slice], batches: Iterable[Sequence[Message]]) -> Iterator[pa.RecordBatch]:
        """Do the same as `write`, and yield the segments as rows of `MANIFESTS`."""
        import pyarrow as pa  # noqa: PLC0415 -- in the task

        written = self.write(slices, batches)
        topics = pa.array([topic for topic, _ in written], pa.string())
        texts = [json.dumps(SEGMENT.to_json(segment)) for _, segment in written]
        yield pa.record_batch([topics, pa.array(texts, pa.string())], names=["topic", "segment"])

    def _coverage(self, slice_: Slice) -> Coverage:
        return Coverage(
            topic=slice_.topic,
            partition=slice_.partition,
            first=slice_.first_offset,
            end=slice_.end_offset,
            prefix=self.prefixes[slice_.topic],
            limits=self.limits[slice_.topic],
            origin=self.origins[slice_.topic, slice_.partition],
            key_first=self.key_firsts.get((slice_.topic, slice_.partition)),
        )


def _add(writer: LevelZeroWriter | PeerLevelZeroWriter, messages: Sequence[Message]) -> None:
    """Write a batch. Raises PartitionUnreadableError for a record that cannot be converted or written."""
    topic, partition, first = "", 0, -1
    try:
        for rows in rows_by_partition(messages):
            topic, partition, first = rows.topic, rows.partition, rows.rows.column("offset")[0].as_py()
            writer.add(rows)
            first = -1
    except (GaplessError, OSError, MemoryError):
        raise  # of the store, the disk or the machine
    except Exception as error:
        if first < 0:
            message = _first_inconvertible(messages)
            if message is None:
                raise
            topic, partition, first = message.topic() or "", message.partition() or 0, message.offset() or 0
        reason = f"an unexpected error in Gapless: {describe(error)}"
        sentence = f"{topic}/{partition} cannot be archived from offset {first:,} on ({reason})."
        raise PartitionUnreadableError(sentence, topic, partition, first, reason) from error


def _first_inconvertible(messages: Sequence[Message]) -> Message | None:
    for message in messages:
        try:
            list(rows_by_partition([message]))
        except Exception:  # noqa: BLE001 -- whatever it is, it is raised by the caller
            return message
    return None


def read_manifests(batches: Iterable[pa.RecordBatch]) -> list[TopicSegment]:
    """Read rows of `MANIFESTS`, and sort the segments independently of the order of tasks."""
    segments = []
    for batch in batches:
        for row in batch.to_pylist():
            try:
                segment = SEGMENT.from_json(json.loads(row["segment"]))
            except WireError as error:
                raise RuntimeError(f"a task ran with another release: {error}") from None
            segments.append(TopicSegment(row["topic"], segment))
    return sorted(segments, key=lambda each: (each.topic, each.segment.partition, each.segment.first))
