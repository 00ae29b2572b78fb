"""How records from Kafka become objects in the layout of kafka-replicator: one for each segment.

The keys of a partition's objects are contiguous, although offsets between their records may have no record. So each
partition is written by one writer.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Self

from gapless_archive.catalog.peer_keys import PeerKey
from gapless_archive.segments.builder import SegmentBuilder
from gapless_archive.segments.level_zero import TopicSegment
from gapless_archive.segments.peer_writer import PeerObjectWriter, drop_unstorable
from gapless_archive.segments.row_buffer import BufferedWriter, Coverage, PartitionBuffer

if TYPE_CHECKING:
    import pyarrow as pa

    from gapless_archive.catalog.entry import Segment
    from gapless_archive.store.places import Place

_MAX_OPEN_FILES = 128
_MAX_CONCURRENT_UPLOADS = 8
_MAX_PENDING_UPLOADS = 16
"""Finished files on the local disk."""


@dataclass(frozen=True, slots=True)
class _FinishedSegment:
    """A segment that gets no more records, before its manifest is built."""

    builder: SegmentBuilder
    object: str
    stored_bytes: int
    end: int


@dataclass(slots=True)
class _Partition(PartitionBuffer):
    key_first: int
    """Where the key of the next object begins."""
    writer: PeerObjectWriter | None = None
    finished: list[_FinishedSegment] = field(default_factory=list)


class PeerLevelZeroWriter(BufferedWriter[_Partition]):
    """Writes the records of some partitions to new objects of a place, in a ``with`` block."""

    def __init__(self, place: Place, scratch: Path, coverages: Iterable[Coverage]) -> None:
        """Begin segments.

        Args:
            place: where finished objects are stored.
            scratch: a local folder for unfinished files.
            coverages: of the partitions, one for each; their prefix is ``<region>/<topic>``.
        """
        super().__init__(
            _Partition(
                coverage,
                SegmentBuilder(coverage.partition, coverage.first),
                coverage.first if coverage.key_first is None else coverage.key_first,
            )
            for coverage in sorted(coverages, key=attrgetter("topic", "partition"))
        )
        self._place, self._scratch = place, scratch
        self._open_files = 0
        self._pool = ThreadPoolExecutor(_MAX_CONCURRENT_UPLOADS, "upload")
        self._uploads: deque[Future[None]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def close(self) -> list[TopicSegment]:
        """Write the buffered rows, and return all segments, which together cover what was to be read.

        Raises:
            GaplessError: an object cannot be written.
        """
        for partition in self._partitions.values():
            if partition.builder.records or partition.batches:
                self._end_segment(partition)
        while self._uploads:
            self._uploads.popleft().result()
        return [
            TopicSegment(topic, segment)
            for (topic, _), partition in self._partitions.items()
            for segment in _build_segments(partition)
        ]

    def _prepare(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return drop_unstorable(rows)

    def _write_largest(self) -> None:
        self._write_row_group(max(self._partitions.values(), key=attrgetter("buffered_bytes")))

    def _write_row_group(self, partition: _Partition) -> None:
        if partition.writer is None:
            if self._open_files >= _MAX_OPEN_FILES:
                open_partitions = (each for each in self._partitions.values() if each.writer is not None)
                self._end_segment(max(open_partitions, key=attrgetter("builder.bytes")))
            coverage = partition.coverage
            file = self._scratch / f"{secrets.token_hex(8)}.parquet"
            partition.writer = PeerObjectWriter(file, coverage.topic, coverage.partition)
            self._open_files += 1
        self._buffered_bytes -= partition.buffered_bytes
        rows = partition.drain()
        partition.builder.add(rows)
        partition.writer.write(rows)

    def _end_segment(self, partition: _Partition) -> None:
        """Finish the segment of a partition and its object, and begin the next segment."""
        if partition.batches:
            self._write_row_group(partition)
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
        partition.finished.append(_FinishedSegment(builder, key.text, stored_bytes, builder.next_offset))
        partition.builder = SegmentBuilder(builder.partition, builder.next_offset)
        partition.key_first = builder.next_offset
        partition.writer = None
        self._open_files -= 1
        if len(self._uploads) >= _MAX_PENDING_UPLOADS:
            self._uploads.popleft().result()
        self._uploads.append(self._pool.submit(self._upload, key.text, writer.file))

    def _upload(self, key: str, file: Path) -> None:
        self._place.put(key, file)
        file.unlink(missing_ok=True)


def _build_segments(partition: _Partition) -> Iterator[Segment]:
    coverage, finished = partition.coverage, partition.finished
    if not finished:
        yield partition.builder.build("", 0, coverage.end, coverage.origin)
    for number, segment in enumerate(finished, 1):
        end = coverage.end if number == len(finished) else segment.end
        yield segment.builder.build(segment.object, segment.stored_bytes, end, coverage.origin)
