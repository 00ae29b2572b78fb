"""How records of a segment in the layout of kafka-replicator are read, in batches and checked against its key.

The layout stores null as empty, and no timestamp types.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from gapless_archive.catalog.peer_keys import PeerKey, key_of
from gapless_archive.segments.reader import ObjectReader, intersects, select_rows
from gapless_archive.segments.rows import HEADERS, SCHEMA, list_bounds
from gapless_archive.segments.values import Values

if TYPE_CHECKING:
    from gapless_api.offsets.ranges import OffsetRanges
    from gapless_archive.catalog.entry import Segment
    from gapless_archive.store.places import Place

_COLUMNS = ("offset", "timestamp", "key", "value", "headers")
_VALUE_COLUMNS = ("offset", "timestamp", "value")
_NANOSECONDS_PER_MS = 1_000_000
_BATCH_BYTES = 4 * 1024 * 1024
_MAX_ROWS = 10_000
_MAX_KNOWN_OBJECTS = 100_000
_last_offsets: dict[tuple[str, str, int, str], int] = {}
"""By place, key, size and time of an object, which is not opened again while a reader follows the archive."""


def read_peer_segment(place: Place, segment: Segment, offsets: OffsetRanges | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the records of a segment in order, as batches of rows of `SCHEMA`.

    Args:
        place: of the archive.
        segment: of the layout ``kafka-replicator``.
        offsets: those to read; ``None`` for all.

    Raises:
        SegmentDamagedError: the object is missing, damaged, or contradicts its key.
        StoreUnreachableError: the store does not answer.
    """
    for source, batch in _read_batches(place, segment, offsets, _COLUMNS):
        count = batch.num_rows
        try:
            headers = _convert_headers(batch.column("headers"))
        except (pa.ArrowException, LookupError, ValueError, AttributeError) as error:
            raise source.damaged(error) from None
        yield pa.RecordBatch.from_arrays(
            [
                pa.repeat(pa.scalar(segment.partition, pa.int32()), count),
                batch.column("offset"),
                batch.column("timestamp"),
                pa.nulls(count, pa.int8()),
                batch.column("key"),
                batch.column("value"),
                headers,
            ],
            schema=SCHEMA,
        )


def read_peer_values(place: Place, segment: Segment, offsets: OffsetRanges) -> Iterator[Values]:
    """Yield offsets, timestamps and values of a segment. Raises like `read_peer_segment`."""
    for _, batch in _read_batches(place, segment, offsets, _VALUE_COLUMNS):
        yield Values(*(batch.column(name).to_pylist() for name in _VALUE_COLUMNS))


def last_offset(place: Place, segment: Segment) -> int:
    """Return the offset of the last record in the object of a segment, which may be beyond its key.

    Raises:
        SegmentDamagedError: the object is missing or damaged.
        StoreUnreachableError: the store does not answer.
    """
    identity = (place.name, segment.object, segment.stored_bytes, segment.written_at)
    if identity not in _last_offsets:
        source = ObjectReader(place, segment.object, in_parts=True)
        found = key_of(segment).last
        try:
            if source.row_group_count:
                for batch in source.iter_batches(source.row_group_count - 1, ("offset",), _BATCH_BYTES, _MAX_ROWS):
                    found = int(pc.max(pc.cast(batch.column("offset"), pa.int64())).as_py() or 0)
        except (pa.ArrowException, LookupError, ValueError) as error:
            raise source.damaged(error) from None
        if len(_last_offsets) >= _MAX_KNOWN_OBJECTS:
            _last_offsets.clear()
        _last_offsets[identity] = found
    return _last_offsets[identity]


def _read_batches(
    place: Place, segment: Segment, offsets: OffsetRanges | None, columns: tuple[str, ...]
) -> Iterator[tuple[ObjectReader, pa.RecordBatch]]:
    """Yield columns of the selected records, with offsets and timestamps converted to ours; no batch is empty."""
    if not segment.object:
        return
    key, source = key_of(segment), ObjectReader(place, segment.object, in_parts=True)
    _check_footer(source, key)
    before = key.first - 1
    end = max(key.last, segment.last) if segment.is_listed else key.last
    last = end if offsets is None else min(end, offsets.last_offset)
    for group in range(source.row_group_count):
        bounds = source.bounds(group, "offset")
        if bounds is not None and offsets is not None and not intersects(offsets, *bounds):
            before = bounds[1]  # kafka-replicator stores no bounds, so its objects are read completely
            if before >= last:
                return
            continue
        for batch in source.iter_batches(group, columns, _BATCH_BYTES, _MAX_ROWS):
            rows = _convert(source, batch)
            before = _check_offsets(source, rows, before)
            if before > end and offsets is None:
                raise source.damaged(f"it holds offset {before}, and its key ends at {key.last}")
            selected = rows if offsets is None else select_rows(rows, offsets)
            if selected.num_rows:
                yield source, selected
            if before >= last:
                return
    if before < key.last:
        raise source.damaged(f"it ends at offset {before}, and its key at {key.last}")


def _check_offsets(source: ObjectReader, rows: pa.RecordBatch, before: int) -> int:
    """Check that offsets ascend from above `before`, and return the last one. Raises SegmentDamagedError."""
    offsets: list[int] = rows.column("offset").to_pylist()
    if any(after <= earlier for earlier, after in zip([before, *offsets], offsets, strict=False)):
        raise source.damaged(f"its offsets do not ascend from {before + 1} on")
    return offsets[-1]


def _convert(source: ObjectReader, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Convert columns to the types of `SCHEMA`, except headers. Raises SegmentDamagedError."""
    try:
        offsets = pc.cast(batch.column("offset"), pa.int64())
        times = pc.cast(batch.column("timestamp"), pa.int64())
        # Records without timestamp have Go's zero time, which overflows to 1754; Kafka has no timestamps before 1970.
        milliseconds = pc.divide(times, _NANOSECONDS_PER_MS)
        times = pc.if_else(pc.greater_equal(times, 0), milliseconds, pa.scalar(None, pa.int64()))
        rest = {name: batch.column(name) for name in batch.schema.names if name not in {"offset", "timestamp"}}
        contents = {
            name: column if name == "headers" else pc.cast(column, pa.binary()) for name, column in rest.items()
        }
        rows = pa.RecordBatch.from_pydict({"offset": offsets, "timestamp": times, **contents})
    except (pa.ArrowException, LookupError, ValueError) as error:
        raise source.damaged(error) from None
    if offsets.null_count or any(column.null_count for column in rest.values()):
        raise source.damaged("it holds null")
    return rows


def _convert_headers(column: pa.ListArray) -> pa.ListArray:
    keys, values = column.flatten().flatten()
    pairs = pa.StructArray.from_arrays(
        [pc.cast(keys, pa.binary()), pc.cast(values, pa.binary())], fields=list(HEADERS.value_type)
    )
    return pa.ListArray.from_arrays(list_bounds(column), pairs, type=HEADERS)


def _check_footer(source: ObjectReader, key: PeerKey) -> None:
    """Compare the footer with the key. Raises SegmentDamagedError."""
    footer = source.metadata
    for name, expected in (
        ("region", key.region),
        ("topic", key.topic),
        ("partition", key.partition),
        ("level", key.level),
        ("startOffset", key.first),
        ("endOffset", key.last),
    ):
        content = footer.get(name.encode())
        if content is None:
            raise source.damaged(f"its footer has no {name}")
        actual = content.decode("utf-8", "replace")
        if actual != str(expected):
            raise source.damaged(f"its footer names {name} {actual}, its key {expected}")
