"""The progress display of commands that read Kafka: a bar on a terminal, JSON lines elsewhere.

Must not know how records are read. Nothing is shown in the first two seconds.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol, Self

from gapless_api.base.quantities import seconds
from gapless_api.base.settings import Setting
from gapless_api.cli.terminal_bar import BAR_SECONDS, TerminalBar
from gapless_api.wire.reading_progress import READING_LINE, ReadingLine

SHOWN_AFTER_SECONDS = 2.0

PROGRESS_INTERVAL = Setting(
    "progressInterval",
    "Seconds between progress lines (JSON on standard error) if it is not a terminal; 0 disables progress.",
    parse=seconds(0, 3600),
    default=5.0,
    metavar="SECONDS",
    group="Output",
)


class Progress(Protocol):
    """Receives the progress of reading."""

    def begin(self, offsets: int) -> None:
        """Start with `offsets` offsets to read."""

    def update(self, count_read: Callable[[], int]) -> None:
        """Note that records were read; `count_read` returns the offsets so far, and is called only if needed."""


class SilentProgress:
    """Shows nothing."""

    def begin(self, offsets: int) -> None:
        """Do nothing."""

    def update(self, count_read: Callable[[], int]) -> None:
        """Do nothing."""


class ReadingProgress:
    """Shows the progress of reading inside of its ``with`` block; other threads may report progress."""

    def __init__(
        self,
        command: str,
        *,
        interval_seconds: float,
        on_terminal: bool | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create a display; with `interval_seconds` 0 it shows nothing, also on a terminal."""
        self._command = command
        self._is_terminal = sys.stderr.isatty() if on_terminal is None else on_terminal
        self._interval_seconds = BAR_SECONDS if self._is_terminal and interval_seconds else interval_seconds
        self._now = now
        self._bar: TerminalBar | None = None
        self._lock = threading.Lock()
        self._began = now()
        self._next_update = self._began + SHOWN_AFTER_SECONDS
        self._offsets: int | None = None
        self._read = 0
        self._is_shown = False

    def begin(self, offsets: int) -> None:
        """Start again with `offsets` offsets to read, none of which was read."""
        with self._lock:
            self._offsets, self._read, self._began = offsets, 0, self._now()

    def update(self, count_read: Callable[[], int]) -> None:
        """Show the progress if it is due; `count_read` returns the number of offsets so far."""
        if not self._interval_seconds or self._now() < self._next_update:
            return
        read = count_read()
        with self._lock:
            if self._offsets is None:
                return
            self._read = min(max(read, self._read), self._offsets)
            self._show()

    def __enter__(self) -> Self:
        """Return the display, which shows nothing before `begin`."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close the bar; if progress was shown and the block succeeded, show 100 % before."""
        with self._lock:
            if self._is_shown and kind is None and self._offsets is not None:
                self._read = self._offsets
                self._show()
            self._offsets = None
            if self._bar is not None:
                self._bar.close()
                self._bar = None

    def _show(self) -> None:
        offsets, read = self._offsets or 0, self._read
        now = self._now()
        self._next_update, self._is_shown = now + self._interval_seconds, True
        speed = read / max(now - self._began, 1e-6)
        if self._is_terminal:
            self._bar = self._bar or TerminalBar(self._command)
            self._bar.show(total=offsets, done=read, counts=f"{read:,} of {offsets:,} offsets")
            return
        line = ReadingLine(
            time=datetime.now(UTC).isoformat(timespec="milliseconds"),
            command=self._command,
            offsets=offsets,
            read=read,
            percent=round(100 * read / offsets, 2) if offsets else 100.0,
            offsets_per_second=round(speed, 1),
            eta_seconds=round((offsets - read) / speed, 1) if speed > 0 else None,
        )
        sys.stderr.write(READING_LINE.to_line(line) + "\n")
        sys.stderr.flush()
