"""Owns the wish to stop: signals, and the sleep that one of them ends; must not know what is being done.

The first SIGTERM or SIGINT lets the batch that is under way finish (it holds some milliseconds of pace), so that
nothing is sent twice; a second one ends it at once, and so does `PATIENCE_SECONDS` after the first, for a batch that
was made before the pace was lowered may last for hours. SIGHUP ends nothing: see `gapless_api.base.hangup`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING

from gapless_api.base.errors import StoppedError
from gapless_api.base.hangup import ignore_hangups

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


PATIENCE_SECONDS = 2.5
"""A program must be gone five seconds after its signal, whatever it is doing, and still needs time for its report."""


class Shutdown:
    """Remembers whether someone asked us to stop; it is the `Clock` of everything that waits."""

    def __init__(self, *, keeps_progress: bool = False, way_on: str = "") -> None:
        """`keeps_progress` says whether there is a checkpoint to go on from; `way_on` is said in place of that."""
        self._keeps_progress = keeps_progress
        self._way_on = way_on
        self._signal: int | None = None
        self.times = 0
        """How often somebody asked."""
        self._at_once = False
        self._asked_at = 0.0
        self._parent: int | None = None
        self.in_batch = False
        """While a batch is on its way, a first request waits for its end."""

    def listen(self) -> None:
        """Take SIGTERM and SIGINT from now on, and survive SIGHUP."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note_signal)
        ignore_hangups()

    def keeps_progress(self) -> None:
        """From now on there is a checkpoint to go on from."""
        self._keeps_progress = True

    def follow_parent(self, parent: int) -> None:
        """In a worker process: leave it to the parent what signals mean, and count its end as a request.

        `parent` is its number, which it found before it made this process: it may have ended since.

        A terminal gives SIGINT to every process of a command, and a service manager SIGTERM; the parent, which gets it
        as well, says once what is to be done.
        """
        self._parent = parent
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def _note_signal(self, number: int, _frame: FrameType | None) -> None:
        self._signal = number
        self.times += 1
        if self.times == 1:
            self._asked_at = time.monotonic()
        if self._at_once:
            self._at_once = False
            self.check()

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """While the block runs, a request ends it wherever it is: it must be one that changes nothing outside.

        Raises:
            StoppedError: from anywhere in the block.
        """
        self._at_once = True
        try:
            self.check()
            yield
        finally:
            self._at_once = False

    @property
    def _does_not_wait(self) -> bool:
        """Whether a batch that is under way is cut."""
        again = self.times > 1 and self._parent is None
        return again or time.monotonic() - self._asked_at > PATIENCE_SECONDS

    @property
    def request(self) -> StoppedError | None:
        """What somebody asked for, in a sentence; ``None`` if nobody did."""
        if self._signal is None:
            return None
        way_on = self._way_on or (
            "start again with the same checkpoint to go on"
            if self._keeps_progress
            else "no checkpoint keeps the progress, so that starting again sends everything again"
        )
        name = signal.Signals(self._signal).name
        return StoppedError(f"Stopped by {name}; {way_on}.", by_terminal=self._signal == signal.SIGINT)

    def check(self) -> None:
        """End the work if someone asked for it. Raises StoppedError."""
        if self._parent is not None and not self.in_batch and os.getppid() != self._parent:
            raise StoppedError(
                "The process that shares the work out is gone; start again, with the checkpoint if there is one.",
                by_terminal=False,
            )
        request = self.request
        if request is not None and (not self.in_batch or self._does_not_wait):
            raise request

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
