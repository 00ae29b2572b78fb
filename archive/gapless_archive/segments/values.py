"""How offsets, timestamps and values of selected records are read from a segment, without keys and headers.

When few records of a row group are selected, only their pages are read; see `pages`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from gapless_archive.segments.pages import UnsupportedPagesError, read_values_at
from gapless_archive.segments.reader import ObjectReader, intersects, select_rows, slice_row_group
from gapless_archive.segments.rows import SCHEMA

if TYPE_CHECKING:
    from gapless_api.offsets.ranges import OffsetRanges
    from gapless_archive.catalog.entry import RowGroup, Segment
    from gapless_archive.store.places import Place

_BATCH_ROWS = 1000
_MIN_ROWS_PER_SELECTED = 16
"""Pages are read when the row group has at least so many rows for each selected one."""
_OFFSETS = pa.schema([SCHEMA.field(name) for name in ("partition", "offset")])
_POSITIONS = _OFFSETS.append(SCHEMA.field("timestamp"))
_VALUES = _POSITIONS.append(SCHEMA.field("value"))


class Values(NamedTuple):
    """Some records, by offset."""

    offsets: list[int]
    timestamps: list[int | None]
    """All ``None`` when timestamps were not requested."""
    values: list[bytes | None]


def read_segment_values(
    place: Place, segment: Segment, offsets: OffsetRanges, *, times: bool = True
) -> Iterator[Values]:
    """Yield the records of a segment at `offsets` in order, some at a time.

    Args:
        place: of the archive.
        segment: of the layout ``gapless``.
        offsets: those to read.
        times: whether timestamps are requested.

    Raises like `read_segment`.
    """
    groups = [group for group in segment.row_groups if intersects(offsets, group.first, group.last)]
    if not segment.records or not groups:
        return
    source = ObjectReader(place, segment.object)
    for group in groups:
        selected = offsets.clip(group.first, group.last)
        if selected.count * _MIN_ROWS_PER_SELECTED <= group.rows:
            values = _read_pages(source, segment, group, selected, times=times)
            if values is not None:
                yield values
                continue
        rows = slice_row_group(source, segment, group, source.read_row_group(group.number, _VALUES))
        rows = select_rows(rows, selected)
        for start in range(0, rows.num_rows, _BATCH_ROWS):
            batch = rows.slice(start, _BATCH_ROWS)
            yield Values(*(batch.column(name).to_pylist() for name in ("offset", "timestamp", "value")))


def _read_pages(
    source: ObjectReader, segment: Segment, group: RowGroup, selected: OffsetRanges, *, times: bool
) -> Values | None:
    """Read the values from their pages; ``None`` when the row group must be read completely."""
    try:
        column = source.locate_column("value", group.number)
    except UnsupportedPagesError:
        return None
    is_dense = group.rows == group.last - group.first + 1
    if is_dense and not times and source.has_offsets(group):
        offsets: Sequence[int] = range(group.first, group.last + 1)
        timestamps: pa.Array | None = None
    else:
        positions = slice_row_group(
            source, segment, group, source.read_row_group(group.number, _POSITIONS if times else _OFFSETS)
        )
        offsets = positions.column("offset").to_pylist()
        timestamps = positions.column("timestamp") if times else None
    indexes = [
        index
        for first, last in selected
        for index in range(bisect_left(offsets, first), bisect_left(offsets, last + 1))
    ]
    rows = [group.first_row + index for index in indexes]
    try:
        values = read_values_at(source.read_ranges, column, rows) if rows else []
    except UnsupportedPagesError:
        return None
    return Values(
        [offsets[index] for index in indexes],
        [None if timestamps is None else timestamps[index].as_py() for index in indexes],
        values,
    )
