"""Owns the wish to stop: signals, and the sleep that one of them ends; must not know what is being done.

The first SIGTERM or SIGINT lets the batch that is under way finish (it holds some milliseconds of pace, or one event)
so that nothing is sent twice; a second one ends it at once, and so does `PATIENCE_SECONDS` after the first, for a batch
that was made before the pace was lowered may last for hours.
"""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from gapless_api.errors import StoppedError

if TYPE_CHECKING:
    from types import FrameType


PATIENCE_SECONDS = 3.0


class Stopping:
    """Remembers whether someone asked us to stop; it is the `Clock` of everything that waits."""

    def __init__(self, *, keeps_progress: bool = False, way_on: str = "") -> None:
        """`keeps_progress` says whether there is a checkpoint to go on from; `way_on` is said in place of that."""
        self._keeps_progress = keeps_progress
        self._way_on = way_on
        self._signal: int | None = None
        self._times = 0
        self._asked_at = 0.0
        self._parent: int | None = None
        self.in_batch = False
        """While a batch is on its way, a first request waits for its end."""

    def listen(self) -> None:
        """Take SIGTERM and SIGINT from now on."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._asked)

    def watch_parent(self) -> None:
        """From now on, count the end of the parent process as a request: without it nobody holds the reins."""
        self._parent = os.getppid()

    def _asked(self, number: int, _frame: FrameType | None) -> None:
        self._signal = number
        self._times += 1
        if self._times == 1:
            self._asked_at = time.monotonic()

    @property
    def asked(self) -> bool:
        """Whether someone asked."""
        return self._signal is not None

    @property
    def _patience_is_over(self) -> bool:
        return time.monotonic() - self._asked_at > PATIENCE_SECONDS

    def check(self) -> None:
        """End the work if someone asked for it. Raises StoppedError."""
        if self._parent is not None and not self.in_batch and os.getppid() != self._parent:
            raise StoppedError(
                "The process that shares the work out is gone; start again, with the checkpoint if there is one.",
                by_terminal=False,
            )
        if self._signal is not None and (not self.in_batch or self._times > 1 or self._patience_is_over):
            name = signal.Signals(self._signal).name
            way_on = self._way_on or (
                "start again with the same checkpoint to go on"
                if self._keeps_progress
                else "no checkpoint keeps the progress, so that starting again sends everything again"
            )
            raise StoppedError(
                f"Stopped by {name}; {way_on}.",
                by_terminal=self._signal == signal.SIGINT,
            )

    def now(self) -> float:
        """Seconds of the monotonic clock."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep for `seconds`, in naps, so that a request is noticed. Raises StoppedError."""
        end = time.monotonic() + seconds
        while True:
            self.check()
            left = end - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, 0.1))
