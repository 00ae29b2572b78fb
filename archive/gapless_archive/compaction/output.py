"""Owns how the new segment of a join is written to a local file, row group by row group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_archive.segments.builder import Origin, SegmentBuilder
from gapless_archive.segments.reader import SegmentDamagedError
from gapless_archive.segments.rows import content_bytes
from gapless_archive.segments.writer import MOST_ROW_GROUP_BYTES, ROW_GROUP_BYTES, ObjectWriter, copied, divided, joined

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from gapless_archive.catalog.entry import Segment
    from gapless_archive.compaction.plan import Join

_UNUSED_FACTOR = 2
"""Rows are copied when they keep so many times their size in memory, as a part of a shared row group does."""


class SegmentOutput:
    """Writes the records of one segment to a local file."""

    def __init__(self, file: Path, join: Join, most_records: int | None) -> None:
        """Begin without a file, which is made with the first row group.

        Args:
            file: where it is written.
            join: whose new segment it is.
            most_records: of a row group; ``None`` for as many as its size permits.
        """
        self.file = file
        self._join = join
        self._most_records = most_records
        self._writer: ObjectWriter | None = None
        self._builder = SegmentBuilder(join.partition, join.first, with_digest=False)
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = self._held_records = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Take the next records."""
        if rows.get_total_buffer_size() > _UNUSED_FACTOR * rows.nbytes:
            rows = copied([rows])
        is_row_group = self._most_records is None and self._held_bytes + content_bytes(rows) <= MOST_ROW_GROUP_BYTES
        for piece in [rows] if is_row_group else divided(rows):  # most inputs were divided well before
            left = piece
            while left.num_rows:
                room = left.num_rows if self._most_records is None else self._most_records - self._held_records
                part, left = left.slice(0, room), left.slice(room)
                self._hold(part)

    def segment(self, name: str) -> Segment:
        """Finish the file, if there are records, and return the manifest of the segment, without its digest."""
        self._flush()
        inputs = self._join.inputs
        origin = Origin(
            log_start=max(segment.log_start for segment in inputs),
            high_watermark=max(segment.high_watermark for segment in inputs),
            epoch=max(segment.epoch for segment in inputs),
            level=self._join.level,
        )
        stored = self._writer.close() if self._writer is not None else 0
        return self._builder.segment(name if self._writer is not None else "", stored, self._join.end, origin)

    def _hold(self, rows: pa.RecordBatch) -> None:
        self._held.append(rows)
        self._held_bytes += content_bytes(rows)
        self._held_records += rows.num_rows
        if self._held_bytes >= ROW_GROUP_BYTES or self._held_records == self._most_records:
            self._flush()

    def _flush(self) -> None:
        if not self._held:
            return
        rows, size = joined(self._held), self._held_bytes
        self._held, self._held_bytes, self._held_records = [], 0, 0
        if self._writer is None:
            self._writer = ObjectWriter(self.file)
        try:
            self._builder.take(rows)
        except ValueError as error:
            raise SegmentDamagedError(
                f"Segments of partition {self._join.partition} do not follow on each other ({error}); run gapless "
                f"segments verify to find the damaged one."
            ) from None
        (placed,) = self._writer.write([rows], size)
        self._builder.stored(placed)
