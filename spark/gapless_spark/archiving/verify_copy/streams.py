"""The records of one copy during a comparison: read in batches, counted and digested when they are taken.

Must not know the other copy, nor where records come from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from gapless_api.wire.copy_report import Alignment, DigestedRange, Part, TimestampTypes
from gapless_archive.segments.digest import ContentDigest
from gapless_archive.segments.rows import CREATE_TIME, HEADERS, LOG_APPEND_TIME, SCHEMA
from gapless_spark.archiving.verify_copy.findings import Unreadable

Masked = Part | Literal["nullAsEmpty"]
RANGE = 100_000
"""The size of a digested range: in records with alignment by order, in offsets with alignment by offsets."""


class Meter:
    """Counts and digests the records of one copy of a partition."""

    def __init__(self, alignment: Alignment) -> None:
        """Start without records; `alignment` determines where ranges end."""
        self._by_offsets = alignment == "offsets"
        self.records = 0
        self._create_time = self._log_append_time = 0
        self._ranges: list[DigestedRange] = []
        self._digest = ContentDigest()
        self._first = self._last = self._in_range = 0

    def take(self, rows: pa.RecordBatch) -> None:
        """Add the next records."""
        self.records += rows.num_rows
        kinds = rows.column("timestamp_type")
        self._create_time += pc.sum(pc.equal(kinds, CREATE_TIME)).as_py() or 0
        self._log_append_time += pc.sum(pc.equal(kinds, LOG_APPEND_TIME)).as_py() or 0
        while rows.num_rows:
            if self._by_offsets and self._in_range and offset_at(rows, 0) // RANGE != self._first // RANGE:
                self._close_range()
            count = self._rows_in_range(rows)
            part, rows = rows.slice(0, count), rows.slice(count)
            if not self._in_range:
                self._first = offset_at(part, 0)
            self._last = offset_at(part, count - 1)
            self._in_range += count
            self._digest.update(part)
            if not self._by_offsets and self._in_range == RANGE:
                self._close_range()

    def ranges(self) -> tuple[DigestedRange, ...]:
        """Return the ranges so far; the last one ends with the last record."""
        if self._in_range:
            self._close_range()
        return tuple(self._ranges)

    def timestamp_types(self) -> TimestampTypes:
        """Return the number of records by timestamp type."""
        none = self.records - self._create_time - self._log_append_time
        return TimestampTypes(create_time=self._create_time, log_append_time=self._log_append_time, none=none)

    def _rows_in_range(self, rows: pa.RecordBatch) -> int:
        """Return how many of the first rows belong to the current range; at least one."""
        count: int = rows.num_rows
        if not self._by_offsets:
            return min(RANGE - self._in_range, count)
        end = (offset_at(rows, 0) // RANGE + 1) * RANGE
        return count if offset_at(rows, -1) < end else count_up_to(rows, end - 1)

    def _close_range(self) -> None:
        self._ranges.append(
            DigestedRange(first=self._first, last=self._last, records=self._in_range, digest=self._digest.text())
        )
        self._digest, self._in_range = ContentDigest(), 0


class Stream:
    """The records of one copy. Records that are taken are counted; those that are skipped are not."""

    def __init__(self, items: Iterable[pa.RecordBatch | Unreadable], meter: Meter, ignored: Collection[Masked]) -> None:
        """Start before the first record.

        Args:
            items: rows in the schema of segments by ascending offsets, with unreadable offsets in between.
            meter: counts the records that are taken.
            ignored: the parts of records that are treated as absent, and whether null is treated as empty.
        """
        self._items: Iterator[pa.RecordBatch | Unreadable] = iter(items)
        self._meter = meter
        self._ignored = ignored
        self._hidden: list[tuple[int, int]] = []
        self.rows: pa.RecordBatch = _NO_ROWS
        """The rows that were read but not taken yet."""
        self.gap: Unreadable | None = None
        """Unreadable offsets that come next."""
        self.is_ended = False

    def load(self) -> None:
        """Read until there are rows, or a gap, or the end."""
        while not (self.rows.num_rows or self.gap or self.is_ended):
            item = next(self._items, None)
            if item is None:
                self.is_ended = True
            elif isinstance(item, Unreadable):
                self.gap = item
            else:
                self.rows = self._visible(mask_columns(item, self._ignored))

    def take(self, count: int) -> pa.RecordBatch:
        """Take the next `count` of the rows that were read."""
        taken, self.rows = self.rows.slice(0, count), self.rows.slice(count)
        self._meter.take(taken)
        return taken

    def skip(self, count: int) -> None:
        """Skip the next `count` records, or up to the next gap or the end."""
        while count:
            self.load()
            if self.gap is not None or self.is_ended:
                return
            skipped = min(count, self.rows.num_rows)
            self.rows = self.rows.slice(skipped)
            count -= skipped

    def hide(self, first: int, last: int) -> None:
        """Skip the records at these offsets, both inclusive."""
        self._hidden.append((first, last))
        self.rows = self._visible(self.rows)

    def pass_gap(self) -> None:
        """Continue after the gap."""
        self.gap = None

    def _visible(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        for first, last in self._hidden:
            if rows.num_rows and offset_at(rows, 0) <= last and first <= offset_at(rows, -1):
                offsets = rows.column("offset")
                rows = rows.filter(pc.or_(pc.less(offsets, first), pc.greater(offsets, last)))
        return rows


def mask_columns(rows: pa.RecordBatch, ignored: Collection[Masked]) -> pa.RecordBatch:
    """Return the rows without timestamps, or without headers, or with empty instead of null, if these are ignored."""
    columns: list[pa.Array] = list(rows.columns)
    for part in ignored:
        if part == "nullAsEmpty":
            for index in (SCHEMA.get_field_index("key"), SCHEMA.get_field_index("value")):
                columns[index] = columns[index].fill_null(b"")
            index = SCHEMA.get_field_index("headers")
            columns[index] = _fill_header_values(columns[index])
            continue
        name = "timestamp" if part == "timestamp" else part
        index = SCHEMA.get_field_index(name)
        kind = SCHEMA.field(index).type
        columns[index] = pa.array([[]] * rows.num_rows, kind) if part == "headers" else pa.nulls(rows.num_rows, kind)
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA) if ignored else rows


def _fill_header_values(headers: pa.ListArray[Any]) -> pa.Array[Any]:
    """Return headers with empty values instead of null."""
    ends = pc.cumulative_sum(pc.list_value_length(headers))
    every = headers.flatten()
    filled = pa.StructArray.from_arrays(
        [every.field("key"), every.field("value").fill_null(b"")], fields=list(HEADERS.value_type)
    )
    bounds = pa.concat_arrays([pa.array([0], pa.int32()), ends.cast(pa.int32())])
    return pa.ListArray.from_arrays(bounds, filled, type=HEADERS)


def digest_of(ranges: Sequence[DigestedRange]) -> str:
    """Return the digest of a partition, computed from the count and digest of each range."""
    total = hashlib.sha256()
    for digested in ranges:
        total.update(digested.records.to_bytes(8, "little") + bytes.fromhex(digested.digest.removeprefix("sha256:")))
    return f"sha256:{total.hexdigest()}"


def offset_at(rows: pa.RecordBatch, index: int) -> int:
    """Return the offset of a row; a negative index counts from the end."""
    row = index if index >= 0 else rows.num_rows + index
    offset: int = rows.column("offset")[row].as_py()
    return offset


def count_up_to(rows: pa.RecordBatch, last: int) -> int:
    """Return how many of the rows, which are in ascending order, have an offset up to `last`."""
    count: int = pc.sum(pc.less_equal(rows.column("offset"), last)).as_py() or 0
    return count


_NO_ROWS = pa.RecordBatch.from_pylist([], schema=SCHEMA)
