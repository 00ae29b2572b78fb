"""Acknowledged records that Kafka does not have: the client takes a batch for accepted because the next one was.

The brokers know the leaders of a new topic a moment before these accept records. Of what is written in that moment,
the first batch may be rejected and the second, which was sent before the answer, accepted. That is a race, so topics
are created until it was seen.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic

from gapless_api.offsets.ranges import OffsetRanges
from gapless_kafka.access.connection import KafkaConnection
from gapless_kafka.writing.portions import Columns, Portion
from gapless_kafka.writing.positions import Position, WorkPartition
from gapless_kafka.writing.transactions import ProducerOptions, TransactionalProducer
from gapless_kafka.writing.writer import PortionWriter, WriterOptions

if TYPE_CHECKING:
    from kit.kafka.broker import KafkaBroker

_PARTITIONS, _RECORDS, _TOPICS = 120, 4, 60
_VALUE = b"v" * 600
"""Larger than half a batch, so that each record has a batch of its own."""
_SMALL = {"compression": "none", "batch_bytes": 1024}
_KEYS = [b"%d" % number for number in range(_RECORDS)]


def new_topics(kafka: KafkaBroker, name: str) -> Iterator[str]:
    """Create topics, and do not wait until their leaders accept records."""
    for number in range(_TOPICS):
        topic = f"{name}-{number}"
        kafka.admin().create_topics([NewTopic(topic, _PARTITIONS, 1)])[topic].result()
        yield topic
        kafka.admin().delete_topics([topic])[topic].result()
    pytest.fail(f"of {_TOPICS} new topics no leader was late")


def keys_in(kafka: KafkaBroker, topic: str) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = defaultdict(list)
    for message in kafka.read(topic):
        found[message.partition() or 0].append(message.key())
    return found


def test_portions_are_written_again(kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    aborted: list[str] = []
    abort = TransactionalProducer.abort

    def noted_abort(producer: TransactionalProducer, **more: Any) -> None:
        if producer.is_open:
            aborted.append(topic)
        abort(producer, **more)

    monkeypatch.setattr(TransactionalProducer, "abort", noted_abort)
    connection = KafkaConnection(bootstrap_servers=kafka.bootstrap)
    control = kafka.create_topic("first-portions-control", 2, cleanup_policy="compact")
    with PortionWriter(connection, "first-portions", WriterOptions(control_topic=control, **_SMALL)) as writer:
        for topic in new_topics(kafka, "first-portions"):
            writer.write([portion(topic, number) for number in range(_PARTITIONS)])
            assert keys_in(kafka, topic) == dict.fromkeys(range(_PARTITIONS), _KEYS)
            if aborted:
                break


def portion(topic: str, number: int) -> Portion:
    position = Position(topic=topic, topic_id="T", target_partition=number, source_id="S", epoch=1)
    offsets = list(range(_RECORDS))
    position = position.advance(OffsetRanges([(0, _RECORDS - 1)]), records=_RECORDS)
    columns = Columns(offsets, [None] * _RECORDS, _KEYS, [_VALUE] * _RECORDS)
    return Portion(WorkPartition("first", "s", number), columns, position)


def test_single_records_are_not_committed(kafka: KafkaBroker) -> None:
    connection = KafkaConnection(bootstrap_servers=kafka.bootstrap)
    with TransactionalProducer(connection, "first-records", ProducerOptions(**_SMALL)) as producer:
        for topic in new_topics(kafka, "first-records"):
            producer.begin()
            for key, partition in itertools.product(_KEYS, range(_PARTITIONS)):
                producer.put(topic, partition, key, _VALUE)
            if (error := committed(producer)) is None:
                assert keys_in(kafka, topic) == dict.fromkeys(range(_PARTITIONS), _KEYS)
                continue
            assert "acknowledged without an offset" in error
            producer.abort()
            assert not keys_in(kafka, topic)
            break


def committed(producer: TransactionalProducer) -> str | None:
    """Commit, or return the error."""
    try:
        producer.commit()
    except KafkaException as error:
        return str(error)
    return None
