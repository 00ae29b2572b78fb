"""Owns how a column of keys becomes positions in blocks of offsets: the rule of `parse_event_id` at the speed of Arrow.

Must not know bitmaps, Spark or Kafka. Nothing here calls Python once for each key: a key is its digits at the end and
what stands before them, and that is looked at once for all keys that share it.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from gapless_api.offsets.ids import MAX_OFFSET, TopicPartition, parse_event_id

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK_BITS = 20
_POSITION = (1 << BLOCK_BITS) - 1
_ANY_BYTES = pc.CastOptions(target_type=pa.string(), allow_invalid_utf8=True)
_DIGITS = "0123456789"
_LARGEST = str(MAX_OFFSET)
_MOST_REMEMBERED = 50_000
"""So many beginnings of keys a task remembers, before it forgets them all."""


class Block(NamedTuple):
    """2^20 offsets of one source partition."""

    topic: str
    partition: int
    number: int
    """Offset divided by 2^20."""


FOREIGN = Block("", -1, -1)
"""Where keys are counted that are no event's."""


class KeyReader:
    """Reads columns of keys; it remembers the places that it has seen."""

    def __init__(self) -> None:
        self._places: dict[bytes, TopicPartition | None] = {}

    def blocks(self, keys: pa.Array) -> Iterator[tuple[Block, array[int], int]]:
        """The blocks that `keys` fall into, each with the positions in it and the number of keys.

        The positions come as they came, repeated ones repeated. Keys that are no event's are counted for `FOREIGN`.
        """
        events = 0
        texts = pc.cast(keys.drop_null(), options=_ANY_BYTES)
        begins = pc.ascii_rtrim(texts, _DIGITS).dictionary_encode()
        places = [self._place(begin) for begin in _all_bytes(begins.dictionary)]
        lengths = pc.binary_length(begins.dictionary).to_pylist()
        by_length: dict[int, list[int]] = {}
        for code, (length, place) in enumerate(zip(lengths, places, strict=True)):
            if place is not None:
                by_length.setdefault(length, []).append(code)
        for length, codes in by_length.items():
            some, their_codes = texts, begins.indices
            if len(codes) < len(places):
                chosen = pc.is_in(their_codes, pa.array(codes, their_codes.type))
                some, their_codes = some.filter(chosen), their_codes.filter(chosen)
            ends = pc.binary_slice(some.cast(pa.binary()), length, length + len(_LARGEST) + 1)
            offsets, their_codes = _offsets(pc.cast(ends, options=_ANY_BYTES), their_codes)
            events += len(offsets)
            for code, number, positions in _grouped(offsets, their_codes):
                place = places[code]
                if place is not None:  # always, as the codes were chosen
                    yield Block(*place, number), positions, len(positions)
        if events < len(keys):
            yield FOREIGN, array("I"), len(keys) - events

    def _place(self, begin: bytes) -> TopicPartition | None:
        if begin not in self._places:
            if len(self._places) >= _MOST_REMEMBERED:
                self._places.clear()
            self._places[begin] = _place_of(begin)
        return self._places[begin]


def _place_of(begin: bytes) -> TopicPartition | None:
    """Read what stands before the digits of the offset; ``None`` when no digits could make it an event's key."""
    try:
        event = parse_event_id(begin.decode("utf-8") + "0")
    except UnicodeDecodeError:
        return None
    return None if event is None else (event.topic, event.partition)


def _offsets(ends: pa.Array, codes: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The numbers of texts that are nothing but digits, and the codes beside them; those that are no offsets go."""
    length = pc.binary_length(ends)
    shortest, longest = pc.min_max(length).values()
    zero = pc.starts_with(ends, "0")
    if len(ends) and (shortest.as_py() == 0 or longest.as_py() >= len(_LARGEST) or pc.any(zero).as_py()):
        fits = pc.or_(
            pc.less(length, len(_LARGEST)),
            pc.and_(pc.equal(length, len(_LARGEST)), pc.less_equal(ends, _LARGEST)),
        )
        plain = pc.and_(pc.equal(length, 1), zero)
        good = pc.and_(pc.and_(fits, pc.greater(length, 0)), pc.or_(plain, pc.invert(zero)))
        ends, codes = ends.filter(good), codes.filter(good)
    return ends.cast(pa.int64()), codes


def _grouped(offsets: pa.Array, codes: pa.Array) -> Iterator[tuple[int, int, array[int]]]:
    """The positions of each code and block. A batch often holds one of both, for events keep their order."""
    if not len(offsets):
        return
    numbers = pc.shift_right(offsets, BLOCK_BITS)
    positions = pc.bit_wise_and(offsets, _POSITION).cast(pa.uint32())
    if _one(numbers) and _one(codes):
        yield codes[0].as_py(), numbers[0].as_py(), _packed(positions)
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
    their_codes, their_numbers = codes.take(firsts).to_pylist(), numbers.take(firsts).to_pylist()
    for code, number, end in zip(their_codes, their_numbers, ends, strict=True):
        yield code, number, _packed(positions.slice(start, end - start))
        start = end


def _one(values: pa.Array) -> bool:
    lowest, highest = pc.min_max(values).values()
    return bool(lowest == highest)


def _packed(positions: pa.UInt32Array) -> array[int]:
    numbers = array("I")
    start = 4 * positions.offset
    numbers.frombytes(memoryview(positions.buffers()[1])[start : start + 4 * len(positions)])
    return numbers


def _all_bytes(texts: pa.Array) -> list[bytes]:
    """The bytes of strings that may not be valid UTF-8."""
    found: list[Any] = texts.cast(pa.binary()).to_pylist()
    return found
