"""Three client idioms that are easy to get wrong: queueing, the end of a read, and watermarks.

Must not know brokers or what records mean.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

T = TypeVar("T")

_NOT_THE_LEADER = frozenset(
    {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError._DESTROY_BROKER, KafkaError._TIMED_OUT, KafkaError._TRANSPORT}
)
_STALE_METADATA = frozenset({KafkaError._UNKNOWN_PARTITION})


def enqueue(producer: Producer, topic: str, value: bytes | None, **options: Any) -> None:
    """Pass a record to the producer; wait while its queue is full."""
    while True:
        try:
            producer.produce(topic, value, **options)
        except BufferError:
            producer.poll(0.1)
        else:
            return


def is_before_end(message: Message, ends: dict[int, int]) -> bool:
    """Whether this is a record before the end offset of its partition; removes finished partitions from `ends`.

    The client's end-of-partition event does not come while a topic grows, and the last offset need not be a record (it
    may be a transaction marker). So both the event and a record at or beyond the end finish a partition.
    """
    number, error = message.partition(), message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    end = ends.get(number, 0)
    if error is not None or message.offset() + 1 >= end:
        ends.pop(number, None)
    return error is None and message.offset() < end


def watermarks_of(consumer: Consumer, topic: str) -> dict[int, tuple[int, int]]:
    """Return the first offset and the end offset (exclusive) of every partition; empty if the topic does not exist.

    Retries while a broker that has just started is not yet the leader, or does not yet know new partitions. After a
    leader has failed, the client keeps asking it until it refreshes its metadata.

    Raises:
        KafkaException: no leader answered within a minute.
    """

    def partitions() -> list[int]:
        return sorted(consumer.list_topics(topic, timeout=2).topics[topic].partitions)

    def watermarks(number: int) -> tuple[int, int]:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=2)
        return low, high

    return {number: _retry(partial(watermarks, number), partitions) for number in _retry(partitions, partitions)}


def _retry(request: Callable[[], T], refresh_metadata: Callable[[], object]) -> T:
    """Repeat `request`, with new metadata each time, until the leader answers."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return request()
        except KafkaException as error:
            if error.args[0].code() not in _NOT_THE_LEADER | _STALE_METADATA or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
            with contextlib.suppress(KafkaException):
                refresh_metadata()
