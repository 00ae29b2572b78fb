"""The manifest of a segment while its records are written: count, bytes, timestamps, digest, absent offsets.

Must not know where the records are written.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from gapless_api.codec.canonical import moment_text
from gapless_api.offsets.ranges import RangesBuilder
from gapless_archive.catalog.entry import Layout, RowGroup, Segment, absent_text
from gapless_archive.segments.digest import ContentDigest
from gapless_archive.segments.rows import content_bytes, int64_array

if TYPE_CHECKING:
    import pyarrow as pa


_ONE = int64_array([1])[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What the manifests of a partition's segments record about the run that wrote them."""

    log_start: int
    high_watermark: int
    """Both as Kafka returned them before the records were read."""
    epoch: int
    level: int = 0
    codec: str = "zstd"
    layout: Layout = "gapless"


class SegmentBuilder:
    """Collects the manifest of a segment from its records, in order."""

    def __init__(self, partition: int, first: int, *, with_digest: bool = True) -> None:
        """Start a segment that covers offsets from `first` on. Without a digest, the manifest has an empty one."""
        self.partition = partition
        self.first = first
        self.next_offset = first
        """The last offset that was added plus one; `first` without any."""
        self.records = 0
        self.bytes = 0
        self._digest = ContentDigest() if with_digest else None
        self._absent = RangesBuilder()
        self._times: list[tuple[int, int]] = []
        self._row_groups: list[RowGroup] = []

    def add(self, rows: pa.RecordBatch) -> None:
        """Add the next records, at least one, as rows of `SCHEMA`. Raises ValueError when offsets do not ascend."""
        self._add_offsets(rows.column("offset"))
        if self._digest is not None:
            self._digest.update(rows)
        self.records += rows.num_rows
        self.bytes += content_bytes(rows)
        times = pc.min_max(rows.column("timestamp")).as_py()
        if times["min"] is not None:
            self._times.append((times["min"], times["max"]))

    def add_row_group(self, row_group: RowGroup) -> None:
        """Record where the records are that were added last."""
        self._row_groups.append(row_group)

    def build(self, object_name: str, stored_bytes: int, end: int, origin: Origin) -> Segment:
        """Return the manifest of the segment that covers offsets up to `end`, exclusive."""
        if end < self.next_offset:
            raise ValueError(f"a segment with offset {self.next_offset - 1} cannot end before it at {end}")
        if end > self.next_offset:
            self._absent.add(self.next_offset, end - 1)
        return Segment(
            object=object_name,
            partition=self.partition,
            level=origin.level,
            first=self.first,
            end=end,
            absent=absent_text(self._absent.so_far),
            records=self.records,
            bytes=self.bytes,
            stored_bytes=stored_bytes,
            min_timestamp=min((low for low, _ in self._times), default=None),
            max_timestamp=max((high for _, high in self._times), default=None),
            digest=self._digest.text() if self._digest is not None else "",
            isolation="read_committed",
            log_start=origin.log_start,
            high_watermark=origin.high_watermark,
            epoch=origin.epoch,
            codec=origin.codec,
            layout=origin.layout,
            written_at=moment_text(datetime.now(UTC)),
            row_groups=tuple(self._row_groups),
        )

    def _add_offsets(self, offsets: pa.Array) -> None:
        first, last, count = offsets[0].as_py(), offsets[-1].as_py(), len(offsets)
        if first < self.next_offset:
            raise ValueError(f"offset {first} comes after {self.next_offset - 1}")
        if first > self.next_offset:
            self._absent.add(self.next_offset, first - 1)
        if count > 1:
            steps = pc.subtract(offsets.slice(1), offsets.slice(0, count - 1))
            if pc.min(steps).as_py() < 1:
                raise ValueError(f"offsets from {first} to {last} do not ascend")
            if last - first + 1 > count:
                for index in pc.indices_nonzero(pc.greater(steps, _ONE)).to_pylist():
                    self._absent.add(offsets[index].as_py() + 1, offsets[index + 1].as_py() - 1)
        self.next_offset = last + 1
