"""The lag of a copy: in seconds, and the time until Kafka deletes records that are not copied. Pure.

No record is read for it. A record that is not copied is newer than the time when all were copied, and than the newest
copied record.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition

_RATE_WINDOW_SECONDS = 600.0
"""Approximate window for the rate at which a log start offset moves."""
_MIN_WINDOW_SECONDS = 20.0


class Uncopied(Protocol):
    """The records of a partition that are not copied."""

    @property
    def topic(self) -> str: ...  # noqa: D102

    @property
    def partition(self) -> int: ...  # noqa: D102

    @property
    def first(self) -> int:
        """The next offset to copy."""

    @property
    def log_start(self) -> int:
        """The log start offset."""

    @property
    def offsets(self) -> int:
        """How many offsets are not copied."""


@dataclass(slots=True)
class _History:
    up_to_date_at: float | None = None
    """When all records were last copied."""
    log_starts: list[tuple[float, int]] = field(default_factory=list)
    """Times and log start offsets."""


class Observations:
    """What successive checks of the offsets have shown."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, _History] = {}

    def note(self, waiting: Iterable[Uncopied], now: float) -> None:
        """Record the result of one check.

        Args:
            waiting: the uncopied records of each partition.
            now: seconds since 1970.
        """
        for uncopied in waiting:
            history = self._partitions.setdefault((uncopied.topic, uncopied.partition), _History())
            if not uncopied.offsets:
                history.up_to_date_at = now
            if not history.log_starts or history.log_starts[-1][1] != uncopied.log_start:
                history.log_starts.append((now, uncopied.log_start))
            while len(history.log_starts) > 2 and history.log_starts[1][0] < now - _RATE_WINDOW_SECONDS:
                del history.log_starts[0]

    def lag_seconds(self, uncopied: Uncopied, newest_ms: int | None, now: float) -> float | None:
        """Return an upper bound for the age of the oldest uncopied record; 0 for none, ``None`` if unknown.

        Args:
            uncopied: the uncopied records of a partition.
            newest_ms: the timestamp of its newest copied record.
            now: seconds since 1970.
        """
        if not uncopied.offsets:
            return 0.0
        history = self._partitions.get((uncopied.topic, uncopied.partition), _History())
        since = [] if history.up_to_date_at is None else [history.up_to_date_at]
        if newest_ms is not None:
            since.append(newest_ms / 1000)
        return max(now - max(since), 0.0) if since else None

    def seconds_left(self, uncopied: Uncopied, lag: float | None, retention: float | None, now: float) -> float | None:
        """Estimate the seconds until Kafka deletes an uncopied record; ``None`` when none is at risk.

        Args:
            uncopied: the uncopied records of a partition.
            lag: the age of the oldest one in seconds.
            retention: the retention time in seconds; ``None`` for unlimited.
            now: seconds since 1970.
        """
        if not uncopied.offsets:
            return None
        estimates = []
        if retention is not None and lag is not None:
            estimates.append(max(retention - lag, 0.0))
        log_starts = self._partitions.get((uncopied.topic, uncopied.partition), _History()).log_starts
        if len(log_starts) > 1:
            # Retention by size moves the log start offset, whatever the age of records.
            (since, first), (_, last) = log_starts[0], log_starts[-1]
            seconds = max(now - since, _MIN_WINDOW_SECONDS)
            if last > first:
                estimates.append(max(uncopied.first - last, 0) * seconds / (last - first))
        return min(estimates, default=None)
