"""When the next turn is due: when a source partition has offsets that are not copied, or a look is due.

A turn opens the lanes, which compare their positions with both clusters. So without new records there is a turn after
each refresh of the topics, too: a target that somebody deletes or recreates is noticed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from confluent_kafka import IsolationLevel, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import OffsetSpec

from gapless_kafka.access.answers import listed
from gapless_kafka.access.constructors import new_admin

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_mirror.lanes.observations import LaneObservation
    from gapless_mirror.lanes.sources import SourceView

_TIMEOUT_SECONDS = 10.0
_RETRY_SECONDS = 5.0
"""After a turn with an error."""
_STOPPED_RETRY_SECONDS = 30.0
"""After a turn in which a partition stopped; the cause may have been corrected since."""
_MAX_OFFSET = 2**63 - 1


class SourceEnds:
    """Reads the last stable offsets of the source partitions, with one client."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._client = new_admin(connection)

    def read(self, view: SourceView) -> dict[TopicPartition, int]:
        """Return the end of each partition; partitions without an answer are left out."""
        requests = {
            KafkaPartition(topic.name, number): OffsetSpec.latest()
            for topic in view.topics.values()
            for number in range(len(topic.first_offsets))
        }
        if not requests:
            return {}
        futures = self._client.list_offsets(
            requests, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=_TIMEOUT_SECONDS
        )
        ends: dict[TopicPartition, int] = {}
        for partition, future in futures.items():
            try:
                ends[partition.topic, partition.partition] = listed(future.result(_TIMEOUT_SECONDS + 1)).offset
            except (KafkaException, TimeoutError):
                continue  # the turn that reads the partition reports the error
        return ends


class Due:
    """Decides whether another turn is due."""

    def __init__(self, look_seconds: float) -> None:
        """`look_seconds` is the time without a turn after which a refresh of the topics is followed by one."""
        self._reached: dict[TopicPartition, int] = {}
        self._retry_at = float("inf")
        """When the next turn is due even if there is nothing new, because of an error."""
        self._look_seconds = look_seconds
        self._look_at = 0.0
        """When the next turn is due even if there is nothing new, once the topics are refreshed."""
        self._looked_with = 0
        """The number of the view of the last turn."""

    def after_turn(self, lanes: Iterable[LaneObservation], view: SourceView, now: float) -> None:
        """Update what is copied after a turn with `view`, and when the next look is due."""
        self._retry_at = float("inf")
        self._look_at, self._looked_with = now + self._look_seconds, view.number
        for lane in lanes:
            if lane.error is not None:
                self._retry_at = min(self._retry_at, now + _RETRY_SECONDS)
            for partition in lane.partitions:
                reached = max(partition.position, partition.end_seen or 0)
                if partition.stop is not None:
                    reached = _MAX_OFFSET  # it is not read, however far behind it is
                    self._retry_at = min(self._retry_at, now + _STOPPED_RETRY_SECONDS)
                elif partition.error is not None:
                    self._retry_at = min(self._retry_at, now + _RETRY_SECONDS)
                self._reached[partition.topic, partition.partition] = reached

    def after_failure(self, now: float) -> None:
        """Schedule a retry after a turn that has failed."""
        self._retry_at = now + _RETRY_SECONDS

    def is_behind(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether there are offsets before `ends` that are not copied."""
        return any(self._reached.get(topic_partition, -1) < end for topic_partition, end in ends.items())

    def is_look_due(self, view: SourceView, now: float) -> bool:
        """Whether a turn is due even if there is nothing new: after an error, or because `view` is a new one."""
        return now >= self._retry_at or (view.number != self._looked_with and now >= self._look_at)
