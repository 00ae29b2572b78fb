"""Reading small topics to their end, and what the end is while transactions are open.

Must not know brokers or what records mean.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, Message, TopicPartition

from kit.kafka.records import is_before_end, watermarks_of

_MARKERS_SECONDS = 10
"""Within which a busy broker writes the markers of a transaction that its producer has committed."""


def watermarks(options: Mapping[str, Any], topic: str, *, committed_only: bool = True) -> dict[int, tuple[int, int]]:
    """Return the first offset and the end offset (exclusive) of every partition.

    The end of the committed records is the first offset of the first open transaction, if there is one.
    """
    consumer = Consumer({**options, "group.id": "kit", **_isolation(committed_only=committed_only)})
    try:
        return watermarks_of(consumer, topic)
    finally:
        consumer.close()


def settled_watermarks(options: Mapping[str, Any], topic: str) -> dict[int, tuple[int, int]]:
    """Return the `watermarks` of the committed records when no transaction is open, or when it stays open.

    A producer has committed before the broker has written the markers to every partition. A reader that asks for the
    end in between does not see the last records.
    """
    deadline = time.monotonic() + _MARKERS_SECONDS
    while True:
        everything = watermarks(options, topic, committed_only=False)
        committed = watermarks(options, topic)
        if all(committed[number][1] >= end for number, (_, end) in everything.items()) or time.monotonic() > deadline:
            return committed
        time.sleep(0.02)


def read(
    options: Mapping[str, Any],
    topic: str,
    ends: Mapping[int, int],
    *,
    committed_only: bool = True,
    timeout_seconds: float = 120.0,
) -> list[Message]:
    """Read partitions from their first record up to `ends` (exclusive); ordered by partition and offset.

    Raises:
        TimeoutError: the end was not reached.
    """
    unfinished = dict(ends)
    consumer = Consumer(
        {
            **options,
            "group.id": "kit",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,  # by default the broker says after half a second that this is the end
            **_isolation(committed_only=committed_only),
        }
    )
    messages: list[Message] = []
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in unfinished])
        deadline = time.monotonic() + timeout_seconds
        while unfinished:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the end of {topic} was not reached within {timeout_seconds} s")
            messages += [message for message in consumer.consume(1000, 0.02) if is_before_end(message, unfinished)]
    finally:
        consumer.close()
    return sorted(messages, key=lambda message: (message.partition(), message.offset()))


def _isolation(*, committed_only: bool) -> dict[str, str]:
    return {"isolation.level": "read_committed" if committed_only else "read_uncommitted"}
