"""The proof that slices of any size together read what a plain consumer reads, whatever is in the log."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, TopicPartition

from gapless_api.base.errors import SourceUnreachableError
from gapless_kafka.access.connection import KafkaConnection
from gapless_kafka.reading.cuts import Cut, Slice, slices_of, split_offsets
from gapless_kafka.reading.reader import read_slices
from gapless_kafka.reading.topic_offsets import read_cut, read_settled_cut
from kit.kafka.transactions import OpenTransaction, end_transaction, in_transaction

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker

pytestmark = pytest.mark.integration

Row = tuple[str, int, int, bytes | None, bytes | None, int]


def rows_of(connection: KafkaConnection, slices: Iterable[Slice]) -> Iterator[Row]:
    for messages in read_slices(connection, tuple(slices)):
        for message in messages:
            yield (
                message.topic() or "",
                message.partition() or 0,
                message.offset() or 0,
                message.key(),  # type: ignore[arg-type] -- bytes without a deserializer
                message.value(),  # type: ignore[arg-type]
                message.timestamp()[1],
            )


def plainly(kafka: KafkaBroker, cut: Cut) -> list[Row]:
    """What an ordinary consumer reads of `cut`, a partition at a time."""
    found: list[Row] = []
    for topic in cut.topics:
        for partition, end in enumerate(topic.end_offsets):
            options = {"group.id": "plain", "enable.partition.eof": True, "isolation.level": "read_committed"}
            consumer = Consumer(kafka.client_options(**options))
            consumer.assign([TopicPartition(topic.topic, partition, topic.first_offsets[partition])])
            while (message := consumer.poll(20)) is not None and message.error() is None:
                if (message.offset() or 0) < end:
                    key, value = message.key(), message.value()
                    found.append((topic.topic, partition, message.offset() or 0, key, value, message.timestamp()[1]))  # type: ignore[arg-type]
            consumer.close()
    return found


@pytest.fixture
def topics(kafka: KafkaBroker, topic: TopicFactory) -> tuple[str, str, str]:
    """One with transactions and all kinds of keys and values, one compacted of which the first records are gone, and
    one that is empty."""
    chance = random.Random(5)
    mixed, compacted, empty = topic(3), topic(2, **{"cleanup.policy": "compact,delete"}), topic(2)
    for commit in (True, False, True, True, False, False, True):
        records = [(b"in", b"x" * chance.randrange(50)) for _ in range(chance.randrange(1, 9))]
        end_transaction(in_transaction(kafka, mixed, records), commit=commit)
        kafka.produce(mixed, [None, b"", b"\xff"], partition=0, keys=[b"\x00\xff", None, b""])
    kafka.produce(mixed, [str(number).encode() for number in range(5)], partition=2)
    for partition in (0, 1):
        keys = [str(number % 9).encode() for number in range(40)]
        kafka.produce(compacted, keys, partition=partition, keys=keys)
    kafka.delete_records(compacted, 0, 7)
    return mixed, compacted, empty


def test_slices_of_any_size_read_the_same_once(kafka: KafkaBroker, topics: tuple[str, str, str]) -> None:
    left_open = in_transaction(kafka, topics[0], [(b"open", b"x")] * 3)
    kafka.produce(topics[0], [b"behind what is open"], partition=0)
    connection = KafkaConnection(bootstrap_servers=kafka.bootstrap)
    cut = read_cut(connection, topics, timeout_seconds=30)
    expected = sorted(plainly(kafka, cut), key=lambda row: row[:3])
    assert {row[0] for row in expected} == set(topics[:2])
    assert cut.topics[0].uncommitted >= 4
    for parts in (1, 2, 3, 7, cut.offsets):
        divisions = split_offsets(cut, parts)
        assert len(divisions) == parts
        found = [row for part in divisions for row in rows_of(connection, part)]
        assert sorted(found, key=lambda row: row[:3]) == expected, parts
    assert sorted(rows_of(connection, slices_of(cut)), key=lambda row: row[:3]) == expected
    end_transaction(left_open, commit=False)


def test_what_expires_after_the_cut_is_no_loss_only_where_nobody_keeps_count(
    kafka: KafkaBroker, topic: TopicFactory
) -> None:
    name = topic()
    kafka.produce(name, [str(number).encode() for number in range(100)])
    connection = KafkaConnection(bootstrap_servers=kafka.bootstrap)
    cut = read_cut(connection, [name], timeout_seconds=30)
    kafka.delete_records(name, 0, 60)
    offsets = [row[2] for part in split_offsets(cut, 4) for row in rows_of(connection, part)]
    assert offsets == list(range(60, 100))
    for first, end in ((0, 100), (50, 75)):
        with pytest.raises(SourceUnreachableError, match="has deleted records of the topic"):
            list(rows_of(connection, [Slice(name, 0, first, end, may_skip_expired=False)]))


def test_a_settled_cut_ends_behind_transactions_that_end_soon(kafka: KafkaBroker, topic: TopicFactory) -> None:
    name = topic(2)
    connection = KafkaConnection(bootstrap_servers=kafka.bootstrap)
    soon = in_transaction(kafka, name, [(None, b"1"), (None, b"2")])
    ending = threading.Timer(1.0, end_transaction, [soon], {"commit": True})
    ending.start()
    (settled,) = read_settled_cut(connection, [name], timeout_seconds=10, patience_seconds=30).topics
    ending.join()
    assert (settled.end_offsets, settled.uncommitted) == ((3, 0), 0)  # two records and the marker

    late = in_transaction(kafka, name, [(None, b"3")])
    began = time.monotonic()
    (unsettled,) = read_settled_cut(connection, [name], timeout_seconds=10, patience_seconds=0.3).topics
    assert (unsettled.end_offsets, unsettled.uncommitted) == ((3, 0), 1)
    assert time.monotonic() - began >= 0.3
    end_transaction(late, commit=False)


def test_of_open_transactions_only_those_that_were_there_at_first_count(
    kafka: KafkaBroker, topic: TopicFactory
) -> None:
    """A program that writes in one transaction after the other always has one open."""
    name = topic(1)
    connection = KafkaConnection(bootstrap_servers=kafka.bootstrap)
    first = in_transaction(kafka, name, [(None, b"1")])
    more: list[OpenTransaction] = []

    def next_transaction() -> None:
        more.append(in_transaction(kafka, name, [(None, b"2")]))
        end_transaction(first, commit=True)

    ending = threading.Timer(0.5, next_transaction)
    ending.start()
    (settled,) = read_settled_cut(connection, [name], timeout_seconds=10, patience_seconds=60).topics
    ending.join()
    (at_once,) = read_settled_cut(connection, [name], timeout_seconds=10, patience_seconds=0).topics
    end_transaction(more[0], commit=False)
    assert (settled.end_offsets, settled.uncommitted) == ((1,), 0)
    assert (at_once.end_offsets, at_once.uncommitted > 0) == ((1,), True)
