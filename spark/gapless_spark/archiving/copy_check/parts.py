"""Owns what makes two records alike: which columns are compared, and which rows of two batches differ in what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_archive.segments.rows import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from gapless_api.wire.copy_report import Part

COLUMNS: dict[Part, int] = {
    "key": SCHEMA.get_field_index("key"),
    "value": SCHEMA.get_field_index("value"),
    "headers": SCHEMA.get_field_index("headers"),
    "timestamp": SCHEMA.get_field_index("timestamp"),
    "timestampType": SCHEMA.get_field_index("timestamp_type"),
}
"""Where each part of a record stands among the columns of a segment."""
_FEW = 32


def alike(a: pa.RecordBatch, b: pa.RecordBatch, parts: Sequence[Part]) -> bool:
    """Whether all rows are alike in `parts`; there are as many of both."""
    return all(a.column(COLUMNS[part]).equals(b.column(COLUMNS[part])) for part in parts)


def first_unlike(a: pa.RecordBatch, b: pa.RecordBatch, parts: Sequence[Part]) -> int:
    """The index of the first row that is not alike in `parts`; the count of rows when there is none."""
    low, high = 0, a.num_rows
    while low < high:
        middle = (low + high) // 2
        count = middle - low + 1
        if alike(a.slice(low, count), b.slice(low, count), parts):
            low = middle + 1
        else:
            high = middle
    return low


def unlike_rows(a: pa.RecordBatch, b: pa.RecordBatch, parts: Sequence[Part]) -> dict[int, tuple[Part, ...]]:
    """In what the rows that are not alike differ, by their index, ascending; there are as many of both."""
    found: dict[int, list[Part]] = {}
    for part in parts:
        for row in _unlike(a.column(COLUMNS[part]), b.column(COLUMNS[part]), 0):
            found.setdefault(row, []).append(part)
    return {row: tuple(found[row]) for row in sorted(found)}


def _unlike(a: pa.Array, b: pa.Array, at: int) -> Iterator[int]:
    if a.equals(b):
        return
    count = len(a)
    if count <= _FEW:
        yield from (at + row for row, (one, other) in enumerate(zip(a, b, strict=True)) if not one.equals(other))
        return
    half = count // 2
    yield from _unlike(a.slice(0, half), b.slice(0, half), at)
    yield from _unlike(a.slice(half), b.slice(half), at + half)
