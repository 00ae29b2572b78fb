"""The rows of partitions that wait in memory until they are written: how many, and when they must be written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from gapless_archive.segments.rows import PartitionRows, content_bytes
from gapless_archive.segments.writer import ROW_GROUP_BYTES, concat_batches, copy_rows, split_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from gapless_api.offsets.ids import TopicPartition
    from gapless_archive.segments.builder import Origin, SegmentBuilder

MAX_BUFFERED_BYTES = 64 * 1024 * 1024
"""Content of the buffered rows of all partitions."""
MAX_RETAINED_BYTES = 64 * 1024 * 1024
"""Rows that were written and stay in memory, because they share batches with rows that are still buffered."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When a segment is finished. The limit of bytes also applies to an object."""

    records: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The offsets of a partition that are read, and how their segments are written."""

    topic: str
    partition: int
    first: int
    end: int
    """Exclusive."""
    prefix: str
    """Of the objects of the topic, without a slash at its end."""
    limits: Limits
    origin: Origin
    key_first: int | None = None
    """In the layout of kafka-replicator: where the key of the first object begins, not above `first`."""


@dataclass(slots=True)
class PartitionBuffer:
    """Consecutive rows of a partition, and the segment that they will be part of."""

    coverage: Coverage
    builder: SegmentBuilder
    """Of the segment, with the records that were written before."""
    batches: list[pa.RecordBatch] = field(default_factory=list, init=False)
    buffered_bytes: int = field(default=0, init=False)
    """Content of the batches."""
    buffered_records: int = field(default=0, init=False)

    @property
    def is_full(self) -> bool:
        """Whether the segment has reached a limit."""
        limits = self.coverage.limits
        full = self.builder.records + self.buffered_records >= limits.records
        return full or self.builder.bytes + self.buffered_bytes >= limits.bytes

    @property
    def room(self) -> int:
        """How many more records the segment may get."""
        return self.coverage.limits.records - self.builder.records - self.buffered_records

    def append(self, rows: pa.RecordBatch, size: int) -> None:
        """Buffer the next rows, which have `size` bytes of content."""
        self.batches.append(rows)
        self.buffered_bytes += size
        self.buffered_records += rows.num_rows

    def detach(self) -> None:
        """Copy the buffered rows, of which there are some, so that they keep no larger batches in memory."""
        self.batches = [copy_rows(self.batches)]

    def drain(self) -> pa.RecordBatch:
        """Return all buffered rows, of which there are some, and empty the buffer."""
        rows = concat_batches(self.batches)
        self.batches, self.buffered_bytes, self.buffered_records = [], 0, 0
        return rows


Buffer = TypeVar("Buffer", bound=PartitionBuffer)


class BufferedWriter(ABC, Generic[Buffer]):
    """Buffers the records of some partitions in bounded memory."""

    def __init__(self, buffers: Iterable[Buffer]) -> None:
        """Start with empty buffers, one for each partition."""
        self._partitions: dict[TopicPartition, Buffer] = {
            (buffer.coverage.topic, buffer.coverage.partition): buffer for buffer in buffers
        }
        self._buffered_bytes = 0
        self._retained_bytes = 0
        """At most so many bytes of rows are kept in memory by the buffers."""

    def add(self, records: PartitionRows) -> None:
        """Add the next records of a partition. Raises GaplessError when they cannot be written."""
        partition = self._partitions[records.topic, records.partition]
        self._retained_bytes += records.rows.nbytes
        for batch in split_rows(records.rows):
            rows = self._prepare(batch)
            while rows.num_rows:
                part, rows = rows.slice(0, partition.room), rows.slice(partition.room)
                size = content_bytes(part)
                partition.append(part, size)
                self._buffered_bytes += size
                if partition.is_full:
                    self._end_segment(partition)
                elif partition.buffered_bytes >= ROW_GROUP_BYTES:
                    self._write_row_group(partition)
        while self._buffered_bytes > MAX_BUFFERED_BYTES:
            self._write_largest()
        if self._retained_bytes > self._buffered_bytes + MAX_RETAINED_BYTES:
            for buffer in self._partitions.values():
                if buffer.batches:
                    buffer.detach()
            self._retained_bytes = self._buffered_bytes

    def _prepare(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Convert rows before they are buffered."""
        return rows

    @abstractmethod
    def _end_segment(self, partition: Buffer) -> None:
        """Write the buffer of a partition, and finish its segment."""

    @abstractmethod
    def _write_row_group(self, partition: Buffer) -> None:
        """Write the buffer of a partition as a row group."""

    @abstractmethod
    def _write_largest(self) -> None:
        """Write at least the largest buffer."""
