"""Owns the rule of when the lanes are to be held again; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.mirror.lanes.observations import LaneObservation

_AGAIN_SECONDS = 5.0
"""After a turn in which something failed."""
_STOPPED_AGAIN_SECONDS = 30.0
"""After a turn in which a partition stopped, which a person or the source may have corrected."""


class Due:
    """What the last turn has left to be done."""

    def __init__(self) -> None:
        self._reached: dict[TopicPartition, int] = {}
        self._again_at = float("inf")
        """When the next turn is due, whatever is seen."""

    def held(self, lanes: Iterable[LaneObservation], now: float) -> None:
        """Take note of a turn that has ended."""
        self._again_at = float("inf")
        for lane in lanes:
            if lane.error is not None:
                self._again_at = min(self._again_at, now + _AGAIN_SECONDS)
            for one in lane.partitions:
                self._reached[one.topic, one.partition] = max(one.position, one.end_seen or 0)
                if one.stop is not None:
                    # How far it is does not matter: it is not read.
                    self._reached[one.topic, one.partition] = 2**63 - 1
                    self._again_at = min(self._again_at, now + _STOPPED_AGAIN_SECONDS)
                elif one.error is not None:
                    self._again_at = min(self._again_at, now + _AGAIN_SECONDS)

    def failed(self, now: float) -> None:
        """Take note of a turn that did not end well."""
        self._again_at = now + _AGAIN_SECONDS

    def is_behind(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether there is something to copy, given the ends of what can be read."""
        return any(self._reached.get(topic_partition, -1) < end for topic_partition, end in ends.items())

    def is_time(self, now: float) -> bool:
        """Whether the lanes are to be held again whatever is seen, because something failed."""
        return now >= self._again_at
