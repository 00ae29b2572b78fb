"""Owns telling what a mirror waits for while it starts, before it has any progress of its own to show."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable

log = structlog.get_logger("mirror")


def _log(waits_for: str) -> None:
    log.info("mirror starts", waits_for=waits_for)


class StartProgress:
    """Logs in each interval what a mirror waits for, until `end` or the end of its ``with`` block."""

    def __init__(self, interval_seconds: float, *, tell: Callable[[str], None] = _log) -> None:
        """With an interval of 0, nothing is logged."""
        self.waits_for = ""
        """What the current step waits for."""
        self._interval_seconds, self._tell = interval_seconds, tell
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="start", daemon=True)

    def __enter__(self) -> Self:
        if self._interval_seconds:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Log nothing from now on: the mirror has started."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.wait(self._interval_seconds):
            self._tell(self.waits_for)
