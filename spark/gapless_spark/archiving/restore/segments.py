"""Owns how offsets of an archive become records to write: in their order, each once, with what cannot be read between.

Must not know how records are written.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from gapless_archive.catalog.entry import absent_ranges
from gapless_archive.reading import Piece
from gapless_archive.segments.reader import SegmentDamagedError
from gapless_archive.segments.rows import content_bytes
from gapless_kafka.writing.portions import Columns, Header

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gapless_api.offsets.ranges import OffsetRanges
    from gapless_archive.catalog.entry import Segment
    from gapless_archive.reading import TopicArchive
    from gapless_spark.archiving.restore.plan import Limits

_NO_HEADERS: tuple[Header, ...] = ()
_END = object()
_NOT_THERE = "The archive does not have these offsets any more."


class Readable(NamedTuple):
    """Offsets that are behind us when the records are written."""

    ranges: OffsetRanges
    rows: pa.RecordBatch | None
    """``None`` when none of the offsets holds a record that is restored."""


class Unreadable(NamedTuple):
    """Offsets that cannot be read."""

    ranges: OffsetRanges
    reason: str


def read_ranges(
    archive: TopicArchive, partition: int, ranges: OffsetRanges, limits: Limits
) -> Iterator[Readable | Unreadable]:
    """Yield what the archive holds of `ranges`, ascending and without a hole.

    What a damaged row group had comes from another segment that covers the same offsets, if there is one; what is
    behind it is read all the same. A segment that was compacted meanwhile is looked up again.

    Raises:
        ArchiveDamagedError: a commit is missing or cannot be read.
        StoreUnreachableError: the store does not answer.
    """
    last: Unreadable | None = None
    for found in _Reading(archive, partition, limits).read(ranges, frozenset(), _NOT_THERE):
        if last is not None and isinstance(found, Unreadable) and found.reason == last.reason:
            last = Unreadable(last.ranges | found.ranges, last.reason)
            continue
        if last is not None:
            yield last
        last = found if isinstance(found, Unreadable) else None
        if isinstance(found, Readable):
            yield found
    if last is not None:
        yield last


class _Reading:
    """Reads one partition of an archive."""

    def __init__(self, archive: TopicArchive, partition: int, limits: Limits) -> None:
        self._archive, self._partition, self._limits = archive, partition, limits

    def read(self, ranges: OffsetRanges, without: frozenset[str], reason: str) -> Iterator[Readable | Unreadable]:
        """Read `ranges`, but not from the objects `without`; `reason` is why no segment has an offset."""
        left = ranges
        while left:
            state = self._archive.state
            for piece in self._archive.pieces(self._partition, left, without=without):
                before = left.clip(0, piece.offsets.first_offset - 1)
                if before:
                    yield Unreadable(before, reason)
                    left -= before
                for found in self._piece(piece, without):
                    yield found
                    left = left.clip(found.ranges.last_offset + 1, ranges.last_offset)
                if self._archive.state is not state:
                    break  # other segments have these offsets now
            else:
                if left:
                    yield Unreadable(left, reason)
                return

    def _piece(self, piece: Piece, without: frozenset[str]) -> Iterator[Readable | Unreadable]:
        """Read a piece, or the beginning of one when the archive has other segments now."""
        segment, left = piece.segment, piece.offsets
        while left:
            try:
                for found in _piece(self._archive, Piece(segment, left), self._limits):
                    yield found
                    left = left.clip(found.ranges.last_offset + 1, piece.offsets.last_offset)
            except SegmentDamagedError as error:
                if self._archive.refresh(self._partition):
                    return
                records = left - absent_ranges(segment.absent)
                first = records.first_offset if records else left.last_offset + 1
                before = left.clip(0, first - 1)
                if before:
                    yield Readable(before, None)
                damaged = left.clip(first, _end_of_group(segment, first))
                yield from self.read(damaged, without | {segment.object}, str(error))
                left = left.clip(max(first, _end_of_group(segment, first) + 1), piece.offsets.last_offset)


def _end_of_group(segment: Segment, offset: int) -> int:
    """The last offset of the row group in which the first record from `offset` on is; that of the segment if none."""
    return next((group.last for group in segment.row_groups if group.last >= offset), segment.last)


def _piece(archive: TopicArchive, piece: Piece, limits: Limits) -> Iterator[Readable]:
    segment, first = piece.segment, piece.offsets.first_offset
    if not limits.leaves_out(segment):
        for rows in archive.read(piece):
            last = rows.column("offset")[-1].as_py()
            yield Readable(piece.offsets.clip(first, last), chosen(rows, limits))
            first = last + 1
    behind = piece.offsets.clip(first, piece.offsets.last_offset)
    if behind:
        yield Readable(behind, None)


def chosen(rows: pa.RecordBatch, limits: Limits) -> pa.RecordBatch | None:
    """The rows within the limits of time; ``None`` for none."""
    if limits.by_time:
        times = rows.column("timestamp")
        is_inside = pc.is_valid(times)
        if limits.since is not None:
            is_inside = pc.and_(is_inside, pc.greater_equal(times, limits.since))
        if limits.until is not None:
            is_inside = pc.and_(is_inside, pc.less(times, limits.until))
        rows = rows.filter(pc.fill_null(is_inside, fill_value=False))
    return rows if rows.num_rows else None


def columns_of(rows: pa.RecordBatch) -> Columns:
    """Rows of an archive as records to write."""
    offsets, timestamps, keys, values = (
        rows.column(name).to_pylist() for name in ("offset", "timestamp", "key", "value")
    )
    return Columns(offsets, timestamps, keys, values, _headers(rows.column("headers")))


def _headers(column: pa.ListArray) -> list[Sequence[Header]] | None:
    names, values = (part.to_pylist() for part in column.flatten().flatten())
    if not names:
        return None
    pairs = list(zip(names, values, strict=True))
    headers: list[Sequence[Header]] = []
    first = 0
    for count in pc.list_value_length(column).to_pylist():
        headers.append(pairs[first : first + count] if count else _NO_HEADERS)
        first += count
    return headers


def parts(found: Readable, most_records: int) -> Iterator[Readable]:
    """Divide records so that no part has more than `most_records`."""
    rows = found.rows
    if rows is None or rows.num_rows <= most_records:
        yield found
        return
    first = found.ranges.first_offset
    for number in range(0, rows.num_rows, most_records):
        some = rows.slice(number, most_records)
        is_last = number + most_records >= rows.num_rows
        last = found.ranges.last_offset if is_last else some.column("offset")[-1].as_py()
        yield Readable(found.ranges.clip(first, last), some)
        first = last + 1


class Prepared(NamedTuple):
    """Records that are ready to be written, and the offsets that are behind us then."""

    ranges: OffsetRanges
    columns: Columns | None
    """``None`` for no records."""
    bytes: int
    """As segments count them."""


def prepared(found: Iterator[Readable | Unreadable], most_records: int) -> Iterator[Prepared | Unreadable]:
    """Turn what was read into records, in parts of at most `most_records`; reading goes on while a part is written."""
    return _ahead(_prepared(found, most_records))


def _prepared(found: Iterator[Readable | Unreadable], most_records: int) -> Iterator[Prepared | Unreadable]:
    for each in found:
        if isinstance(each, Unreadable):
            yield each
            continue
        for ranges, rows in parts(each, most_records):
            if rows is None:
                yield Prepared(ranges, None, 0)
            else:
                yield Prepared(ranges, columns_of(rows), content_bytes(rows))


def _ahead(items: Iterator[Any]) -> Iterator[Any]:
    """Yield `items`, each of which is made in a thread while the one before is used."""
    with ThreadPoolExecutor(1, "read-ahead") as thread:
        coming = thread.submit(next, items, _END)
        while (item := coming.result()) is not _END:
            coming = thread.submit(next, items, _END)
            yield item
