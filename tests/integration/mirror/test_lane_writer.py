"""What a lane hands over to the client, record by record, when the client has no room for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition

from gapless_kafka.access.connection import KafkaConnection
from gapless_kafka.reading.headers import keep_header_bytes
from gapless_kafka.writing.transactions import ProducerOptions, TransactionalProducer
from gapless_mirror.lanes.writer import LaneWriter

if TYPE_CHECKING:
    from kit.kafka.broker import KafkaBroker

_RECORDS = 2_000


def _messages(kafka: KafkaBroker, topic: str, count: int) -> list[Any]:
    consumer = Consumer(kafka.client_options(**{"group.id": "look", "auto.offset.reset": "error"}))
    consumer.assign([KafkaPartition(topic, 0, 0)])
    found: list[Any] = []
    while len(found) < count:
        found += consumer.consume(count - len(found), 10.0)
    consumer.close()
    keep_header_bytes(found)
    return found


def _content(message: Any) -> tuple[Any, ...]:
    return message.key(), message.value(), message.headers(), message.timestamp()


@pytest.mark.parametrize("with_headers", [False, True])
def test_each_record_is_handed_over_once_and_in_order_when_the_client_is_full(
    kafka: KafkaBroker, *, with_headers: bool
) -> None:
    name = f"full-{with_headers}"
    source, target = kafka.create_topic(name, 1), kafka.create_topic(f"{name}-copy", 1)
    records = []
    for number in range(_RECORDS):
        headers = [("n", b"%d" % number), ("n", None)] if with_headers and number % 3 == 0 else None
        value = None if number % 7 == 0 else b"" if number % 7 == 1 else b"value %d" % number
        key = None if number % 5 == 0 else b"key %d" % number
        same = {"partition": 0, "timestamp": 1_700_000_000_000 + number}
        records.append({"value": value, "key": key, "headers": headers, **same})
    kafka.write(source, records)
    messages = _messages(kafka, source, _RECORDS)
    connection = KafkaConnection(bootstrap_servers=kafka.bootstrap)
    with TransactionalProducer(connection, None, ProducerOptions()) as writing:
        writing.client = Producer(kafka.client_options(**{"queue.buffering.max.messages": 150}))
        writer = LaneWriter(writing, "unused", 0)
        writer.begin()
        written = writer.append(target, (source, 0), messages)
        writer.flush()
    assert [run.length for run in written.runs()] == [_RECORDS]
    assert written.bytes == sum(len(one.key() or b"") + len(one.value() or b"") for one in messages)
    assert [_content(one) for one in _messages(kafka, target, _RECORDS)] == [_content(one) for one in messages]
