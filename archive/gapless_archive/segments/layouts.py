"""Owns how records come out of a segment of any layout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_archive.segments.peer import read_peer_segment, read_peer_values
from gapless_archive.segments.reader import read_segment
from gapless_archive.segments.values import read_values

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from gapless_api.offsets.ranges import OffsetRanges
    from gapless_archive.catalog.entry import Segment
    from gapless_archive.segments.values import Values
    from gapless_archive.store.places import Place


def records_in(place: Place, segment: Segment, wanted: OffsetRanges | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the records of a segment in their order, as rows of `SCHEMA`, some at a time.

    Args:
        place: of the archive.
        segment: of any layout.
        wanted: the offsets to read; ``None`` for all.

    Raises:
        SegmentDamagedError: the object is missing or damaged. What was yielded before is right.
        StoreUnreachableError: the store does not answer.
    """
    read = read_peer_segment if segment.layout == "kafka-replicator" else read_segment
    return read(place, segment, wanted)


def values_in(place: Place, segment: Segment, wanted: OffsetRanges, *, times: bool = True) -> Iterator[Values]:
    """Yield offsets, timestamps and values at `wanted`, reading less where few are wanted.

    Without `times`, timestamps may be null. Raises like `records_in`.
    """
    if segment.layout == "kafka-replicator":
        return read_peer_values(place, segment, wanted)
    return read_values(place, segment, wanted, times=times)
