"""Owns how a command that reads Kafka shows how far it is: a bar on a terminal, JSON lines elsewhere.

Must not know how anything is read. What takes less than two seconds shows nothing.
"""

from __future__ import annotations

import sys
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from gapless_api.base.settings import Setting, seconds
from gapless_api.cli.terminal_bar import BAR_SECONDS, TerminalBar
from gapless_api.wire.reading_progress import READING_LINE, ReadingLine

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

SHOWN_AFTER_SECONDS = 2.0

PROGRESS_INTERVAL = Setting(
    "progressInterval",
    "Seconds between progress lines (JSON on standard error) when that is not a terminal; 0 disables them.",
    parse=seconds(0, 3600),
    default=5.0,
    shown_default="5",
    metavar="SECONDS",
    own=True,
    group="Output",
)


class Progress(Protocol):
    """Who is told how far the reading is."""

    def begin(self, offsets: int) -> None:
        """So many offsets are to be read from now on."""

    def update(self, look: Callable[[], int]) -> None:
        """Something was read; `look` says how many offsets are behind us, and is asked only when that is shown."""


class SilentProgress:
    """Shows nothing."""

    def begin(self, offsets: int) -> None:
        """Do nothing."""

    def update(self, look: Callable[[], int]) -> None:
        """Do nothing."""


class ReadingProgress:
    """Shows how far the reading is, as long as its ``with`` block lasts; other threads may report progress to it."""

    def __init__(
        self,
        command: str,
        *,
        interval_seconds: float,
        on_terminal: bool | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`interval_seconds` 0 shows nothing, on a terminal either."""
        self._command = command
        self._is_terminal = sys.stderr.isatty() if on_terminal is None else on_terminal
        self._interval_seconds = BAR_SECONDS if self._is_terminal and interval_seconds else interval_seconds
        self._now = now
        self._bar: TerminalBar | None = None
        self._lock = threading.Lock()
        self._began = now()
        self._due = self._began + SHOWN_AFTER_SECONDS
        self._offsets: int | None = None
        self._read = 0
        self._is_shown = False

    def begin(self, offsets: int) -> None:
        """So many offsets are to be read from now on; what was read before counts no more."""
        with self._lock:
            self._offsets, self._read, self._began = offsets, 0, self._now()

    def update(self, look: Callable[[], int]) -> None:
        """Something was read; `look` says how many offsets are behind us."""
        if not self._interval_seconds or self._now() < self._due:
            return
        read = look()
        with self._lock:
            if self._offsets is None:
                return
            self._read = min(max(read, self._read), self._offsets)
            self._show()

    def __enter__(self) -> Self:
        """Return the progress, which shows nothing before `begin`."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close the bar; show first that everything was read, if anything was shown and the block has not failed."""
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
        self._due, self._is_shown = now + self._interval_seconds, True
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
