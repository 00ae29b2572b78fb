"""The check that the records of a segment match its manifest, in every field that depends on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_archive.catalog.entry import Segment, absent_ranges
from gapless_archive.segments.builder import Origin, SegmentBuilder
from gapless_archive.segments.layouts import read_records
from gapless_archive.segments.reader import SegmentDamagedError

if TYPE_CHECKING:
    import pyarrow as pa

    from gapless_archive.store.places import Place

_FIELDS = ("records", "bytes", "min_timestamp", "max_timestamp")


class SegmentCheck:
    """Compares all records of a segment, added in order, with its manifest."""

    def __init__(self, place_name: str, segment: Segment, *, with_digest: bool = True) -> None:
        """Start without records. Without a digest, the caller compares digests."""
        self._name = f"{place_name}/{segment.object}"
        self._segment = segment
        self._builder = SegmentBuilder(segment.partition, segment.first, with_digest=with_digest)
        self._fields = (*_FIELDS, "digest") if with_digest else _FIELDS

    def add(self, rows: pa.RecordBatch) -> None:
        """Add the next records, at least one. Raises SegmentDamagedError when they are out of order."""
        try:
            self._builder.add(rows)
        except ValueError as error:
            raise self._damaged(str(error)) from None

    def finish(self) -> None:
        """Compare with the manifest. Raises SegmentDamagedError."""
        expected = self._segment
        if self._builder.next_offset > expected.end:
            raise self._damaged(f"it holds offset {self._builder.next_offset - 1} and must end at {expected.last}")
        origin = Origin(log_start=expected.log_start, high_watermark=expected.high_watermark, epoch=expected.epoch)
        actual = self._builder.build(expected.object, expected.stored_bytes, expected.end, origin)
        for name in self._fields:
            if getattr(actual, name) != getattr(expected, name):
                raise self._damaged(f"its {name} is {getattr(actual, name)} and must be {getattr(expected, name)}")
        if absent_ranges(actual.absent) != absent_ranges(expected.absent):
            raise self._damaged("its absent offsets differ from its manifest")

    def _damaged(self, reason: str) -> SegmentDamagedError:
        segment = self._segment
        where = f"partition {segment.partition}, offsets {segment.first} to {segment.last}"
        return SegmentDamagedError(f"{self._name} is damaged ({where}: {reason}); restore it from a backup.")


def check_segment(place: Place, segment: Segment) -> None:
    """Read a segment completely and compare it with its manifest.

    Raises:
        SegmentDamagedError: it is missing or differs.
        StoreUnreachableError: the store does not answer.
    """
    check = SegmentCheck(place.name, segment)
    for rows in read_records(place, segment):
        check.add(rows)
    check.finish()
