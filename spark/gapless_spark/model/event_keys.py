"""How a column of keys becomes positions in blocks of offsets: the rule of `parse_event_id` at the speed of Arrow.

Must not know bitmaps, Spark or Kafka. Nothing here runs Python code per key: a key is a prefix and the digits of an
offset, and each prefix is parsed once for all keys that share it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from gapless_api.offsets.ids import MAX_OFFSET, TopicPartition, parse_event_id
from gapless_spark.model.arrivals import BLOCK_BITS

_POSITION = (1 << BLOCK_BITS) - 1
_ANY_BYTES = pc.CastOptions(target_type=pa.string(), allow_invalid_utf8=True)
_DIGITS = "0123456789"
_MAX_OFFSET_TEXT = str(MAX_OFFSET)
_MAX_PREFIXES = 50_000
"""How many parsed prefixes of keys a task caches before it clears the cache."""


class Block(NamedTuple):
    """2^20 offsets of one source partition."""

    topic: str
    partition: int
    number: int
    """Offset divided by 2^20."""


class KeyBatch(NamedTuple):
    """The keys of some records, and of a part of them when they arrived."""

    keys: pa.Array
    samples: Sequence[tuple[bytes, int]] = ()
    """Keys, and the timestamps of their records in milliseconds; 0 or less if there is none."""


FOREIGN = Block("", -1, -1)
"""The block that counts keys which do not name an event."""


class KeyReader:
    """Reads columns of keys, and caches the prefixes that it has parsed."""

    def __init__(self) -> None:
        self._prefixes: dict[bytes, TopicPartition | None] = {}

    def blocks(self, keys: pa.Array) -> Iterator[tuple[Block, array[int], int]]:
        """Yield the blocks of `keys`, each with the positions in it and the number of keys.

        Positions keep the order of the keys, duplicates included. Keys that do not name an event count for `FOREIGN`.
        """
        events = 0
        texts = pc.cast(keys.drop_null(), options=_ANY_BYTES)
        prefixes = pc.ascii_rtrim(texts, _DIGITS).dictionary_encode()
        partitions = [self._partition_of(prefix) for prefix in _raw_bytes(prefixes.dictionary)]
        lengths = pc.binary_length(prefixes.dictionary).to_pylist()
        by_length: dict[int, list[int]] = {}
        for code, (length, topic_partition) in enumerate(zip(lengths, partitions, strict=True)):
            if topic_partition is not None:
                by_length.setdefault(length, []).append(code)
        for length, codes in by_length.items():
            selected, selected_codes = texts, prefixes.indices
            if len(codes) < len(partitions):
                matches = pc.is_in(selected_codes, pa.array(codes, selected_codes.type))
                selected, selected_codes = selected.filter(matches), selected_codes.filter(matches)
            ends = pc.binary_slice(selected.cast(pa.binary()), length, length + len(_MAX_OFFSET_TEXT) + 1)
            offsets, selected_codes = _parse_offsets(pc.cast(ends, options=_ANY_BYTES), selected_codes)
            events += len(offsets)
            for code, number, positions in _group_by_block(offsets, selected_codes):
                topic_partition = partitions[code]
                if topic_partition is not None:  # always, because the codes were selected
                    yield Block(*topic_partition, number), positions, len(positions)
        if events < len(keys):
            yield FOREIGN, array("I"), len(keys) - events

    def _partition_of(self, prefix: bytes) -> TopicPartition | None:
        if prefix not in self._prefixes:
            if len(self._prefixes) >= _MAX_PREFIXES:
                self._prefixes.clear()
            self._prefixes[prefix] = _parse_prefix(prefix)
        return self._prefixes[prefix]


def position_of(key: bytes) -> tuple[Block, int] | None:
    """Return the block and the position in it of one key; ``None`` if it names no event."""
    try:
        event = parse_event_id(key.decode("utf-8"))
    except UnicodeDecodeError:
        return None
    if event is None:
        return None
    return Block(event.topic, event.partition, event.offset >> BLOCK_BITS), event.offset & _POSITION


def _parse_prefix(prefix: bytes) -> TopicPartition | None:
    """Parse a key without the digits of its offset; ``None`` when no digits could make it the key of an event."""
    try:
        event = parse_event_id(prefix.decode("utf-8") + "0")
    except UnicodeDecodeError:
        return None
    return None if event is None else (event.topic, event.partition)


def _parse_offsets(ends: pa.Array, codes: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Convert texts of digits to numbers; drop those that are not valid offsets, and their codes."""
    length = pc.binary_length(ends)
    shortest, longest = pc.min_max(length).values()
    zero = pc.starts_with(ends, "0")
    if len(ends) and (shortest.as_py() == 0 or longest.as_py() >= len(_MAX_OFFSET_TEXT) or pc.any(zero).as_py()):
        fits = pc.or_(
            pc.less(length, len(_MAX_OFFSET_TEXT)),
            pc.and_(pc.equal(length, len(_MAX_OFFSET_TEXT)), pc.less_equal(ends, _MAX_OFFSET_TEXT)),
        )
        plain = pc.and_(pc.equal(length, 1), zero)
        good = pc.and_(pc.and_(fits, pc.greater(length, 0)), pc.or_(plain, pc.invert(zero)))
        ends, codes = ends.filter(good), codes.filter(good)
    return ends.cast(pa.int64()), codes


def _group_by_block(offsets: pa.Array, codes: pa.Array) -> Iterator[tuple[int, int, array[int]]]:
    """Yield the positions of each code and block. Often there is only one of both, because events keep their order."""
    if not len(offsets):
        return
    numbers = pc.shift_right(offsets, BLOCK_BITS)
    positions = pc.bit_wise_and(offsets, _POSITION).cast(pa.uint32())
    if _is_constant(numbers) and _is_constant(codes):
        yield codes[0].as_py(), numbers[0].as_py(), _to_array(positions)
        return
    coded = numbers.dictionary_encode()
    groups = pc.add(
        pc.multiply(codes.cast(pa.int64()), len(coded.dictionary)),
        coded.indices.cast(pa.int64()),
    )
    order = pc.sort_indices(groups)
    positions, start = positions.take(order), 0
    ends = pc.run_end_encode(groups.take(order)).run_ends.to_pylist()
    firsts = order.take(pa.array([0, *ends[:-1]], pa.int64()))
    selected_codes, their_numbers = codes.take(firsts).to_pylist(), numbers.take(firsts).to_pylist()
    for code, number, end in zip(selected_codes, their_numbers, ends, strict=True):
        yield code, number, _to_array(positions.slice(start, end - start))
        start = end


def _is_constant(values: pa.Array) -> bool:
    lowest, highest = pc.min_max(values).values()
    return bool(lowest == highest)


def _to_array(positions: pa.UInt32Array) -> array[int]:
    numbers = array("I")
    start = 4 * positions.offset
    numbers.frombytes(memoryview(positions.buffers()[1])[start : start + 4 * len(positions)])
    return numbers


def _raw_bytes(texts: pa.Array) -> list[bytes]:
    """Return the bytes of strings that may not be valid UTF-8."""
    raw: list[Any] = texts.cast(pa.binary()).to_pylist()
    return raw
