"""Owns how the keys of received events become bitmaps, and bitmaps become runs of offsets, in Arrow batches.

Must not know Spark's session, Kafka or what was expected. A bitmap covers one block of 2^20 offsets of one source
partition, so that memory is bounded by blocks whatever the number of keys. Partial bitmaps of one block join in any
order; a later job can keep the joined ones and add to them.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from gapless_api.ids import MAX_OFFSET, MAX_PARTITION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

BLOCK_BITS = 20
_POSITION = (1 << BLOCK_BITS) - 1
_BLOCKS_HELD = 512
"""So many bitmaps a task holds, of at most 128 KiB each, before it hands them on."""

PARTIAL = "topic string, partition int, block long, records long, bitmap binary"
"""What `partial_bitmaps` yields; keys that are no event's are counted in a row with an empty topic."""
RUNS = "topic string, partition int, block long, records long, offsets long, firsts binary, lasts binary"
"""What `joined_runs` yields; firsts and lasts are offsets as 64-bit integers in the machine's byte order."""

_PLACE = (("topic", pa.string()), ("partition", pa.int32()), ("block", pa.int64()), ("records", pa.int64()))
_PARTIAL_SCHEMA = pa.schema([*_PLACE, ("bitmap", pa.binary())])
_RUNS_SCHEMA = pa.schema([*_PLACE, ("offsets", pa.int64()), ("firsts", pa.binary()), ("lasts", pa.binary())])
_ANY_BYTES = pc.CastOptions(target_type=pa.string(), allow_invalid_utf8=True)


class Block(NamedTuple):
    """2^20 offsets of one source partition."""

    topic: str
    partition: int
    number: int
    """Offset divided by 2^20."""


_FOREIGN = Block("", -1, -1)


class _Held:
    """Bitmaps and record counts of the blocks seen last."""

    def __init__(self) -> None:
        self.bitmaps: dict[Block, BitMap] = {}
        self.records: dict[Block, int] = {}

    def add(self, block: Block, positions: BitMap, records: int) -> None:
        if block in self.bitmaps:
            self.bitmaps[block] |= positions
            self.records[block] += records
        else:
            self.bitmaps[block], self.records[block] = positions, records

    def handed_on(self) -> Iterator[pa.RecordBatch]:
        blocks = list(self.bitmaps)
        for start in range(0, len(blocks), 64):
            some = blocks[start : start + 64]
            columns: list[list[Any]] = [
                [block.topic for block in some],
                [block.partition for block in some],
                [block.number for block in some],
                [self.records[block] for block in some],
                [self.bitmaps[block].serialize() for block in some],
            ]
            yield _batch(columns, _PARTIAL_SCHEMA)
        self.bitmaps.clear()
        self.records.clear()


def partial_bitmaps(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn batches with a column ``key`` into rows of `PARTIAL`, for ``mapInArrow``.

    A block may come several times, from several tasks or from one that saw many blocks; `joined_runs` joins them.
    """
    held = _Held()
    for batch in batches:
        for block, positions, records in _blocks(batch.column("key")):
            held.add(block, positions, records)
        if len(held.bitmaps) > _BLOCKS_HELD:
            yield from held.handed_on()
    yield from held.handed_on()


def joined_runs(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join rows of `PARTIAL`, sorted by topic, partition and block, into one row of `RUNS` for each block."""
    block, joined, records = None, BitMap(), 0
    for batch in batches:
        for row in batch.to_pylist():
            following = Block(row["topic"], row["partition"], row["block"])
            if following != block:
                if block is not None:
                    yield _runs(block, joined, records)
                block, joined, records = following, BitMap(), 0
            joined |= BitMap.deserialize(row["bitmap"])
            records += row["records"]
    if block is not None:
        yield _runs(block, joined, records)


def is_foreign(topic: str) -> bool:
    """Whether a row with this topic counts keys that are no event's."""
    return not topic


def offsets_of(packed: bytes) -> array[int]:
    """Unpack ``firsts`` or ``lasts``."""
    offsets = array("q")
    offsets.frombytes(packed)
    return offsets


def _runs(block: Block, joined: BitMap, records: int) -> pa.RecordBatch:
    base = block.number << BLOCK_BITS
    # A run begins where the position before is absent, and ends where the one behind is.
    firsts, lasts = joined - joined.shift(1), joined - joined.shift(-1)
    columns: list[list[Any]] = [[block.topic], [block.partition], [block.number], [records], [len(joined)]]
    packed = [[array("q", [base + position for position in ends]).tobytes()] for ends in (firsts, lasts)]
    return _batch(columns + packed, _RUNS_SCHEMA)


def _batch(columns: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _blocks(keys: pa.Array) -> Iterator[tuple[Block, BitMap, int]]:
    """The blocks that `keys` fall into, each with its positions and its number of keys. The rule is `parse_event_id`'s.

    Whole columns at a time: one Python call for each key would take most of the job's time.
    """
    total = len(keys)
    events = _events(_split(keys))
    foreign = total - len(events)
    for topic_bytes, partition, number, positions in _grouped(events):
        topic = _topic(topic_bytes)
        if topic is None:
            foreign += len(positions)
        else:
            yield Block(topic, partition, number), BitMap(positions), len(positions)
    if foreign:
        yield _FOREIGN, BitMap(), foreign


def _split(keys: pa.Array) -> pa.Table:
    """Split at the last two underscores; keys with fewer are left out."""
    parts = pc.split_pattern(pc.cast(keys.drop_null(), options=_ANY_BYTES), "_", max_splits=2, reverse=True)
    parts = parts.filter(pc.equal(pc.list_value_length(parts), 3))
    return pa.table(
        {name: pc.list_element(parts, index) for index, name in enumerate(("topic", "partition", "offset"))}
    )


def _events(texts: pa.Table) -> pa.Table:
    """Leave the rows whose numbers are as senders write them, with the numbers read."""
    plain = pc.and_(_is_plain(texts["partition"], MAX_PARTITION), _is_plain(texts["offset"], MAX_OFFSET))
    texts = texts.filter(pc.and_(plain, pc.not_equal(texts["topic"], "")))
    partition, offset = texts["partition"].cast(pa.int64()), texts["offset"].cast(pa.int64())
    return pa.table(
        {
            "topic": texts["topic"],
            "partition": partition,
            "block": pc.shift_right(offset, BLOCK_BITS),
            "position": pc.bit_wise_and(offset, _POSITION).cast(pa.uint32()),
        }
    )


def _is_plain(texts: pa.ChunkedArray, largest: int) -> pa.ChunkedArray:
    """Unsigned decimal without padding, up to `largest`."""
    most = str(largest)
    length = pc.binary_length(texts)
    unpadded = pc.or_(pc.equal(length, 1), pc.invert(pc.starts_with(texts, "0")))
    fits = pc.or_(pc.less(length, len(most)), pc.and_(pc.equal(length, len(most)), pc.less_equal(texts, most)))
    return pc.and_(pc.and_(pc.ascii_is_decimal(texts), unpadded), fits)


def _grouped(events: pa.Table) -> Iterator[tuple[bytes, int, int, array[int]]]:
    """The positions of each (topic, partition, block). A batch mostly holds one, for events keep their partition."""
    if not len(events):
        return
    names = ("topic", "partition", "block")
    coded = {name: events[name].combine_chunks().dictionary_encode() for name in names}
    positions = events["position"].combine_chunks()
    if all(len(column.dictionary) == 1 for column in coded.values()):
        topic, partition, block = (coded[name].dictionary[0] for name in names)
        yield _bytes(topic), partition.as_py(), block.as_py(), _array(positions)
        return
    group = pa.scalar(0, pa.int64())
    for name in names:
        codes = coded[name].indices.cast(pa.int64())
        group = pc.add(pc.multiply(group, len(coded[name].dictionary)), codes)
    order = pc.sort_indices(group)
    ends = pc.run_end_encode(group.take(order)).run_ends.to_pylist()
    positions, start = positions.take(order), 0
    for end in ends:
        first = order[start].as_py()
        topic, partition, block = (coded[name][first] for name in names)
        yield _bytes(topic), partition.as_py(), block.as_py(), _array(positions.slice(start, end - start))
        start = end


def _bytes(text: Any) -> bytes:
    """The bytes of a string that may not be valid UTF-8."""
    value = text.value if isinstance(text, pa.DictionaryScalar) else text
    content: bytes = value.as_buffer().to_pybytes()
    return content


def _array(positions: pa.UInt32Array) -> array[int]:
    numbers = array("I")
    start = 4 * positions.offset
    numbers.frombytes(memoryview(positions.buffers()[1])[start : start + 4 * len(positions)])
    return numbers


def _topic(name: bytes) -> str | None:
    try:
        topic = name.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return topic or None
