"""Owns records in Kafka transactions, committed, aborted or left open. Must not know the product."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import Producer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kit.kafka.cluster import KafkaCluster

Record = tuple[bytes | str | None, bytes | str | None]
"""Key and value."""
_SECONDS = 30


@dataclass(frozen=True)
class OpenTransaction:
    """A transaction that was begun and neither committed nor aborted, and where it was."""

    kafka: KafkaCluster
    transactional_id: str
    producer: Producer


def in_transaction(kafka: KafkaCluster, topic: str, records: Iterable[Record]) -> OpenTransaction:
    """Write `records` to partition 0 in a transaction that stays open until `end_transaction`."""
    transactional_id = str(uuid.uuid4())
    producer = transactional_producer(kafka, transactional_id)
    producer.begin_transaction()
    for key, value in records:
        producer.produce(topic, value, key, partition=0)
    producer.flush()
    return OpenTransaction(kafka, transactional_id, producer)


def end_transaction(transaction: OpenTransaction, *, commit: bool) -> None:
    """Commit or abort what `in_transaction` began; its marker takes an offset of the topic.

    Every reader sees that it has ended when this returns.
    """
    if commit:
        transaction.producer.commit_transaction(_SECONDS)
    else:
        transaction.producer.abort_transaction(_SECONDS)
    transactional_producer(transaction.kafka, transaction.transactional_id)


def transactional_producer(kafka: KafkaCluster, transactional_id: str) -> Producer:
    """Make a producer without a transaction that takes a transactional ID from the one before.

    Kafka answers to a commit or an abort before its markers are in the topics, and readers meet the transaction open
    until then. It gives the ID to another producer only when each marker is written: so to take it is to wait for that.
    """
    # Longer than any test lasts: the broker aborts what is open for a minute by default.
    options = {"transactional.id": transactional_id, "transaction.timeout.ms": 600_000}
    producer = Producer(kafka.client_options(**options))
    producer.init_transactions(_SECONDS)
    return producer


def three_in_each(kafka: KafkaCluster, topic: str, *commits: bool) -> None:
    """Write a transaction for each of `commits`, committed or aborted, of four offsets: three records and a marker."""
    for commit in commits:
        end_transaction(in_transaction(kafka, topic, [(None, b"in a transaction")] * 3), commit=commit)
