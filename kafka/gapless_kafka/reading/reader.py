"""Owns how a cut is read with librdkafka: committed records, in batches, those of a partition in their order.

One reader reads one slice of a hot partition or slices of many small partitions, with one consumer and bounded queues.
It runs in the program's own process or in a task of Spark. What the records mean is the caller's to know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from gapless_api.base.errors import SourceUnreachableError
from gapless_api.cli.reading_progress import SilentProgress
from gapless_kafka.access.errors import EXPIRED, PASSING, fault_of, reason_in
from gapless_kafka.access.stall_clock import StallClock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from confluent_kafka import Message

    from gapless_api.cli.reading_progress import Progress
    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.reading.cuts import Slice

_AT_ONCE = 1000
"""The quickest of the sizes that were measured."""
_LONGEST_WAIT_SECONDS = 0.02
"""For so many; the last ones of a cut are fewer, and wait for so long."""
_SILENT = SilentProgress()


def read_slices(
    connection: KafkaConnection,
    slices: Sequence[Slice],
    progress: Progress = _SILENT,
    *,
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed",
) -> Iterator[list[Message]]:
    """Yield the records of `slices`, of which no two are of one partition.

    Args:
        connection: to Kafka. Secrets are read from its files here, so they never travel with it.
        slices: what to read.
        progress: is told how many offsets are behind us.
        isolation: whether records of transactions that are open or were aborted are left out.

    Raises:
        SourceUnreachableError: Kafka denies access, or has deleted what was to be read.
        SourceStalledError: nothing came in a minute of waiting.
        ConfigurationError: a topic was deleted, or a file of the connection cannot be used.
    """
    consumer = Consumer(
        {
            **connection.librdkafka_options(),
            "group.id": connection.group_id or connection.client_id,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "queued.min.messages": 50_000,
            "queued.max.messages.kbytes": 16_384,
            "fetch.message.max.bytes": 4 * 1024 * 1024,
            "fetch.queue.backoff.ms": 2,
            "fetch.wait.max.ms": 50,
            "log_level": 0,
        }
    )
    try:
        # By number also where the first records may expire: librdkafka waits half a second before it looks for them.
        consumer.assign([KafkaPartition(one.topic, one.partition, one.first_offset) for one in slices])
        yield from _Reading(consumer, connection.bootstrap_servers, slices, progress).batches()
    except KafkaException as error:
        raise SourceUnreachableError(f"Kafka's client failed ({error.args[0]}); run again.") from error
    finally:
        consumer.close()


class _Reading:
    """What is left to be read."""

    def __init__(self, consumer: Consumer, servers: str, slices: Sequence[Slice], progress: Progress) -> None:
        self._consumer = consumer
        self._servers = servers
        self._slices = {(one.topic, one.partition): one for one in slices}
        self._ends = {place: one.end_offset for place, one in self._slices.items()}
        self._may_begin_later = {place for place, one in self._slices.items() if one.may_begin_later}
        """Partitions of which nothing was read yet, and whose first records may expire."""
        self._topics = {one.topic for one in slices}
        self._progress = progress
        self._complaint = ""
        """What the client reported last of what passes."""

    def batches(self) -> Iterator[list[Message]]:
        clock = StallClock()
        while self._ends:
            clock.ask()
            messages = self._consumer.consume(_AT_ONCE, _LONGEST_WAIT_SECONDS)
            clock.waited(heard=any(message.error() is None for message in messages))
            if not self._are_all_inside(messages):
                messages = [message for message in messages if self._is_inside(message)]
            if clock.is_stalled:
                raise PASSING.error(self._servers, self._subject(), reason=self._complaint)
            self._progress.update(self._passed)
            yield messages

    def _subject(self) -> str:
        return "the topic " + ", ".join(sorted({topic for topic, _ in self._ends})[:3])

    def _passed(self) -> int:
        """How many offsets are behind us."""
        passed = sum(
            one.end_offset - one.first_offset for place, one in self._slices.items() if place not in self._ends
        )
        for found in self._consumer.position([KafkaPartition(*place) for place in self._ends]):
            one = self._slices[found.topic, found.partition]
            passed += max(min(found.offset, one.end_offset) - one.first_offset, 0)
        return passed

    def _are_all_inside(self, messages: Sequence[Any]) -> bool:
        """Whether all are records of one slice before its last offset, which is quick to see and mostly so."""
        if not messages:
            return True
        partitions = {message.partition() if message.error() is None else None for message in messages}
        if len(partitions) > 1 or None in partitions:
            return False
        if len(self._topics) > 1 and len({message.topic() for message in messages}) > 1:
            return False
        last = messages[-1]
        place: TopicPartition = (last.topic(), last.partition())
        return place not in self._may_begin_later and last.offset() < self._ends.get(place, 0) - 1

    def _is_inside(self, message: Message) -> bool:
        """Whether this is a record before the end of its slice; a slice that has ended is read no further.

        A record need not stand right before the end (the marker of a transaction may): the slice has ended as well
        when the client reports the end of the partition, or when a record at or beyond the end comes.
        """
        place: Any = (message.topic(), message.partition())
        offset: Any = message.offset()
        error = message.error()
        if error is not None and error.name() != "_PARTITION_EOF":
            self._check(error, place)
            return False
        end = self._ends.get(place)
        if end is None:
            return False
        self._may_begin_later.discard(place)
        if offset + (error is None) >= end:
            del self._ends[place]
            self._consumer.pause([KafkaPartition(*place)])
        return error is None and self._slices[place].first_offset <= offset < end

    def _check(self, error: Any, place: TopicPartition) -> None:
        """Go on after an error that passes. Raises GaplessError for any other."""
        fault, reason = fault_of(error.name()), reason_in(error.str())
        if fault is EXPIRED and place in self._may_begin_later:
            self._may_begin_later.discard(place)
            self._consumer.incremental_unassign([KafkaPartition(*place)])
            self._consumer.incremental_assign([KafkaPartition(*place, OFFSET_BEGINNING)])
        elif error.fatal() or not (fault.passes or error.retriable()):
            raise fault.error(self._servers, f"the topic {place[0]}" if place[0] else self._subject(), reason=reason)
        else:
            self._complaint = reason
