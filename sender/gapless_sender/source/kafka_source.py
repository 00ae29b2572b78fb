"""Owns the reading of wanted offsets from Kafka; must not know what is done with them, nor archives.

A partition is read with a cursor over the wanted ranges: small holes between them are read through, large ones are
jumped over, and nothing is read behind the last wanted offset. What Kafka steps over is told apart from what retention
took and from what is not written yet. Silence is never an end: it ends in `SourceStalledError`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message
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
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Self

    from gapless_kafka.access.connection import KafkaConnection
    from gapless_sender.settings.kafka import KafkaSettings
    from gapless_sender.source.plan import Place
    from gapless_sender.source.range_cursor import Chunk, RangeCursor

LARGEST_READ = BatchSize(events=1000, bytes=4 * 1024 * 1024)
"""Of one call to librdkafka; more records are slower to hand over."""
UNSEEN_BYTES = 64 * 1024
"""Taken for the mean length of values as long as none was seen."""
SEEK_OVER_RECORDS = 1500
SEEK_OVER_BYTES = 400_000
"""A hole beyond both is cheaper to jump over (some 3 ms and a new fetch) than to read through."""
_WAIT_SECONDS = 0.1

_READING = {
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "allow.auto.create.topics": False,
    # Bounds the memory: librdkafka holds this much (and some 350 bytes a record of its own) beside what we work on.
    "queued.max.messages.kbytes": 24 * 1024,
    "queued.min.messages": 100_000,
    "fetch.message.max.bytes": 2 * 1024 * 1024,
    # Its default of a second lets a full queue run empty and stay so.
    "fetch.queue.backoff.ms": 5,
    # A broker answers the requests of a connection one after the other: a fetch that waits at the end of one partition
    # delays the first one of the next by so much, which was 200 s for 1,000 partitions at a tenth of a second.
    "fetch.wait.max.ms": 10,
    # Between two batches of a slow pace minutes may pass; without a group membership this limit means nothing anyway.
    "max.poll.interval.ms": 86_400_000,
    "socket.keepalive.enable": True,
    "reconnect.backoff.max.ms": 2000,
}


def pass_over_expired(_place: Place, ranges: RangeCursor, low: int) -> Iterator[Chunk]:
    """All that is wanted below `low` is unavailable."""
    return ranges.pass_over(low - 1, Reason.EXPIRED)


class _Found(NamedTuple):
    records: list[Message]
    end: int | None
    """The offset after the partition's last one, when we have come there."""
    out_of_range: bool
    """Whether the offset that we asked for was not in the log."""


class KafkaSource:
    """A connection to Kafka. `connect` before anything else, `close` at the end."""

    def __init__(
        self,
        connection: KafkaConnection,
        *,
        isolation_level: str = "read_uncommitted",
        connect_timeout_seconds: float = 10.0,
        stall_timeout_seconds: float = 60.0,
        pulse: Callable[[], None] = lambda: None,
    ) -> None:
        """`pulse` is called whenever we wait for Kafka; it may raise to end the work."""
        options = {
            **_READING,
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
        """What is asked about topics."""
        self._watch: TopicWatch | None = None
        self._mean_bytes = 0.0
        """Mean length of the values seen lately."""

    @classmethod
    def of(cls, settings: KafkaSettings, connection: KafkaConnection, pulse: Callable[[], None]) -> Self:
        """Make the source that the settings describe."""
        return cls(
            connection,
            isolation_level=settings.isolation_level,
            connect_timeout_seconds=settings.connect_timeout_seconds,
            stall_timeout_seconds=settings.stall_timeout_seconds,
            pulse=pulse,
        )

    def connect(self) -> None:
        """Reach a broker. Raises SourceUnreachableError or ConfigurationError."""
        self._client.connect()

    def close(self) -> None:
        """Let the connection go."""
        self._watch = None
        self._client.close()

    # -------------------------------------------------------------------------------------------- topic IDs

    def watch(self, topics: Iterable[str], known: Mapping[str, str], learned: Callable[[str, str], None]) -> None:
        """Begin to see to it that `topics` are not deleted and recreated; `settle_watch` takes the answers in.

        Args:
            topics: as Kafka names them.
            known: the ids of those of an earlier run, which they must still have.
            learned: called with each topic and id that is not known, when its answer is taken in.
        """
        self._watch = TopicWatch(
            topic_id_query(self._client.connection), known=known, learned=learned, pulse=self._client.pulse
        )
        self._client.on_error = self._watch.ask_soon
        for topic in topics:
            self._watch.begin(topic)

    def leave(self, topic: str) -> None:
        """Ask a last time whether `topic`, from which nothing more is read, is the one that it was."""
        if self._watch is not None:
            self._watch.begin(topic)

    def settle_watch(self) -> bool:
        """Wait for the answers about topics that are out, and say whether all came.

        Raises:
            ConfigurationError: a topic is not the one that it was.
        """
        return self._watch is None or self._watch.settle()

    def _poll_watch(self, topic: str) -> None:
        if self._watch is not None:
            self._watch.poll(topic)

    def _watching(self, topic: str, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        """Hand on `chunks` of another source, and see to it meanwhile that `topic` is not recreated."""
        for chunk in chunks:
            self._poll_watch(topic)
            yield chunk

    def _verify_topic(self, topic: str) -> None:
        if self._watch is not None:
            self._watch.verify(topic)

    # -------------------------------------------------------------------------------------------- reading

    def read(
        self,
        place: Place,
        ranges: RangeCursor,
        *,
        size: Callable[[], BatchSize] = lambda: LARGEST_READ,
        expired: Callable[[Place, RangeCursor, int], Iterator[Chunk]] = pass_over_expired,
    ) -> Iterator[Chunk]:
        """Read the wanted offsets; each chunk goes on where the one before ended.

        Args:
            place: the partition.
            ranges: what is wanted of it; the chunks come from it.
            size: of the batch that is gathered at the moment; a chunk is not much larger.
            expired: deals with all that is wanted below an offset, the first one that Kafka has.

        Raises:
            SourceStalledError: no record came within the deadline.
            SourceUnreachableError: Kafka refuses the topic.
            ConfigurationError: the topic was deleted, or recreated.
        """
        topic = place.upstream_topic
        # Where the partition begins and ends is asked only when we meet it: for most partitions nobody needs to know.
        high: int | None = None
        position: int | None = None
        clock = StallClock(self._client.stall_timeout_seconds)
        while not ranges.done and (high is None or ranges.target < high):
            if position is None or not 0 <= ranges.target - position <= self._worth_reading():
                self._go_to(place, ranges.target, first=position is None)
                position = ranges.target
            clock.start_wait()
            at_once = self._at_once(size())
            found = self._take_in(
                place, min(ranges.reach(position, self._worth_reading(), at_once) - position + 1, at_once)
            )
            clock.end_wait(progress=bool(found.records) or (found.end is not None and ranges.target < found.end))
            self._poll_watch(topic)
            if found.records:
                position = found.records[-1].offset() + 1
                self._measure(found.records)
                yield from ranges.take(found.records)
            if found.end is not None:
                if not ranges.done and (high is None or high < found.end):  # A leader that is new may know less.
                    high = max(self.topics.watermarks(place.upstream)[1], found.end)
                yield from ranges.pass_over(found.end - 1, Reason.NON_EXISTENT)
                position = max(position or 0, found.end)
            elif not found.records:
                self._client.pulse()
            if found.out_of_range:  # Behind the records that came with it; librdkafka fetches nothing more by itself.
                self._verify_topic(topic)
                low, high = self.topics.watermarks(place.upstream)
                yield from self._watching(topic, expired(place, ranges, low))
                position = None
            if clock.is_stalled:
                raise self._stalled(place, ranges.target)
        if not ranges.done:  # A new topic under the old name is shorter, and what is missing there was written once.
            self._verify_topic(topic)
        yield from ranges.pass_over(None, Reason.NOT_YET_WRITTEN)

    def sample(self, place: Place, offset: int, most: int) -> list[int]:
        """The lengths of up to `most` values at and behind `offset`, for an estimate; nothing if none come soon."""
        self._go_to(place, offset, first=True)
        lengths: list[int] = []
        deadline = time.monotonic() + 3.0
        while len(lengths) < most and time.monotonic() < deadline:
            messages = self._client.consumer.consume(most - len(lengths), _WAIT_SECONDS)
            lengths += [len(message) for message in messages if message.error() is None]
            if any(message.error() is not None for message in messages):
                break
        self._client.consumer.unassign()
        return lengths

    def _at_once(self, size: BatchSize) -> int:
        by_bytes = int(min(size.bytes, LARGEST_READ.bytes) / (self._mean_bytes or UNSEEN_BYTES))
        return max(1, min(size.events, by_bytes, LARGEST_READ.events))

    def _worth_reading(self) -> int:
        """How many unwanted records to read through rather than jump over."""
        return min(SEEK_OVER_RECORDS, int(SEEK_OVER_BYTES / max(self._mean_bytes, 1.0)))

    def _measure(self, records: list[Message]) -> None:
        some = records[:: len(records) // 16 + 1]
        mean = sum(map(len, some)) / len(some)
        self._mean_bytes = max(mean, (self._mean_bytes + mean) / 2, 1.0)

    def _go_to(self, place: Place, offset: int, *, first: bool) -> None:
        partition = KafkaPartition(*place.upstream, offset)
        if not first:
            try:
                self._client.consumer.seek(partition)
            except KafkaException:
                pass  # Not yet assigned in librdkafka's eyes: assign does the same, only slower.
            else:
                return
        self._client.consumer.assign([partition])

    def _take_in(self, place: Place, most: int) -> _Found:
        """Wait a moment for up to `most` records, and look at what came beside them."""
        messages = self._client.consumer.consume(max(most, 1), _WAIT_SECONDS)
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
                raise self._client.error_for(place.upstream_topic, error)
            else:  # Lost brokers, moved leaders, a group that we never use: librdkafka goes on by itself.
                self._client.record_error(error)
        return _Found(records, end, out_of_range)

    def _stalled(self, place: Place, offset: int) -> SourceStalledError:
        """The error for records that do not come, with the reason as far as can be found out."""
        why = self._client.reported_reason()
        error = self.topics.topic_error(place.upstream_topic)
        if error is not None and not fault_of(error.name()).is_transient:
            why = str(error.str())
        reason = f" ({why})" if why else ""
        return SourceStalledError(
            f"Kafka at {self._client.connection.bootstrap_servers} sent no record of {place} for "
            f"{self._client.stall_timeout_seconds:g} s at offset {offset}{reason}; see to the brokers and start again, "
            f"with the checkpoint if there is one."
        )
