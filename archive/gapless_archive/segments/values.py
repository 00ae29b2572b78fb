"""Owns how offsets, timestamps and values of chosen records come out of a segment, without keys and headers.

Of a row group from which few records are wanted only the pages that hold them are read; see `pages`.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from gapless_archive.segments.pages import OtherPagesError, values_at
from gapless_archive.segments.reader import ObjectReader, has_any, part_of, picked
from gapless_archive.segments.rows import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gapless_api.offsets.ranges import OffsetRanges
    from gapless_archive.catalog.entry import RowGroup, Segment
    from gapless_archive.store.places import Place

_ROWS_AT_ONCE = 1000
_FEW = 16
"""One row in so many, or fewer, are few."""
_OFFSETS = pa.schema([SCHEMA.field(name) for name in ("partition", "offset")])
_POSITIONS = _OFFSETS.append(SCHEMA.field("timestamp"))
_ALL = _POSITIONS.append(SCHEMA.field("value"))


class Values(NamedTuple):
    """Some records, by offset."""

    offsets: list[int]
    timestamps: list[int | None]
    """All null where they were not needed."""
    values: list[bytes | None]


def read_values(place: Place, segment: Segment, wanted: OffsetRanges, *, times: bool = True) -> Iterator[Values]:
    """Yield the records of a segment at `wanted` in their order, some at a time.

    Args:
        place: of the archive.
        segment: of the layout ``gapless``.
        wanted: the offsets to read.
        times: whether timestamps are needed.

    Raises like `read_segment`.
    """
    groups = [group for group in segment.row_groups if has_any(wanted, group.first, group.last)]
    if not segment.records or not groups:
        return
    source = ObjectReader(place, segment.object)
    for group in groups:
        chosen = wanted.clip(group.first, group.last)
        found = _few(source, segment, group, chosen, times=times) if chosen.count * _FEW <= group.rows else None
        if found is not None:
            yield found
            continue
        rows = picked(part_of(source, segment, group, source.rows(group.number, _ALL)), chosen)
        for start in range(0, rows.num_rows, _ROWS_AT_ONCE):
            some = rows.slice(start, _ROWS_AT_ONCE)
            yield Values(*(some.column(name).to_pylist() for name in ("offset", "timestamp", "value")))


def _few(
    source: ObjectReader, segment: Segment, group: RowGroup, wanted: OffsetRanges, *, times: bool
) -> Values | None:
    """Read few records by their pages; ``None`` when the row group must be read completely."""
    try:
        column = source.column("value", group.number)
    except OtherPagesError:
        return None
    is_dense = group.rows == group.last - group.first + 1
    if is_dense and not times and source.has_offsets(group):
        offsets: Sequence[int] = range(group.first, group.last + 1)
        timestamps: pa.Array | None = None
    else:
        positions = part_of(source, segment, group, source.rows(group.number, _POSITIONS if times else _OFFSETS))
        offsets = positions.column("offset").to_pylist()
        timestamps = positions.column("timestamp") if times else None
    numbers = [
        number
        for first, last in wanted
        for number in range(bisect_left(offsets, first), bisect_left(offsets, last + 1))
    ]
    try:
        values = values_at(source.parts, column, [group.first_row + number for number in numbers]) if numbers else []
    except OtherPagesError:
        return None
    return Values(
        [offsets[number] for number in numbers],
        [None if timestamps is None else timestamps[number].as_py() for number in numbers],
        values,
    )
