"""Copies a topic with the minimal code for Kafka's Python client, as a reference for the mirror.

It keeps no positions, does not detect recreated topics, and handles no faults, so it shows the client's share of the
cost. Its argument is a JSON object: source, target, topic, partitions, exactly_once, compression and interval_ms.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

_BATCH_SIZE = 10_000


def main() -> None:
    settings = json.loads(sys.argv[1])
    interval = settings["interval_ms"] / 1000
    consumer = Consumer(
        {
            "bootstrap.servers": settings["source"],
            "group.id": "plain-loop",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "queued.max.messages.kbytes": 65_536,
            "fetch.message.max.bytes": 1024 * 1024,
            "fetch.queue.backoff.ms": 2,
            "fetch.wait.max.ms": 50,
        }
    )
    options: dict[str, Any] = {"transactional.id": "plain-loop"} if settings["exactly_once"] else {}
    producer = Producer(
        {
            "bootstrap.servers": settings["target"],
            "enable.idempotence": True,
            "linger.ms": 10,
            "batch.size": 1_000_000,
            "batch.num.messages": 100_000,
            "queue.buffering.max.messages": 500_000,
            "compression.type": settings["compression"],
            **options,
        }
    )
    if options:
        producer.init_transactions()
    consumer.assign([TopicPartition(settings["topic"], number, 0) for number in range(settings["partitions"])])
    while True:
        messages = consumer.consume(_BATCH_SIZE, interval)
        if options and messages:
            producer.begin_transaction()
        until = time.monotonic() + interval
        while messages:
            _copy(producer, messages)
            messages = consumer.consume(_BATCH_SIZE, 0.01) if time.monotonic() < until else []
            if not messages and options:
                producer.commit_transaction()
            producer.poll(0)


def _copy(producer: Any, messages: list[Any]) -> None:
    for message in messages:
        while True:
            try:
                producer.produce(
                    message.topic(),
                    message.value(),
                    message.key(),
                    message.partition(),
                    None,
                    None,
                    message.timestamp()[1],
                    message.headers() or [],
                )
                break
            except BufferError:
                producer.poll(0.1)


if __name__ == "__main__":
    main()
