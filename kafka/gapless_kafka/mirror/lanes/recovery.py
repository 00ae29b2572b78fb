"""Owns how a lane handles partitions that it cannot read: it finds the cause, and stops them or skips the loss."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import structlog
from confluent_kafka import KafkaException

from gapless_api.codec.canonical import moment_text
from gapless_kafka.access.errors import fault_of, reason_in
from gapless_kafka.mirror.lanes.losses import TOPIC_RECREATED, Loss, loss_at, recreation_loss
from gapless_kafka.mirror.lanes.observations import SeenError
from gapless_kafka.mirror.lanes.records import LostRange
from gapless_kafka.mirror.lanes.setup import OnDataLoss

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import KafkaError

    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.mirror.lanes.progress import PartitionProgress
    from gapless_kafka.mirror.lanes.reader import Reader
    from gapless_kafka.mirror.lanes.setup import LaneSetup
    from gapless_kafka.mirror.lanes.sources import SourceTopic

_RETRY_SECONDS = 1.0
_TIMEOUT_SECONDS = 5.0
_EXPIRED = frozenset({"_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"})
log = structlog.get_logger("mirror")


class Recovery:
    """Checks the source logs of a lane's partitions that cannot be read."""

    def __init__(self, setup: LaneSetup) -> None:
        self._setup = setup
        self._reader: Reader
        self._check_at: dict[TopicPartition, float] = {}
        """When to check the log of a partition, on the monotonic clock."""

    def begin(self, reader: Reader) -> None:
        """Continue with a new reader."""
        self._reader = reader
        self._check_at.clear()

    def schedule_check(self, topic_partition: TopicPartition) -> None:
        """Let `resume` check that the log of a partition holds its next offset, and read it then."""
        self._check_at.setdefault(topic_partition, 0.0)

    def note_error(self, partition: PartitionProgress, error: KafkaError) -> None:
        """Show an error of reading a partition to observers, or schedule a check if the offset is out of range."""
        if error.name() in _EXPIRED:
            self.schedule_check(partition.topic_partition)
            return
        fault = fault_of(error.name())
        message = str(fault.error(self._setup.source.bootstrap_servers, f"the topic {partition.topic_partition[0]}"))
        message = f"{message} ({reason_in(error.str())})"
        partition.error = SeenError(message=message, name=error.name(), seen_at=time.monotonic())

    def resume(self, partitions: Mapping[TopicPartition, PartitionProgress]) -> bool:
        """Check the logs of the scheduled partitions and read them again; return whether a loss was skipped."""
        now, skipped = time.monotonic(), False
        for topic_partition in [topic_partition for topic_partition, at in self._check_at.items() if at <= now]:
            partition = partitions.get(topic_partition)
            if partition is None:
                del self._check_at[topic_partition]
                continue
            try:
                low, high = self._reader.log_range(topic_partition, timeout_seconds=_TIMEOUT_SECONDS)
            except KafkaException as error:
                self._check_at[topic_partition] = now + _RETRY_SECONDS
                self.note_error(partition, error.args[0])
                continue
            del self._check_at[topic_partition]
            skipped |= self._resume_partition(partition, low, high)
        return skipped

    def follow_recreated(self, partition: PartitionProgress, topic: SourceTopic) -> bool:
        """Copy a recreated topic if losses are skipped, otherwise stop the partition; return whether it is copied."""
        if partition.stop is not None and partition.stop.reason != TOPIC_RECREATED:
            return False
        self._reader.drop([partition.topic_partition])
        partition.undo_skip()  # a skip from before the new topic ID was known
        ids = (partition.position.source_id, topic.id)
        name, number = partition.topic_partition
        first = topic.first_offsets[number]
        # Not `end_seen`, which may be the end of the new topic.
        loss = recreation_loss(f"{name}/{number}", partition.position.next_offset, partition.known_end, ids, first)
        if not self._skip(partition, loss):
            return False
        partition.position = replace(partition.position, source_id=topic.id, start=first)
        partition.clear_map()
        partition.end_seen = None
        partition.copy_until = topic.end_offsets[number] if self._setup.once else None
        self._reader.add({partition.topic_partition: partition.next_offset})
        return True

    def _resume_partition(self, partition: PartitionProgress, low: int, high: int) -> bool:
        loss = None
        starts = partition.is_new and not partition.starts_at_group
        if starts and partition.next_offset == partition.position.start and low > partition.next_offset:
            # Records that expire before copying starts are no loss.
            partition.position = replace(partition.position, start=low, next_offset=low)
            partition.next_offset = low
        else:
            loss = loss_at(partition.next_offset, low, high, "{}/{}".format(*partition.topic_partition))
            if loss is not None and not self._skip(partition, loss):
                return False
        self._reader.add({partition.topic_partition: partition.next_offset})
        return loss is not None

    def _skip(self, partition: PartitionProgress, loss: Loss) -> bool:
        """Continue after a loss if losses are skipped, otherwise stop the partition; return whether it continues."""
        about = {
            "topic": partition.topic_partition[0],
            "partition": partition.topic_partition[1],
            "reason": loss.stop.reason,
        }
        if self._setup.on_data_loss is OnDataLoss.FAIL:
            if partition.stop != loss.stop:
                log.warning("partition stopped", **about, message=loss.stop.message)
            partition.stop = loss.stop
            return False
        log.warning("offsets lost", **about, first=loss.first, count=loss.end - loss.first, next=loss.next_offset)
        lost: tuple[LostRange, ...] = ()
        if loss.end > loss.first:
            lost = (
                LostRange(
                    first=loss.first,
                    last=loss.end - 1,
                    reason=loss.stop.reason,
                    source_id=partition.position.source_id,
                    time=moment_text(datetime.now(UTC)),
                ),
            )
        partition.skip_to(loss.next_offset, lost)
        return True
