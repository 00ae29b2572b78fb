"""Owns the point at which a test kills the operator; must not know what is written.

A crash can come between any two writes. With ``GAPLESS_FAULT_AFTER_WRITE=n`` the process ends right after its n-th
write as SIGKILL would end it, so that a test can go through all of them.
"""

from __future__ import annotations

import os
import threading

KILLED_EXIT_CODE = 137
"""What a shell reports for SIGKILL."""


class FaultPoint:
    """Counts writes, and ends the process after one of them."""

    def __init__(self, after_write: int | None = None) -> None:
        self._after_write = after_write
        self._written = 0
        self._lock = threading.Lock()

    @property
    def written(self) -> int:
        """How many writes there were."""
        return self._written

    def wrote(self) -> None:
        """Take note of a write that the API server has answered."""
        with self._lock:
            self._written += 1
            if self._written == self._after_write:
                os._exit(KILLED_EXIT_CODE)
