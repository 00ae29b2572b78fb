"""Owns what follows from the windows of one partition beyond what their records report: inferred losses, stale records.

Must not know records, bundles or Spark. The rules rest on what the peer's detector does. It creates a window when the
first event of it arrives, reports the holes before and between what has arrived in it, and never what comes after the
last event. It remembers a few windows and forgets the one that it created first; a window that it has forgotten is
never reported again. So of a window with a record these are certain: the listed holes, and that the offset behind the
last hole (the first offset, where no hole is listed) has arrived. Of everything behind that nothing is said.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.offsets.ranges import OffsetRanges, RangesBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence


class WindowSpan(NamedTuple):
    """One window, or several of equal size, each behind the other, in which no holes are listed."""

    first_offset: int
    last_offset: int
    windows: int
    begins_with_hole: bool
    """Whether the first offset is listed as missing."""
    last_certain: int
    """The highest offset of the (last) window about which the records say something."""

    @property
    def window_size(self) -> int:
        """How many offsets each window has."""
        return (self.last_offset - self.first_offset + 1) // self.windows


def listed_window(first_offset: int, last_offset: int, missing: OffsetRanges) -> WindowSpan:
    """A window whose record lists `missing`."""
    if not len(missing):
        return WindowSpan(first_offset, last_offset, 1, begins_with_hole=False, last_certain=first_offset)
    certain = min(missing.last_offset + 1, last_offset)
    return WindowSpan(first_offset, last_offset, 1, missing.first_offset == first_offset, certain)


def complete_windows(first_offset: int, last_offset: int, windows: int) -> WindowSpan:
    """A run of windows whose records list nothing."""
    size = (last_offset - first_offset + 1) // windows
    return WindowSpan(first_offset, last_offset, windows, begins_with_hole=False, last_certain=last_offset - size + 1)


def silent_window(first_offset: int, window_size: int) -> WindowSpan:
    """A window that has a record which says nothing: nothing follows from it, and nothing follows about it."""
    last = first_offset + window_size - 1
    return WindowSpan(first_offset, last, 0, begins_with_hole=False, last_certain=last)


def infer(spans: Sequence[WindowSpan], *, all_tails: bool) -> OffsetRanges:
    """What may be lost without having been reported, between the first and the last window of one partition.

    Inferred are the windows between others that have no record, and the end of a window, from behind the last certain
    offset, where the first offset behind the window is missing too: a loss that goes on to the next window has begun in
    this one, nobody knows where. Both may have arrived in part or as a whole.

    Args:
        spans: in the order of their first offsets.
        all_tails: infer the end of every window that has a later one, even where the next window begins well.
    """
    in_order, overlapping = RangesBuilder(), list[tuple[int, int]]()
    highest_first = -1

    def add(first: int, last: int) -> None:
        nonlocal highest_first
        if first > last:
            return
        if first < highest_first:  # only where the window size was changed
            overlapping.append((first, last))
            return
        highest_first = first
        in_order.add(first, last)

    reached = -1
    for span, following in pairwise([*spans, None]):
        assert span is not None  # noqa: S101 -- for the type checker: only the last one is
        reached = max(reached, span.last_offset)
        if all_tails and span.windows > 1:
            for last in range(span.first_offset + span.window_size - 1, span.last_offset, span.window_size):
                add(last - span.window_size + 2, last)
        # Where the window size was changed, the next window may speak of these offsets.
        if following is None or following.first_offset <= reached:
            continue
        lost_behind = following.first_offset > reached + 1 or following.begins_with_hole
        if span.last_offset == reached and (all_tails or lost_behind):
            add(span.last_certain + 1, span.last_offset)
        add(reached + 1, following.first_offset - 1)
    return in_order.build() | OffsetRanges(overlapping)


def remembered_from(spans: Sequence[WindowSpan], remembered_windows: int) -> int:
    """The first offset that a detector can still report: that of the oldest of the newest windows.

    0 when it may remember them all. Windows that never got a record make it remember fewer than this says, not more.
    Only a window that was created late, after newer ones, may be remembered longer than this says.

    Args:
        spans: in the order of their first offsets.
        remembered_windows: how many windows the detector remembers.
    """
    if sum(span.windows for span in spans) <= remembered_windows:
        return 0
    left = remembered_windows
    for span in reversed(spans):
        if left <= span.windows:
            return span.last_offset - left * span.window_size + 1
        left -= span.windows
    raise AssertionError(remembered_windows)  # there are more windows than that
