"""The collection of ranges while a file is read: compact as long as they ascend, else sorted at the end.

Must not know the file, or the meaning of its ranges.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

from gapless_api.offsets.ranges import OffsetRanges, RangesBuilder


class RangeAccumulator:
    """Collects ranges (inclusive) in the order in which a file lists them."""

    __slots__ = ("_ascending", "_firsts", "_lasts", "repeated")

    def __init__(self) -> None:
        self._ascending: RangesBuilder | None = RangesBuilder()
        """All ranges, as long as each begins at least two offsets after the end of the previous one; then ``None``."""
        self._firsts = array("q")
        """First offsets of all ranges, once `_ascending` is ``None``; `_lasts` are their last offsets."""
        self._lasts = array("q")
        self.repeated = 0
        """How many offsets were merged by `build` because they were listed before."""

    @property
    def ascending(self) -> bool:
        """Whether every range begins at least two offsets after the end of the previous one."""
        return self._ascending is not None

    def __len__(self) -> int:
        """Return the number of ranges."""
        return len(self._ascending) if self._ascending is not None else len(self._firsts)

    def extend(self, firsts: Sequence[int], lasts: Sequence[int], *, ascending: bool) -> None:
        """Add ranges; `ascending` says that they ascend, also relative to all ranges before."""
        if not ascending:
            self._expand()
        if self._ascending is not None:
            self._ascending.extend(firsts, lasts)
            return
        self._firsts.extend(firsts)
        self._lasts.extend(lasts)

    def join(self, other: RangeAccumulator) -> None:
        """Add the ranges of `other`, which must not be used afterwards."""
        self._expand()
        other._expand()
        self._firsts += other._firsts
        self._lasts += other._lasts

    def _expand(self) -> None:
        """Switch from the compact form to two columns, which can be sorted."""
        if self._ascending is None:
            return
        ranges, self._ascending = self._ascending.build(), None
        for first, last in ranges.pairs(0, len(ranges)):
            self._firsts.append(first)
            self._lasts.append(last)

    def build(self, *, merges: bool = False) -> OffsetRanges:
        """Return all ranges, sorted; the accumulator is empty afterwards.

        Args:
            merges: whether overlapping ranges are merged.

        Raises:
            ValueError: two ranges overlap, and are not merged; the argument is an offset that is in both.
        """
        if self._ascending is not None:
            return self._ascending.build()
        # Disjoint ranges have the same order by first and by last offset, so each column can be sorted separately; and
        # if any ranges overlap, two neighbours of the sorted columns do. Their union is the same in any case.
        firsts, self._firsts = _sorted(self._firsts), array("q")
        lasts, self._lasts = _sorted(self._lasts), array("q")
        listed = sum(lasts) - sum(firsts) + len(firsts)
        builder = RangesBuilder()
        previous = -1
        for first, last in zip(firsts, lasts, strict=True):
            if first <= previous and not merges:
                raise ValueError(first)
            builder.add(first, last)
            previous = last
        ranges = builder.build()
        self.repeated = listed - ranges.count
        return ranges


def _sorted(column: Iterable[int]) -> array[int]:
    return array("q", sorted(column))
