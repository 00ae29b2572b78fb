"""Owns how offsets that Kafka no longer has come out of an archive; must not know what is done with them.

Segments are read by row groups, one at a time, and only those that have something wanted. What a damaged one had comes
from another segment that covers it, if there is one. A resend may take days, so nothing is unavailable before the list
of segments was read anew.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.wire.resend_report import MAX_DAMAGED, DamagedObject
from gapless_archive.catalog.entry import RowGroup, absent_ranges
from gapless_archive.reading import Piece
from gapless_archive.segments.reader import SegmentDamagedError, intersects
from gapless_sender.base.lazy_log import log
from gapless_sender.source.event_source import Held
from gapless_sender.source.plan import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gapless_api.offsets.ranges import OffsetRanges
    from gapless_archive.catalog.entry import Segment
    from gapless_archive.reading import TopicArchive
    from gapless_sender.source.range_cursor import Chunk, Message, RangeCursor

    Uncovered = Callable[[int], Iterator[Chunk]]
    """What becomes of what is still wanted up to an offset and no segment covers."""

_NO_TIMESTAMP = -1
"""How Kafka's client shows it."""
_RECORD_BYTES = 16
"""What the size of a segment counts for each record beside its content."""


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


class DamageNotes:
    """The objects that a resend could not read, each one once."""

    def __init__(self) -> None:
        self.objects: dict[str, DamagedObject] = {}
        """By their keys."""

    def add(self, name: str, key: str, error: SegmentDamagedError) -> None:
        """Note an object, called `name`."""
        if key not in self.objects:
            log("error", "a segment of the archive is missing or damaged", object=name, problem=str(error))
            if len(self.objects) < MAX_DAMAGED:
                self.objects[key] = DamagedObject(object=name, problem=str(error))


class _ArchiveChangedError(Exception):
    """The archive has other segments of the partition than those that were chosen from."""


class ArchivedPartition:
    """One partition of a topic in an archive."""

    def __init__(self, archive: TopicArchive, partition: int, damage: DamageNotes) -> None:
        self._archive = archive
        self._partition = partition
        self._damage = damage

    def read(self, ranges: RangeCursor, end: int) -> Iterator[Chunk]:
        """Yield what the archive has of what is wanted below `end`; all of it is known afterwards.

        Raises:
            StoreUnreachableError: the store does not answer.
            LocalStorageError: the folder cannot be read.
        """
        began = time.monotonic()

        def expired(last: int) -> Iterator[Chunk]:
            if ranges.target <= last and last >= self.end:
                self._refresh(since=began)  # Kafka had deleted it by then, so it was archived before or never.
            yield from ranges.pass_over(last, Reason.EXPIRED)

        while True:
            try:
                yield from self._read(ranges, ranges.rest(end - 1), frozenset(), expired)
            except _ArchiveChangedError:
                continue
            return

    def held(self, wanted: OffsetRanges, ranges: RangeCursor) -> Held:
        """Count what the archive has of `wanted`, without reading records."""
        found = Held()
        for piece in self._archive.pieces(self._partition, wanted):
            segment = piece.segment
            absent = (piece.offsets & absent_ranges(segment.absent)).count if segment.absent else 0
            count = piece.offsets.count - absent
            found.absent += absent
            if _is_outside(segment, ranges):
                found.outside += count
            else:
                found.events += count
                found.value_bytes += count * max(segment.bytes / max(segment.records, 1) - _RECORD_BYTES, 0)
        return found

    def first_since(self, timestamp_ms: int | None) -> int | None:
        """The first offset of a segment that may have a record of `timestamp_ms` or later; ``None`` when none has."""
        for segment in self._archive.state.segments(self._partition):
            newest = segment.max_timestamp
            if segment.is_listed:  # its times are not known
                return segment.first
            if segment.records and (timestamp_ms is None or (newest is not None and newest >= timestamp_ms)):
                return segment.first
        return None

    @property
    def end(self) -> int:
        """The offset behind the last one that is archived."""
        return self._archive.state.head(self._partition) or 0

    def _refresh(self, *, since: float | None = None) -> None:
        """Look for segments that are new, as `TopicArchive.refresh` does. Raises _ArchiveChangedError for any."""
        if self._archive.refresh(self._partition, since=since):
            raise _ArchiveChangedError

    def _read(
        self, ranges: RangeCursor, wanted: OffsetRanges, without: frozenset[str], uncovered: Uncovered
    ) -> Iterator[Chunk]:
        """Go through `wanted`, the next of what `ranges` want, not reading the objects `without`."""
        if not len(wanted):
            return
        for piece in self._archive.pieces(self._partition, wanted, without=without):
            yield from uncovered(piece.offsets.first_offset - 1)
            segment, last = piece.segment, piece.offsets.last_offset
            if _is_outside(segment, ranges):
                for first_absent, last_absent in absent_ranges(segment.absent).clip(ranges.target, last):
                    yield from ranges.pass_outside(first_absent - 1)
                    yield from ranges.pass_over(last_absent, Reason.NON_EXISTENT)
                yield from ranges.pass_outside(last)
            else:
                yield from self._read_piece(ranges, piece, without)
        yield from uncovered(wanted.last_offset)

    def _read_piece(self, ranges: RangeCursor, piece: Piece, without: frozenset[str]) -> Iterator[Chunk]:
        segment, wanted = piece.segment, piece.offsets
        while len(wanted):
            try:
                for some in self._archive.read_values(Piece(segment, wanted), times=ranges.limits_time):
                    records: list[Message] = [_Record(*record) for record in zip(*some, strict=True)]
                    for chunk in ranges.take(records) if records else ():
                        yield chunk._replace(from_archive=True)
                break
            except SegmentDamagedError as error:
                self._refresh()
                self._damage.add(f"{self._archive.place.name}/{segment.object}", segment.object, error)
            wanted = wanted.clip(ranges.target, wanted.last_offset)
            group = _next_group(segment, wanted)
            yield from ranges.pass_over(group.first - 1, Reason.NON_EXISTENT)
            yield from self._read_elsewhere(ranges, wanted.clip(group.first, group.last), segment, without)
            wanted = wanted.clip(group.last + 1, wanted.last_offset)
        yield from ranges.pass_over(piece.offsets.last_offset, Reason.NON_EXISTENT)

    def _read_elsewhere(
        self, ranges: RangeCursor, wanted: OffsetRanges, segment: Segment, without: frozenset[str]
    ) -> Iterator[Chunk]:
        """Go through `wanted`, of a row group of `segment` that cannot be read."""
        absent = absent_ranges(segment.absent).clip(wanted.first_offset, wanted.last_offset)

        def lost(last: int) -> Iterator[Chunk]:
            for first_absent, last_absent in absent.clip(0, last):
                yield from ranges.pass_over(first_absent - 1, Reason.ARCHIVE_DAMAGED)
                yield from ranges.pass_over(last_absent, Reason.NON_EXISTENT)
            yield from ranges.pass_over(last, Reason.ARCHIVE_DAMAGED)

        yield from self._read(ranges, wanted, without | {segment.object}, lost)


def _is_outside(segment: Segment, ranges: RangeCursor) -> bool:
    """Whether no record of a segment is wanted for its timestamp, as far as it is known."""
    return not segment.is_listed and ranges.excludes(segment.min_timestamp, segment.max_timestamp)


def _next_group(segment: Segment, wanted: OffsetRanges) -> RowGroup:
    """The first row group that has something of `wanted`; a damaged segment was to read one.

    In the layout of kafka-replicator no row groups are known, so it is all of the segment.
    """
    if segment.layout == "kafka-replicator":
        return RowGroup(0, 0, segment.records, segment.first, segment.last)
    return next(group for group in segment.row_groups if intersects(wanted, group.first, group.last))
