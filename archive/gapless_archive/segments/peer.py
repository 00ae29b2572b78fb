"""Owns how records come out of a segment in the layout of kafka-replicator: checked against its key, a few at a time.

What the layout does not store stays unknown: null is empty, and there is no type of a timestamp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from gapless_archive.catalog.peer_keys import key_of
from gapless_archive.segments.reader import ObjectReader, has_any, picked
from gapless_archive.segments.rows import HEADERS, SCHEMA
from gapless_archive.segments.values import Values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gapless_api.offsets.ranges import OffsetRanges
    from gapless_archive.catalog.entry import Segment
    from gapless_archive.catalog.peer_keys import PeerKey
    from gapless_archive.store.places import Place

_COLUMNS = ("offset", "timestamp", "key", "value", "headers")
_VALUE_COLUMNS = ("offset", "timestamp", "value")
_NANOSECONDS = 1_000_000
"""Of a millisecond."""
_BYTES_AT_ONCE = 4 * 1024 * 1024
_MOST_ROWS_AT_ONCE = 10_000


def read_peer_segment(place: Place, segment: Segment, wanted: OffsetRanges | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the records of a segment in their order, as rows of `SCHEMA`, some at a time.

    Args:
        place: of the archive.
        segment: of the layout ``kafka-replicator``.
        wanted: the offsets to read; ``None`` for all.

    Raises:
        SegmentDamagedError: the object is missing, damaged, or another one than its key says.
        StoreUnreachableError: the store does not answer.
    """
    for source, found in _parts(place, segment, wanted, _COLUMNS):
        count = found.num_rows
        times = found.column("timestamp")
        try:
            headers = _headers(found.column("headers"))
        except (pa.ArrowException, LookupError, ValueError, AttributeError) as error:
            raise source.damaged(error) from None
        yield pa.RecordBatch.from_arrays(
            [
                pa.repeat(pa.scalar(segment.partition, pa.int32()), count),
                found.column("offset"),
                times,
                pa.nulls(count, pa.int8()),
                found.column("key"),
                found.column("value"),
                headers,
            ],
            schema=SCHEMA,
        )


def read_peer_values(place: Place, segment: Segment, wanted: OffsetRanges) -> Iterator[Values]:
    """Yield offsets, timestamps and values of a segment. Raises like `read_peer_segment`."""
    for _, found in _parts(place, segment, wanted, _VALUE_COLUMNS):
        yield Values(*(found.column(name).to_pylist() for name in _VALUE_COLUMNS))


def _parts(
    place: Place, segment: Segment, wanted: OffsetRanges | None, columns: tuple[str, ...]
) -> Iterator[tuple[ObjectReader, pa.RecordBatch]]:
    """The columns of the records that are wanted, offsets and timestamps as we keep them; none is empty."""
    if not segment.object:
        return
    key, source = key_of(segment), ObjectReader(place, segment.object, in_parts=True)
    _check_footer(source, key)
    before = key.first - 1
    last = key.last if wanted is None else min(key.last, wanted.last_offset)
    for group in range(source.row_group_count):
        bounds = source.bounds(group, "offset")
        if bounds is not None and wanted is not None and not has_any(wanted, *bounds):
            before = bounds[1]  # kafka-replicator stores no bounds, so all of what it has written is read
            if before >= last:
                return
            continue
        for part in source.parts_of(group, columns, _BYTES_AT_ONCE, _MOST_ROWS_AT_ONCE):
            rows = _as_ours(source, part)
            before = _last_offset(source, rows, before)
            if before > key.last and wanted is None:  # its compaction may name an object so
                raise source.damaged(f"it holds offset {before}, and its key ends at {key.last}")
            chosen = rows if wanted is None else picked(rows, wanted)
            if chosen.num_rows:
                yield source, chosen
            if before >= last:
                return
    if before < key.last:
        raise source.damaged(f"it ends at offset {before}, and its key at {key.last}")


def _last_offset(source: ObjectReader, rows: pa.RecordBatch, before: int) -> int:
    """The last offset of rows, all of which are above `before` and ascend. Raises SegmentDamagedError."""
    offsets: list[int] = rows.column("offset").to_pylist()
    if any(after <= earlier for earlier, after in zip([before, *offsets], offsets, strict=False)):
        raise source.damaged(f"its offsets do not ascend from {before + 1} on")
    return offsets[-1]


def _as_ours(source: ObjectReader, part: pa.RecordBatch) -> pa.RecordBatch:
    """Columns with offsets and timestamps as we keep them. Raises SegmentDamagedError."""
    try:
        offsets = pc.cast(part.column("offset"), pa.int64())
        times = pc.cast(part.column("timestamp"), pa.int64())
        # A record without timestamp has the zero time of Go, which overflows to 1754; Kafka has none before 1970.
        times = pc.if_else(pc.greater_equal(times, 0), pc.divide(times, _NANOSECONDS), pa.scalar(None, pa.int64()))
        rest = {name: part.column(name) for name in part.schema.names if name not in {"offset", "timestamp"}}
        contents = {
            name: column if name == "headers" else pc.cast(column, pa.binary()) for name, column in rest.items()
        }
        rows = pa.RecordBatch.from_pydict({"offset": offsets, "timestamp": times, **contents})
    except (pa.ArrowException, LookupError, ValueError) as error:
        raise source.damaged(error) from None
    if offsets.null_count or any(column.null_count for column in rest.values()):
        raise source.damaged("it holds null")
    return rows


def _headers(column: pa.ListArray) -> pa.ListArray:
    keys, values = column.flatten().flatten()
    ends = pc.cumulative_sum(pc.cast(pc.list_value_length(column), pa.int32()))
    bounds = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    pairs = pa.StructArray.from_arrays(
        [pc.cast(keys, pa.string()), pc.cast(values, pa.binary())], fields=list(HEADERS.value_type)
    )
    return pa.ListArray.from_arrays(bounds, pairs, type=HEADERS)


def _check_footer(source: ObjectReader, key: PeerKey) -> None:
    """Compare what the footer says with the key. Raises SegmentDamagedError."""
    footer = source.metadata
    for name, expected in (
        ("region", key.region),
        ("topic", key.topic),
        ("partition", key.partition),
        ("level", key.level),
        ("startOffset", key.first),
        ("endOffset", key.last),
    ):
        stated = footer.get(name.encode())
        if stated is None:
            raise source.damaged(f"its footer has no {name}")
        if stated.decode("utf-8", "replace") != str(expected):
            raise source.damaged(f"its footer names {name} {stated.decode('utf-8', 'replace')}, its key {expected}")
