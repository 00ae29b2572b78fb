"""Owns one copy's records while they are compared: read a batch at a time, counted and digested as they are taken.

Must not know what they are compared with, nor where they come from.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from gapless_api.wire.copy_report import DigestedRange, TimestampTypes
from gapless_archive.segments.digest import ContentDigest
from gapless_archive.segments.rows import CREATE_TIME, LOG_APPEND_TIME, SCHEMA
from gapless_spark.archiving.copy_check.findings import Unreadable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from gapless_api.wire.copy_report import Alignment, Part

RANGE = 100_000
"""Records of a digested range with alignment by order; by offsets, offsets."""


class Meter:
    """Counts and digests the records of one copy of a partition."""

    def __init__(self, alignment: Alignment) -> None:
        """Begin with no record; `alignment` decides where ranges end."""
        self._by_offsets = alignment == "offsets"
        self.records = 0
        self._create_time = self._log_append_time = 0
        self._ranges: list[DigestedRange] = []
        self._digest = ContentDigest()
        self._first = self._last = self._in_range = 0

    def take(self, rows: pa.RecordBatch) -> None:
        """Take the next records."""
        self.records += rows.num_rows
        kinds = rows.column("timestamp_type")
        self._create_time += pc.sum(pc.equal(kinds, CREATE_TIME)).as_py() or 0
        self._log_append_time += pc.sum(pc.equal(kinds, LOG_APPEND_TIME)).as_py() or 0
        while rows.num_rows:
            if self._by_offsets and self._in_range and offset_at(rows, 0) // RANGE != self._first // RANGE:
                self._end()
            count = self._fitting(rows)
            part, rows = rows.slice(0, count), rows.slice(count)
            if not self._in_range:
                self._first = offset_at(part, 0)
            self._last = offset_at(part, count - 1)
            self._in_range += count
            self._digest.update(part)
            if not self._by_offsets and self._in_range == RANGE:
                self._end()

    def ranges(self) -> tuple[DigestedRange, ...]:
        """The ranges so far, the last of which ends with the last record."""
        if self._in_range:
            self._end()
        return tuple(self._ranges)

    def timestamp_types(self) -> TimestampTypes:
        """How many records have which type of timestamp."""
        none = self.records - self._create_time - self._log_append_time
        return TimestampTypes(create_time=self._create_time, log_append_time=self._log_append_time, none=none)

    def _fitting(self, rows: pa.RecordBatch) -> int:
        """How many of the first rows belong to the range that is being digested; one at least."""
        count: int = rows.num_rows
        if not self._by_offsets:
            return min(RANGE - self._in_range, count)
        end = (offset_at(rows, 0) // RANGE + 1) * RANGE
        return count if offset_at(rows, -1) < end else count_up_to(rows, end - 1)

    def _end(self) -> None:
        self._ranges.append(
            DigestedRange(first=self._first, last=self._last, records=self._in_range, digest=self._digest.text())
        )
        self._digest, self._in_range = ContentDigest(), 0


class Stream:
    """One copy's records. What is taken is counted; what is skipped is not."""

    def __init__(self, items: Iterable[pa.RecordBatch | Unreadable], meter: Meter, ignored: Collection[Part]) -> None:
        """Begin before the first record.

        Args:
            items: rows of the segments' schema by ascending offsets, and offsets that cannot be read in their place.
            meter: counts what is taken.
            ignored: what of the records does not count, and is taken for absent.
        """
        self._items: Iterator[pa.RecordBatch | Unreadable] = iter(items)
        self._meter = meter
        self._ignored = ignored
        self._hidden: list[tuple[int, int]] = []
        self.rows: pa.RecordBatch = _NO_ROWS
        """What was read and not taken yet."""
        self.gap: Unreadable | None = None
        """Offsets that cannot be read and come next."""
        self.is_ended = False

    def load(self) -> None:
        """Read until there are rows or a gap, or the end."""
        while not (self.rows.num_rows or self.gap or self.is_ended):
            found = next(self._items, None)
            if found is None:
                self.is_ended = True
            elif isinstance(found, Unreadable):
                self.gap = found
            else:
                self.rows = self._visible(masked(found, self._ignored))

    def take(self, count: int) -> pa.RecordBatch:
        """Take the next `count` of the rows that were read."""
        taken, self.rows = self.rows.slice(0, count), self.rows.slice(count)
        self._meter.take(taken)
        return taken

    def skip(self, count: int) -> None:
        """Pass over the next `count` records, or all there are."""
        while count:
            self.load()
            if self.gap is not None or self.is_ended:
                return
            passed = min(count, self.rows.num_rows)
            self.rows = self.rows.slice(passed)
            count -= passed

    def hide(self, first: int, last: int) -> None:
        """Pass over the records at these offsets, both inclusive, when they come."""
        self._hidden.append((first, last))
        self.rows = self._visible(self.rows)

    def pass_gap(self) -> None:
        """Go on behind the gap."""
        self.gap = None

    def _visible(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        for first, last in self._hidden:
            if rows.num_rows and offset_at(rows, 0) <= last and first <= offset_at(rows, -1):
                offsets = rows.column("offset")
                rows = rows.filter(pc.or_(pc.less(offsets, first), pc.greater(offsets, last)))
        return rows


def masked(rows: pa.RecordBatch, ignored: Collection[Part]) -> pa.RecordBatch:
    """The rows without what is ignored: no timestamps, or no headers."""
    columns: list[pa.Array] = list(rows.columns)
    for part in ignored:
        name = "timestamp" if part == "timestamp" else part
        index = SCHEMA.get_field_index(name)
        kind = SCHEMA.field(index).type
        columns[index] = pa.array([[]] * rows.num_rows, kind) if part == "headers" else pa.nulls(rows.num_rows, kind)
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA) if ignored else rows


def digest_of(ranges: Sequence[DigestedRange]) -> str:
    """The digest of a partition: of the count and digest of each range."""
    total = hashlib.sha256()
    for each in ranges:
        total.update(each.records.to_bytes(8, "little") + bytes.fromhex(each.digest.removeprefix("sha256:")))
    return f"sha256:{total.hexdigest()}"


def offset_at(rows: pa.RecordBatch, index: int) -> int:
    """The offset of a row; a negative index counts from the end."""
    place = index if index >= 0 else rows.num_rows + index
    offset: int = rows.column("offset")[place].as_py()
    return offset


def count_up_to(rows: pa.RecordBatch, last: int) -> int:
    """How many of the rows, which ascend, have an offset of at most `last`."""
    count: int = pc.sum(pc.less_equal(rows.column("offset"), last)).as_py() or 0
    return count


_NO_ROWS = pa.RecordBatch.from_pylist([], schema=SCHEMA)
