"""The rules by which the peer's detector finds missing offsets, and its record format. Must not know Kafka.

The rules are the peer's, with their blind spots: a loss that touches the end of a window and the loss of entire windows
are never reported. The kit imports nothing of the product, so that the same error on both sides cannot cancel out.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from pyroaring import BitMap

_VERSION = 1


class Verdict(IntEnum):
    """Result of `GapDetector.check`."""

    BELOW_RANGE = -2
    """Older than every window in memory: forwarded and not recorded, so neither its gap nor a duplicate is detected."""
    GAP_FILL = -1
    """Older than the highest offset, not seen before: forwarded."""
    NEW_HIGHEST = 0
    """Forwarded."""
    DUPLICATE = 1
    """Seen before: dropped."""


@dataclass(frozen=True)
class GapReport:
    """The offsets that a window lacks at the time of the report; positions are relative to `window_min`."""

    window_min: int
    window_max: int
    """Inclusive."""
    missing: Any
    """A pyroaring BitMap."""

    def key(self, topic: str, partition: int) -> str:
        """Return the key of the record."""
        return f"{topic}:{partition}:{self.window_min}"

    def value(self) -> bytes:
        """Return the value of the record: version, window, and the run-optimised bitmap in Roaring's format."""
        bitmap = BitMap(self.missing)
        bitmap.run_optimize()
        serialized: bytes = bitmap.serialize()
        return struct.pack(">Bqq", _VERSION, self.window_min, self.window_max) + serialized


@dataclass
class _Window:
    start: int
    size: int
    received: Any = field(default_factory=BitMap)
    reported_empty: bool = False

    @property
    def end(self) -> int:
        return self.start + self.size - 1

    def missing(self) -> Any:
        """Return the holes before and between received offsets, never after the last one."""
        if not self.received:
            return BitMap()
        return self.received.flip(0, self.received.max() + 1)

    def report(self) -> GapReport:
        return GapReport(self.start, self.end, self.missing())


class GapDetector:
    """Tracks the offsets of one partition of one topic.

    Args:
        window_size: offsets in a window; windows begin at its multiples.
        max_windows: number of windows kept in memory.
    """

    def __init__(self, window_size: int = 1000, max_windows: int = 5) -> None:
        self._window_size = window_size
        self._max_windows = max_windows
        self._windows: list[_Window] = []
        self._current: _Window | None = None
        self._lowest = 0
        self._highest = -1
        self.purged: list[GapReport] = []
        """Last reports of evicted windows with gaps; the caller collects them with `take_purged`."""

    @property
    def windows(self) -> list[int]:
        """First offsets of the windows in memory, in the order of the list (a late window is at the end)."""
        return [window.start for window in self._windows]

    def check(self, offset: int) -> Verdict:
        """Record an offset and return what to do with its event."""
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
            # Evicts the first window of the LIST, not the oldest: a late window stays.
            evicted = self._windows.pop(0)
            if evicted.missing():
                self.purged.append(evicted.report())
        window = _Window(offset // self._window_size * self._window_size, self._window_size)
        self._windows.append(window)
        self._lowest = min(each.start for each in self._windows)
        return window

    def take_purged(self) -> list[GapReport]:
        """Return the reports of the windows with gaps that were evicted since the last call."""
        purged, self.purged = self.purged, []
        return purged

    def emit(self) -> list[GapReport]:
        """Report every window that has gaps, and once each window that has no gaps (any more)."""
        reports = []
        for window in self._windows:
            report = window.report()
            if report.missing:
                window.reported_empty = False
                reports.append(report)
            elif not window.reported_empty:
                window.reported_empty = True
                reports.append(report)
        return reports

    def missing_count(self) -> int:
        """Return how many offsets this detector reports as missing from the windows in memory."""
        return sum(len(window.missing()) for window in self._windows)
