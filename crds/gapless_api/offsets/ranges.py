"""Ranges of Kafka offsets and their algebra; must not know topics, bundles or Kafka.

All ranges are inclusive on both ends. A bundle can have ten million ranges, so a set stores the distances between the
ends of its ranges, in blocks and in as few bytes as they need: two to four bytes per range for a busy topic. Every
operation is one linear pass over sorted input.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import accumulate, chain
from operator import sub
from typing import NamedTuple

from gapless_api.offsets.ids import MAX_OFFSET

_BLOCK_RANGES = 1024
_WIDTHS = (("B", 2**8), ("H", 2**16), ("I", 2**32))
"""Array type codes, and the upper limit (exclusive) of each."""
_NOTHING = (2**64, 2**64)
"""A range beyond every offset, which marks the end of a pass."""


class OffsetRange(NamedTuple):
    """The offsets `first` to `last`, both inclusive."""

    first: int
    last: int

    @property
    def size(self) -> int:
        """The number of offsets in the range."""
        return self.last - self.first + 1


class _Block:
    """Up to `_BLOCK_RANGES` ranges: the first offset, and the distances between consecutive ends."""

    __slots__ = ("base", "steps")

    def __init__(self, points: Sequence[int]) -> None:
        """Encode the ends of ranges: first, last, first, last …, ascending."""
        self.base = points[0]
        steps = list(map(sub, points[1:], points))
        largest = max(steps)
        code = next((code for code, limit in _WIDTHS if largest < limit), "Q")
        self.steps: array[int] = array(code, steps)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Block) and self.base == other.base and self.steps == other.steps

    __hash__ = None  # type: ignore[assignment]

    @property
    def count(self) -> int:
        """The number of offsets in all ranges."""
        lengths = self.steps[::2]
        return sum(lengths) + len(lengths)

    def points(self) -> list[int]:
        """Decode the ends of the ranges."""
        return list(accumulate(self.steps, initial=self.base))


class OffsetRanges:
    """A set of offsets as sorted, disjoint ranges that do not touch each other. Immutable, comparable, hash-less."""

    __slots__ = ("_bases", "_blocks", "_length", "_open")

    _bases: list[int]
    """The first offset of each block."""
    _blocks: list[_Block]
    """All blocks but the last are full."""
    _length: int
    _open: tuple[int, list[int], list[int]]
    """The block that was decoded last: its number, first and last offsets; access is mostly sequential."""

    def __init__(self, pairs: Iterable[tuple[int, int]] = ()) -> None:
        """Create a set from `pairs` of (first, last), both inclusive, in any order, overlapping or not.

        Raises:
            ValueError: a pair is reversed, negative or beyond 2^63-1.
        """
        builder = RangesBuilder()
        for first, last in sorted(pairs):
            builder.add(first, last)
        self._set(*builder.blocks())

    def _set(self, blocks: list[_Block], length: int) -> None:
        self._blocks, self._length = blocks, length
        self._bases = [block.base for block in blocks]
        self._open = (-1, [], [])

    @classmethod
    def _of(cls, blocks: list[_Block], length: int) -> OffsetRanges:
        ranges = cls.__new__(cls)
        ranges._set(blocks, length)
        return ranges

    @classmethod
    def of_canonical(cls, firsts: Sequence[int], lasts: Sequence[int]) -> OffsetRanges:
        """Create a set from two columns of sorted ranges that neither overlap nor touch; nothing is checked.

        Args:
            firsts: ascending first offsets.
            lasts: last offsets, each at least two below the next first offset.
        """
        builder = RangesBuilder()
        for low in range(0, len(firsts), _BLOCK_RANGES):
            builder.extend(firsts[low : low + _BLOCK_RANGES], lasts[low : low + _BLOCK_RANGES])
        return builder.build()

    @classmethod
    def of_offsets(cls, offsets: Iterable[int]) -> OffsetRanges:
        """Create a set from single `offsets` in any order, with or without duplicates."""
        return cls((offset, offset) for offset in offsets)

    def __len__(self) -> int:
        """Return the number of ranges (not offsets: see `count`)."""
        return self._length

    def __iter__(self) -> Iterator[OffsetRange]:
        return chain.from_iterable(map(OffsetRange, *self._columns(number)) for number in range(len(self._blocks)))

    def __getitem__(self, index: int) -> OffsetRange:
        if index < 0:
            index += self._length
        if not 0 <= index < self._length:
            raise IndexError(index)
        firsts, lasts = self._columns(index // _BLOCK_RANGES)
        return OffsetRange(firsts[index % _BLOCK_RANGES], lasts[index % _BLOCK_RANGES])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OffsetRanges):
            return NotImplemented
        return self._length == other._length and self._blocks == other._blocks

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(f"{r.first}" if r.first == r.last else f"{r.first}-{r.last}" for r in self.head(8))
        return f"OffsetRanges({shown}{', …' if len(self) > 8 else ''})"

    def __contains__(self, offset: object) -> bool:
        if not isinstance(offset, int):
            return False
        index = self.index_reaching(offset)
        return index < self._length and self[index].first <= offset

    @property
    def count(self) -> int:
        """The number of offsets in all ranges."""
        return sum(block.count for block in self._blocks)

    @property
    def first_offset(self) -> int:
        """The lowest offset. Raises IndexError if the set is empty."""
        return self._bases[0]

    @property
    def last_offset(self) -> int:
        """The highest offset. Raises IndexError if the set is empty."""
        block = self._blocks[-1]
        return block.base + sum(block.steps)

    def head(self, limit: int) -> list[OffsetRange]:
        """Return the first `limit` ranges."""
        return [OffsetRange(first, last) for first, last in self.pairs(0, limit)]

    def pairs(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        """Iterate over the ranges with index `low` to `high` (exclusive) as plain pairs, faster than `__iter__`."""
        return chain.from_iterable(zip(*columns, strict=True) for columns in self._slices(low, high))

    def _slices(self, low: int, high: int) -> Iterator[tuple[list[int], list[int]]]:
        """Yield first and last offsets of the ranges with index `low` to `high` (exclusive), by blocks."""
        high = min(high, self._length)
        while low < high:
            number, start = divmod(low, _BLOCK_RANGES)
            firsts, lasts = self._columns(number)
            end = min(start + high - low, _BLOCK_RANGES)
            yield firsts[start:end], lasts[start:end]
            low += end - start

    def _columns(self, number: int) -> tuple[list[int], list[int]]:
        """Return the first and last offsets of a block."""
        opened, firsts, lasts = self._open
        if opened != number:
            points = self._blocks[number].points()
            firsts, lasts = points[::2], points[1::2]
            self._open = number, firsts, lasts
        return firsts, lasts

    def index_reaching(self, offset: int) -> int:
        """Return the index of the first range that ends at or after `offset`; ``len(self)`` if there is none."""
        if not self._length:
            return 0
        number = max(bisect_right(self._bases, offset) - 1, 0)
        return number * _BLOCK_RANGES + bisect_left(self._columns(number)[1], offset)

    def next_offset(self, at: int) -> int | None:
        """Return the first offset that is >= `at`; ``None`` if there is none."""
        index = self.index_reaching(at)
        return max(self[index].first, at) if index < len(self) else None

    def _index_beyond(self, offset: int) -> int:
        """Return the index of the first range that begins after `offset`; ``len(self)`` if there is none."""
        number = bisect_right(self._bases, offset) - 1
        return number * _BLOCK_RANGES + bisect_right(self._columns(number)[0], offset) if number >= 0 else 0

    def clip(self, first: int, last: int) -> OffsetRanges:
        """Return the offsets from `first` to `last`, both inclusive; none if `last` < `first`."""
        low, high = self.index_reaching(first), self._index_beyond(last)
        if low >= high or last < first:
            return OffsetRanges()
        if first <= self.first_offset and last >= self.last_offset:
            return self
        builder = RangesBuilder()
        for firsts, lasts in self._slices(low, high):
            firsts[0], lasts[-1] = max(firsts[0], first), min(lasts[-1], last)
            builder.extend(firsts, lasts)
        return builder.build()

    def __or__(self, other: OffsetRanges) -> OffsetRanges:
        builder = RangesBuilder()
        for first, last in merge(self.pairs(0, len(self)), other.pairs(0, len(other))):
            builder.add(first, last)
        return builder.build()

    def __and__(self, other: OffsetRanges) -> OffsetRanges:
        builder = RangesBuilder()
        mine, theirs = self.pairs(0, len(self)), other.pairs(0, len(other))
        my_first, my_last = next(mine, _NOTHING)
        their_first, their_last = next(theirs, _NOTHING)
        while my_last <= MAX_OFFSET and their_last <= MAX_OFFSET:
            first, last = max(my_first, their_first), min(my_last, their_last)
            if first <= last:
                builder.add(first, last)
            if my_last < their_last:
                my_first, my_last = next(mine, _NOTHING)
            else:
                their_first, their_last = next(theirs, _NOTHING)
        return builder.build()

    def __sub__(self, other: OffsetRanges) -> OffsetRanges:
        builder = RangesBuilder()
        for first, last in subtract_ranges(self.pairs(0, len(self)), other):
            builder.add(first, last)
        return builder.build()


def subtract_ranges(ranges: Iterator[tuple[int, int]], removed: OffsetRanges) -> Iterator[tuple[int, int]]:
    """Yield the parts of `ranges` (inclusive, ascending, disjoint) that are not in `removed`."""
    removals = removed.pairs(0, len(removed))
    removed_first, removed_last = next(removals, _NOTHING)
    for first, last in ranges:
        start = first
        while removed_last < start:
            removed_first, removed_last = next(removals, _NOTHING)
        while removed_first <= last:
            if start < removed_first:
                yield start, removed_first - 1
            start = removed_last + 1
            if start > last:
                break
            removed_first, removed_last = next(removals, _NOTHING)
        if start <= last:
            yield start, last


class RangesBuilder:
    """Builds a set from ranges in ascending order of their first offset; merges those that overlap or touch."""

    __slots__ = ("_blocks", "_points")

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        """Full blocks."""
        self._points: list[int] = []
        """The ends of the ranges that are in no block yet; always with the last range, which may still grow."""

    def __len__(self) -> int:
        """Return the number of ranges so far."""
        return len(self._blocks) * _BLOCK_RANGES + len(self._points) // 2

    def add(self, first: int, last: int) -> None:
        """Add `first` to `last`, both inclusive.

        Raises:
            ValueError: the range is reversed, negative, beyond 2^63-1, or begins before the range that was added last.
        """
        if first < 0 or last < first or last > MAX_OFFSET:
            raise ValueError(f"offsets {first} to {last} are not a range within 0 to {MAX_OFFSET}")
        points = self._points
        if points:
            if first < points[-2]:
                raise ValueError(f"offset {first} comes after a range that begins at {points[-2]}")
            if first <= points[-1] + 1:
                points[-1] = max(points[-1], last)
                return
        points.append(first)
        points.append(last)
        if len(points) > 2 * _BLOCK_RANGES:
            self._seal()

    def extend(self, firsts: Sequence[int], lasts: Sequence[int]) -> None:
        """Add sorted ranges that neither overlap nor touch, also not those before; nothing is checked."""
        points = [0] * (2 * len(firsts))
        points[::2], points[1::2] = firsts, lasts
        self._points += points
        self._seal()

    def _seal(self) -> None:
        """Encode full blocks, but never the last range."""
        size = 2 * _BLOCK_RANGES
        start = 0
        while len(self._points) - start > size:
            self._blocks.append(_Block(self._points[start : start + size]))
            start += size
        del self._points[:start]

    def blocks(self) -> tuple[list[_Block], int]:
        """Return the blocks of all ranges so far, and the number of ranges; later additions do not change them."""
        return [*self._blocks, *([_Block(self._points)] if self._points else [])], len(self)

    @property
    def so_far(self) -> OffsetRanges:
        """The ranges so far; later additions do not change them."""
        return OffsetRanges._of(*self.blocks())

    def build(self) -> OffsetRanges:
        """Return the ranges; the builder is empty afterwards."""
        built = self.so_far
        self._blocks, self._points = [], []
        return built
