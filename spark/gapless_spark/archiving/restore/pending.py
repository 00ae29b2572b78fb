"""The records of a source partition that wait for a transaction, and the position after a part of them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.offsets.ranges import OffsetRanges, RangesBuilder
from gapless_archive.segments.rows import RECORD_BYTES
from gapless_kafka.writing.portions import Columns

if TYPE_CHECKING:
    from gapless_kafka.writing.positions import Position

NO_RECORDS = Columns((), (), (), ())


class Batch(NamedTuple):
    """Offsets to complete after a position, and their records."""

    before: Position
    ranges: OffsetRanges
    columns: Columns
    bytes: int
    """Of the records, counted as in segments."""
    lost: OffsetRanges
    """Those of the offsets that cannot be read, and are skipped."""
    reason: str
    """Why they cannot be read; empty for none."""

    @property
    def records(self) -> int:
        """How many records there are."""
        return len(self.columns.offsets)

    @property
    def after(self) -> Position:
        """The position after the batch."""
        return self.before.advance(self.ranges, records=self.records, size=self.bytes, lost=self.lost.count)

    def first(self, count: int) -> Batch:
        """Return the first `count` records, with all offsets before the record that follows them."""
        if count >= self.records:
            return self
        end = self.columns.offsets[count] - 1
        return self._part(slice(count), self.before, self.ranges.first_offset, end)

    def rest(self, count: int, before: Position) -> Batch | None:
        """Return what follows `first`, after the position that was reached with it; ``None`` for nothing."""
        if count >= self.records:
            return None
        return self._part(slice(count, None), before, self.columns.offsets[count], self.ranges.last_offset)

    def without_records(self) -> Batch:
        """Return the same offsets, as if they had no records."""
        return self._replace(columns=NO_RECORDS, bytes=0)

    def _part(self, chosen: slice, before: Position, first: int, last: int) -> Batch:
        columns = self.columns
        part = Columns(
            columns.offsets[chosen],
            columns.timestamps[chosen],
            columns.keys[chosen],
            columns.values[chosen],
            None if columns.headers is None else columns.headers[chosen],
        )
        lost = self.lost.clip(first, last)
        return Batch(before, self.ranges.clip(first, last), part, record_bytes(part), lost, self.reason if lost else "")


class Pending:
    """Collects the next batch of a partition."""

    def __init__(self, before: Position) -> None:
        """`before` is the position before the batch."""
        self._before = before
        self._ranges, self._lost = RangesBuilder(), RangesBuilder()
        self._columns: list[Columns] = []
        self._bytes = 0
        self._reason = ""

    def add(self, ranges: OffsetRanges, columns: Columns | None = None, size: int = 0) -> None:
        """Add offsets that follow all others, and their records of `size` bytes."""
        for first, last in ranges:
            self._ranges.add(first, last)
        if columns is not None:
            self._columns.append(columns)
            self._bytes += size

    def add_lost(self, ranges: OffsetRanges, reason: str) -> None:
        """Add offsets that cannot be read, and are skipped."""
        self.add(ranges)
        for first, last in ranges:
            self._lost.add(first, last)
        self._reason = reason

    def batch(self) -> Batch:
        """Return everything that was added."""
        columns = concat_columns(self._columns)
        return Batch(self._before, self._ranges.build(), columns, self._bytes, self._lost.build(), self._reason)


def concat_columns(columns: Sequence[Columns]) -> Columns:
    """Concatenate records of one partition."""
    if len(columns) == 1:
        return columns[0]
    headers = None
    if any(part.headers is not None for part in columns):
        headers = [pairs for part in columns for pairs in (part.headers or [()] * len(part.offsets))]
    return Columns(
        [offset for part in columns for offset in part.offsets],
        [time for part in columns for time in part.timestamps],
        [key for part in columns for key in part.keys],
        [value for part in columns for value in part.values],
        headers,
    )


def record_bytes(columns: Columns) -> int:
    """Return the size of records, counted as in segments."""
    size = RECORD_BYTES * len(columns.offsets)
    size += sum(len(part) for parts in (columns.keys, columns.values) for part in parts if part)
    for pairs in columns.headers or ():
        size += sum(len(key) + len(value or b"") for key, value in pairs)
    return size
