"""Reading the records of control topics, many partitions at once; must not know what the records mean."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
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


class LaneRecords(NamedTuple):
    """The records of a lane in the control topic."""

    records: list[StoredRecord]
    """In offset order."""
    open_from: int | None
    """The offset of the first transaction that is open; ``None`` for none."""


def read_partitions(
    connection: KafkaConnection,
    offsets: Mapping[TopicPartition, int],
    isolation: str,
    *,
    listed_timeout_seconds: float | None = None,
    pulse: Callable[[], None] = lambda: None,
) -> dict[TopicPartition, LaneRecords | GaplessError]:
    """Read partitions from the given offsets to their ends; for each, return its records or why they are unknown.

    Args:
        connection: the cluster.
        offsets: where to start.
        isolation: the isolation level.
        listed_timeout_seconds: limit for waiting without any answer for topics that were listed just before: one that
            does not exist any more is a TopicMissingError. ``None`` for topics that brokers may not know yet.
        pulse: called during each wait; it may raise to cancel the work.
    """
    reading = _Reading(connection, offsets)
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
        consumer.assign([KafkaPartition(topic, number, offset) for (topic, number), offset in offsets.items()])
        while reading.unread:
            pulse()
            clock.start_wait()
            messages = consumer.consume(_BATCH_SIZE, _WAIT_SECONDS)
            clock.end_wait(progress=bool(messages))
            for message in messages:
                reading.take(message, consumer)
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

    def __init__(self, connection: KafkaConnection, partitions: Iterable[TopicPartition]) -> None:
        self._servers = connection.bootstrap_servers
        self._records: dict[TopicPartition, list[StoredRecord]] = {partition: [] for partition in partitions}
        self._last_error = ""
        self.unread = set(self._records)
        self.found: dict[TopicPartition, LaneRecords | GaplessError] = {}

    def take(self, message: Message, consumer: Consumer) -> None:
        """Keep a record, or note the end or the error of a partition."""
        partition = (message.topic() or "", message.partition() or 0)
        error = message.error()
        if partition not in self.unread:
            return
        if error is None:
            self._records[partition].append(StoredRecord(message.key(), message.value(), message.offset() or 0))
        elif error.name() == "_PARTITION_EOF":
            # This is the last stable offset; the cached high watermark is from the same response.
            end = consumer.get_watermark_offsets(KafkaPartition(*partition), cached=True)[1]
            offset = message.offset() or 0
            self._finish(partition, LaneRecords(self._records[partition], offset if offset < end else None))
        elif fault_of(error.name()).is_transient or error.retriable():
            self._last_error = reason_in(error.str())
        else:
            reason = reason_in(error.str())
            self._finish(
                partition, fault_of(error.name()).error(self._servers, f"the topic {partition[0]}", reason=reason)
            )

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
