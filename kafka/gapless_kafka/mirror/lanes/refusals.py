"""Owns what happens when the target refuses records: the partition waits and is tried again, the others go on.

A transaction fails as one, and most records have no delivery report: so it is written again with a report for each,
which tells the partition that is refused.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import structlog

from gapless_kafka.mirror.lanes.observations import Stop
from gapless_kafka.writing.faults import is_refusal, is_transaction_failed, writing_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import KafkaError

    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.mirror.lanes.progress import PartitionProgress
    from gapless_kafka.mirror.lanes.writer import LaneWriter

TARGET_REFUSES = "TargetRefuses"
_AGAIN_SECONDS = 20.0
log = structlog.get_logger("mirror")


class Refusals:
    """Which partitions of a lane wait because the target has refused their records."""

    def __init__(self, servers: str) -> None:
        """`servers` are the target's, for messages."""
        self._servers = servers
        self._again_at: dict[TopicPartition, float] = {}

    def handle(
        self, error: KafkaError, writer: LaneWriter, partitions: Mapping[TopicPartition, PartitionProgress]
    ) -> bool:
        """Find out what was refused; whether the lane can go on with the transaction given up."""
        if is_transaction_failed(error):
            writer.await_error()
        elif not is_refusal(error):
            return False
        refused = {
            written.place: (written.target, reported)
            for written in writer.written
            for reported in written.errors
            if is_refusal(reported)
        }
        for place, (target, reported) in refused.items():
            self.stop(partitions[place], target, reported)
        told, writer.reporting.refused = writer.reporting.refused, True
        return bool(refused) or not told

    def stop(self, one: PartitionProgress, target: str, error: KafkaError) -> None:
        """Let a partition wait because of the topic that its records were sent to."""
        message = str(writing_error(error, self._servers, target))
        one.stop = Stop(reason=TARGET_REFUSES, message=message)
        log.warning(
            "partition waits",
            topic=one.place[0],
            partition=one.place[1],
            reason=TARGET_REFUSES,
            message=message,
            again_in_seconds=_AGAIN_SECONDS,
        )
        self._again_at[one.place] = time.monotonic() + _AGAIN_SECONDS

    def holds(self, place: TopicPartition) -> bool:
        """Whether a partition waits."""
        return place in self._again_at

    def due(self, partitions: Mapping[TopicPartition, PartitionProgress]) -> list[PartitionProgress]:
        """The partitions to try again; they wait no more."""
        now = time.monotonic()
        places = [place for place, at in self._again_at.items() if at <= now]
        found = []
        for place in places:
            del self._again_at[place]
            one = partitions.get(place)
            if one is not None and one.stop is not None and one.stop.reason == TARGET_REFUSES:
                one.stop = None
                found.append(one)
        return found

    def committed(self, writer: LaneWriter) -> None:
        """A transaction was committed: go on without a report for each record, unless one is expected to be refused."""
        writer.reporting.refused = bool(self._again_at)
