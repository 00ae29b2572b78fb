"""Owns how segments in the layout of kafka-replicator become one: read, written, checked; must not know who commits.

The new object has the key that kafka-replicator's compaction would give it, so that its readers find it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_archive.catalog.peer_keys import PeerKey, key_of
from gapless_archive.compaction.sources import reads_all, sources_of
from gapless_archive.segments.builder import Origin, SegmentBuilder
from gapless_archive.segments.check import SegmentCheck, check_segment
from gapless_archive.segments.layouts import records_in
from gapless_archive.segments.peer_writer import CODEC, PeerObjectWriter
from gapless_archive.segments.reader import SegmentDamagedError
from gapless_archive.segments.rows import content_bytes
from gapless_archive.segments.writer import ROW_GROUP_BYTES, joined

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

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
    place: Place, prefix: str, join: Join, file: Path, *, most_records: int | None, go_on: Callable[[], None]
) -> Segment:
    """Write the new segment of a join, put it in its place and return its manifest; nothing is committed.

    Args:
        place: of the archive.
        prefix: ``<region>/<topic>``.
        join: of segments in the layout of kafka-replicator.
        file: where the object is written first.
        most_records: of a row group; ``None`` for as many as its size permits.
        go_on: is called now and then, and raises to end the work.

    Raises:
        InputDamagedError: it cannot be read.
        SegmentDamagedError: what was written is not what was read.
        GaplessError: the place does not take the object, or does not answer.
    """
    output = _Output(prefix, join, file, most_records)
    for piece in sources_of(join.inputs):
        parts = _checked(place, piece)
        while (rows := _next(parts, piece)) is not None:
            go_on()
            output.add(rows)
    segment = output.segment()
    if segment.object:
        place.put(segment.object, file)
        try:
            check_segment(place, segment)
        except SegmentDamagedError:
            place.delete(segment.object)
            raise
    return segment


def _next(parts: Iterator[pa.RecordBatch], piece: Piece) -> pa.RecordBatch | None:
    try:
        return next(parts, None)
    except SegmentDamagedError as error:
        raise InputDamagedError(error, piece.segment) from None


def _checked(place: Place, piece: Piece) -> Iterator[pa.RecordBatch]:
    """Yield the records of a piece; a segment that is read completely is compared with its manifest, if it has one."""
    segment = piece.segment
    if segment.is_listed or not reads_all(piece):
        yield from records_in(place, segment, piece.wanted)
        return
    check = SegmentCheck(place.name, segment)
    for rows in records_in(place, segment):
        check.take(rows)
        yield rows
    check.finish()


class _Output:
    """Writes the records of one segment to a local file, which is made with the first of them."""

    def __init__(self, prefix: str, join: Join, file: Path, most_records: int | None) -> None:
        self._region, self._topic = prefix.split("/")
        self._join, self._file, self._most_records = join, file, most_records
        self._builder = SegmentBuilder(join.partition, join.first)
        self._writer: PeerObjectWriter | None = None
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = self._held_records = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Take the next records."""
        left = rows
        while left.num_rows:
            room = left.num_rows if self._most_records is None else self._most_records - self._held_records
            part, left = left.slice(0, room), left.slice(room)
            self._held.append(part)
            self._held_bytes += content_bytes(part)
            self._held_records += part.num_rows
            if self._held_bytes >= ROW_GROUP_BYTES or self._held_records == self._most_records:
                self._flush()

    def segment(self) -> Segment:
        """Finish the file, if there are records, and return the manifest of the segment."""
        self._flush()
        join, builder = self._join, self._builder
        origin = Origin(
            log_start=max(segment.log_start for segment in join.inputs),
            high_watermark=max(segment.high_watermark for segment in join.inputs),
            epoch=max(segment.epoch for segment in join.inputs),
            level=join.level,
            codec=CODEC,
            layout="kafka-replicator",
        )
        if self._writer is None:
            return builder.segment("", 0, join.end, origin)
        first = min(key_of(segment).first for segment in join.inputs if segment.object)
        key = PeerKey(self._region, self._topic, join.partition, join.level, first, builder.next_offset - 1)
        return builder.segment(key.text, self._writer.close(key, builder.records), join.end, origin)

    def _flush(self) -> None:
        if not self._held:
            return
        rows = joined(self._held)
        self._held, self._held_bytes, self._held_records = [], 0, 0
        if self._writer is None:
            self._writer = PeerObjectWriter(self._file, self._topic, self._join.partition)
        try:
            self._builder.take(rows)
        except ValueError as error:
            raise SegmentDamagedError(
                f"Segments of partition {self._join.partition} do not follow on each other ({error}); run gapless "
                f"segments verify to find the damaged one."
            ) from None
        self._writer.write(rows)
