"""Test data in Kafka transactions: committed, aborted or left open. Must not know the product."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, Producer, TopicPartition

from kit.kafka import writing

if TYPE_CHECKING:
    from kit.kafka.cluster import KafkaCluster

Record = tuple[bytes | str | None, bytes | str | None]
"""Key and value."""
_SECONDS = 120


@dataclass(frozen=True)
class OpenTransaction:
    """A transaction that is neither committed nor aborted yet."""

    kafka: KafkaCluster
    transactional_id: str
    producer: Producer


def in_transaction(kafka: KafkaCluster, topic: str, records: Iterable[Record]) -> OpenTransaction:
    """Write `records` to partition 0 in a transaction, and leave it open until `end_transaction`."""
    transactional_id = str(uuid.uuid4())
    producer = transactional_producer(kafka, transactional_id)
    producer.begin_transaction()
    for key, value in records:
        producer.produce(topic, value, key, partition=0)
    producer.flush()
    return OpenTransaction(kafka, transactional_id, producer)


def offset_in_transaction(kafka: KafkaCluster, group: str, topic: str, offset: int) -> OpenTransaction:
    """Commit an offset of a group in partition 0 in a transaction, and leave it open until `end_transaction`."""
    transactional_id = str(uuid.uuid4())
    producer = transactional_producer(kafka, transactional_id)
    member = Consumer(kafka.client_options(**{"group.id": group}))
    producer.begin_transaction()
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, offset)], member.consumer_group_metadata(), _SECONDS)
    member.close()
    return OpenTransaction(kafka, transactional_id, producer)


def end_transaction(transaction: OpenTransaction, *, commit: bool) -> None:
    """Commit or abort the transaction; its marker takes one offset of the topic.

    When this returns, every reader sees the transaction as ended.
    """
    if commit:
        transaction.producer.commit_transaction(_SECONDS)
    else:
        transaction.producer.abort_transaction(_SECONDS)
    transactional_producer(transaction.kafka, transaction.transactional_id)


def transactional_producer(kafka: KafkaCluster, transactional_id: str) -> Producer:
    """Create a producer that takes over a transactional ID, without beginning a transaction.

    Kafka acknowledges a commit or an abort before the markers are in the topics, and readers see the transaction as
    open until then. `init_transactions` of another producer succeeds only after all markers are written, so it waits.
    """
    # Longer than any test: by default the broker aborts a transaction after a minute.
    options = {"transactional.id": transactional_id, "transaction.timeout.ms": 600_000}
    return writing.transactional_producer(kafka.client_options(**options))


def write_transactions(kafka: KafkaCluster, topic: str, *commits: bool) -> None:
    """Write one transaction per item of `commits`, committed or aborted: three records and a marker, four offsets."""
    for commit in commits:
        end_transaction(in_transaction(kafka, topic, [(None, b"in a transaction")] * 3), commit=commit)
