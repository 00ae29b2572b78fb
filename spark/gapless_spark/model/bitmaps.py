"""Owns how the keys of received events become bitmaps, and bitmaps become runs of offsets, in Arrow batches.

Must not know Spark's session, Kafka or what was expected. A bitmap covers one block of 2^20 offsets of one source
partition, so that memory is bounded by blocks whatever the number of keys. Partial bitmaps of one block join in any
order; a state keeps the joined ones, and a later run adds to them.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyroaring import BitMap

from gapless_spark.model.arrow_schema import arrow_schema
from gapless_spark.model.bitmap_runs import bounds_of_runs
from gapless_spark.model.event_keys import BLOCK_BITS, Block, KeyReader
from gapless_spark.model.gap_detection import ReceivedBlock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_BLOCKS_HELD = 512
"""So many bitmaps a task holds, of at most 128 KiB each, before it hands them on."""
_ROWS_AT_ONCE = 64
_BYTES_OF_A_BLOCK = 600
"""What Python needs for each beside the content of its bitmap."""

PARTIAL = "topic string, partition int, block long, records long, bitmap binary"
"""What `partial_bitmaps` and `joined_bitmaps` yield; keys that are no event's are counted in a row without a topic."""
PARTIAL_SCHEMA = arrow_schema(PARTIAL)


class Received(NamedTuple):
    """What was received of a block: the positions in it, and how many records said so."""

    positions: BitMap
    records: int

    def __or__(self, other: Received) -> Received:
        return Received(self.positions | other.positions, self.records + other.records)


def partial_bitmaps(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn batches with a column ``key`` into rows of `PARTIAL`, for ``mapInArrow``.

    A block may come several times, from several tasks or from one that saw many blocks; `joined_bitmaps` joins them.
    """
    reader = KeyReader()
    held: dict[Block, list[Any]] = {}
    for batch in batches:
        for block, positions, records in reader.blocks(batch.column("key")):
            _add(held, block, BitMap(positions), records)
        if len(held) > _BLOCKS_HELD:
            yield from rows_of(_received(held))
            held.clear()
    yield from rows_of(_received(held))


def joined_bitmaps(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join rows of `PARTIAL`, sorted by topic, partition and block, into one row for each block."""
    return rows_of(_joined(batches))


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Block, Received]]:
    block, positions, records = None, BitMap(), 0
    for following, received in blocks_of(batches):
        if following != block:
            if block is not None:
                yield block, Received(positions, records)
            block, positions, records = following, BitMap(), 0
        positions |= received.positions
        records += received.records
    if block is not None:
        yield block, Received(positions, records)


class TooManyBlocksError(Exception):
    """What was received takes more memory than it may."""


def collected(batches: Iterable[pa.RecordBatch], *, most_bytes: int | None = None) -> dict[Block, Received]:
    """Join rows of `PARTIAL` in any order.

    Args:
        batches: the rows.
        most_bytes: about so much may be held; ``None`` for any amount.

    Raises:
        TooManyBlocksError: it would have been more.
    """
    held: dict[Block, list[Any]] = {}
    counted = 0
    for block, received in blocks_of(batches):
        counted += _bytes_of(received.positions) + (0 if block in held else _BYTES_OF_A_BLOCK)
        _add(held, block, *received)
        if most_bytes is not None and counted > most_bytes:  # What was received twice was counted twice.
            counted = sum(_BYTES_OF_A_BLOCK + _bytes_of(positions) for positions, _ in held.values())
            if counted > most_bytes // 2:  # Else each further row may count all of them again.
                raise TooManyBlocksError
    return dict(_received(held))


def rows_of(blocks: Iterable[tuple[Block, Received]]) -> Iterator[pa.RecordBatch]:
    """Write blocks as rows of `PARTIAL`, in the same order."""
    some: list[tuple[Block, Received]] = []
    for pair in blocks:
        some.append(pair)
        if len(some) == _ROWS_AT_ONCE:
            yield _rows(some)
            some = []
    if some:
        yield _rows(some)


def blocks_of(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Block, Received]]:
    """Read rows of `PARTIAL`."""
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in PARTIAL_SCHEMA.names)
        for topic, partition, number, records, bitmap in zip(*columns, strict=True):
            yield Block(topic, partition, number), Received(BitMap.deserialize(bitmap), records)


def received_block(block: Block, received: Received) -> ReceivedBlock:
    """The runs of offsets of a block."""
    firsts, lasts = bounds_of_runs(received.positions)
    base = block.number << BLOCK_BITS
    offsets = len(received.positions)
    return ReceivedBlock(*block, received.records, offsets, _offsets(firsts, base), _offsets(lasts, base))


def highest_offset(block: Block, received: Received) -> int:
    """The highest offset that was received of a block in which there is one."""
    highest: int = received.positions.max()
    return (block.number << BLOCK_BITS) + highest


def _add(held: dict[Block, list[Any]], block: Block, positions: BitMap, records: int) -> None:
    if block in held:
        held[block][0] |= positions
        held[block][1] += records
    else:
        held[block] = [positions, records]


def _bytes_of(positions: BitMap) -> int:
    counted = positions.get_statistics()
    return (
        counted["n_bytes_array_containers"] + counted["n_bytes_run_containers"] + counted["n_bytes_bitset_containers"]
    )


def _received(held: dict[Block, list[Any]]) -> Iterator[tuple[Block, Received]]:
    return ((block, Received(*content)) for block, content in held.items())


def _rows(blocks: Sequence[tuple[Block, Received]]) -> pa.RecordBatch:
    columns: list[list[Any]] = [
        [block.topic for block, _ in blocks],
        [block.partition for block, _ in blocks],
        [block.number for block, _ in blocks],
        [received.records for _, received in blocks],
        [_serialized(received.positions) for _, received in blocks],
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, PARTIAL_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=PARTIAL_SCHEMA)


def _serialized(positions: BitMap) -> bytes:
    positions.run_optimize()
    content: bytes = positions.serialize()
    return content


def _offsets(positions: BitMap, base: int) -> array[int]:
    return array("q", [base + position for position in positions])
