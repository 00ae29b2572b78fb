"""Owns how many offsets of a set lie in each of a bounded number of equal parts of a span; must not know pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gapless_api.offsets.ranges import OffsetRanges


def edge(first: int, last: int, amount: int, index: int) -> int:
    """The first offset of part `index` of `amount` parts of `first` to `last`, both inclusive."""
    return first + (last - first + 1) * index // amount


def counts(ranges: OffsetRanges, first: int, last: int, most: int) -> list[int]:
    """How many offsets of `ranges` lie in each part of `first` to `last`, both inclusive.

    Args:
        ranges: any set; what lies outside the span does not count.
        first: the lowest offset of the span.
        last: its highest offset.
        most: how many parts there are, fewer only when the span has fewer offsets.

    Raises:
        ValueError: the span is empty, or there shall be no parts.
    """
    span = last - first + 1
    if span < 1 or most < 1:
        raise ValueError(f"offsets {first} to {last} cannot be cut into {most} parts")
    amount = min(most, span)
    found = [0] * amount
    clipped = ranges.clip(first, last)
    for low, high in clipped.pairs(0, len(clipped)):
        begin = _part(low - first, span, amount)
        end = _part(high - first, span, amount)
        if begin == end:
            found[begin] += high - low + 1
            continue
        found[begin] += edge(first, last, amount, begin + 1) - low
        found[end] += high + 1 - edge(first, last, amount, end)
        for between in range(begin + 1, end):
            found[between] = edge(first, last, amount, between + 1) - edge(first, last, amount, between)
    return found


def _part(distance: int, span: int, amount: int) -> int:
    """The part that holds the offset `distance` behind the first: the inverse of `edge`, in whole numbers."""
    return ((distance + 1) * amount - 1) // span
