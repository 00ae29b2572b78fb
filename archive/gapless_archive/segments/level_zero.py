"""How records from Kafka are divided among segments and objects: each one once, in bounded memory.

Records of a partition are buffered until they fill a row group of their own. What remains of many partitions at the
end shares row groups, sorted by partition and offset, so ten thousand quiet partitions do not need as many objects.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from gapless_archive.segments.builder import SegmentBuilder
from gapless_archive.segments.row_buffer import BufferedWriter, Coverage, PartitionBuffer
from gapless_archive.segments.writer import MAX_ROW_GROUP_BYTES, ObjectWriter

if TYPE_CHECKING:
    from gapless_archive.catalog.entry import Segment
    from gapless_archive.store.places import Place

_MIN_ROW_GROUP_BYTES = 1024 * 1024
"""With less than this, a partition shares a row group with others."""


class TopicSegment(NamedTuple):
    """A segment of a topic."""

    topic: str
    segment: Segment


@dataclass(slots=True)
class _OpenObject:
    name: str
    writer: ObjectWriter
    max_bytes: int
    stored_bytes: int = 0


@dataclass(slots=True)
class _FinishedSegment:
    """A segment that gets no more records, before its manifest is built."""

    builder: SegmentBuilder
    target: _OpenObject | None
    """``None`` for a segment without records."""
    end: int


@dataclass(slots=True)
class _Partition(PartitionBuffer):
    finished: list[_FinishedSegment] = field(default_factory=list)

    def end_segment(self, target: _OpenObject) -> None:
        """Finish the segment after the last record in `target`, and begin the next one."""
        end = self.builder.next_offset
        self.finished.append(_FinishedSegment(self.builder, target, end))
        self.builder = SegmentBuilder(self.coverage.partition, end)


class LevelZeroWriter(BufferedWriter[_Partition]):
    """Writes the records of some partitions to new objects of a place, in a ``with`` block."""

    def __init__(self, place: Place, scratch: Path, coverages: Iterable[Coverage]) -> None:
        """Begin segments.

        Args:
            place: where finished objects are stored.
            scratch: a local folder for unfinished files.
            coverages: of the partitions, one for each.
        """
        super().__init__(
            _Partition(coverage, SegmentBuilder(coverage.partition, coverage.first))
            for coverage in sorted(coverages, key=attrgetter("topic", "partition"))
        )
        self._place, self._scratch = place, scratch
        self._objects: dict[str, _OpenObject] = {}
        """By topic."""
        self._uploads = ThreadPoolExecutor(1, "upload")
        self._upload: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._uploads.shutdown(cancel_futures=True)

    def close(self) -> list[TopicSegment]:
        """Write the buffered rows, and return all segments, which together cover what was to be read.

        Raises:
            GaplessError: an object cannot be written.
        """
        self._write_shared()
        for topic in list(self._objects):
            self._end_object(topic)
        self._wait_for_upload()
        return [
            TopicSegment(topic, segment)
            for (topic, _), partition in self._partitions.items()
            for segment in _build_segments(partition)
        ]

    def _end_segment(self, partition: _Partition) -> None:
        target = self._write([partition])
        partition.end_segment(target)
        self._end_object_if_full(partition.coverage.topic, target)

    def _write_row_group(self, partition: _Partition) -> None:
        self._end_object_if_full(partition.coverage.topic, self._write([partition]))

    def _write_largest(self) -> None:
        """Write the partition with the largest buffer, or all of them if each is small."""
        partition = max(self._partitions.values(), key=attrgetter("buffered_bytes"))
        if partition.buffered_bytes >= _MIN_ROW_GROUP_BYTES:
            self._write_row_group(partition)
        else:
            self._write_shared()

    def _write_shared(self) -> None:
        """Write all buffers, in row groups that partitions of a topic share."""
        buffered = [partition for partition in self._partitions.values() if partition.batches]
        for topic, partitions in groupby(buffered, key=lambda partition: partition.coverage.topic):
            group: list[_Partition] = []
            size = 0
            for partition in partitions:
                if group and size + partition.buffered_bytes > MAX_ROW_GROUP_BYTES:
                    self._end_object_if_full(topic, self._write(group))
                    group, size = [], 0
                group.append(partition)
                size += partition.buffered_bytes
            self._end_object_if_full(topic, self._write(group))

    def _write(self, partitions: Sequence[_Partition]) -> _OpenObject:
        """Write the buffers of some partitions of one topic as a row group."""
        coverage = partitions[0].coverage
        target = self._objects.get(coverage.topic)
        if target is None:
            name = f"level-0/{coverage.origin.epoch:08d}-{secrets.token_hex(8)}.parquet"
            file = self._scratch / f"{secrets.token_hex(8)}.parquet"
            target = self._objects[coverage.topic] = _OpenObject(
                f"{coverage.prefix}/{name}", ObjectWriter(file), coverage.limits.bytes
            )
        size = sum(partition.buffered_bytes for partition in partitions)
        self._buffered_bytes -= size
        parts = [partition.drain() for partition in partitions]
        for partition, rows in zip(partitions, parts, strict=True):
            partition.builder.add(rows)
        for partition, row_group in zip(partitions, target.writer.write(parts, size), strict=True):
            partition.builder.add_row_group(row_group)
        return target

    def _end_object_if_full(self, topic: str, target: _OpenObject) -> None:
        if target.writer.bytes >= target.max_bytes:
            self._end_object(topic)

    def _end_object(self, topic: str) -> None:
        """Finish the object of a topic and the segments in it, and upload it in the background."""
        target = self._objects.pop(topic)
        for (name, _), partition in self._partitions.items():
            if name == topic and partition.builder.records:
                partition.end_segment(target)
        target.stored_bytes = target.writer.close()
        self._wait_for_upload()
        self._upload = self._uploads.submit(self._put, target.name, target.writer.file)

    def _put(self, key: str, file: Path) -> None:
        self._place.put(key, file)
        file.unlink(missing_ok=True)

    def _wait_for_upload(self) -> None:
        """Wait for the upload in progress, so that at most two objects are on the local disk."""
        if self._upload is not None:
            self._upload.result()
            self._upload = None


def _build_segments(partition: _Partition) -> Iterator[Segment]:
    coverage = partition.coverage
    if partition.finished:
        partition.finished[-1].end = coverage.end
    else:
        partition.finished.append(_FinishedSegment(partition.builder, None, coverage.end))
    for finished in partition.finished:
        name, stored, target = "", 0, finished.target
        if target is not None:
            name = target.name
            stored = target.stored_bytes * finished.builder.bytes // target.writer.bytes
        yield finished.builder.build(name, stored, finished.end, coverage.origin)
