"""A fast generator of received events: keys topic_partition_offset with losses and duplicates.

Must not know the product. Losses and duplicates depend on a seed only, so that a test can compute what is missing.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException, Producer

from kit.kafka.writing import ONCE_IN_ORDER

if TYPE_CHECKING:
    from kit.kafka.cluster import KafkaCluster

_BATCH = 10_000
_MAX_QUEUED = 200_000


@dataclass(frozen=True)
class Stream:
    """The received events of one source partition."""

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
        prefix, offset, remaining = f"{self.topic}_{self.partition}_", self.first_offset, count
        received = 1.0 - self.loss
        while remaining > 0:
            if chance() < received:
                key = f"{prefix}{offset}"
                yield key
                remaining -= 1
                if remaining and chance() < self.repeats:
                    yield key
                    remaining -= 1
            offset += 1


def receive_many(
    kafka: KafkaCluster, topic: str, streams: Sequence[Stream], count: int, *, value: bytes = b"event"
) -> None:
    """Write `count` records of each stream to the partition with the source's number, in batches of ten thousand.

    Raises:
        KafkaException: a record was rejected.
        TimeoutError: records were not acknowledged within two minutes.
    """
    failures: list[Any] = []

    def on_delivery(error: Any, _message: Any) -> None:
        if error is not None:
            failures.append(error)

    options: dict[str, Any] = {
        **ONCE_IN_ORDER,
        "linger.ms": 20,
        "batch.size": 1_000_000,
        "queue.buffering.max.messages": _MAX_QUEUED,
        "delivery.report.only.error": True,
    }
    producer = Producer(kafka.client_options(**options))
    sources = [(stream.partition, stream.keys(count)) for stream in streams]
    for _ in range(0, count, _BATCH):
        for partition, keys in sources:
            records = [{"key": key, "value": value} for key in itertools.islice(keys, _BATCH)]
            _enqueue(producer, topic, partition, records, on_delivery)
    pending = producer.flush(120)
    if failures:
        raise KafkaException(failures[0])
    if pending:
        raise TimeoutError(f"{pending} records for {topic} were not acknowledged within 120 s")


def _enqueue(producer: Producer, topic: str, partition: int, records: list[dict[str, Any]], on_delivery: Any) -> None:
    while records:
        producer.produce_batch(topic, records, partition, on_delivery)
        records = [record for record in records if record.pop("_error", None) is not None]
        if records:
            producer.poll(0.05)
