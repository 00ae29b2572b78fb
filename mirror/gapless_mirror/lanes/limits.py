"""The rate limits that the lanes of a process share, in bytes and records per second; pure except for its clock.

Records are charged after they were copied: the lanes wait until the rate is met again, and one read is limited to the
records of a quarter of a second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

_READ_SECONDS = 0.25
_MAX_RECORDS = 5000
_INITIAL_RECORD_BYTES = 1024
"""The assumed size of a record before the first one."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Rate limits; ``None`` for no limit."""

    bytes_per_second: float | None = None
    records_per_second: float | None = None


class Limits:
    """The rate limiter of a process. Thread-safe."""

    def __init__(self, rates: Rates, *, now: Callable[[], float] = time.monotonic) -> None:
        self._rates = rates
        self._now = now
        self._lock = threading.Lock()
        self._free_at = 0.0
        """When the rate is met again."""
        self._average_bytes = float(_INITIAL_RECORD_BYTES)

    def __reduce__(self) -> tuple[type[Limits], tuple[Rates]]:
        """Another process gets a limiter of its own."""
        return Limits, (self._rates,)

    def divide(self, parts: int) -> Limits:
        """Return the limiter of each of `parts` processes that share the limits."""
        rates = (self._rates.bytes_per_second, self._rates.records_per_second)
        return Limits(Rates(*(None if rate is None else rate / parts for rate in rates)))

    @property
    def rates(self) -> Rates:
        """The current limits."""
        return self._rates

    def change(self, rates: Rates) -> None:
        """Use `rates` from now on, without waiting for records that were copied before."""
        with self._lock:
            if rates != self._rates:
                self._rates = rates
                self._free_at = 0.0

    def delay_seconds(self) -> float:
        """Return how long to wait before the next read."""
        with self._lock:
            return max(self._free_at - self._now(), 0.0)

    def max_records(self) -> int:
        """Return how many records one read may return."""
        with self._lock:
            limit = float(_MAX_RECORDS)
            if self._rates.records_per_second is not None:
                limit = min(limit, self._rates.records_per_second * _READ_SECONDS)
            if self._rates.bytes_per_second is not None:
                limit = min(limit, self._rates.bytes_per_second * _READ_SECONDS / self._average_bytes)
            return max(int(limit), 1)

    def spend(self, records: int, size: int) -> None:
        """Charge copied records and their bytes."""
        with self._lock:
            seconds = 0.0
            if self._rates.records_per_second is not None:
                seconds = records / self._rates.records_per_second
            if self._rates.bytes_per_second is not None:
                seconds = max(seconds, size / self._rates.bytes_per_second)
                self._average_bytes += (max(size / max(records, 1), 1.0) - self._average_bytes) / 8
            if seconds:
                self._free_at = max(self._free_at, self._now()) + seconds
