"""How records of a segment are read, whatever its layout."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gapless_archive.segments.peer import read_peer_segment, read_peer_values
from gapless_archive.segments.reader import read_segment
from gapless_archive.segments.values import Values, read_segment_values

if TYPE_CHECKING:
    import pyarrow as pa

    from gapless_api.offsets.ranges import OffsetRanges
    from gapless_archive.catalog.entry import Segment
    from gapless_archive.store.places import Place


def read_records(place: Place, segment: Segment, offsets: OffsetRanges | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the records of a segment in order, as batches of rows of `SCHEMA`.

    Args:
        place: of the archive.
        segment: of any layout.
        offsets: the offsets to read; ``None`` for all.

    Raises:
        SegmentDamagedError: the object is missing or damaged. What was yielded before is valid.
        StoreUnreachableError: the store does not answer.
    """
    read = read_peer_segment if segment.layout == "kafka-replicator" else read_segment
    return read(place, segment, offsets)


def read_values(place: Place, segment: Segment, offsets: OffsetRanges, *, times: bool = True) -> Iterator[Values]:
    """Yield offsets, timestamps and values at `offsets`; for few offsets, little is read.

    Without `times`, timestamps may be null. Raises like `read_records`.
    """
    if segment.layout == "kafka-replicator":
        return read_peer_values(place, segment, offsets)
    return read_segment_values(place, segment, offsets, times=times)
