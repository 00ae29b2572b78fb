"""Owns how far behind a copy of partitions is: in seconds, and until Kafka deletes what is not copied. Pure.

No record is read for it. What waits in a partition is younger than the moment when nothing waited, and younger than the
newest record that is copied.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gapless_api.offsets.ids import TopicPartition

_RATE_OVER_SECONDS = 600.0
"""About how long back the speed is measured with which a log start moves."""
_LEAST_SECONDS = 20.0


class Uncopied(Protocol):
    """What of a partition is in Kafka and not copied."""

    @property
    def topic(self) -> str: ...  # noqa: D102

    @property
    def partition(self) -> int: ...  # noqa: D102

    @property
    def first(self) -> int:
        """The next offset to copy."""

    @property
    def log_start(self) -> int:
        """The lowest offset that Kafka still has."""

    @property
    def offsets(self) -> int:
        """How many offsets wait."""


@dataclass(slots=True)
class _Seen:
    up_to_date_at: float | None = None
    """When nothing was waiting."""
    starts: list[tuple[float, int]] = field(default_factory=list)
    """When the log start was where."""


class Observations:
    """What looks at Kafka have shown, one after the other."""

    def __init__(self) -> None:
        self._seen: dict[TopicPartition, _Seen] = {}

    def note(self, waiting: Iterable[Uncopied], now: float) -> None:
        """Take a look at all partitions.

        Args:
            waiting: of each partition, what is not copied.
            now: seconds since 1970.
        """
        for one in waiting:
            seen = self._seen.setdefault((one.topic, one.partition), _Seen())
            if not one.offsets:
                seen.up_to_date_at = now
            if not seen.starts or seen.starts[-1][1] != one.log_start:
                seen.starts.append((now, one.log_start))
            while len(seen.starts) > 2 and seen.starts[1][0] < now - _RATE_OVER_SECONDS:
                del seen.starts[0]

    def lag_seconds(self, one: Uncopied, newest_ms: int | None, now: float) -> float | None:
        """The age of the oldest record that is not copied, at most; 0 for none, ``None`` if it is unknown.

        Args:
            one: what of a partition is not copied.
            newest_ms: the newest timestamp that is copied of it.
            now: seconds since 1970.
        """
        if not one.offsets:
            return 0.0
        seen = self._seen.get((one.topic, one.partition), _Seen())
        since = [] if seen.up_to_date_at is None else [seen.up_to_date_at]
        if newest_ms is not None:
            since.append(newest_ms / 1000)
        return max(now - max(since), 0.0) if since else None

    def seconds_left(self, one: Uncopied, lag: float | None, retention: float | None, now: float) -> float | None:
        """Estimated seconds until Kafka deletes a record that is not copied; ``None`` when none is in danger.

        Args:
            one: what of a partition is not copied.
            lag: the age of the oldest such record.
            retention: how long Kafka keeps records; ``None`` for ever.
            now: seconds since 1970.
        """
        if not one.offsets:
            return None
        left = []
        if retention is not None and lag is not None:
            left.append(max(retention - lag, 0.0))
        starts = self._seen.get((one.topic, one.partition), _Seen()).starts
        if len(starts) > 1:
            # Retention by size moves the log start, whatever the age of records.
            (since, first), (_, last) = starts[0], starts[-1]
            seconds = max(now - since, _LEAST_SECONDS)
            if last > first:
                left.append(max(one.first - last, 0) * seconds / (last - first))
        return min(left, default=None)
