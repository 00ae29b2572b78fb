"""Owns ranges of Kafka offsets and their algebra; must not know topics, bundles or Kafka.

All ranges are inclusive on both sides. A set of ranges is kept as two flat arrays, because bundles can hold ten million
of them: of 32-bit integers (8 bytes a range) as long as no offset needs more, else of 64-bit integers. Every operation
is one linear pass over sorted input.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.ids import MAX_OFFSET

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


MOST_NARROW = 2**32 - 1
"""The highest offset that a narrow column (``array("I")``) holds; beyond it columns are wide (``array("q")``)."""


def widened(column: array[int]) -> array[int]:
    """`column` with room for every offset."""
    return column if column.typecode == "q" else array("q", column)


class OffsetRange(NamedTuple):
    """The offsets `first` to `last`, both inclusive."""

    first: int
    last: int

    @property
    def size(self) -> int:
        """How many offsets the range holds."""
        return self.last - self.first + 1


class OffsetRanges:
    """A set of offsets as sorted, disjoint ranges that do not touch each other. Immutable, comparable, hash-less."""

    __slots__ = ("_firsts", "_lasts")

    _firsts: array[int]
    _lasts: array[int]

    def __init__(self, pairs: Iterable[tuple[int, int]] = ()) -> None:
        """Take `pairs` of (first, last), both inclusive, in any order, overlapping or not.

        Raises:
            ValueError: a pair is reversed, negative or beyond 2^63-1.
        """
        ordered = sorted(pairs)
        builder = RangesBuilder()
        for first, last in ordered:
            builder.add(first, last)
        built = builder.build()
        self._firsts, self._lasts = built._firsts, built._lasts

    @classmethod
    def _of(cls, firsts: array[int], lasts: array[int]) -> OffsetRanges:
        made = cls.__new__(cls)
        made._firsts, made._lasts = firsts, lasts
        return made

    @classmethod
    def of_canonical(cls, firsts: array[int], lasts: array[int]) -> OffsetRanges:
        """Take over two arrays, narrow or wide, that are already what this class keeps; nothing is checked.

        Args:
            firsts: ascending first offsets.
            lasts: the last offsets, each at least two below the next first one.
        """
        return cls._of(firsts, lasts)

    @classmethod
    def of_offsets(cls, offsets: Iterable[int]) -> OffsetRanges:
        """Take single `offsets` in any order, repeated or not."""
        return cls((offset, offset) for offset in offsets)

    def __len__(self) -> int:
        """How many ranges there are (not offsets: see `count`)."""
        return len(self._firsts)

    def __iter__(self) -> Iterator[OffsetRange]:
        return map(OffsetRange, self._firsts, self._lasts)

    def __getitem__(self, index: int) -> OffsetRange:
        return OffsetRange(self._firsts[index], self._lasts[index])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OffsetRanges):
            return NotImplemented
        return self._firsts == other._firsts and self._lasts == other._lasts

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(f"{r.first}" if r.first == r.last else f"{r.first}-{r.last}" for r in self.head(8))
        return f"OffsetRanges({shown}{', …' if len(self) > 8 else ''})"

    def __contains__(self, offset: object) -> bool:
        if not isinstance(offset, int):
            return False
        index = bisect_right(self._firsts, offset) - 1
        return index >= 0 and offset <= self._lasts[index]

    @property
    def count(self) -> int:
        """How many offsets all ranges hold together."""
        return sum(self._lasts) - sum(self._firsts) + len(self._firsts)

    @property
    def first_offset(self) -> int:
        """The lowest offset. Raises IndexError when empty."""
        return self._firsts[0]

    @property
    def last_offset(self) -> int:
        """The highest offset. Raises IndexError when empty."""
        return self._lasts[-1]

    def head(self, most: int) -> list[OffsetRange]:
        """The first `most` ranges."""
        return list(map(OffsetRange, self._firsts[:most], self._lasts[:most]))

    def pairs(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        """The ranges with index `low` to `high` (exclusive) as plain pairs, which is faster than iteration."""
        return zip(self._firsts[low:high], self._lasts[low:high], strict=True)

    def index_reaching(self, offset: int) -> int:
        """The index of the first range that ends at or after `offset`; ``len(self)`` when there is none."""
        return bisect_left(self._lasts, offset)

    def clip(self, first: int, last: int) -> OffsetRanges:
        """The part of this set within `first` to `last`, both inclusive; empty when `last` < `first`."""
        low, high = bisect_left(self._lasts, first), bisect_right(self._firsts, last)
        if low >= high:
            return OffsetRanges()
        if first <= self._firsts[0] and last >= self._lasts[-1]:
            return self
        firsts, lasts = self._firsts[low:high], self._lasts[low:high]
        firsts[0], lasts[-1] = max(firsts[0], first), min(lasts[-1], last)
        return OffsetRanges._of(firsts, lasts)

    def __or__(self, other: OffsetRanges) -> OffsetRanges:
        builder = RangesBuilder()
        mine, theirs = 0, 0
        while mine < len(self) or theirs < len(other):
            if theirs >= len(other) or (mine < len(self) and self._firsts[mine] <= other._firsts[theirs]):
                builder.add(self._firsts[mine], self._lasts[mine])
                mine += 1
            else:
                builder.add(other._firsts[theirs], other._lasts[theirs])
                theirs += 1
        return builder.build()

    def __and__(self, other: OffsetRanges) -> OffsetRanges:
        builder = RangesBuilder()
        mine, theirs = 0, 0
        while mine < len(self) and theirs < len(other):
            first = max(self._firsts[mine], other._firsts[theirs])
            last = min(self._lasts[mine], other._lasts[theirs])
            if first <= last:
                builder.add(first, last)
            if self._lasts[mine] < other._lasts[theirs]:
                mine += 1
            else:
                theirs += 1
        return builder.build()

    def __sub__(self, other: OffsetRanges) -> OffsetRanges:
        builder = RangesBuilder()
        theirs = 0
        for first, last in zip(self._firsts, self._lasts, strict=True):
            start = first
            while theirs < len(other) and other._lasts[theirs] < start:
                theirs += 1
            taken = theirs
            while taken < len(other) and other._firsts[taken] <= last:
                if start < other._firsts[taken]:
                    builder.add(start, other._firsts[taken] - 1)
                start = other._lasts[taken] + 1
                taken += 1
            if start <= last:
                builder.add(start, last)
        return builder.build()


class RangesBuilder:
    """Collects ranges that come in ascending order of their first offset and merges what overlaps or touches."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self) -> None:
        self._firsts: array[int] = array("I")
        self._lasts: array[int] = array("I")

    def __len__(self) -> int:
        """How many ranges there are so far."""
        return len(self._firsts)

    def add(self, first: int, last: int) -> None:
        """Add `first` to `last`, both inclusive.

        Raises:
            ValueError: the range is reversed, negative, beyond 2^63-1, or begins before the one added last.
        """
        if first < 0 or last < first or last > MAX_OFFSET:
            raise ValueError(f"offsets {first} to {last} are no range within 0 to {MAX_OFFSET}")
        if last > MOST_NARROW:
            self._firsts, self._lasts = widened(self._firsts), widened(self._lasts)
        if self._lasts:
            if first < self._firsts[-1]:
                raise ValueError(f"offset {first} comes after a range that begins at {self._firsts[-1]}")
            if first <= self._lasts[-1] + 1:
                self._lasts[-1] = max(self._lasts[-1], last)
                return
        self._firsts.append(first)
        self._lasts.append(last)

    @property
    def so_far(self) -> OffsetRanges:
        """The collected ranges, without a copy of them: what is added later may or may not show in it."""
        return OffsetRanges._of(self._firsts, self._lasts)

    def build(self) -> OffsetRanges:
        """Hand over the collected ranges; the builder is empty afterwards."""
        built = OffsetRanges._of(self._firsts, self._lasts)
        self._firsts, self._lasts = array("I"), array("I")
        return built
