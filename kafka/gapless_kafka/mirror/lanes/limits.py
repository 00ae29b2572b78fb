"""Owns how fast the lanes of a process copy together, in bytes and records per second; pure but for its clock.

What was copied is paid afterwards: a lane waits until the account is even, and reads no more at once than a quarter of
a second allows.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_AT_ONCE_SECONDS = 0.25
_MOST_AT_ONCE = 5000
_GUESSED_BYTES = 1024
"""Of a record, before the first one."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Limits; ``None`` for none."""

    bytes_per_second: float | None = None
    records_per_second: float | None = None


class Limits:
    """The account of a process. Safe for threads."""

    def __init__(self, rates: Rates, *, now: Callable[[], float] = time.monotonic) -> None:
        self._rates = rates
        self._now = now
        self._lock = threading.Lock()
        self._free_at = 0.0
        """When what was copied so far is paid."""
        self._average_bytes = float(_GUESSED_BYTES)

    def __reduce__(self) -> tuple[type[Limits], tuple[Rates]]:
        """Another process gets an account of its own."""
        return Limits, (self._rates,)

    def divided(self, parts: int) -> Limits:
        """The account of one of so many processes that copy together."""
        some = (self._rates.bytes_per_second, self._rates.records_per_second)
        return Limits(Rates(*(None if rate is None else rate / parts for rate in some)))

    @property
    def rates(self) -> Rates:
        """The limits that are in force."""
        return self._rates

    def change(self, rates: Rates) -> None:
        """Copy as fast as `rates` say from now on; what is owed is forgiven."""
        with self._lock:
            if rates != self._rates:
                self._rates = rates
                self._free_at = 0.0

    def delay_seconds(self) -> float:
        """How long to wait before the next records."""
        with self._lock:
            return max(self._free_at - self._now(), 0.0)

    def most_records(self) -> int:
        """How many records to read at once."""
        with self._lock:
            found = float(_MOST_AT_ONCE)
            if self._rates.records_per_second is not None:
                found = min(found, self._rates.records_per_second * _AT_ONCE_SECONDS)
            if self._rates.bytes_per_second is not None:
                found = min(found, self._rates.bytes_per_second * _AT_ONCE_SECONDS / self._average_bytes)
            return max(int(found), 1)

    def spend(self, records: int, size: int) -> None:
        """Take note of what is copied."""
        with self._lock:
            seconds = 0.0
            if self._rates.records_per_second is not None:
                seconds = records / self._rates.records_per_second
            if self._rates.bytes_per_second is not None:
                seconds = max(seconds, size / self._rates.bytes_per_second)
                self._average_bytes += (max(size / max(records, 1), 1.0) - self._average_bytes) / 8
            if seconds:
                self._free_at = max(self._free_at, self._now()) + seconds
