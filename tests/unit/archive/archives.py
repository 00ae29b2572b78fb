"""The archives that these tests make, without Kafka, and how they read one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from gapless_archive.catalog.chain import Chain, Changes
from gapless_archive.reading import open_archive
from gapless_archive.segments.builder import Origin
from gapless_archive.segments.level_zero import LevelZeroWriter
from gapless_archive.segments.row_buffer import Coverage, Limits
from gapless_archive.segments.rows import SCHEMA, PartitionRows

if TYPE_CHECKING:
    from gapless_archive.catalog.entry import Segment
    from gapless_archive.store.places import Place

ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def chain(place: Place) -> Chain:
    return Chain(place, "r", "t", ID)


def rows(partition: int, offsets: Sequence[int]) -> pa.RecordBatch:
    """Records with everything that could be confused: null and empty, duplicate headers, no timestamp."""
    made = random.Random(partition)
    return pa.RecordBatch.from_pylist(
        [
            {
                "partition": partition,
                "offset": offset,
                "timestamp": None if offset % 5 == 0 else 1_700_000_000_000 + offset,
                "timestamp_type": None if offset % 5 == 0 else offset % 2,
                "key": None if offset % 3 == 0 else made.randbytes(offset % 4),
                "value": None if offset % 7 == 0 else made.randbytes(offset % 11 * 20),
                "headers": [("h", None), ("h", b""), ("h", b"x")][: offset % 4],
            }
            for offset in offsets
        ],
        schema=SCHEMA,
    )


def archived(place: Place, parts: dict[int, tuple[int, int]], lacking: Sequence[int] = ()) -> list[Segment]:
    """Archive offsets of partitions, from first to end, as one commit; nothing is written at `lacking` offsets."""
    origin = Origin(log_start=0, high_watermark=2**40, epoch=1)
    coverages = [
        Coverage(
            topic="t",
            partition=partition,
            first=first,
            end=end,
            prefix=f"r/t/{ID}",
            limits=Limits(10**6, 10**9),
            origin=origin,
        )
        for partition, (first, end) in parts.items()
    ]
    with place.scratch() as scratch, LevelZeroWriter(place, scratch, coverages) as writer:
        for partition, (first, end) in parts.items():
            offsets = [offset for offset in range(first, end) if offset not in lacking]
            if offsets:
                writer.add(PartitionRows("t", partition, rows(partition, offsets)))
        found = [segment for _, segment in writer.close()]
    ours = chain(place)
    ours.commit(ours.load(), Changes(action="archive", epoch=1, added=tuple(found), partitions=4))
    return found


def read(place: Place, partition: int) -> pa.Table:
    archive = open_archive(place, "t")
    pieces = archive.pieces(partition, archive.covered(partition))
    batches = [batch for piece in pieces for batch in archive.read(piece)]
    return pa.Table.from_batches(batches, SCHEMA).combine_chunks()
