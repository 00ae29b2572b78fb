"""Owns how few records are read with Kafka's client, a batch at a time, without Spark.

Must not know what they mean. It reads the same cut as Spark would, committed records only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from gapless_api.base.errors import SourceUnreachableError
from gapless_api.cli.reading_progress import SilentProgress
from gapless_kafka.errors import PASSING, fault_of, reason_in
from gapless_kafka.stall_clock import StallClock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from confluent_kafka import Message

    from gapless_api.cli.reading_progress import Progress
    from gapless_kafka.connection import KafkaConnection
    from gapless_spark.runtime.kafka_source import Cut

_AT_ONCE = 1000
_SILENT = SilentProgress()


def few_records(connection: KafkaConnection, cut: Cut, progress: Progress = _SILENT) -> Iterator[list[Message]]:
    """Yield the records of `cut`, those of a partition in their order.

    Args:
        connection: to Kafka.
        cut: what to read.
        progress: is told how many offsets are behind us.

    Raises:
        SourceUnreachableError: Kafka denies access, or has deleted what was to be read.
        SourceStalledError: nothing came in a minute of waiting.
        ConfigurationError: a topic was deleted.
    """
    begins: list[TopicPartition] = []
    spans: dict[tuple[str, int], tuple[int, int]] = {}
    for topic in cut.topics:
        for partition, (first, end) in enumerate(zip(topic.first_offsets, topic.end_offsets, strict=True)):
            if first < end:
                # What expires after the look at Kafka is no loss when nobody has promised to read it.
                begin = OFFSET_BEGINNING if topic.from_the_beginning else first
                begins.append(TopicPartition(topic.topic, partition, begin))
                spans[topic.topic, partition] = first, end
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
        yield from _Reading(consumer, connection, spans, progress).pieces()
    except KafkaException as error:
        raise SourceUnreachableError(f"Kafka's client failed ({error.args[0]}); run again.") from error
    finally:
        consumer.close()


class _Reading:
    """What is left to be read."""

    def __init__(
        self,
        consumer: Consumer,
        connection: KafkaConnection,
        spans: dict[tuple[str, int], tuple[int, int]],
        progress: Progress,
    ) -> None:
        self._consumer = consumer
        self._servers = connection.bootstrap_servers
        self._spans = spans
        self._ends = {place: end for place, (_, end) in spans.items()}
        self._nearest_end = min(self._ends.values()) - 1 if spans else None
        """The lowest offset that is last in its partition; nothing once a partition has ended."""
        self._progress = progress
        self._complaint = ""
        """What the client said last of what passes."""

    def pieces(self) -> Iterator[list[Message]]:
        clock = StallClock()
        while self._ends:
            clock.ask()
            messages = self._consumer.consume(_AT_ONCE, 0.2)
            clock.waited(heard=any(message.error() is None for message in messages))
            if not self._are_all_wanted(messages):
                messages = [message for message in messages if self._is_wanted(message)]
            if clock.is_stalled:
                raise PASSING.error(self._servers, self._topics(), reason=self._complaint)
            self._progress.advanced(self._passed)
            yield messages

    def _topics(self) -> str:
        return "the topic " + ", ".join(sorted({topic for topic, _ in self._ends})[:3])

    def _passed(self) -> int:
        """How many offsets are behind us."""
        passed = sum(end - first for place, (first, end) in self._spans.items() if place not in self._ends)
        for found in self._consumer.position([TopicPartition(*place) for place in self._ends]):
            first, end = self._spans[found.topic, found.partition]
            passed += max(min(found.offset, end) - first, 0)
        return passed

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
            fault, reason = fault_of(error.name()), reason_in(error.str())
            if error.fatal() or not (fault.passes or error.retriable()):
                raise fault.error(self._servers, f"the topic {message.topic() or self._topics()}", reason=reason)
            self._complaint = reason
            return False
        end = self._ends.get(place)
        if end is None:
            return False
        if offset + (error is None) >= end:
            del self._ends[place]
            self._nearest_end = None
            self._consumer.pause([TopicPartition(*place)])
        return error is None and offset < end
