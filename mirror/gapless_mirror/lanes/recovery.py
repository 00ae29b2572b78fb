"""How a lane handles partitions that it cannot read: it finds the cause, and stops them or skips the loss."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import structlog
from confluent_kafka import KafkaError, KafkaException

from gapless_api.codec.canonical import moment_text
from gapless_kafka.access.errors import fault_of, reason_in
from gapless_kafka.reading.log_truncation import truncation_end
from gapless_mirror.lanes.claims import LogNow
from gapless_mirror.lanes.losses import SOURCE_TRUNCATED, TOPIC_RECREATED, Loss, recreation_loss, source_loss
from gapless_mirror.lanes.observations import SeenError
from gapless_mirror.lanes.progress import PartitionProgress, read_from_next
from gapless_mirror.lanes.records import LostRange
from gapless_mirror.lanes.setup import LaneSetup, OnDataLoss

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_mirror.lanes.reader import Reader
    from gapless_mirror.lanes.sources import SourceTopic

_OUT_OF_RANGE = frozenset({"_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"})
_RETRY_SECONDS = 1.0
_TIMEOUT_SECONDS = 5.0
log = structlog.get_logger("mirror")


class Recovery:
    """Checks the source logs of a lane's partitions that cannot be read."""

    def __init__(self, setup: LaneSetup) -> None:
        self._setup = setup
        self._reader: Reader
        self._check_at: dict[TopicPartition, float] = {}
        """When to check the log of a partition, on the monotonic clock."""
        self._refused: dict[TopicPartition, int | None] = {}
        """Where the logs end that the client refused to read on: ``None`` where it did not say. Such a log may have the
        next offset again when it is checked, of other records."""

    def begin(self, reader: Reader) -> None:
        """Continue with a new reader."""
        self._reader = reader
        self._check_at.clear()
        self._refused.clear()

    def schedule_check(self, topic_partition: TopicPartition) -> None:
        """Let `resume` check that the log of a partition holds its next offset, and read it then."""
        self._check_at.setdefault(topic_partition, 0.0)

    def check_truncated(self, topic_partition: TopicPartition, diverged_at: int | None) -> None:
        """Let `resume` find out what the log of a partition has lost.

        Args:
            topic_partition: of the source.
            diverged_at: where it has other records than before; ``None`` if only its end is too low.
        """
        if diverged_at is not None:
            self._refused[topic_partition] = diverged_at
        self.schedule_check(topic_partition)

    def note_error(self, partition: PartitionProgress, error: KafkaError) -> None:
        """Show an error of reading a partition to observers, or schedule a check if the offset is out of range."""
        if error.name() in _OUT_OF_RANGE:
            self._refused[partition.topic_partition] = truncation_end(error.str())
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
        if partition.stop is not None and partition.stop.reason not in {TOPIC_RECREATED, SOURCE_TRUNCATED}:
            return False
        self._reader.drop([partition.topic_partition])
        partition.undo_skip()  # a skip from before the new topic ID was known
        ids = (partition.position.source_id, topic.id)
        name, number = partition.topic_partition
        # Not `end_seen`, which may be the end of the new topic.
        loss = recreation_loss(f"{name}/{number}", partition.position.next_offset, partition.known_end, ids)
        if not self._skip(partition, loss, topic.end_offsets[number]):
            return False
        partition.position = replace(partition.position.of_new_log(), source_id=topic.id, start=0)
        partition.read_epoch, partition.stop = None, None
        partition.clear_map()
        partition.end_seen = None
        partition.copy_until = topic.end_offsets[number] if self._setup.once else None
        read_from_next(self._reader, [partition])
        return True

    def _resume_partition(self, partition: PartitionProgress, low: int, high: int) -> bool:
        loss = None
        partition.awaits_check = False
        is_refused = partition.topic_partition in self._refused
        ended = self._refused.pop(partition.topic_partition, None)
        starts = partition.is_new and not partition.is_owed
        if starts and partition.next_offset == partition.position.start and low > partition.next_offset:
            # Records that expire before copying starts are no loss.
            partition.position = replace(partition.position, start=low, next_offset=low)
            partition.next_offset = low
        else:
            known = partition.known_epoch
            if ended is None and known is not None and known[1] < low <= partition.next_offset:
                partition.forget_epoch()  # the source has deleted the records up to the next offset
            elif ended is None and is_refused and low <= partition.next_offset <= high:
                ended = low  # the log did not have this offset, and has other records there now
            position = replace(partition.with_source_end(), next_offset=partition.next_offset)
            source = LogNow(start=low, end=high, diverged_at=ended)
            # Copying ends where the log ended before, unless it has lost that.
            known_end = partition.copy_until or 0
            loss = source_loss("{}/{}".format(*partition.topic_partition), position, source, known_end)
            if loss is not None and not self._skip(partition, loss, high):
                return False
        if partition.must_read:
            read_from_next(self._reader, [partition])
        return loss is not None

    def _skip(self, partition: PartitionProgress, loss: Loss, end: int) -> bool:
        """Continue after a loss if losses are skipped, otherwise stop the partition; return whether it continues.

        Args:
            partition: that has lost records.
            loss: what it has lost.
            end: of the source log.
        """
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
        if loss.stop.reason == SOURCE_TRUNCATED:
            partition.follow_truncated(loss.next_offset, lost)
            if partition.copy_until is not None:
                partition.copy_until = max(min(partition.copy_until, end), loss.next_offset)
        else:
            partition.skip_to(loss.next_offset, lost)
        return True
