"""Owns the rows of a partition that wait in memory until they are written, and when their segment is full."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gapless_archive.segments.writer import concat_batches, copy_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from gapless_archive.segments.builder import SegmentBuilder
    from gapless_archive.segments.level_zero import Coverage

MAX_BUFFERED_BYTES = 64 * 1024 * 1024
"""Content of the buffered rows of all partitions."""
MAX_RETAINED_BYTES = 64 * 1024 * 1024
"""Rows that were written and stay in memory, because they share batches with rows that are still buffered."""


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
