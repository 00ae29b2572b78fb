"""The histogram of a set of offsets over a span, with a bounded number of equal bins; must not know pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gapless_api.offsets.ranges import OffsetRanges


def edge(first: int, last: int, amount: int, index: int) -> int:
    """Return the first offset of bin `index` of `amount` bins from `first` to `last`, both inclusive."""
    return first + (last - first + 1) * index // amount


def counts(ranges: OffsetRanges, first: int, last: int, bins: int) -> list[int]:
    """Return the number of offsets of `ranges` in each bin from `first` to `last`, both inclusive.

    Args:
        ranges: any set; offsets outside the span do not count.
        first: the lowest offset of the span.
        last: its highest offset.
        bins: the number of bins; fewer only if the span has fewer offsets.

    Raises:
        ValueError: the span is empty, or `bins` is not positive.
    """
    span = last - first + 1
    if span < 1 or bins < 1:
        raise ValueError(f"offsets {first} to {last} cannot be divided into {bins} bins")
    amount = min(bins, span)
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
    """Return the bin of the offset at `distance` from the first one: the inverse of `edge`, in integers."""
    return ((distance + 1) * amount - 1) // span
