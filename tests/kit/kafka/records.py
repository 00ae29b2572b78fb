"""Owns three habits of talking with Kafka that are easy to get wrong. Must not know brokers or what records mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException

if TYPE_CHECKING:
    from confluent_kafka import Message, Producer

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
