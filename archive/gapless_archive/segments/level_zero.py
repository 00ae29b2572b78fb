"""Owns how records that come from Kafka are divided among segments and objects: in bounded memory, each one once.

Records of a partition are held until they fill a row group of their own. What is left of many partitions at the end
shares row groups, sorted by partition and offset, so that ten thousand quiet partitions do not make as many objects.
"""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, Self

from gapless_archive.segments.builder import SegmentBuilder
from gapless_archive.segments.held_rows import MOST_HELD, MOST_UNUSED, HeldRows
from gapless_archive.segments.rows import content_bytes
from gapless_archive.segments.writer import MOST_ROW_GROUP_BYTES, ROW_GROUP_BYTES, ObjectWriter, divided

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from concurrent.futures import Future
    from pathlib import Path

    from gapless_api.offsets.ids import TopicPartition
    from gapless_archive.catalog.entry import Segment
    from gapless_archive.segments.builder import Origin
    from gapless_archive.segments.rows import Run
    from gapless_archive.store.places import Place

_WORTH_A_ROW_GROUP = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """When a segment is finished; the bytes are those of an object, too."""

    records: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What is read of a partition."""

    topic: str
    partition: int
    first: int
    end: int
    """Exclusive."""
    prefix: str
    """Of the objects of the topic, without a slash at its end."""
    limits: Limits
    origin: Origin
    key_first: int | None = None
    """In the layout of kafka-replicator: where the key of the first object begins, not above `first`."""


class TopicSegment(NamedTuple):
    """A segment of a topic."""

    topic: str
    segment: Segment


@dataclass(slots=True)
class _Object:
    name: str
    writer: ObjectWriter
    most_bytes: int
    stored_bytes: int = 0


@dataclass(slots=True)
class _Written:
    """A segment that gets no more records."""

    builder: SegmentBuilder
    inside: _Object | None
    end: int


@dataclass(slots=True)
class _Partition(HeldRows):
    coverage: Coverage
    builder: SegmentBuilder
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

    def end_segment(self, inside: _Object) -> None:
        """Begin another segment behind the records that are written."""
        end = self.builder.next_offset
        self.written.append(_Written(self.builder, inside, end))
        self.builder = SegmentBuilder(self.coverage.partition, end)


class LevelZeroWriter:
    """Writes the records of some partitions to new objects of a place, in a ``with`` block."""

    def __init__(self, place: Place, scratch: Path, coverages: Iterable[Coverage]) -> None:
        """Begin segments.

        Args:
            place: where objects go when they are finished.
            scratch: a folder for files that are being written.
            coverages: of the partitions, each one once.
        """
        self._place, self._scratch = place, scratch
        self._partitions: dict[TopicPartition, _Partition] = {
            (one.topic, one.partition): _Partition(one, SegmentBuilder(one.partition, one.first))
            for one in sorted(coverages, key=attrgetter("topic", "partition"))
        }
        self._objects: dict[str, _Object] = {}
        """Those that are being written, by topic."""
        self._held_bytes = 0
        self._in_memory = 0
        """Bytes of all rows that what is held keeps in memory, at most."""
        self._uploads = ThreadPoolExecutor(1, "upload")
        self._upload: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._uploads.shutdown(cancel_futures=True)

    def add(self, run: Run) -> None:
        """Take the next records of a partition. Raises GaplessError when they cannot be written."""
        partition = self._partitions[run.topic, run.partition]
        self._in_memory += run.rows.nbytes
        for piece in divided(run.rows):
            rows = piece
            while rows.num_rows:
                part, rows = rows.slice(0, partition.room), rows.slice(partition.room)
                size = content_bytes(part)
                partition.hold(part, size)
                self._held_bytes += size
                if partition.is_full:
                    inside = self._write([partition])
                    partition.end_segment(inside)
                    self._bound(run.topic, inside)
                elif partition.held_bytes >= ROW_GROUP_BYTES:
                    self._bound(run.topic, self._write([partition]))
        while self._held_bytes > MOST_HELD:
            self._release_some()
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
        self._write_shared()
        for topic in list(self._objects):
            self._end_object(topic)
        self._wait()
        return [
            TopicSegment(topic, segment)
            for (topic, _), partition in self._partitions.items()
            for segment in _segments(partition)
        ]

    def _release_some(self) -> None:
        """Write the largest part, or all if each of them is small."""
        partition = max(self._partitions.values(), key=attrgetter("held_bytes"))
        if partition.held_bytes >= _WORTH_A_ROW_GROUP:
            self._bound(partition.coverage.topic, self._write([partition]))
        else:
            self._write_shared()

    def _write_shared(self) -> None:
        """Write all that is held, in row groups that partitions of a topic share."""
        holding = [partition for partition in self._partitions.values() if partition.held]
        for topic, some in groupby(holding, key=lambda partition: partition.coverage.topic):
            together: list[_Partition] = []
            size = 0
            for partition in some:
                if together and size + partition.held_bytes > MOST_ROW_GROUP_BYTES:
                    self._bound(topic, self._write(together))
                    together, size = [], 0
                together.append(partition)
                size += partition.held_bytes
            self._bound(topic, self._write(together))

    def _write(self, partitions: Sequence[_Partition]) -> _Object:
        """Write what is held of some partitions of one topic as a row group."""
        coverage = partitions[0].coverage
        inside = self._objects.get(coverage.topic)
        if inside is None:
            name = f"level-0/{coverage.origin.epoch:08d}-{secrets.token_hex(8)}.parquet"
            file = self._scratch / f"{secrets.token_hex(8)}.parquet"
            inside = self._objects[coverage.topic] = _Object(
                f"{coverage.prefix}/{name}", ObjectWriter(file), coverage.limits.bytes
            )
        size = sum(partition.held_bytes for partition in partitions)
        self._held_bytes -= size
        parts = [partition.release() for partition in partitions]
        for partition, rows in zip(partitions, parts, strict=True):
            partition.builder.take(rows)
        for partition, row_group in zip(partitions, inside.writer.write(parts, size), strict=True):
            partition.builder.stored(row_group)
        return inside

    def _bound(self, topic: str, inside: _Object) -> None:
        """End an object that is large enough, and so the segments in it."""
        if inside.writer.bytes >= inside.most_bytes:
            self._end_object(topic)

    def _end_object(self, topic: str) -> None:
        inside = self._objects.pop(topic)
        for (name, _), partition in self._partitions.items():
            if name == topic and partition.builder.records:
                partition.end_segment(inside)
        inside.stored_bytes = inside.writer.close()
        self._wait()
        self._upload = self._uploads.submit(self._put, inside.name, inside.writer.file)

    def _put(self, key: str, file: Path) -> None:
        self._place.put(key, file)
        file.unlink(missing_ok=True)

    def _wait(self) -> None:
        """Wait for the upload that is going on, so that no more than two objects are on this machine's disk."""
        if self._upload is not None:
            self._upload.result()
            self._upload = None


def _segments(partition: _Partition) -> Iterator[Segment]:
    coverage = partition.coverage
    if partition.written:
        partition.written[-1].end = coverage.end
    else:
        partition.written.append(_Written(partition.builder, None, coverage.end))
    for one in partition.written:
        name, stored = "", 0
        if one.inside is not None:
            name = one.inside.name
            stored = one.inside.stored_bytes * one.builder.bytes // one.inside.writer.bytes
        yield one.builder.segment(name, stored, one.end, coverage.origin)
