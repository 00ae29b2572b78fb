"""Owns what a file lists as ranges while it is read: kept small while they ascend, put in order at the end when not.

Must not know the file, nor what its ranges mean.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from gapless_api.offsets.ranges import OffsetRanges, RangesBuilder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class RangeAccumulator:
    """Ranges (inclusive) in the order in which they are listed."""

    __slots__ = ("_ascending", "_firsts", "_lasts")

    def __init__(self) -> None:
        self._ascending: RangesBuilder | None = RangesBuilder()
        """All of them, while each begins beyond the end of the one before, with at least one offset between."""
        self._firsts = array("q")
        """All of them, with `_lasts`, from the moment when they no longer do."""
        self._lasts = array("q")

    @property
    def ascending(self) -> bool:
        """Whether every range begins beyond the end of the one before, with at least one offset between."""
        return self._ascending is not None

    def __len__(self) -> int:
        """How many were listed."""
        return len(self._ascending) if self._ascending is not None else len(self._firsts)

    def extend(self, firsts: Sequence[int], lasts: Sequence[int], *, ascending: bool) -> None:
        """Take more of them; `ascending` says that these ascend, and go on where those before end."""
        if not ascending:
            self._lay_out()
        if self._ascending is not None:
            self._ascending.extend(firsts, lasts)
            return
        self._firsts.extend(firsts)
        self._lasts.extend(lasts)

    def join(self, other: RangeAccumulator) -> None:
        """Take those of `other`, which must not be used any more."""
        self._lay_out()
        other._lay_out()
        self._firsts += other._firsts
        self._lasts += other._lasts

    def _lay_out(self) -> None:
        if self._ascending is None:
            return
        listed, self._ascending = self._ascending.build(), None
        for first, last in listed.pairs(0, len(listed)):
            self._firsts.append(first)
            self._lasts.append(last)

    def build(self) -> OffsetRanges:
        """Hand over all of them; nothing is left afterwards.

        Raises:
            ValueError: two of them overlap; the argument is an offset that both hold.
        """
        if self._ascending is not None:
            return self._ascending.build()
        # Disjoint ranges have the same order by their first and by their last offsets, so each column can be sorted
        # for itself; and ranges sorted so overlap somewhere if and only if two neighbours do.
        firsts, self._firsts = _sorted(self._firsts), array("q")
        lasts, self._lasts = _sorted(self._lasts), array("q")
        builder = RangesBuilder()
        previous = -1
        for first, last in zip(firsts, lasts, strict=True):
            if first <= previous:
                raise ValueError(first)
            builder.add(first, last)
            previous = last
        return builder.build()


def _sorted(column: Iterable[int]) -> array[int]:
    return array("q", sorted(column))
