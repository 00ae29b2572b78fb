"""How long a reader of Kafka has waited without progress; must not know any Kafka client, nor what is read.

Only time spent waiting counts, neither the time to process what arrived, nor the time for which the process or its
machine was suspended.
"""

from __future__ import annotations

import time
from collections.abc import Callable

STALLED_AFTER_SECONDS = 60.0
"""The default limit."""
_MAX_WAIT_SECONDS = 1.0
"""A call that waits for a fraction of a second and took longer was suspended, alone or with its machine."""


class StallClock:
    """Adds up the time spent waiting since the last progress."""

    __slots__ = ("_limit_seconds", "_now", "_wait_started_at", "silent_seconds")

    def __init__(
        self, limit_seconds: float = STALLED_AFTER_SECONDS, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        """Kafka has stalled after `limit_seconds` of waiting without progress."""
        self._limit_seconds = limit_seconds
        self._now = now
        self._wait_started_at = 0.0
        self.silent_seconds = 0.0

    def start_wait(self) -> None:
        """Start to measure a wait."""
        self._wait_started_at = self._now()

    def end_wait(self, *, progress: bool, max_seconds: float = _MAX_WAIT_SECONDS) -> None:
        """Count the wait since `start_wait`.

        Args:
            progress: whether something arrived that shows progress.
            max_seconds: the longest that such a wait can take; the process was suspended for the rest.
        """
        if progress:
            self.silent_seconds = 0.0
        else:
            self.silent_seconds += min(self._now() - self._wait_started_at, max_seconds)

    @property
    def is_stalled(self) -> bool:
        """Whether the waits add up to more than the limit."""
        return self.silent_seconds > self._limit_seconds
