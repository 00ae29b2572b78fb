"""How the records of a join's new segment are collected into row groups and written to a local file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

from gapless_archive.segments.builder import Origin, SegmentBuilder
from gapless_archive.segments.reader import SegmentDamagedError
from gapless_archive.segments.rows import content_bytes
from gapless_archive.segments.writer import (
    CODEC,
    MAX_ROW_GROUP_BYTES,
    ROW_GROUP_BYTES,
    ObjectWriter,
    concat_batches,
    copy_rows,
    split_rows,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from gapless_archive.catalog.entry import Layout, Segment
    from gapless_archive.compaction.plan import Join

_MAX_RETAINED_FACTOR = 2
"""Rows are copied when they keep more than so many times their size in memory, as slices of a shared row group do."""


class JoinOutput(ABC):
    """Collects the records of one new segment into row groups."""

    def __init__(self, join: Join, max_row_group_records: int | None, *, with_digest: bool) -> None:
        """Start without records. The limit is ``None`` for as many as the size of a row group permits."""
        self._join = join
        self._max_row_group_records = max_row_group_records
        self._builder = SegmentBuilder(join.partition, join.first, with_digest=with_digest)
        self._batches: list[pa.RecordBatch] = []
        self._buffered_bytes = self._buffered_records = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Add the next records. Raises SegmentDamagedError when their offsets do not follow the earlier ones."""
        limit, remaining = self._max_row_group_records, rows
        while remaining.num_rows:
            room = remaining.num_rows if limit is None else limit - self._buffered_records
            part, remaining = remaining.slice(0, room), remaining.slice(room)
            self._batches.append(part)
            self._buffered_bytes += content_bytes(part)
            self._buffered_records += part.num_rows
            if self._buffered_bytes >= ROW_GROUP_BYTES or self._buffered_records == limit:
                self._flush()

    def _flush(self) -> None:
        if not self._batches:
            return
        rows, size = concat_batches(self._batches), self._buffered_bytes
        self._batches, self._buffered_bytes, self._buffered_records = [], 0, 0
        try:
            self._builder.add(rows)
        except ValueError as error:
            raise SegmentDamagedError(
                f"Segments of partition {self._join.partition} do not follow on each other ({error}); run gapless "
                f"segments verify to find the damaged one."
            ) from None
        self._write_row_group(rows, size)

    @abstractmethod
    def _write_row_group(self, rows: pa.RecordBatch, size: int) -> None:
        """Write a row group of `size` bytes of content; the first one creates the file."""

    def _origin(self, codec: str, layout: Layout) -> Origin:
        inputs = self._join.inputs
        return Origin(
            log_start=max(segment.log_start for segment in inputs),
            high_watermark=max(segment.high_watermark for segment in inputs),
            epoch=max(segment.epoch for segment in inputs),
            level=self._join.level,
            codec=codec,
            layout=layout,
        )


class SegmentOutput(JoinOutput):
    """Writes the records of one new segment in the layout ``gapless``."""

    def __init__(self, file: Path, join: Join, max_row_group_records: int | None) -> None:
        """Start without a file; see `JoinOutput`."""
        super().__init__(join, max_row_group_records, with_digest=False)
        self.file = file
        self._writer: ObjectWriter | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        """Add the next records; see `JoinOutput.add`."""
        if rows.get_total_buffer_size() > _MAX_RETAINED_FACTOR * rows.nbytes:
            rows = copy_rows([rows])
        fits = self._buffered_bytes + content_bytes(rows) <= MAX_ROW_GROUP_BYTES
        keeps_row_group = self._max_row_group_records is None and fits
        for part in [rows] if keeps_row_group else split_rows(rows):  # most inputs have row groups of the right size
            super().add(part)

    def finish(self, name: str) -> Segment:
        """Finish the file, if there are records, and return the manifest of the segment, without its digest."""
        self._flush()
        stored = self._writer.close() if self._writer is not None else 0
        object_name = name if self._writer is not None else ""
        return self._builder.build(object_name, stored, self._join.end, self._origin(CODEC, "gapless"))

    def _write_row_group(self, rows: pa.RecordBatch, size: int) -> None:
        if self._writer is None:
            self._writer = ObjectWriter(self.file)
        (row_group,) = self._writer.write([rows], size)
        self._builder.add_row_group(row_group)
