"""Producers: the idempotent one that all writes of a process to a cluster share, and those for transactions.

Must not know brokers or what records mean. An idempotent producer waits half a second for its ID, so each write with a
producer of its own would. Without idempotence a retry, on a busy machine, writes a batch twice, and later offsets move.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaException, Message, Producer

from kit.kafka.records import enqueue

ONCE_IN_ORDER = {"enable.idempotence": True, "max.in.flight": 1}
"""Options of a producer that writes each record once and keeps the order.

With more batches in flight, records are lost and acknowledged if a leader that is not ready yet rejects the first batch
and accepts the second one: Kafka accepts any first batch of a producer that the log does not know.
"""

_LARGE = {
    "linger.ms": 5,
    "batch.size": 1 << 20,
    "message.max.bytes": 64 << 20,
    "queue.buffering.max.kbytes": 256 << 10,
}
_CALLBACKS_EVERY = 10_000
SECONDS = 120
"""Within which the last record must be acknowledged; longer than a busy machine needs."""


def transactional_producer(options: Mapping[str, Any]) -> Producer:
    """Create a producer that has taken over its transactional ID.

    That succeeds only when all markers of the ID's last transaction are written.
    """
    producer = Producer({**ONCE_IN_ORDER, **options})
    # With a connection it asks at once. Without one it looks again after half a second, and then after another half.
    with contextlib.suppress(KafkaException):
        producer.list_topics(timeout=SECONDS)
    producer.init_transactions(SECONDS)
    return producer


class Writer:
    """One producer; `options` are those of the client, with its bootstrap servers."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._producer = Producer({**_LARGE, **ONCE_IN_ORDER, **options})

    def write(self, topic: str, records: Iterable[Mapping[str, Any]]) -> int:
        """Write records and wait for every acknowledgement; return their number.

        Args:
            topic: of all records.
            records: arguments of `Producer.produce`: value, key, partition, timestamp, headers.

        Raises:
            KafkaException: a record was rejected. A writer that has raised must not be used again.
            TimeoutError: a record was not acknowledged in time.
        """
        # The producer does not notice by itself that the topic was created anew, or has more partitions.
        with contextlib.suppress(KafkaException):
            self._producer.list_topics(topic, timeout=SECONDS)
        failures: list[Any] = []
        acknowledged = 0

        def on_delivery(error: Any, _message: Message) -> None:
            nonlocal acknowledged
            acknowledged += 1
            if error is not None:
                failures.append(error)

        count = 0
        for count, record in enumerate(records, start=1):
            options = dict(record)
            enqueue(self._producer, topic, options.pop("value", None), on_delivery=on_delivery, **options)
            if count % _CALLBACKS_EVERY == 0:
                self._producer.poll(0)
        # Counted here and not flushed, because another thread may use the same producer.
        deadline = time.monotonic() + SECONDS
        while acknowledged < count and time.monotonic() < deadline:
            self._producer.poll(0.1)
        if failures:
            raise KafkaException(failures[0])
        if acknowledged < count:
            raise TimeoutError(f"{count - acknowledged} records for {topic} were not acknowledged within {SECONDS} s")
        return count
