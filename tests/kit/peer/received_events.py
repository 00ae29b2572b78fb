"""Owns a fast writer of what a receiver writes: keys topic_partition_offset with losses and repeats.

Must not know the product. What is lost and repeated follows from a seed alone, so that a test can say what is missing.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException, Producer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kit.kafka.cluster import KafkaCluster

_BATCH = 10_000
_MOST_QUEUED = 200_000


@dataclass(frozen=True)
class Stream:
    """The events of one source partition as they arrive."""

    topic: str = "transfer"
    partition: int = 0
    first_offset: int = 0
    loss: float = 0.05
    repeats: float = 0.01
    """Share of the received events that arrive twice."""
    seed: int = 1

    def keys(self, count: int) -> Iterator[str]:
        """Yield `count` keys in the order of their arrival."""
        chance = random.Random(f"{self.seed}/{self.topic}/{self.partition}/{self.first_offset}").random
        prefix, offset, left = f"{self.topic}_{self.partition}_", self.first_offset, count
        received = 1.0 - self.loss
        while left > 0:
            if chance() < received:
                key = f"{prefix}{offset}"
                yield key
                left -= 1
                if left and chance() < self.repeats:
                    yield key
                    left -= 1
            offset += 1


def receive_many(
    kafka: KafkaCluster, topic: str, streams: Sequence[Stream], count: int, *, value: bytes = b"event"
) -> None:
    """Write `count` records of each stream, in turns of ten thousand, to the partition with the source's number.

    Raises:
        KafkaException: a record was not taken.
        TimeoutError: some were not taken within two minutes.
    """
    failures: list[Any] = []

    def delivered(error: Any, _message: Any) -> None:
        if error is not None:
            failures.append(error)

    options: dict[str, Any] = {
        "linger.ms": 20,
        "batch.size": 1_000_000,
        "queue.buffering.max.messages": _MOST_QUEUED,
        "delivery.report.only.error": True,
    }
    producer = Producer(kafka.client_options(**options))
    sources = [(stream.partition, stream.keys(count)) for stream in streams]
    for _ in range(0, count, _BATCH):
        for partition, keys in sources:
            records = [{"key": key, "value": value} for key in itertools.islice(keys, _BATCH)]
            _enqueue(producer, topic, partition, records, delivered)
    left = producer.flush(120)
    if failures:
        raise KafkaException(failures[0])
    if left:
        raise TimeoutError(f"{left} records for {topic} were not taken within 120 s")


def _enqueue(producer: Producer, topic: str, partition: int, records: list[dict[str, Any]], delivered: Any) -> None:
    while records:
        producer.produce_batch(topic, records, partition, delivered)
        records = [record for record in records if record.pop("_error", None) is not None]
        if records:
            producer.poll(0.05)
