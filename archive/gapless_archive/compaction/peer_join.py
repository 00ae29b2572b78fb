"""How segments in the layout of kafka-replicator are joined: read, written and checked, not committed.

The new object has the key that kafka-replicator's compaction would give it, so that its readers find it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gapless_archive.catalog.peer_keys import PeerKey, key_of
from gapless_archive.compaction.output import JoinOutput
from gapless_archive.compaction.sources import covers_segment, plan_reads
from gapless_archive.segments.check import SegmentCheck, check_segment
from gapless_archive.segments.layouts import read_records
from gapless_archive.segments.peer_writer import CODEC, PeerObjectWriter
from gapless_archive.segments.reader import SegmentDamagedError

if TYPE_CHECKING:
    import pyarrow as pa

    from gapless_archive.catalog.entry import Segment
    from gapless_archive.compaction.plan import Join
    from gapless_archive.reading import Piece
    from gapless_archive.store.places import Place


class InputDamagedError(Exception):
    """One of the inputs is missing or damaged."""

    def __init__(self, problem: SegmentDamagedError, segment: Segment) -> None:
        super().__init__(str(problem))
        self.segment = segment


def write_peer_join(  # noqa: PLR0913 -- as write_joins
    place: Place,
    prefix: str,
    join: Join,
    file: Path,
    *,
    max_row_group_records: int | None,
    check_stopped: Callable[[], None],
) -> Segment:
    """Write, store and check the new segment of a join, and return its manifest; nothing is committed.

    Args:
        place: of the archive.
        prefix: ``<region>/<topic>``.
        join: of segments in the layout of kafka-replicator.
        file: where the object is written before it is stored.
        max_row_group_records: of a row group; ``None`` for as many as its size permits.
        check_stopped: is called between batches, and raises to end the work.

    Raises:
        InputDamagedError: an input cannot be read.
        SegmentDamagedError: what was written is not what was read.
        GaplessError: the place does not take the object, or does not answer.
    """
    output = _PeerOutput(prefix, join, file, max_row_group_records)
    for piece in plan_reads(join.inputs):
        batches = _read_checked(place, piece)
        while (rows := _next_batch(batches, piece)) is not None:
            check_stopped()
            output.add(rows)
    segment = output.finish()
    if segment.object:
        place.put(segment.object, file)
        try:
            check_segment(place, segment)
        except SegmentDamagedError:
            place.delete(segment.object)
            raise
    return segment


def _next_batch(batches: Iterator[pa.RecordBatch], piece: Piece) -> pa.RecordBatch | None:
    try:
        return next(batches, None)
    except SegmentDamagedError as error:
        raise InputDamagedError(error, piece.segment) from None


def _read_checked(place: Place, piece: Piece) -> Iterator[pa.RecordBatch]:
    """Yield the records of a piece; a segment that is read completely is compared with its manifest, if it has one."""
    segment = piece.segment
    if segment.is_listed or not covers_segment(piece):
        yield from read_records(place, segment, piece.offsets)
        return
    check = SegmentCheck(place.name, segment)
    for rows in read_records(place, segment):
        check.add(rows)
        yield rows
    check.finish()


class _PeerOutput(JoinOutput):
    """Writes the records of one new segment in the layout of kafka-replicator."""

    def __init__(self, prefix: str, join: Join, file: Path, max_row_group_records: int | None) -> None:
        super().__init__(join, max_row_group_records, with_digest=True)
        self._region, self._topic = prefix.split("/")
        self._file = file
        self._writer: PeerObjectWriter | None = None

    def finish(self) -> Segment:
        """Finish the file, if there are records, and return the manifest of the segment."""
        self._flush()
        join, builder, origin = self._join, self._builder, self._origin(CODEC, "kafka-replicator")
        if self._writer is None:
            return builder.build("", 0, join.end, origin)
        first = min(key_of(segment).first for segment in join.inputs if segment.object)
        key = PeerKey(self._region, self._topic, join.partition, join.level, first, builder.next_offset - 1)
        return builder.build(key.text, self._writer.close(key, builder.records), join.end, origin)

    def _write_row_group(self, rows: pa.RecordBatch, size: int) -> None:  # noqa: ARG002 -- as of every output
        if self._writer is None:
            self._writer = PeerObjectWriter(self._file, self._topic, self._join.partition)
        self._writer.write(rows)
