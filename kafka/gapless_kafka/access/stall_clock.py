"""Owns for how long a reader of Kafka has waited in vain; must not know any client of Kafka, nor what is read.

Only our own waiting counts: not how long it took to work on what had come, nor how long this program or its machine was
stopped meanwhile.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

STALLED_AFTER_SECONDS = 60.0
"""Unless a setting says otherwise."""
_LONGEST_WAIT_SECONDS = 1.0
"""A call that waits for a fraction of a second and took longer was stopped in between, alone or with its machine."""


class StallClock:
    """Adds up the waits in which nothing came, since something came last."""

    __slots__ = ("_asked_at", "_limit_seconds", "_now", "silent_seconds")

    def __init__(
        self, limit_seconds: float = STALLED_AFTER_SECONDS, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        """Kafka has stalled when nothing came in `limit_seconds` of waiting."""
        self._limit_seconds = limit_seconds
        self._now = now
        self._asked_at = 0.0
        self.silent_seconds = 0.0

    def ask(self) -> None:
        """We begin to wait."""
        self._asked_at = self._now()

    def waited(self, *, heard: bool, longest_seconds: float = _LONGEST_WAIT_SECONDS) -> None:
        """We have waited since `ask`.

        Args:
            heard: whether something came that shows progress.
            longest_seconds: how long such a wait can take; more was not ours.
        """
        if heard:
            self.silent_seconds = 0.0
        else:
            self.silent_seconds += min(self._now() - self._asked_at, longest_seconds)

    @property
    def is_stalled(self) -> bool:
        """Whether we have waited for longer than the limit."""
        return self.silent_seconds > self._limit_seconds
