"""Owns how records that come from Kafka become objects in the layout of kafka-replicator: one for each segment.

The keys of a partition's objects follow on each other without a hole, although offsets between their records may hold
none. So each partition is written by one writer.
"""

from __future__ import annotations

import secrets
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Self

from gapless_archive.catalog.peer_keys import PeerKey
from gapless_archive.segments.builder import SegmentBuilder
from gapless_archive.segments.held_rows import MOST_HELD, MOST_UNUSED, HeldRows
from gapless_archive.segments.level_zero import TopicSegment
from gapless_archive.segments.peer_writer import PeerObjectWriter, as_stored
from gapless_archive.segments.rows import content_bytes
from gapless_archive.segments.writer import ROW_GROUP_BYTES, divided

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from concurrent.futures import Future
    from pathlib import Path

    from gapless_api.offsets.ids import TopicPartition
    from gapless_archive.catalog.entry import Segment
    from gapless_archive.segments.level_zero import Coverage
    from gapless_archive.segments.rows import Run
    from gapless_archive.store.places import Place

_MOST_OPEN = 128
"""Files that are being written."""
_UPLOADS_AT_ONCE = 8
_MOST_WAITING = 16
"""Finished files on this machine's disk."""


@dataclass(frozen=True, slots=True)
class _Written:
    """A segment that gets no more records."""

    builder: SegmentBuilder
    object: str
    stored_bytes: int
    end: int


@dataclass(slots=True)
class _Partition(HeldRows):
    coverage: Coverage
    builder: SegmentBuilder
    key_first: int
    """Of the object that is next."""
    writer: PeerObjectWriter | None = None
    written: list[_Written] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        limits = self.coverage.limits
        full = self.builder.records + self.held_records >= limits.records
        return full or self.builder.bytes + self.held_bytes >= limits.bytes

    @property
    def room(self) -> int:
        """How many records the segment may still get."""
        return self.coverage.limits.records - self.builder.records - self.held_records


class PeerLevelZeroWriter:
    """Writes the records of some partitions to new objects of a place, in a ``with`` block."""

    def __init__(self, place: Place, scratch: Path, coverages: Iterable[Coverage]) -> None:
        """Begin segments.

        Args:
            place: where objects go when they are finished.
            scratch: a folder for files that are being written.
            coverages: of the partitions, each one once; their prefix is ``<region>/<topic>``.
        """
        self._place, self._scratch = place, scratch
        self._partitions: dict[TopicPartition, _Partition] = {
            (one.topic, one.partition): _Partition(
                one, SegmentBuilder(one.partition, one.first), one.first if one.key_first is None else one.key_first
            )
            for one in sorted(coverages, key=attrgetter("topic", "partition"))
        }
        self._held_bytes = 0
        self._in_memory = 0
        """Bytes of all rows that what is held keeps in memory, at most."""
        self._open = 0
        self._pool = ThreadPoolExecutor(_UPLOADS_AT_ONCE, "upload")
        self._uploads: deque[Future[None]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def add(self, run: Run) -> None:
        """Take the next records of a partition. Raises GaplessError when they cannot be written."""
        partition = self._partitions[run.topic, run.partition]
        self._in_memory += run.rows.nbytes
        for piece in divided(run.rows):
            rows = as_stored(piece)
            while rows.num_rows:
                part, rows = rows.slice(0, partition.room), rows.slice(partition.room)
                size = content_bytes(part)
                partition.hold(part, size)
                self._held_bytes += size
                if partition.is_full:
                    self._end_segment(partition)
                elif partition.held_bytes >= ROW_GROUP_BYTES:
                    self._write(partition)
        while self._held_bytes > MOST_HELD:
            self._write(max(self._partitions.values(), key=attrgetter("held_bytes")))
        if self._in_memory > self._held_bytes + MOST_UNUSED:
            for holding in self._partitions.values():
                if holding.held:
                    holding.let_go()
            self._in_memory = self._held_bytes

    def close(self) -> list[TopicSegment]:
        """Write what is left, and return all segments, which cover together what was to be read.

        Raises:
            GaplessError: an object cannot be written.
        """
        for partition in self._partitions.values():
            if partition.builder.records or partition.held:
                self._end_segment(partition)
        while self._uploads:
            self._uploads.popleft().result()
        return [
            TopicSegment(topic, segment)
            for (topic, _), partition in self._partitions.items()
            for segment in _segments(partition)
        ]

    def _write(self, partition: _Partition) -> None:
        """Write what is held of a partition as a row group."""
        if partition.writer is None:
            if self._open >= _MOST_OPEN:
                opened = (one for one in self._partitions.values() if one.writer is not None)
                self._end_segment(max(opened, key=attrgetter("builder.bytes")))
            coverage = partition.coverage
            file = self._scratch / f"{secrets.token_hex(8)}.parquet"
            partition.writer = PeerObjectWriter(file, coverage.topic, coverage.partition)
            self._open += 1
        self._held_bytes -= partition.held_bytes
        rows = partition.release()
        partition.builder.take(rows)
        partition.writer.write(rows)

    def _end_segment(self, partition: _Partition) -> None:
        """Finish the object of a partition, and begin another segment behind it."""
        if partition.held:
            self._write(partition)
        writer, builder = partition.writer, partition.builder
        if writer is None:
            raise ValueError("a segment without records has no object")
        region, topic = partition.coverage.prefix.split("/")
        key = PeerKey(
            region,
            topic,
            builder.partition,
            partition.coverage.origin.level,
            partition.key_first,
            builder.next_offset - 1,
        )
        stored_bytes = writer.close(key, builder.records)
        partition.written.append(_Written(builder, key.text, stored_bytes, builder.next_offset))
        partition.builder = SegmentBuilder(builder.partition, builder.next_offset)
        partition.key_first = builder.next_offset
        partition.writer = None
        self._open -= 1
        if len(self._uploads) >= _MOST_WAITING:
            self._uploads.popleft().result()
        self._uploads.append(self._pool.submit(self._upload, key.text, writer.file))

    def _upload(self, key: str, file: Path) -> None:
        self._place.put(key, file)
        file.unlink(missing_ok=True)


def _segments(partition: _Partition) -> Iterator[Segment]:
    coverage, written = partition.coverage, partition.written
    if not written:
        yield partition.builder.segment("", 0, coverage.end, coverage.origin)
    for number, one in enumerate(written, 1):
        end = coverage.end if number == len(written) else one.end
        yield one.builder.segment(one.object, one.stored_bytes, end, coverage.origin)
