"""What happens when records cannot be written: their partition stops and is retried, the others are copied.

A transaction fails as a unit, and most records have no delivery report. So it is written again with a report for each
record, which names the refused partition. A record that cannot be converted is known at once.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import structlog

from gapless_api.base.errors import GaplessError
from gapless_api.base.unexpected import calls_of, describe
from gapless_kafka.access.errors import NO_TOPIC, fault_of, reason_in
from gapless_kafka.writing.faults import (
    failure_of,
    is_purged,
    is_record_refusal,
    is_refusal,
    is_transaction_failed,
    writing_error,
)
from gapless_mirror.lanes.bad_records import BadRecords, range_of
from gapless_mirror.lanes.claims import has_copies
from gapless_mirror.lanes.observations import Stop
from gapless_mirror.lanes.parking import PARKED, Parked, ParkingTopic
from gapless_mirror.lanes.setup import OnBadRecord
from gapless_mirror.lanes.unexpected import COPY_FAILED, ConversionError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

    from gapless_api.offsets.ids import TopicPartition
    from gapless_mirror.lanes.progress import PartitionProgress
    from gapless_mirror.lanes.writer import LaneWriter

TARGET_REFUSES, SOURCE_DAMAGED = "TargetRefuses", "SourceDamaged"
_RETRIED = frozenset({TARGET_REFUSES, COPY_FAILED, SOURCE_DAMAGED})
_RETRY_SECONDS = 20.0
_SEARCH_SECONDS = 0.2
"""Between two steps of the search for a refused record: the other partitions are copied meanwhile."""
log = structlog.get_logger("mirror")


class UnparkedError(Exception):
    """A record cannot be parked now; its partition waits."""


class Refusals:
    """The partitions of a lane that wait because their records were refused, or could not be converted."""

    def __init__(
        self, servers: str, on_bad_record: OnBadRecord = OnBadRecord.FAIL, parking: ParkingTopic | None = None
    ) -> None:
        """`servers` are the target's, for messages; `parking` is for refused records that are parked."""
        self._servers = servers
        self._on_bad_record = on_bad_record
        self._parking = parking
        self.bad_records = BadRecords()
        self._retry_at: dict[TopicPartition, float] = {}
        self._failed: set[TopicPartition] = set()
        """Those that wait because a record could not be converted, or read."""
        self._missing: set[str] = set()

    def handle(
        self, error: KafkaError, writer: LaneWriter, partitions: Mapping[TopicPartition, PartitionProgress]
    ) -> bool:
        """Stop the partitions whose records were refused; return whether the lane can abort and continue."""
        if is_transaction_failed(error):
            writer.await_error()
        elif not is_refusal(error) and not is_purged(error):
            return False
        refused = {
            written.topic_partition: (written.target, reported)
            for written in writer.written
            if written.errors and is_refusal(reported := failure_of(written.errors))
        }
        for topic_partition, (target, reported) in refused.items():
            partition = partitions[topic_partition]
            if not is_record_refusal(reported):
                self.stop_partition(partition, target, reported)
                continue
            batches = (written for written in writer.written if written.topic_partition == topic_partition)
            offsets = [offset for written in batches for offset in written.offsets]
            offset = self.bad_records.narrow(partition, offsets)
            if offset is not None and not self._can_go_on(partition, target, reported, offset):
                continue
            self._retry_at[topic_partition] = time.monotonic() + _SEARCH_SECONDS
        had_reports, writer.reporting.refused = writer.reporting.refused, True
        return bool(refused) or is_purged(error) or not had_reports

    def _can_go_on(self, partition: PartitionProgress, target: str, error: KafkaError, offset: int) -> bool:
        """Skip the record that `target` refuses, or park it next; return ``False`` if its partition stops instead."""
        message = str(writing_error(error, self._servers, target))
        if self._on_bad_record is OnBadRecord.SKIP_AND_RECORD:
            self.bad_records.skip(partition, offset, TARGET_REFUSES, message)
            return True
        if self._parking is not None and target == partition.position.target:
            self.bad_records.park_next(partition, offset, message)
            return True
        self.stop_partition(partition, target, error, offset)
        return False

    def parked(self, partition: PartitionProgress, messages: Sequence[Any]) -> Parked | None:
        """Return how the records of a partition are parked; ``None`` if they are written to the target topic.

        Raises:
            UnparkedError: they cannot be parked now; the partition waits.
        """
        if self._parking is None or not self.bad_records.is_parked(partition.topic_partition, messages):
            return None
        (topic, number), offset = partition.topic_partition, messages[0].offset()
        try:
            self._parking.check()
        except GaplessError as error:
            self._wait(
                partition,
                f"{topic}/{number} is not copied from offset {offset:,} on: the target refuses the record, and it "
                f"cannot be parked. {error}",
            )
            raise UnparkedError from None
        return self._parking.record(partition.topic_partition, range_of(partition, offset, PARKED))

    def stop_partition(
        self, partition: PartitionProgress, target: str, error: KafkaError, offset: int | None = None
    ) -> None:
        """Stop a partition for a while because the topic `target` refused its records.

        Args:
            partition: of the source.
            target: the topic.
            error: of the target.
            offset: of the record in the source, if it is known.
        """
        is_own = target == partition.position.target
        if is_own and fault_of(error.name()) is NO_TOPIC and has_copies(partition.position):
            self._missing.add(target)
        message = str(writing_error(error, self._servers, target))
        if offset is not None:
            topic, number = partition.topic_partition
            message = f"{topic}/{number} is not copied from offset {offset:,} on. {message}"
        self._wait(partition, message)

    def _wait(self, partition: PartitionProgress, message: str) -> None:
        self.bad_records.to_park.pop(partition.topic_partition, None)  # the target may accept it then
        partition.stop = Stop(reason=TARGET_REFUSES, message=message)
        log.warning(
            "partition waits",
            topic=partition.topic_partition[0],
            partition=partition.topic_partition[1],
            reason=TARGET_REFUSES,
            message=message,
            again_in_seconds=_RETRY_SECONDS,
        )
        self._retry_at[partition.topic_partition] = time.monotonic() + _RETRY_SECONDS

    def stop_failed(self, partition: PartitionProgress, error: ConversionError) -> None:
        """Stop a partition for a while because a record of it cannot be converted."""
        topic, number = partition.topic_partition
        message = (
            f"{topic}/{number} is not copied from offset {error.offset:,} on: an unexpected error in Gapless "
            f"({describe(error.cause)}). Other partitions are copied. Report a bug with the log of the mirror, which "
            f"has no content of records. The partition is tried again automatically, or by the next run."
        )
        partition.stop = Stop(reason=COPY_FAILED, message=message)
        log.error(
            "partition waits",
            topic=topic,
            partition=number,
            offset=error.offset,
            reason=COPY_FAILED,
            message=message,
            calls=calls_of(error.cause),
            again_in_seconds=_RETRY_SECONDS,
        )
        self._failed.add(partition.topic_partition)
        self._retry_at[partition.topic_partition] = time.monotonic() + _RETRY_SECONDS

    def stop_damaged(self, partition: PartitionProgress, offset: int, error: KafkaError) -> None:
        """Stop a partition for a while because the batch at `offset` of its source cannot be read."""
        topic, number = partition.topic_partition
        message = (
            f"{topic}/{number} is not copied from offset {max(offset, partition.next_offset):,} on: its log in the "
            f"source is damaged there ({reason_in(error.str())}). Other partitions are copied. Replace the replica of "
            f"its leader by an undamaged one. If there is none, delete the records up to the end of the damaged batch "
            f"with kafka-delete-records.sh; --on-data-loss=skip-and-record then records the loss. The partition is "
            f"tried again automatically, or by the next run."
        )
        partition.stop = Stop(reason=SOURCE_DAMAGED, message=message)
        log.error(
            "partition waits",
            topic=topic,
            partition=number,
            offset=offset,
            reason=SOURCE_DAMAGED,
            message=message,
            again_in_seconds=_RETRY_SECONDS,
        )
        self._failed.add(partition.topic_partition)
        self._retry_at[partition.topic_partition] = time.monotonic() + _RETRY_SECONDS

    def take_missing(self) -> set[str]:
        """Return the target topics with copies that have refused records because they do not exist, once."""
        missing, self._missing = self._missing, set()
        return missing

    def is_waiting(self, topic_partition: TopicPartition) -> bool:
        """Whether a partition waits for its retry."""
        return topic_partition in self._retry_at

    def is_reading(self, topic_partition: TopicPartition) -> bool:
        """Whether records of a partition are written now, in the open transaction or the next one."""
        return topic_partition not in self._retry_at and topic_partition not in self.bad_records.held

    def take_due(self, partitions: Mapping[TopicPartition, PartitionProgress]) -> list[PartitionProgress]:
        """Start the partitions again whose retry is due, and return them."""
        now = time.monotonic()
        due = []
        for topic_partition in [topic_partition for topic_partition, at in self._retry_at.items() if at <= now]:
            del self._retry_at[topic_partition]
            self._failed.discard(topic_partition)
            partition = partitions.get(topic_partition)
            if partition is None:
                continue
            if partition.stop is not None and partition.stop.reason in _RETRIED:
                partition.stop = None
                due.append(partition)
            elif partition.stop is None and topic_partition in self.bad_records.most:
                due.append(partition)
        return due

    def after_commit(self, writer: LaneWriter) -> None:
        """Write without a report for each record again, once no partition waits for its retry or is searched."""
        writer.reporting.refused = bool((self._retry_at.keys() | self.bad_records.most) - self._failed)
