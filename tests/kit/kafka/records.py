"""Owns four habits of talking with Kafka that are easy to get wrong. Must not know brokers or what records mean."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Consumer, Message, Producer

T = TypeVar("T")

_ASKED_NO_LEADER = frozenset(
    {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError._DESTROY_BROKER, KafkaError._TIMED_OUT, KafkaError._TRANSPORT}
)
_ASKED_ONE_THAT_IS_BEHIND = frozenset({KafkaError._UNKNOWN_PARTITION})

IN_ORDER = {"acks": "all", "max.in.flight.requests.per.connection": 1}
"""Options of a producer that writes in order. An idempotent one does so, too, after half a second for its number."""


def enqueue(producer: Producer, topic: str, value: bytes | None, **options: Any) -> None:
    """Hand a record to the producer, waiting while its queue is full."""
    while True:
        try:
            producer.produce(topic, value, **options)
        except BufferError:
            producer.poll(0.1)
        else:
            return


def is_before_end(message: Message, left: dict[int, int]) -> bool:
    """Say whether this is a record before the noted end of its partition; take finished partitions out of `left`.

    The client's own end-of-partition event does not come while a topic grows, and a record need not stand right before
    the end (a transaction's marker may): both the event and a record at or beyond the end finish a partition.
    """
    number, error = message.partition(), message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    end = left.get(number, 0)
    if error is not None or message.offset() + 1 >= end:
        left.pop(number, None)
    return error is None and message.offset() < end


def watermarks_of(consumer: Consumer, topic: str) -> dict[int, tuple[int, int]]:
    """First offset and end offset (one after the last) of every partition; none where there is no such topic.

    Asked again are a broker that has just started, which leads a moment later, and one that is slow, which learns of
    new partitions a moment later. Of one that has just died a client asks again and again, until it looks who leads.

    Raises:
        KafkaException: no leader answered for a minute.
    """

    def look() -> list[int]:
        return sorted(consumer.list_topics(topic, timeout=2).topics[topic].partitions)

    def watermarks(number: int) -> tuple[int, int]:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=2)
        return low, high

    return {number: _ask_again(partial(watermarks, number), look) for number in _ask_again(look, look)}


def _ask_again(ask: Callable[[], T], look: Callable[[], object]) -> T:
    """Ask until the broker that the client asks can answer; look who leads before each further question."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in _ASKED_NO_LEADER | _ASKED_ONE_THAT_IS_BEHIND or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
            with contextlib.suppress(KafkaException):
                look()
