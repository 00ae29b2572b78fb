"""Owns records in Kafka transactions, committed, aborted or left open. Must not know the product."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from confluent_kafka import Producer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kit.kafka.cluster import KafkaCluster

Record = tuple[bytes | str | None, bytes | str | None]
"""Key and value."""
_SECONDS = 30


def in_transaction(kafka: KafkaCluster, topic: str, records: Iterable[Record]) -> Producer:
    """Write `records` to partition 0 in a transaction that is still open; the producer commits or aborts it."""
    # Longer than any test lasts: the broker aborts what is open for a minute by default.
    options = {"transactional.id": str(uuid.uuid4()), "transaction.timeout.ms": 600_000}
    producer = Producer(kafka.client_options(**options))
    producer.init_transactions(_SECONDS)
    producer.begin_transaction()
    for key, value in records:
        producer.produce(topic, value, key, partition=0)
    producer.flush()
    return producer


def end_transaction(producer: Producer, *, commit: bool) -> None:
    """Commit or abort what `in_transaction` began; its marker takes an offset of the topic."""
    if commit:
        producer.commit_transaction(_SECONDS)
    else:
        producer.abort_transaction(_SECONDS)


def three_in_each(kafka: KafkaCluster, topic: str, *commits: bool) -> None:
    """Write a transaction for each of `commits`, committed or aborted, of four offsets: three records and a marker."""
    for commit in commits:
        end_transaction(in_transaction(kafka, topic, [(None, b"in a transaction")] * 3), commit=commit)
