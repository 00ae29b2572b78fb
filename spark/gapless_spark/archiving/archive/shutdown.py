"""Owns how signals end a run: at once when nothing is lost by it, or after the cycle that runs.

SIGINT ends a run at once. SIGTERM ends a run of cycles after the one that runs, and at once when that takes too long.
Nothing is half-written then: what was not committed is read again by the next run.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING, Any, Self

from gapless_api.base.errors import StoppedError, raised_by_handler

if TYPE_CHECKING:
    from collections.abc import Callable

_PATIENCE_SECONDS = 20.0
"""How long a cycle may take to its end; pods are killed 30 seconds after SIGTERM."""


class Shutdown:
    """Turns SIGTERM and SIGINT into StoppedError while its ``with`` block lasts."""

    def __init__(self, committed: Callable[[], str]) -> None:
        """`committed` says what was committed in this run, in a sentence; empty for nothing."""
        self._committed = committed
        self._is_waited_for = False
        self._requested = threading.Event()
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        with contextlib.suppress(ValueError):  # not the main thread, where signals cannot be handled
            for number, handler in {
                signal.SIGTERM: self._on_term,
                signal.SIGINT: self._on_interrupt,
                signal.SIGALRM: self._on_alarm,
            }.items():
                self._previous[number] = signal.signal(number, handler)
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if self._previous:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        if isinstance(error, SystemError) and isinstance(raised := raised_by_handler(error), StoppedError):
            raise raised from None

    @contextlib.contextmanager
    def after_this(self) -> Any:
        """SIGTERM does not end the block; `check` tells it afterwards."""
        self._is_waited_for = True
        try:
            yield
        finally:
            self._is_waited_for = False

    def check(self) -> None:
        """Raise StoppedError if SIGTERM came."""
        if self._requested.is_set():
            raise self._stopped("SIGTERM", by_terminal=False)

    def wait(self, seconds: float) -> None:
        """Wait, unless SIGTERM ends it. Raises StoppedError."""
        self._requested.wait(seconds)
        self.check()

    def _on_term(self, *_: object) -> None:
        self._requested.set()
        if not self._is_waited_for:
            raise self._stopped("SIGTERM", by_terminal=False)
        signal.setitimer(signal.ITIMER_REAL, _PATIENCE_SECONDS)

    def _on_alarm(self, *_: object) -> None:
        raise self._stopped("SIGTERM", by_terminal=False)

    def _on_interrupt(self, *_: object) -> None:
        raise self._stopped("SIGINT", by_terminal=True)

    def _stopped(self, name: str, *, by_terminal: bool) -> StoppedError:
        committed = self._committed() or "Nothing was archived."
        return StoppedError(
            f"Stopped by {name}. {committed} The next run continues from there.", by_terminal=by_terminal
        )
