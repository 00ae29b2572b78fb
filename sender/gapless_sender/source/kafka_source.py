"""The reading of requested offsets from Kafka; must not know what is done with them, nor archives.

A partition is read with a cursor over the requested ranges: small gaps between them are read through, large ones are
seeked over, and nothing is read after the last requested offset. Offsets that Kafka skips are distinguished from those
that retention deleted and those that are not yet written. Silence is never an end: it ends in `SourceStalledError`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, Self

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from gapless_api.base.errors import SourceStalledError
from gapless_kafka.access.client import KafkaClient
from gapless_kafka.access.errors import fault_of
from gapless_kafka.access.stall_clock import StallClock
from gapless_kafka.topics.topic_ids import TopicWatch, topic_id_query
from gapless_kafka.topics.topics import Topics
from gapless_sender.link.transmitter import BatchSize
from gapless_sender.source.plan import Reason

if TYPE_CHECKING:
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_sender.settings.kafka import KafkaSettings
    from gapless_sender.source.range_cursor import Chunk, RangeCursor
    from gapless_sender.source.requests import MappedPartition

MAX_READ = BatchSize(events=1000, bytes=4 * 1024 * 1024)
"""Of one call to librdkafka; larger calls are slower per record."""
ASSUMED_VALUE_BYTES = 64 * 1024
"""The mean length of values until one was read."""
MAX_GAP_RECORDS = 1500
MAX_GAP_BYTES = 400_000
"""A larger gap is cheaper to seek over (some 3 ms and a new fetch) than to read through."""
_WAIT_SECONDS = 0.1
_FIRST_RECORDS_SECONDS = 10.0

_CONSUMER_OPTIONS = {
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "allow.auto.create.topics": False,
    # Bounds the memory: librdkafka buffers this much (and some 350 bytes per record) in addition to a batch.
    "queued.max.messages.kbytes": 24 * 1024,
    "queued.min.messages": 100_000,
    "fetch.message.max.bytes": 2 * 1024 * 1024,
    # With its default of a second a full queue runs empty and stays empty.
    "fetch.queue.backoff.ms": 5,
    # A broker handles the requests of a connection one after the other: a fetch that waits at the end of one partition
    # delays the first fetch of the next, by 200 s in all for 1,000 partitions at a tenth of a second.
    "fetch.wait.max.ms": 10,
    # Minutes may pass between two batches at a slow pace; without a group membership this limit has no effect anyway.
    "max.poll.interval.ms": 86_400_000,
    "socket.keepalive.enable": True,
    "reconnect.backoff.max.ms": 2000,
}


def mark_expired(_partition: MappedPartition, ranges: RangeCursor, low: int) -> Iterator[Chunk]:
    """Mark all requested offsets below `low` as expired."""
    return ranges.mark_absent(low - 1, Reason.EXPIRED)


class _Poll(NamedTuple):
    records: list[Message]
    end: int | None
    """The offset after the partition's last one, if it was reached."""
    out_of_range: bool
    """Whether the requested offset was not in the log."""


class KafkaSource:
    """A connection to Kafka. Call `connect` first and `close` at the end."""

    def __init__(
        self,
        connection: KafkaConnection,
        *,
        isolation_level: str = "read_uncommitted",
        connect_timeout_seconds: float = 10.0,
        stall_timeout_seconds: float = 60.0,
        pulse: Callable[[], None] = lambda: None,
    ) -> None:
        """`pulse` is called while waiting for Kafka; it may raise to end the work."""
        options = {
            **_CONSUMER_OPTIONS,
            "group.id": connection.group_id or "gapless-resend",
            "isolation.level": isolation_level,
        }
        self._client = KafkaClient(
            connection,
            options,
            connect_timeout_seconds=connect_timeout_seconds,
            stall_timeout_seconds=stall_timeout_seconds,
            pulse=pulse,
        )
        self.topics = Topics(self._client)
        self._watch: TopicWatch | None = None
        self._mean_bytes = 0.0
        """Mean length of the values read lately."""

    @classmethod
    def of(cls, settings: KafkaSettings, connection: KafkaConnection, pulse: Callable[[], None]) -> Self:
        """Create the source that the settings describe."""
        return cls(
            connection,
            isolation_level=settings.isolation_level,
            connect_timeout_seconds=settings.connect_timeout_seconds,
            stall_timeout_seconds=settings.stall_timeout_seconds,
            pulse=pulse,
        )

    def connect(self) -> None:
        """Connect to a broker. Raises SourceUnreachableError or ConfigurationError."""
        self._client.connect()

    def close(self) -> None:
        """Close the connection."""
        self._watch = None
        self._client.close()

    # -------------------------------------------------------------------------------------------- topic IDs

    def watch(self, topics: Iterable[str], known: Mapping[str, str], learned: Callable[[str, str], None]) -> None:
        """Begin to verify that `topics` are not deleted and recreated; `settle_watch` processes the replies.

        Args:
            topics: as Kafka names them.
            known: the topic IDs of an earlier run, which must be unchanged.
            learned: called with each topic and ID that is not in `known`, when its reply is processed.
        """
        self._watch = TopicWatch(
            topic_id_query(self._client.connection), known=known, learned=learned, pulse=self._client.pulse
        )
        self._client.on_error = self._watch.ask_soon
        for topic in topics:
            self._watch.begin(topic)

    def finish_topic(self, topic: str) -> None:
        """Query the ID of `topic` a last time, after everything was read from it."""
        if self._watch is not None:
            self._watch.begin(topic)

    def settle_watch(self) -> bool:
        """Wait for the outstanding replies about topics, and return whether all arrived.

        Raises:
            ConfigurationError: a topic was deleted and recreated.
        """
        return self._watch is None or self._watch.settle()

    def _poll_watch(self, topic: str) -> None:
        if self._watch is not None:
            self._watch.poll(topic)

    def _poll_watch_between(self, topic: str, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        """Yield the `chunks` of another source, and verify meanwhile that `topic` is not recreated."""
        for chunk in chunks:
            self._poll_watch(topic)
            yield chunk

    def _verify_topic(self, topic: str) -> None:
        if self._watch is not None:
            self._watch.verify(topic)

    # -------------------------------------------------------------------------------------------- reading

    def read(
        self,
        partition: MappedPartition,
        ranges: RangeCursor,
        *,
        size: Callable[[], BatchSize] = lambda: MAX_READ,
        expired: Callable[[MappedPartition, RangeCursor, int], Iterator[Chunk]] = mark_expired,
    ) -> Iterator[Chunk]:
        """Read the requested offsets; each chunk continues where the one before ended.

        Args:
            partition: the partition.
            ranges: its requested offsets; the chunks come from it.
            size: returns the size of the batch being gathered; a chunk is not much larger.
            expired: handles all requested offsets below an offset, the first one that Kafka has.

        Raises:
            SourceStalledError: no record arrived within the timeout.
            SourceUnreachableError: Kafka refuses the topic.
            ConfigurationError: the topic was deleted, or recreated.
        """
        topic = partition.upstream_topic
        # The partition's first and last offset are queried only when reached: most partitions do not need them.
        high: int | None = None
        position: int | None = None
        clock = StallClock(self._client.stall_timeout_seconds)
        while not ranges.done and (high is None or ranges.target < high):
            if position is None or not 0 <= ranges.target - position <= self._max_gap():
                self._seek(partition, ranges.target, first=position is None)
                position = ranges.target
            clock.start_wait()
            max_records = self._max_records(size())
            end_of_read = ranges.end_of_read(position, self._max_gap(), max_records)
            poll = self._poll(partition, min(end_of_read - position + 1, max_records))
            clock.end_wait(progress=bool(poll.records) or (poll.end is not None and ranges.target < poll.end))
            self._poll_watch(topic)
            if poll.records:
                position = poll.records[-1].offset() + 1
                self._update_mean(poll.records)
                yield from ranges.select(poll.records)
            if poll.end is not None:
                if not ranges.done and (high is None or high < poll.end):  # A new leader may be behind.
                    high = max(self.topics.watermarks(partition.upstream)[1], poll.end)
                yield from ranges.mark_absent(poll.end - 1, Reason.NON_EXISTENT)
                position = max(position or 0, poll.end)
            elif not poll.records:
                self._client.pulse()
            if poll.out_of_range:  # After the records that came with it; librdkafka does not fetch again by itself.
                self._verify_topic(topic)
                low, high = self.topics.watermarks(partition.upstream)
                yield from self._poll_watch_between(topic, expired(partition, ranges, low))
                position = None
            if clock.is_stalled:
                raise self._stalled(partition, ranges.target)
        if not ranges.done:  # A recreated topic is shorter, and the offsets it lacks were written in the old one.
            self._verify_topic(topic)
        yield from ranges.mark_absent(None, Reason.NOT_YET_WRITTEN)

    def sample(self, partition: MappedPartition, offset: int, max_records: int) -> list[int]:
        """Return the lengths of up to `max_records` values from `offset` on; fewer or none if they do not come soon."""
        self._seek(partition, offset, first=True)
        lengths: list[int] = []
        deadline = time.monotonic() + 3.0
        while len(lengths) < max_records and time.monotonic() < deadline:
            messages = self._client.consumer.consume(max_records - len(lengths), _WAIT_SECONDS)
            lengths += [len(message) for message in messages if message.error() is None]
            if any(message.error() is not None for message in messages):
                break
        self._client.consumer.unassign()
        return lengths

    def first_timestamps(self, offsets: Mapping[MappedPartition, int]) -> dict[MappedPartition, int]:
        """Return the timestamp (milliseconds since 1970) of the first record of each partition from an offset on.

        A partition is absent if its record has no timestamp, or does not come soon.
        """
        consumer, left = self._client.consumer, {partition.upstream: partition for partition in offsets}
        found: dict[MappedPartition, int] = {}
        consumer.assign([KafkaPartition(*partition.upstream, offset) for partition, offset in offsets.items()])
        deadline = time.monotonic() + _FIRST_RECORDS_SECONDS
        while left and time.monotonic() < deadline:
            self._client.pulse()
            for message in consumer.consume(MAX_READ.events, _WAIT_SECONDS):
                partition = left.pop((message.topic(), message.partition()), None)
                if partition is None:
                    continue  # a later record of that partition, or an error that names none
                consumer.incremental_unassign([KafkaPartition(*partition.upstream)])
                kind, timestamp = message.timestamp()
                if message.error() is None and kind != TIMESTAMP_NOT_AVAILABLE:
                    found[partition] = timestamp
        consumer.unassign()
        return found

    def _max_records(self, size: BatchSize) -> int:
        by_bytes = int(min(size.bytes, MAX_READ.bytes) / (self._mean_bytes or ASSUMED_VALUE_BYTES))
        return max(1, min(size.events, by_bytes, MAX_READ.events))

    def _max_gap(self) -> int:
        """Return how many records that are not requested to read through rather than seek over."""
        return min(MAX_GAP_RECORDS, int(MAX_GAP_BYTES / max(self._mean_bytes, 1.0)))

    def _update_mean(self, records: list[Message]) -> None:
        sampled = records[:: len(records) // 16 + 1]
        mean = sum(map(len, sampled)) / len(sampled)
        self._mean_bytes = max(mean, (self._mean_bytes + mean) / 2, 1.0)

    def _seek(self, partition: MappedPartition, offset: int, *, first: bool) -> None:
        target = KafkaPartition(*partition.upstream, offset)
        if not first:
            try:
                self._client.consumer.seek(target)
            except KafkaException:
                pass  # librdkafka has not yet assigned the partition: assign has the same effect, only slower.
            else:
                return
        self._client.consumer.assign([target])

    def _poll(self, partition: MappedPartition, max_records: int) -> _Poll:
        """Wait a moment for up to `max_records` records, and evaluate the errors that came with them."""
        messages = self._client.consumer.consume(max(max_records, 1), _WAIT_SECONDS)
        records = [message for message in messages if message.error() is None]
        end, out_of_range = None, False
        for message in messages if len(records) != len(messages) else ():
            error = message.error()
            if error is None:
                continue
            code = error.code()
            if code == KafkaError._PARTITION_EOF:  # noqa: SLF001
                end = message.offset()
            elif code in {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}:  # noqa: SLF001
                out_of_range = True
                time.sleep(0.05)
            elif error.fatal() or not fault_of(error.name()).is_transient:
                raise self._client.error_for(partition.upstream_topic, error)
            else:  # Lost brokers, moved leaders, an unused group: librdkafka recovers by itself.
                self._client.record_error(error)
        return _Poll(records, end, out_of_range)

    def _stalled(self, partition: MappedPartition, offset: int) -> SourceStalledError:
        """Return the error for records that do not arrive, with the reason if it is known."""
        cause = self._client.reported_reason()
        error = self.topics.topic_error(partition.upstream_topic)
        if error is not None and not fault_of(error.name()).is_transient:
            cause = str(error.str())
        reason = f" ({cause})" if cause else ""
        return SourceStalledError(
            f"Kafka at {self._client.connection.bootstrap_servers} sent no record of {partition} for "
            f"{self._client.stall_timeout_seconds:g} s at offset {offset}{reason}; check the brokers and start again, "
            f"with the same checkpoint if you use one."
        )
