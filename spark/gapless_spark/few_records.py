"""Owns how few records are read with Kafka's client, a batch at a time, without Spark.

Must not know what they mean. It reads the same cut as Spark would, committed records only.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from gapless_api.errors import GaplessError, SourceStalledError, SourceUnreachableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from confluent_kafka import Message

    from gapless_api.kafka_connection import KafkaConnection
    from gapless_spark.kafka_source import Cut

_STALLED_AFTER_SECONDS = 60.0
_AT_ONCE = 1000
_MEANINGS = {
    "_AUTO_OFFSET_RESET": "has deleted records before they were read; run again, or keep them longer",
    "TOPIC_AUTHORIZATION_FAILED": "denies access to a topic; have the right to read it granted, or log in as another",
    "UNKNOWN_TOPIC_OR_PART": "has deleted a topic while it was read; run again",
    "_UNKNOWN_PARTITION": "has deleted a topic while it was read; run again",
    "_UNKNOWN_TOPIC": "has deleted a topic while it was read; run again",
}


def few_records(connection: KafkaConnection, cut: Cut) -> Iterator[list[Message]]:
    """Yield the records of `cut`, those of a partition in their order.

    Raises:
        SourceUnreachableError: Kafka denies access, or has deleted what was to be read.
        SourceStalledError: nothing came for a minute.
    """
    begins: list[TopicPartition] = []
    ends: dict[tuple[str, int], int] = {}
    for topic in cut.topics:
        for partition, (first, end) in enumerate(zip(topic.first_offsets, topic.end_offsets, strict=True)):
            if first < end:
                # What expires after the look at Kafka is no loss when nobody has promised to read it.
                begin = OFFSET_BEGINNING if topic.from_the_beginning else first
                begins.append(TopicPartition(topic.topic, partition, begin))
                ends[topic.topic, partition] = end
    consumer = Consumer(
        {
            **connection.librdkafka_options(),
            "group.id": connection.group_id or connection.client_id,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "queued.min.messages": 200_000,
            "queued.max.messages.kbytes": 32_768,
            "fetch.message.max.bytes": 4 * 1024 * 1024,
            "fetch.queue.backoff.ms": 5,
            "log_level": 0,
        }
    )
    try:
        consumer.assign(begins)
        yield from _Reading(consumer, connection, ends).pieces()
    except KafkaException as error:
        raise SourceUnreachableError(f"Kafka's client failed ({error.args[0]}); run again.") from error
    finally:
        consumer.close()


class _Reading:
    """What is left to be read."""

    def __init__(self, consumer: Consumer, connection: KafkaConnection, ends: dict[tuple[str, int], int]) -> None:
        self._consumer = consumer
        self._connection = connection
        self._ends = ends
        self._nearest_end = min(ends.values()) - 1 if ends else None
        """The lowest offset that is last in its partition; nothing once a partition has ended."""

    def pieces(self) -> Iterator[list[Message]]:
        heard = time.monotonic()
        while self._ends:
            messages = self._consumer.consume(_AT_ONCE, 0.2)
            if any(message.error() is None for message in messages):
                heard = time.monotonic()
            elif time.monotonic() - heard > _STALLED_AFTER_SECONDS:
                raise SourceStalledError(
                    f"Kafka at {self._connection.bootstrap_servers} stopped answering while it was read; check the "
                    f"brokers and run again."
                )
            if not self._are_all_wanted(messages):
                messages = [message for message in messages if self._is_wanted(message)]
            yield messages

    def _are_all_wanted(self, messages: Sequence[Any]) -> bool:
        """Whether all are records before the nearest end of a partition, which is quick to see and mostly so."""
        if self._nearest_end is None or any(message.error() is not None for message in messages):
            return False
        highest: int = max([message.offset() for message in messages], default=0)
        return highest < self._nearest_end

    def _is_wanted(self, message: Message) -> bool:
        """Whether this is a record before the end of its partition; a partition that has ended is read no further.

        A record need not stand right before the end (the marker of a transaction may): the partition has ended as well
        when the client reports its end, or when a record at or beyond it comes.
        """
        place: Any = (message.topic(), message.partition())
        offset: Any = message.offset()
        error = message.error()
        if error is not None and error.name() != "_PARTITION_EOF":
            if not error.retriable() and error.name() not in {"_TRANSPORT", "_ALL_BROKERS_DOWN"}:
                raise self._meaning(error)
            return False
        end = self._ends.get(place)
        if end is None:
            return False
        if offset + (error is None) >= end:
            del self._ends[place]
            self._nearest_end = None
            self._consumer.pause([TopicPartition(*place)])
        return error is None and offset < end

    def _meaning(self, error: Any) -> GaplessError:
        meaning = _MEANINGS.get(error.name(), f"answers with an error ({error.str()}); look into the brokers' logs")
        return SourceUnreachableError(f"Kafka at {self._connection.bootstrap_servers} {meaning}.")
