"""How the keys of received events become bitmaps, and bitmaps become runs of offsets, in Arrow batches.

Must not know Spark's session, Kafka or what was expected. A bitmap covers one block of 2^20 offsets of one source
partition, so memory depends on the number of blocks and not on the number of keys. Partial bitmaps of a block can be
merged in any order; a state stores the merged bitmaps, and a later run adds to them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa
from pyroaring import BitMap

from gapless_spark.model.arrivals import (
    BLOCK_BITS,
    NO_SAMPLES,
    PART_SIZE,
    Samples,
    merge_samples,
    position_of_sample,
    samples_below,
)
from gapless_spark.model.arrow_schema import arrow_schema
from gapless_spark.model.bitmap_runs import bounds_of_runs
from gapless_spark.model.event_keys import Block, KeyBatch, KeyReader, position_of
from gapless_spark.model.gap_detection import ReceivedBlock

_MAX_BLOCKS = 512
"""A task that holds more bitmaps than this, of at most 128 KiB each, emits them and starts again."""
_BATCH_ROWS = 64
_MAX_SAMPLES = 16
"""A block with more has only those that say when missing offsets were lost."""
_BLOCK_OVERHEAD_BYTES = 600
"""What Python needs for a block in addition to the content of its bitmap."""

PARTIAL = "topic string, partition int, block long, records long, bitmap binary, samples binary"
"""What `fold_keys` and `merge_bitmaps` yield; the row of `FOREIGN` counts keys that do not name an event."""
PARTIAL_SCHEMA = arrow_schema(PARTIAL)


class Received(NamedTuple):
    """The positions received in a block, and the number of records, duplicates included."""

    positions: BitMap
    records: int
    samples: array[int] = NO_SAMPLES
    """When some of them arrived, see `arrivals`."""

    def __or__(self, other: Received) -> Received:
        return _merge_into(self._replace(positions=self.positions.copy()), other)


def fold_keys(batches: Iterable[KeyBatch]) -> Iterator[pa.RecordBatch]:
    """Turn keys into rows of `PARTIAL`.

    A block may occur several times, in the output of several tasks or of one task that read many blocks;
    `merge_bitmaps` merges them.
    """
    reader = KeyReader()
    blocks: dict[Block, _Collected] = {}
    for batch in batches:
        for block, positions, records in reader.blocks(batch.keys):
            _add(blocks, block, BitMap(positions), records)
        for key, time in batch.samples:
            found = position_of(key)
            if found is not None and found[0] in blocks:
                blocks[found[0]].samples.add(found[1], time)
        if len(blocks) > _MAX_BLOCKS:
            yield from encode_blocks(_as_received(blocks))
            blocks.clear()
    yield from encode_blocks(_as_received(blocks))


def merge_bitmaps(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Merge rows of `PARTIAL`, sorted by topic, partition and block, into one row per block."""
    return encode_blocks(_merge_sorted(batches))


def _merge_sorted(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Block, Received]]:
    for block, parts in groupby(decode_blocks(batches), itemgetter(0)):
        yield block, reduce(_merge_into, (received for _, received in parts))


class TooManyBlocksError(Exception):
    """The bitmaps take more memory than is allowed."""


def collect_blocks(batches: Iterable[pa.RecordBatch], *, max_bytes: int | None = None) -> dict[Block, Received]:
    """Merge rows of `PARTIAL` in any order.

    Args:
        batches: the rows.
        max_bytes: the approximate limit of memory; ``None`` for no limit.

    Raises:
        TooManyBlocksError: the limit would have been exceeded.
    """
    blocks: dict[Block, Received] = {}
    size = 0
    for block, received in decode_blocks(batches):
        size += _bytes_of(received) + (0 if block in blocks else _BLOCK_OVERHEAD_BYTES)
        blocks[block] = _merge_into(blocks[block], received) if block in blocks else received
        if max_bytes is not None and size > max_bytes:  # duplicates were counted twice
            size = sum(_BLOCK_OVERHEAD_BYTES + _bytes_of(each) for each in blocks.values())
            if size > max_bytes // 2:  # otherwise each further row could count all of them again
                raise TooManyBlocksError
    return blocks


def encode_blocks(blocks: Iterable[tuple[Block, Received]]) -> Iterator[pa.RecordBatch]:
    """Write blocks as rows of `PARTIAL`, in the same order."""
    batch: list[tuple[Block, Received]] = []
    for pair in blocks:
        batch.append(pair)
        if len(batch) == _BATCH_ROWS:
            yield _record_batch(batch)
            batch = []
    if batch:
        yield _record_batch(batch)


def decode_blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Block, Received]]:
    """Read rows of `PARTIAL`; states of before have no samples."""
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in PARTIAL_SCHEMA.names if name in batch.schema.names]
        if len(columns) < len(PARTIAL_SCHEMA):
            columns.append([b""] * batch.num_rows)
        for topic, partition, number, records, bitmap, packed in zip(*columns, strict=True):
            samples = array("q")
            samples.frombytes(packed)
            yield Block(topic, partition, number), Received(BitMap.deserialize(bitmap), records, samples)


def received_block(block: Block, received: Received) -> ReceivedBlock:
    """Convert the bitmap of a block to runs of offsets."""
    firsts, lasts = bounds_of_runs(received.positions)
    base = block.number << BLOCK_BITS
    offsets = len(received.positions)
    runs = _offsets(firsts, base), _offsets(lasts, base)
    return ReceivedBlock(*block, received.records, offsets, *runs, received.samples)


def highest_offset(block: Block, received: Received) -> int:
    """Return the highest offset received in a block, which must not be empty."""
    highest: int = received.positions.max()
    return (block.number << BLOCK_BITS) + highest


def offsets_below(block: Block, received: Received, end: int) -> Received | None:
    """Return what was received in a block of offsets below `end`; ``None`` for nothing.

    If an offset is left out, the number of records is that of the offsets, because it is unknown which were repeated.
    """
    base = block.number << BLOCK_BITS
    if base + (1 << BLOCK_BITS) <= end:
        return received
    positions = received.positions & BitMap(range(max(0, end - base)))
    if len(positions) == len(received.positions):
        return received
    return Received(positions, len(positions), samples_below(received.samples, end - base)) if positions else None


def _merge_into(received: Received, other: Received) -> Received:
    """Return both, as ``|`` does, but change the positions of the first one: bitmaps are large."""
    positions = received.positions
    positions |= other.positions
    return Received(positions, received.records + other.records, merge_samples(received.samples, other.samples))


@dataclass(slots=True)
class _Collected:
    """What a task has received of a block so far."""

    positions: BitMap
    records: int
    samples: Samples = field(default_factory=Samples)


def _add(blocks: dict[Block, _Collected], block: Block, positions: BitMap, records: int) -> None:
    collected = blocks.get(block)
    if collected is None:
        blocks[block] = _Collected(positions, records)
    else:
        collected.positions |= positions
        collected.records += records


def _bytes_of(received: Received) -> int:
    sizes = received.positions.get_statistics()
    bitmap = sizes["n_bytes_array_containers"] + sizes["n_bytes_run_containers"] + sizes["n_bytes_bitset_containers"]
    return bitmap + len(received.samples) * received.samples.itemsize


def _as_received(blocks: dict[Block, _Collected]) -> Iterator[tuple[Block, Received]]:
    return ((block, Received(each.positions, each.records, each.samples.pack())) for block, each in blocks.items())


def _record_batch(blocks: Sequence[tuple[Block, Received]]) -> pa.RecordBatch:
    columns: list[list[Any]] = [
        [block.topic for block, _ in blocks],
        [block.partition for block, _ in blocks],
        [block.number for block, _ in blocks],
        [received.records for _, received in blocks],
        [_serialized(received.positions) for _, received in blocks],
        [_samples_near_gaps(received).tobytes() for _, received in blocks],
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, PARTIAL_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=PARTIAL_SCHEMA)


def _samples_near_gaps(received: Received) -> array[int]:
    """Return the first and the last sample, and those of incomplete parts of the block, and beside such parts.

    A state would otherwise grow with all events ever received, and not with those that are missing.
    """
    samples, positions = received.samples, received.positions
    if len(samples) <= _MAX_SAMPLES:
        return samples
    if len(positions) == 1 << BLOCK_BITS:
        return samples[:1] + samples[-1:]
    parts = range(0, 1 << BLOCK_BITS, PART_SIZE)
    gaps = [positions.range_cardinality(part, part + PART_SIZE) < PART_SIZE for part in parts]
    near = [any(gaps[max(part - 1, 0) : part + 2]) for part in range(len(gaps))]
    inner = array("q", [sample for sample in samples[1:-1] if near[position_of_sample(sample) // PART_SIZE]])
    return samples[:1] + inner + samples[-1:]


def _serialized(positions: BitMap) -> bytes:
    positions.run_optimize()
    content: bytes = positions.serialize()
    return content


def _offsets(positions: BitMap, base: int) -> array[int]:
    return array("q", [base + position for position in positions])
