"""Owns the check whether a segment holds what its manifest says: every field that follows from its records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_archive.catalog.entry import absent_ranges
from gapless_archive.segments.builder import Origin, SegmentBuilder
from gapless_archive.segments.layouts import records_in
from gapless_archive.segments.reader import SegmentDamagedError

if TYPE_CHECKING:
    import pyarrow as pa

    from gapless_archive.catalog.entry import Segment
    from gapless_archive.store.places import Place

_FIELDS = ("records", "bytes", "min_timestamp", "max_timestamp")


class SegmentCheck:
    """Takes all records of a segment in the order in which they are stored."""

    def __init__(self, place_name: str, segment: Segment, *, with_digest: bool = True) -> None:
        """Begin with no record. Without a digest, the caller compares it."""
        self._name = f"{place_name}/{segment.object}"
        self._segment = segment
        self._found = SegmentBuilder(segment.partition, segment.first, with_digest=with_digest)
        self._fields = (*_FIELDS, "digest") if with_digest else _FIELDS

    def take(self, rows: pa.RecordBatch) -> None:
        """Take the next records; there is one at least. Raises SegmentDamagedError when they are out of order."""
        try:
            self._found.take(rows)
        except ValueError as error:
            raise self._damaged(str(error)) from None

    def finish(self) -> None:
        """Compare with the manifest. Raises SegmentDamagedError."""
        stated = self._segment
        if self._found.next_offset > stated.end:
            raise self._damaged(f"it holds offset {self._found.next_offset - 1} and must end at {stated.last}")
        origin = Origin(log_start=stated.log_start, high_watermark=stated.high_watermark, epoch=stated.epoch)
        found = self._found.segment(stated.object, stated.stored_bytes, stated.end, origin)
        for name in self._fields:
            if getattr(found, name) != getattr(stated, name):
                raise self._damaged(f"its {name} is {getattr(found, name)} and must be {getattr(stated, name)}")
        if absent_ranges(found.absent) != absent_ranges(stated.absent):
            raise self._damaged("it lacks other offsets than its manifest says")

    def _damaged(self, reason: str) -> SegmentDamagedError:
        segment = self._segment
        where = f"partition {segment.partition}, offsets {segment.first} to {segment.last}"
        return SegmentDamagedError(f"{self._name} is damaged ({where}: {reason}); bring it back.")


def check_segment(place: Place, segment: Segment) -> None:
    """Read all of a segment and compare it with its manifest.

    Raises:
        SegmentDamagedError: it is missing, or holds something else.
        StoreUnreachableError: the store does not answer.
    """
    check = SegmentCheck(place.name, segment)
    for rows in records_in(place, segment):
        check.take(rows)
    check.finish()
