"""The comparison of rows: which columns are compared, and which rows of two batches differ in which parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gapless_archive.segments.rows import SCHEMA

if TYPE_CHECKING:
    import pyarrow as pa

    from gapless_api.wire.copy_report import Part

COLUMNS: dict[Part, int] = {
    "key": SCHEMA.get_field_index("key"),
    "value": SCHEMA.get_field_index("value"),
    "headers": SCHEMA.get_field_index("headers"),
    "timestamp": SCHEMA.get_field_index("timestamp"),
    "timestampType": SCHEMA.get_field_index("timestamp_type"),
}
"""The column of each part of a record in a segment."""
_FEW = 32


def rows_equal(a: pa.RecordBatch, b: pa.RecordBatch, parts: Sequence[Part]) -> bool:
    """Whether all rows of two batches of equal length are equal in `parts`."""
    return all(a.column(COLUMNS[part]).equals(b.column(COLUMNS[part])) for part in parts)


def first_different_row(a: pa.RecordBatch, b: pa.RecordBatch, parts: Sequence[Part]) -> int:
    """Return the index of the first row that differs in `parts`; the number of rows if none does."""
    low, high = 0, a.num_rows
    while low < high:
        middle = (low + high) // 2
        count = middle - low + 1
        if rows_equal(a.slice(low, count), b.slice(low, count), parts):
            low = middle + 1
        else:
            high = middle
    return low


def different_rows(a: pa.RecordBatch, b: pa.RecordBatch, parts: Sequence[Part]) -> dict[int, tuple[Part, ...]]:
    """Return the parts in which rows of two batches of equal length differ, by index, ascending."""
    found: dict[int, list[Part]] = {}
    for part in parts:
        for row in _different_rows(a.column(COLUMNS[part]), b.column(COLUMNS[part]), 0):
            found.setdefault(row, []).append(part)
    return {row: tuple(found[row]) for row in sorted(found)}


def _different_rows(a: pa.Array, b: pa.Array, at: int) -> Iterator[int]:
    if a.equals(b):
        return
    count = len(a)
    if count <= _FEW:
        yield from (at + row for row, (in_a, in_b) in enumerate(zip(a, b, strict=True)) if not in_a.equals(in_b))
        return
    half = count // 2
    yield from _different_rows(a.slice(0, half), b.slice(0, half), at)
    yield from _different_rows(a.slice(half), b.slice(half), at + half)
