"""Requests to stop: signals, and the sleeps that they end; must not know what is being done.

The first SIGTERM or SIGINT lets the current batch finish (some milliseconds of the pace), so that nothing is sent
twice. A second one ends it at once, and so does the end of `GRACE_SECONDS`: a batch that was made before the pace was
lowered may last for hours. SIGHUP ends nothing: see `gapless_api.base.hangup`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from types import FrameType

from gapless_api.base.errors import StoppedError
from gapless_api.base.hangup import ignore_hangups

GRACE_SECONDS = 2.5
"""A program must end within five seconds of its signal, and still needs time for its report."""


class Shutdown:
    """The requests to stop so far; it is the `Clock` of everything that waits."""

    def __init__(self, *, keeps_progress: bool = False, hint: str = "") -> None:
        """`keeps_progress` means that there is a checkpoint to continue from; `hint` replaces the advice about it."""
        self._keeps_progress = keeps_progress
        self._hint = hint
        self._signal: int | None = None
        self.request_count = 0
        self._interruptible = False
        self._requested_at = 0.0
        self._parent: int | None = None
        self.in_batch = False
        """While a batch is being sent, a first request waits for its end."""

    def listen(self) -> None:
        """Handle SIGTERM and SIGINT from now on, and ignore SIGHUP."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note_signal)
        ignore_hangups()

    def keeps_progress(self) -> None:
        """Note that there is a checkpoint to continue from."""
        self._keeps_progress = True

    def follow_parent(self, parent: int) -> None:
        """In a worker process: leave signals to the parent process, and treat its end as a request to stop.

        `parent` is its process ID, read before the fork: it may have ended since.

        A terminal sends SIGINT to every process of a command, and a service manager SIGTERM; the parent gets it as
        well, and decides once for all.
        """
        self._parent = parent
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def _note_signal(self, number: int, _frame: FrameType | None) -> None:
        self._signal = number
        self.request_count += 1
        if self.request_count == 1:
            self._requested_at = time.monotonic()
        if self._interruptible:
            self._interruptible = False
            self.check()

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """While the block runs, a request ends it at any point: it must not change anything outside.

        Raises:
            StoppedError: from anywhere in the block.
        """
        self._interruptible = True
        try:
            self.check()
            yield
        finally:
            self._interruptible = False

    @property
    def _ends_batch(self) -> bool:
        """Whether the current batch is ended before it is complete."""
        is_second = self.request_count > 1 and self._parent is None
        return is_second or time.monotonic() - self._requested_at > GRACE_SECONDS

    @property
    def request(self) -> StoppedError | None:
        """The error for a request to stop; ``None`` if there is none."""
        if self._signal is None:
            return None
        hint = self._hint or (
            "start again with the same checkpoint to continue"
            if self._keeps_progress
            else "without a checkpoint, starting again sends everything again"
        )
        name = signal.Signals(self._signal).name
        return StoppedError(f"Stopped by {name}; {hint}.", by_terminal=self._signal == signal.SIGINT)

    def check(self) -> None:
        """End the work if it was requested. Raises StoppedError."""
        if self._parent is not None and not self.in_batch and os.getppid() != self._parent:
            raise StoppedError(
                "The parent process of this worker has ended; start again, with the same checkpoint if you use one.",
                by_terminal=False,
            )
        request = self.request
        if request is not None and (not self.in_batch or self._ends_batch):
            raise request

    def now(self) -> float:
        """Seconds of the monotonic clock."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep for `seconds`, in short intervals, so that a request is noticed. Raises StoppedError."""
        end = time.monotonic() + seconds
        while True:
            self.check()
            remaining = end - time.monotonic()
            if remaining <= 0:
                return
            time.sleep(min(remaining, 0.1))
