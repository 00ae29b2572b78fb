"""How offsets of an archive become records to write: in order, each once, with unreadable offsets in between.

Must not know how records are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from gapless_archive.catalog.entry import absent_ranges
from gapless_archive.reading import Piece, TopicArchive
from gapless_archive.segments.reader import SegmentDamagedError
from gapless_archive.segments.rows import content_bytes
from gapless_kafka.writing.portions import Columns

if TYPE_CHECKING:
    from gapless_api.offsets.ranges import OffsetRanges
    from gapless_kafka.reading.headers import Header
    from gapless_spark.archiving.restore.plan import Limits

_NO_HEADERS: tuple[Header, ...] = ()
_END = object()
_NOT_ARCHIVED = "The archive no longer holds these offsets."


class Readable(NamedTuple):
    """Offsets that are done once their records are written."""

    ranges: OffsetRanges
    rows: pa.RecordBatch | None
    """``None`` if none of the offsets has a record to restore."""


class Unreadable(NamedTuple):
    """Offsets that cannot be read."""

    ranges: OffsetRanges
    reason: str


def read_ranges(
    archive: TopicArchive, partition: int, ranges: OffsetRanges, limits: Limits
) -> Iterator[Readable | Unreadable]:
    """Yield the content of the archive for all of `ranges`, ascending.

    The offsets of a damaged row group are read from another segment that covers them, if there is one, and reading
    continues after the row group. If a segment was compacted meanwhile, its offsets are looked up again.

    Raises:
        ArchiveDamagedError: a commit is missing or cannot be read.
        StoreUnreachableError: the store does not answer.
    """
    last: Unreadable | None = None
    for item in _PartitionReader(archive, partition, limits).read(ranges, frozenset(), _NOT_ARCHIVED):
        if last is not None and isinstance(item, Unreadable) and item.reason == last.reason:
            last = Unreadable(last.ranges | item.ranges, last.reason)
            continue
        if last is not None:
            yield last
        last = item if isinstance(item, Unreadable) else None
        if isinstance(item, Readable):
            yield item
    if last is not None:
        yield last


class _PartitionReader:
    """Reads one partition of an archive."""

    def __init__(self, archive: TopicArchive, partition: int, limits: Limits) -> None:
        self._archive, self._partition, self._limits = archive, partition, limits

    def read(self, ranges: OffsetRanges, without: frozenset[str], reason: str) -> Iterator[Readable | Unreadable]:
        """Read `ranges`, but not from the objects `without`; `reason` is why no segment covers an offset."""
        remaining = ranges
        while remaining:
            state = self._archive.state
            for piece in self._archive.pieces(self._partition, remaining, without=without):
                before = remaining.clip(0, piece.offsets.first_offset - 1)
                if before:
                    yield Unreadable(before, reason)
                    remaining -= before
                for item in self._read_piece(piece, without):
                    yield item
                    remaining = remaining.clip(item.ranges.last_offset + 1, ranges.last_offset)
                if self._archive.state is not state:
                    break  # other segments cover these offsets now
            else:
                if remaining:
                    yield Unreadable(remaining, reason)
                return

    def _read_piece(self, piece: Piece, without: frozenset[str]) -> Iterator[Readable | Unreadable]:
        """Read a piece, or only its beginning if the segments of the archive have changed."""
        segment, remaining = piece.segment, piece.offsets
        while remaining:
            try:
                for item in _read_piece(self._archive, Piece(segment, remaining), self._limits):
                    yield item
                    remaining = remaining.clip(item.ranges.last_offset + 1, piece.offsets.last_offset)
            except SegmentDamagedError as error:
                if self._archive.refresh(self._partition):
                    return
                records = remaining - absent_ranges(segment.absent)
                first = records.first_offset if records else remaining.last_offset + 1
                before = remaining.clip(0, first - 1)
                if before:
                    yield Readable(before, None)
                end = segment.row_group_end(first)
                damaged = remaining.clip(first, end)
                yield from self.read(damaged, without | {segment.object}, str(error))
                remaining = remaining.clip(max(first, end + 1), piece.offsets.last_offset)


def _read_piece(archive: TopicArchive, piece: Piece, limits: Limits) -> Iterator[Readable]:
    segment, first = piece.segment, piece.offsets.first_offset
    if not limits.excludes_segment(segment):
        for rows in archive.read(piece):
            last = rows.column("offset")[-1].as_py()
            yield Readable(piece.offsets.clip(first, last), filter_by_time(rows, limits))
            first = last + 1
    rest = piece.offsets.clip(first, piece.offsets.last_offset)
    if rest:
        yield Readable(rest, None)


def filter_by_time(rows: pa.RecordBatch, limits: Limits) -> pa.RecordBatch | None:
    """Return the rows within the time limits; ``None`` if there are none."""
    if limits.by_time:
        times = rows.column("timestamp")
        is_inside = pc.is_valid(times)
        if limits.since is not None:
            is_inside = pc.and_(is_inside, pc.greater_equal(times, limits.since))
        if limits.until is not None:
            is_inside = pc.and_(is_inside, pc.less(times, limits.until))
        rows = rows.filter(pc.fill_null(is_inside, fill_value=False))
    return rows if rows.num_rows else None


def to_columns(rows: pa.RecordBatch) -> Columns:
    """Convert rows of an archive to records to write."""
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


def split_records(item: Readable, max_records: int) -> Iterator[Readable]:
    """Divide records into parts of at most `max_records`."""
    rows = item.rows
    if rows is None or rows.num_rows <= max_records:
        yield item
        return
    first = item.ranges.first_offset
    for number in range(0, rows.num_rows, max_records):
        part = rows.slice(number, max_records)
        is_last = number + max_records >= rows.num_rows
        last = item.ranges.last_offset if is_last else part.column("offset")[-1].as_py()
        yield Readable(item.ranges.clip(first, last), part)
        first = last + 1


class Prepared(NamedTuple):
    """Records that are ready to be written, and the offsets that are done after that."""

    ranges: OffsetRanges
    columns: Columns | None
    """``None`` for no records."""
    bytes: int
    """Counted as in segments."""


def prepare_records(items: Iterator[Readable | Unreadable], max_records: int) -> Iterator[Prepared | Unreadable]:
    """Turn rows into records, in parts of at most `max_records`; the next part is read while one is written."""
    return _read_ahead(_prepare(items, max_records))


def _prepare(items: Iterator[Readable | Unreadable], max_records: int) -> Iterator[Prepared | Unreadable]:
    for item in items:
        if isinstance(item, Unreadable):
            yield item
            continue
        for ranges, rows in split_records(item, max_records):
            if rows is None:
                yield Prepared(ranges, None, 0)
            else:
                yield Prepared(ranges, to_columns(rows), content_bytes(rows))


def _read_ahead(items: Iterator[Any]) -> Iterator[Any]:
    """Yield `items`; a thread computes the next one while the caller uses the current one."""
    with ThreadPoolExecutor(1, "read-ahead") as thread:
        upcoming = thread.submit(next, items, _END)
        while (item := upcoming.result()) is not _END:
            upcoming = thread.submit(next, items, _END)
            yield item
