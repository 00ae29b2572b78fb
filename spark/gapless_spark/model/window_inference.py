"""What can be inferred from the windows of one partition beyond their records: unreported losses, stale records.

Must not know records, bundles or Spark. The rules follow from the peer's detector. It creates a window when the first
event of it arrives, and reports the holes before and between the events that have arrived, but never what is missing
after the last one. It remembers a few windows and evicts the one that it created first; an evicted window is never
reported again. So a record shows that the listed holes are missing, and that the offset behind the last hole (the first
offset if no hole is listed) has arrived. It contains no information about higher offsets of the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from gapless_api.offsets.ranges import OffsetRanges, RangesBuilder


class WindowSpan(NamedTuple):
    """One window, or consecutive windows of equal size without listed holes."""

    first_offset: int
    last_offset: int
    windows: int
    begins_with_hole: bool
    """Whether the first offset is listed as missing."""
    last_certain: int
    """The highest offset of the (last) window that its record covers."""

    @property
    def window_size(self) -> int:
        """The number of offsets in each window."""
        return (self.last_offset - self.first_offset + 1) // self.windows


def listed_window(first_offset: int, last_offset: int, missing: OffsetRanges) -> WindowSpan:
    """Return the span of a window whose record lists `missing`."""
    if not len(missing):
        return WindowSpan(first_offset, last_offset, 1, begins_with_hole=False, last_certain=first_offset)
    certain = min(missing.last_offset + 1, last_offset)
    return WindowSpan(first_offset, last_offset, 1, missing.first_offset == first_offset, certain)


def complete_windows(first_offset: int, last_offset: int, windows: int) -> WindowSpan:
    """Return the span of consecutive windows whose records list no holes."""
    size = (last_offset - first_offset + 1) // windows
    return WindowSpan(first_offset, last_offset, windows, begins_with_hole=False, last_certain=last_offset - size + 1)


def silent_window(first_offset: int, window_size: int) -> WindowSpan:
    """Return the span of a window whose record is deleted or unreadable: nothing is inferred from it or about it."""
    last = first_offset + window_size - 1
    return WindowSpan(first_offset, last, 0, begins_with_hole=False, last_certain=last)


def infer_losses(spans: Sequence[WindowSpan], *, all_tails: bool) -> OffsetRanges:
    """Return what may be lost without a report, between the first and the last window of one partition.

    These are the windows without a record between others, and the end of a window, after its last certain offset, if
    the first offset of the next window is also missing: a loss that extends into the next window has begun somewhere in
    this one. Some or all of these events may have arrived.

    Args:
        spans: in the order of their first offsets.
        all_tails: infer the end of every window that has a later one, even if the next window begins without a loss.
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
        # After a change of the window size, the next window may cover these offsets.
        if following is None or following.first_offset <= reached:
            continue
        lost_behind = following.first_offset > reached + 1 or following.begins_with_hole
        if span.last_offset == reached and (all_tails or lost_behind):
            add(span.last_certain + 1, span.last_offset)
        add(reached + 1, following.first_offset - 1)
    return in_order.build() | OffsetRanges(overlapping)


def first_remembered_offset(spans: Sequence[WindowSpan], remembered_windows: int) -> int:
    """Return the first offset that a detector can still report: the first of the newest windows that it remembers.

    0 if it may remember all of them. If windows never got a record, the detector remembers fewer windows than assumed
    here, not more. Only a window that was created late, after newer ones, may be remembered longer.

    Args:
        spans: in the order of their first offsets.
        remembered_windows: how many windows the detector remembers.
    """
    if sum(span.windows for span in spans) <= remembered_windows:
        return 0
    remaining = remembered_windows
    for span in reversed(spans):
        if remaining <= span.windows:
            return span.last_offset - remaining * span.window_size + 1
        remaining -= span.windows
    raise AssertionError(remembered_windows)  # unreachable: there are more windows than that
