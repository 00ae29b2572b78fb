"""How signals end a run.

SIGINT ends a run immediately. SIGTERM lets the current cycle finish, for a limited time. The next run reads
uncommitted records again.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from gapless_api.base.errors import StoppedError
from gapless_spark.runtime.stops import keep_stop, raise_stop

_GRACE_SECONDS = 20.0
"""How long the current cycle may continue; pods are killed 30 seconds after SIGTERM."""


class Shutdown:
    """Raises StoppedError on SIGTERM and SIGINT within a ``with`` block."""

    def __init__(self, committed: Callable[[], str]) -> None:
        """`committed` returns a sentence about what this run has committed; empty for nothing."""
        self._committed = committed
        self._is_deferred = False
        self._requested = threading.Event()
        self._previous: dict[int, Any] = {}
        self._kept = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._kept.enter_context(keep_stop())
        with contextlib.suppress(ValueError):  # not the main thread, where signals cannot be handled
            for number, handler in {
                signal.SIGTERM: self._on_term,
                signal.SIGINT: self._on_interrupt,
                signal.SIGALRM: self._on_alarm,
            }.items():
                self._previous[number] = signal.signal(number, handler)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._previous:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._kept.__exit__(kind, error, trace)

    @contextlib.contextmanager
    def defer_sigterm(self) -> Any:
        """Defer SIGTERM until after the block, where `check` raises."""
        self._is_deferred = True
        try:
            yield
        finally:
            self._is_deferred = False

    def check(self) -> None:
        """Raise StoppedError if SIGTERM was received."""
        if self._requested.is_set():
            raise self._stopped("SIGTERM", by_terminal=False)

    def wait(self, seconds: float) -> None:
        """Sleep. Raises StoppedError on SIGTERM."""
        self._requested.wait(seconds)
        self.check()

    def _on_term(self, *_: object) -> None:
        self._requested.set()
        if not self._is_deferred:
            raise_stop(self._stopped("SIGTERM", by_terminal=False))
        signal.setitimer(signal.ITIMER_REAL, _GRACE_SECONDS)

    def _on_alarm(self, *_: object) -> None:
        raise_stop(self._stopped("SIGTERM", by_terminal=False))

    def _on_interrupt(self, *_: object) -> None:
        raise_stop(self._stopped("SIGINT", by_terminal=True))

    def _stopped(self, name: str, *, by_terminal: bool) -> StoppedError:
        committed = self._committed() or "Nothing was archived."
        return StoppedError(
            f"Stopped by {name}. {committed} The next run continues from there.", by_terminal=by_terminal
        )
