"""Owns the rules by which the peer's detector decides what is missing, and its record format. Must not know Kafka.

The rules are the peer's, with their blind spots: a loss that touches the end of a window and the loss of whole windows
are never reported. The kit imports nothing of the product, so that an error made twice does not cancel out.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from pyroaring import BitMap

_VERSION = 1


class Verdict(IntEnum):
    """What `GapDetector.check` says about an offset."""

    BELOW_RANGE = -2
    """Older than every window in memory: passed on, never recorded, so neither its gap nor a duplicate is known."""
    GAP_FILL = -1
    """Older than the highest, not seen before: passed on."""
    NEW_HIGHEST = 0
    """Passed on."""
    DUPLICATE = 1
    """Seen before: dropped."""


@dataclass(frozen=True)
class GapReport:
    """What a window lacks at the time of emission; positions are relative to `window_min`."""

    window_min: int
    window_max: int
    """Inclusive."""
    missing: Any
    """A pyroaring BitMap."""

    def key(self, topic: str, partition: int) -> str:
        """Key of the record."""
        return f"{topic}:{partition}:{self.window_min}"

    def value(self) -> bytes:
        """Value of the record: version, window, and the bitmap in Roaring's portable form, run-optimised."""
        bitmap = BitMap(self.missing)
        bitmap.run_optimize()
        serialized: bytes = bitmap.serialize()
        return struct.pack(">Bqq", _VERSION, self.window_min, self.window_max) + serialized


@dataclass
class _Window:
    start: int
    size: int
    received: Any = field(default_factory=BitMap)
    emptiness_told: bool = False

    @property
    def end(self) -> int:
        return self.start + self.size - 1

    def missing(self) -> Any:
        """Holes before and between what was received; nothing after the last received offset, ever."""
        if not self.received:
            return BitMap()
        return self.received.flip(0, self.received.max() + 1)

    def report(self) -> GapReport:
        return GapReport(self.start, self.end, self.missing())


class GapDetector:
    """Watches the offsets of one partition of one topic.

    Args:
        window_size: offsets in a window; windows begin at its multiples.
        max_windows: how many windows are remembered.
    """

    def __init__(self, window_size: int = 1000, max_windows: int = 5) -> None:
        self._window_size = window_size
        self._max_windows = max_windows
        self._windows: list[_Window] = []
        self._current: _Window | None = None
        self._lowest = 0
        self._highest = -1
        self.purged: list[GapReport] = []
        """Windows that were pushed out with gaps, to be emitted once more; the caller takes them from here."""

    @property
    def windows(self) -> list[int]:
        """First offsets of the windows in memory, in the list's order (a late one stands at the end)."""
        return [window.start for window in self._windows]

    def check(self, offset: int) -> Verdict:
        """Record an offset and say what to do with its event."""
        window = self._current
        if window is None or not window.start <= offset <= window.end:
            if self._windows and offset < self._lowest:
                return Verdict.BELOW_RANGE
            window = self._current = self._window_of(offset)
        position = offset - window.start
        if position in window.received:
            return Verdict.DUPLICATE
        window.received.add(position)
        if offset > self._highest:
            self._highest = offset
            return Verdict.NEW_HIGHEST
        return Verdict.GAP_FILL

    def _window_of(self, offset: int) -> _Window:
        for window in self._windows:
            if window.start <= offset <= window.end:
                return window
        if len(self._windows) >= self._max_windows:
            # The first of the LIST goes, not the oldest: a window that came late lives on.
            gone = self._windows.pop(0)
            if gone.missing():
                self.purged.append(gone.report())
        window = _Window(offset // self._window_size * self._window_size, self._window_size)
        self._windows.append(window)
        self._lowest = min(each.start for each in self._windows)
        return window

    def take_purged(self) -> list[GapReport]:
        """Hand over the windows that were pushed out with gaps since the last call."""
        purged, self.purged = self.purged, []
        return purged

    def emit(self) -> list[GapReport]:
        """Report every window that has gaps, and once each window that has none (or none any more)."""
        reports = []
        for window in self._windows:
            report = window.report()
            if report.missing:
                window.emptiness_told = False
                reports.append(report)
            elif not window.emptiness_told:
                window.emptiness_told = True
                reports.append(report)
        return reports

    def missing_count(self) -> int:
        """How many offsets the windows in memory lack, as far as this detector can see."""
        return sum(len(window.missing()) for window in self._windows)
