"""How offsets that Kafka has deleted are read from an archive; must not know what is done with them.

Segments are read by row group, one at a time, and only those with requested offsets. What a damaged segment had is read
from another segment that covers it, if there is one. A resend may take days, so no offset becomes unavailable before
the list of segments was read again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.wire.resend_report import MAX_DAMAGED, DamagedObject
from gapless_archive.catalog.entry import RowGroup, Segment, absent_ranges
from gapless_archive.reading import Piece, TopicArchive
from gapless_archive.segments.reader import SegmentDamagedError, intersects
from gapless_sender.base.lazy_log import log
from gapless_sender.source.archived import ArchivedCounts
from gapless_sender.source.plan import Reason

if TYPE_CHECKING:
    from gapless_api.offsets.ranges import OffsetRanges
    from gapless_sender.source.range_cursor import Chunk, Message, RangeCursor

    MarkUncovered = Callable[[int], Iterator[Chunk]]
    """Marks the remaining offsets up to one (inclusive) that no segment covers."""

_NO_TIMESTAMP = -1
"""In the form of Kafka's client."""
_RECORD_BYTES = 16
"""What the size of a segment includes for each record in addition to its content."""


class _Record(NamedTuple):
    """A record of an archive, with the methods of Kafka's messages."""

    at: int
    timestamp_ms: int | None
    content: bytes | None

    def offset(self) -> int:
        return self.at

    def value(self) -> bytes | None:
        return self.content

    def timestamp(self) -> tuple[int, int]:
        return 0, _NO_TIMESTAMP if self.timestamp_ms is None else self.timestamp_ms


class DamagedObjects:
    """The objects that a resend could not read, each listed once."""

    def __init__(self) -> None:
        self.objects: dict[str, DamagedObject] = {}
        """By their keys."""

    def add(self, name: str, key: str, error: SegmentDamagedError) -> None:
        """Add the object `key`, shown as `name`."""
        if key not in self.objects:
            log("error", "a segment of the archive is missing or damaged", object=name, problem=str(error))
            if len(self.objects) < MAX_DAMAGED:
                self.objects[key] = DamagedObject(object=name, problem=str(error))


class _ArchiveChangedError(Exception):
    """The archive has other segments of the partition than those that are being read."""


class ArchivedPartition:
    """One partition of a topic in an archive."""

    def __init__(self, archive: TopicArchive, partition: int, damaged: DamagedObjects) -> None:
        self._archive = archive
        self._partition = partition
        self._damaged = damaged

    def read(self, ranges: RangeCursor, end: int) -> Iterator[Chunk]:
        """Read the requested offsets below `end`; all of them are accounted for afterwards.

        Raises:
            StoreUnreachableError: the store does not respond.
            LocalStorageError: the folder cannot be read.
        """
        started = time.monotonic()

        def mark_expired(last: int) -> Iterator[Chunk]:
            if ranges.target <= last and last >= self.end:
                self._refresh(since=started)  # Kafka had deleted it before, so it is archived by now or never will be.
            yield from ranges.mark_absent(last, Reason.EXPIRED)

        while True:
            try:
                yield from self._read(ranges, ranges.remaining(end - 1), frozenset(), mark_expired)
            except _ArchiveChangedError:
                continue
            return

    def count(self, requested: OffsetRanges, ranges: RangeCursor) -> ArchivedCounts:
        """Count what the archive has of `requested`, without reading records."""
        counts = ArchivedCounts()
        for piece in self._archive.pieces(self._partition, requested):
            segment = piece.segment
            absent = (piece.offsets & absent_ranges(segment.absent)).count if segment.absent else 0
            present = piece.offsets.count - absent
            counts.absent += absent
            if _is_outside(segment, ranges):
                counts.outside += present
            else:
                counts.events += present
                counts.value_bytes += present * max(segment.bytes / max(segment.records, 1) - _RECORD_BYTES, 0)
        return counts

    def first_since(self, timestamp_ms: int | None) -> int | None:
        """Return the first offset of a segment that may have a record of `timestamp_ms` or later; ``None`` for none."""
        for segment in self._archive.state.segments(self._partition):
            newest = segment.max_timestamp
            if segment.is_listed:  # its timestamps are unknown
                return segment.first
            if segment.records and (timestamp_ms is None or (newest is not None and newest >= timestamp_ms)):
                return segment.first
        return None

    @property
    def end(self) -> int:
        """The offset after the last archived one."""
        return self._archive.state.head(self._partition) or 0

    def _refresh(self, *, since: float | None = None) -> None:
        """Look for new segments like `TopicArchive.refresh`. Raises _ArchiveChangedError if there are any."""
        if self._archive.refresh(self._partition, since=since):
            raise _ArchiveChangedError

    def _read(
        self, ranges: RangeCursor, requested: OffsetRanges, excluded: frozenset[str], mark_uncovered: MarkUncovered
    ) -> Iterator[Chunk]:
        """Read `requested`, the next offsets of `ranges`, without the objects `excluded`."""
        if not len(requested):
            return
        for piece in self._archive.pieces(self._partition, requested, without=excluded):
            yield from mark_uncovered(piece.offsets.first_offset - 1)
            segment, last = piece.segment, piece.offsets.last_offset
            if _is_outside(segment, ranges):
                for first_absent, last_absent in absent_ranges(segment.absent).clip(ranges.target, last):
                    yield from ranges.mark_outside_time(first_absent - 1)
                    yield from ranges.mark_absent(last_absent, Reason.NON_EXISTENT)
                yield from ranges.mark_outside_time(last)
            else:
                yield from self._read_piece(ranges, piece, excluded)
        yield from mark_uncovered(requested.last_offset)

    def _read_piece(self, ranges: RangeCursor, piece: Piece, excluded: frozenset[str]) -> Iterator[Chunk]:
        segment, requested = piece.segment, piece.offsets
        while len(requested):
            try:
                for columns in self._archive.read_values(Piece(segment, requested), times=ranges.limits_time):
                    records: list[Message] = [_Record(*record) for record in zip(*columns, strict=True)]
                    for chunk in ranges.select(records) if records else ():
                        yield chunk._replace(from_archive=True)
                break
            except SegmentDamagedError as error:
                self._refresh()
                self._damaged.add(f"{self._archive.place.name}/{segment.object}", segment.object, error)
            requested = requested.clip(ranges.target, requested.last_offset)
            group = _next_group(segment, requested)
            yield from ranges.mark_absent(group.first - 1, Reason.NON_EXISTENT)
            yield from self._read_elsewhere(ranges, requested.clip(group.first, group.last), segment, excluded)
            requested = requested.clip(group.last + 1, requested.last_offset)
        yield from ranges.mark_absent(piece.offsets.last_offset, Reason.NON_EXISTENT)

    def _read_elsewhere(
        self, ranges: RangeCursor, requested: OffsetRanges, segment: Segment, excluded: frozenset[str]
    ) -> Iterator[Chunk]:
        """Read `requested`, offsets in a damaged row group of `segment`, from other segments."""
        absent = absent_ranges(segment.absent).clip(requested.first_offset, requested.last_offset)

        def mark_damaged(last: int) -> Iterator[Chunk]:
            for first_absent, last_absent in absent.clip(0, last):
                yield from ranges.mark_absent(first_absent - 1, Reason.ARCHIVE_DAMAGED)
                yield from ranges.mark_absent(last_absent, Reason.NON_EXISTENT)
            yield from ranges.mark_absent(last, Reason.ARCHIVE_DAMAGED)

        yield from self._read(ranges, requested, excluded | {segment.object}, mark_damaged)


def _is_outside(segment: Segment, ranges: RangeCursor) -> bool:
    """Return whether all timestamps of a segment are known and outside the time range."""
    return not segment.is_listed and ranges.excludes(segment.min_timestamp, segment.max_timestamp)


def _next_group(segment: Segment, requested: OffsetRanges) -> RowGroup:
    """Return the first row group with offsets of `requested`: the one in which reading found damage.

    The layout of kafka-replicator has no row groups, so it is the complete segment.
    """
    if segment.layout == "kafka-replicator":
        return RowGroup(0, 0, segment.records, segment.first, segment.last)
    return next(group for group in segment.row_groups if intersects(requested, group.first, group.last))
