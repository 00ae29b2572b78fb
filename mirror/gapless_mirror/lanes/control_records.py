"""Reading the records of control topics, many partitions at once; must not know what the records mean."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import Consumer, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from gapless_kafka.access.constructors import new_consumer
from gapless_kafka.access.errors import TRANSIENT, TopicMissingError, fault_of, reason_in
from gapless_kafka.access.stall_clock import STALLED_AFTER_SECONDS, StallClock
from gapless_mirror.lanes.stored import StoredRecord

if TYPE_CHECKING:
    from gapless_api.base.errors import GaplessError
    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection

_BATCH_SIZE = 1000
_WAIT_SECONDS = 0.1
_SILENCE_SECONDS = 1.0
"""After so long without an answer, the reader looks which topics exist: Kafka's client waits for a deleted one."""
_METADATA_SECONDS = 10.0


class Span(NamedTuple):
    """What is to be read of a partition."""

    first: int
    """The first offset."""
    mark: int = -1
    """The offset of a record that exists (see `mark`): an end before it is that of a former leader."""


class LaneRecords(NamedTuple):
    """The records of a lane in the control topic."""

    records: list[StoredRecord]
    """In offset order."""
    open_from: int | None
    """The offset of the first transaction that is open; ``None`` for none."""


def read_partitions(
    connection: KafkaConnection,
    spans: Mapping[TopicPartition, Span],
    isolation: str,
    *,
    listed_timeout_seconds: float | None = None,
    pulse: Callable[[], None] = lambda: None,
) -> dict[TopicPartition, LaneRecords | GaplessError]:
    """Read partitions to their ends; for each, return its records or why they are unknown.

    Args:
        connection: the cluster.
        spans: what to read.
        isolation: the isolation level.
        listed_timeout_seconds: limit for waiting without any answer for topics that were listed just before: one that
            does not exist any more is a TopicMissingError. ``None`` for topics that brokers may not know yet.
        pulse: called during each wait; it may raise to cancel the work.
    """
    reading = _Reading(connection, spans)
    consumer = new_consumer(
        connection,
        {
            "group.id": connection.group_id or connection.client_id,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
            "queued.max.messages.kbytes": 8_192,
            "fetch.queue.backoff.ms": 2,
            "fetch.wait.max.ms": 50,
            "fetch.error.backoff.ms": 50,
        },
    )
    clock = StallClock(STALLED_AFTER_SECONDS if listed_timeout_seconds is None else listed_timeout_seconds)
    look_at = time.monotonic() + _SILENCE_SECONDS
    try:
        consumer.assign([KafkaPartition(*partition, span.first) for partition, span in spans.items()])
        while reading.unread:
            pulse()
            clock.start_wait()
            messages = consumer.consume(_BATCH_SIZE, _WAIT_SECONDS)
            is_progress = [reading.take(message, consumer) for message in messages]
            clock.end_wait(progress=any(is_progress))
            if messages:
                look_at = time.monotonic() + _SILENCE_SECONDS
            elif listed_timeout_seconds is not None and time.monotonic() > look_at:
                reading.find_missing(consumer)
                look_at = time.monotonic() + _SILENCE_SECONDS
            if clock.is_stalled:
                reading.give_up()
    finally:
        consumer.close()
    return reading.found


class _Reading:
    """What was read of some partitions."""

    def __init__(self, connection: KafkaConnection, spans: Mapping[TopicPartition, Span]) -> None:
        self._servers = connection.bootstrap_servers
        self._spans = spans
        self._records: dict[TopicPartition, list[StoredRecord]] = {partition: [] for partition in spans}
        self._last_error = ""
        self._answered: dict[TopicPartition, int] = {}
        """The last stable offsets that were before the ends."""
        self.unread = set(self._records)
        self.found: dict[TopicPartition, LaneRecords | GaplessError] = {}

    def take(self, message: Message, consumer: Consumer) -> bool:
        """Keep a record, or note the end or the error of a partition; return whether it is progress."""
        partition = (message.topic() or "", message.partition() or 0)
        error = message.error()
        if partition not in self.unread:
            return False
        if error is None:
            return self._take_record(partition, message)
        if error.name() == "_PARTITION_EOF":
            return self._take_end(partition, message.offset() or 0, consumer)
        if fault_of(error.name()).is_transient or error.retriable():
            self._last_error = reason_in(error.str())
        else:
            reason = reason_in(error.str())
            self._finish(
                partition, fault_of(error.name()).error(self._servers, f"the topic {partition[0]}", reason=reason)
            )
        return False

    def _take_record(self, partition: TopicPartition, message: Message) -> bool:
        records, offset = self._records[partition], message.offset() or 0
        if records and records[-1].offset >= offset:  # It was fetched again after the end of a former leader.
            return False
        records.append(StoredRecord(message.key(), message.value(), offset))
        return True

    def _take_end(self, partition: TopicPartition, offset: int, consumer: Consumer) -> bool:
        """Finish a partition whose last stable offset is `offset`, unless a former leader answered.

        The cached high watermark may be of a later response than the offset. So an offset before it, as behind an open
        transaction, counts when it is answered again.
        """
        end = consumer.get_watermark_offsets(KafkaPartition(*partition), cached=True)[1]
        mark = self._spans[partition].mark
        if end <= mark:
            self._last_error = f"the end of {partition[0]}/{partition[1]} is {end}, and offset {mark} has been written"
        elif offset >= end or self._answered.get(partition) == offset:
            self._finish(partition, LaneRecords(self._records[partition], offset if offset < end else None))
            return True
        else:
            self._answered[partition] = offset
        consumer.seek(KafkaPartition(*partition, offset))  # The client reports the same end only once.
        return False

    def find_missing(self, consumer: Consumer) -> None:
        """Note which topics do not exist."""
        try:
            existing = consumer.list_topics(timeout=_METADATA_SECONDS).topics
        except KafkaException as error:
            self._last_error = reason_in(error.args[0].str())
            return
        for partition in [partition for partition in self.unread if partition[0] not in existing]:
            self._finish(partition, TopicMissingError(f"The topic {partition[0]} was deleted."))

    def give_up(self) -> None:
        """Note that the other partitions have stalled."""
        for partition in list(self.unread):
            self._finish(
                partition, TRANSIENT.error(self._servers, f"the topic {partition[0]}", reason=self._last_error)
            )

    def _finish(self, partition: TopicPartition, found: LaneRecords | GaplessError) -> None:
        self.unread.discard(partition)
        self.found[partition] = found
