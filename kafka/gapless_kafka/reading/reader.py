"""How a cut is read with librdkafka: committed records in batches, in offset order per partition.

One reader reads one slice of a hot partition or slices of many small partitions, with one consumer and bounded queues.
It runs in the process of the command or in a Spark task. Must not know what the records mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from gapless_api.base.errors import SourceUnreachableError
from gapless_api.cli.reading_progress import Progress, SilentProgress
from gapless_kafka.access.constructors import new_consumer
from gapless_kafka.access.errors import EXPIRED, OTHER, TRANSIENT, PartitionUnreadableError, fault_of, reason_in
from gapless_kafka.access.stall_clock import StallClock
from gapless_kafka.reading.headers import keep_header_bytes

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.reading.cuts import Slice

_BATCH_SIZE = 1000
"""The fastest of the measured sizes."""
_BATCH_WAIT_SECONDS = 0.02
"""Limit for filling a batch; the last batches of a cut are smaller and take this long."""
_SILENT = SilentProgress()


def read_slices(
    connection: KafkaConnection,
    slices: Sequence[Slice],
    progress: Progress = _SILENT,
    *,
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed",
    headers: bool = True,
) -> Iterator[list[Message]]:
    """Yield the records of `slices`, each of another partition.

    Args:
        connection: to Kafka. Secrets are read from its files here, so they are never serialized.
        slices: the offsets to read.
        progress: receives how many offsets have been read.
        isolation: ``read_committed`` skips records of open and aborted transactions.
        headers: whether the caller calls `headers` of the records; their keys are bytes.

    Raises:
        PartitionUnreadableError: a partition cannot be read, such as from a damaged log.
        SourceUnreachableError: Kafka denies access, or has deleted records of a slice.
        SourceStalledError: no records arrived in a minute of waiting.
        ConfigurationError: a topic was deleted, or a file of the connection cannot be used.
    """
    consumer = new_consumer(
        connection,
        {
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
        },
    )
    try:
        # A number even if the first records may have expired: librdkafka takes half a second to resolve "earliest".
        consumer.assign([KafkaPartition(piece.topic, piece.partition, piece.first_offset) for piece in slices])
        for messages in _SliceReader(consumer, connection.bootstrap_servers, slices, progress).batches():
            if headers:
                keep_header_bytes(messages)
            yield messages
    except KafkaException as error:
        raise SourceUnreachableError(f"Kafka's client failed ({error.args[0]}); run again.") from error
    finally:
        consumer.close()


class _SliceReader:
    """Reads slices and tracks where each one ends."""

    def __init__(self, consumer: Consumer, servers: str, slices: Sequence[Slice], progress: Progress) -> None:
        self._consumer = consumer
        self._servers = servers
        self._slices = {(piece.topic, piece.partition): piece for piece in slices}
        self._ends = {partition: piece.end_offset for partition, piece in self._slices.items()}
        """The end offsets of partitions that are not read completely."""
        self._may_skip = {partition for partition, piece in self._slices.items() if piece.may_skip_expired}
        """Partitions of which nothing has been read yet, and whose first records may have expired."""
        self._topics = {piece.topic for piece in slices}
        self._progress = progress
        self._last_error = ""
        """The last transient error that the client reported."""

    def batches(self) -> Iterator[list[Message]]:
        clock = StallClock()
        while self._ends:
            clock.start_wait()
            messages = self._consumer.consume(_BATCH_SIZE, _BATCH_WAIT_SECONDS)
            clock.end_wait(progress=any(message.error() is None for message in messages))
            if not self._are_all_inside(messages):
                messages = [message for message in messages if self._is_inside(message)]
            if clock.is_stalled:
                raise TRANSIENT.error(self._servers, self._subject(), reason=self._last_error)
            self._progress.update(self._offsets_read)
            yield messages

    def _subject(self) -> str:
        return "the topic " + ", ".join(sorted({topic for topic, _ in self._ends})[:3])

    def _offsets_read(self) -> int:
        count = sum(
            piece.end_offset - piece.first_offset
            for partition, piece in self._slices.items()
            if partition not in self._ends
        )
        for position in self._consumer.position([KafkaPartition(*partition) for partition in self._ends]):
            piece = self._slices[position.topic, position.partition]
            count += max(min(position.offset, piece.end_offset) - piece.first_offset, 0)
        return count

    def _are_all_inside(self, messages: Sequence[Any]) -> bool:
        """Whether all are records of one slice before its last offset: a cheap check that usually succeeds."""
        if not messages:
            return True
        partitions = {message.partition() if message.error() is None else None for message in messages}
        if len(partitions) > 1 or None in partitions:
            return False
        if len(self._topics) > 1 and len({message.topic() for message in messages}) > 1:
            return False
        last = messages[-1]
        partition: TopicPartition = (last.topic(), last.partition())
        return partition not in self._may_skip and last.offset() < self._ends.get(partition, 0) - 1

    def _is_inside(self, message: Message) -> bool:
        """Whether this is a record within its slice; a slice that has ended is paused.

        The last offset of a slice need not hold a record (it may be a transaction marker), so a slice also ends when
        the client reports the end of the partition, or returns a record at or after the end.
        """
        partition: Any = (message.topic(), message.partition())
        offset: Any = message.offset()
        error = message.error()
        if error is not None and error.name() != "_PARTITION_EOF":
            self._handle_error(error, partition, offset)
            return False
        end = self._ends.get(partition)
        if end is None:
            return False
        self._may_skip.discard(partition)
        if offset + (error is None) >= end:
            del self._ends[partition]
            self._consumer.pause([KafkaPartition(*partition)])
        return error is None and self._slices[partition].first_offset <= offset < end

    def _handle_error(self, error: Any, partition: TopicPartition, offset: int | None) -> None:
        """Continue after a transient error, and after expired records that may be skipped. Raises GaplessError."""
        fault, reason = fault_of(error.name()), reason_in(error.str())
        is_of_partition = fault is OTHER and not error.fatal() and partition in self._slices
        if is_of_partition and partition not in self._ends:  # the client reads ahead, beyond the slice
            return
        if fault is EXPIRED and partition in self._may_skip:
            self._may_skip.discard(partition)
            self._consumer.incremental_unassign([KafkaPartition(*partition)])
            self._consumer.incremental_assign([KafkaPartition(*partition, OFFSET_BEGINNING)])
        elif error.fatal() or not (fault.is_transient or error.retriable()):
            subject = f"the topic {partition[0]}" if partition[0] else self._subject()
            failure = fault.error(self._servers, subject, reason=reason)
            if is_of_partition:
                raise PartitionUnreadableError(str(failure), *partition, -1 if offset is None else offset, reason)
            raise failure
        else:
            self._last_error = reason
