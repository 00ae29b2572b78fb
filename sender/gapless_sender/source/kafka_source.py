"""Owns the reading of wanted offsets from Kafka; must not know what is done with them.

A partition is walked with a cursor over the wanted ranges: small holes between them are read through, large ones are
jumped over, and nothing is read behind the last wanted offset. What Kafka steps over is told apart from what retention
took and from what is not written yet. Silence is never an end: it ends in `SourceStalledError`.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from gapless_api.base.errors import ConfigurationError, SourceStalledError, SourceUnreachableError
from gapless_kafka.errors import BAD_SETTINGS, LOGIN, OTHER, UNREACHABLE, fault_of
from gapless_kafka.stall_clock import StallClock
from gapless_kafka.topic_ids import ANSWER_SECONDS, TopicWatch, asking, id_in
from gapless_sender.source.plan import Reason
from gapless_sender.source.range_cursor import Chunk, RangeCursor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from confluent_kafka.admin import ClusterMetadata

    from gapless_api.base.errors import GaplessError
    from gapless_kafka.connection import KafkaConnection
    from gapless_sender.source.plan import PartitionPlan, Place

MOST_RECORDS_AT_ONCE = 1000
"""Records asked of librdkafka in one call; more are slower to hand over."""
MOST_BYTES_AT_ONCE = 4 * 1024 * 1024
UNSEEN_BYTES = 64 * 1024
"""Taken for the mean length of values as long as none was seen."""
SEEK_OVER_RECORDS = 1500
SEEK_OVER_BYTES = 400_000
"""A hole beyond both is cheaper to jump over (some 3 ms and a new fetch) than to read through."""
_WAIT_SECONDS = 0.1
_ANSWER_SECONDS = 10.0

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
        self._connection = connection
        self._isolation_level = isolation_level
        self._connect_timeout_seconds = connect_timeout_seconds
        self._stall_timeout_seconds = stall_timeout_seconds
        self._pulse = pulse
        self._complaints: dict[str, KafkaError] = {}
        self._consumer: Consumer = None
        self._watch: TopicWatch | None = None
        self.most_events = MOST_RECORDS_AT_ONCE
        """The most records of one `Chunk`; a slow pace lowers it."""
        self.most_bytes = MOST_BYTES_AT_ONCE
        """About the most bytes of one `Chunk`."""
        self.most_hole_offsets: Mapping[Reason, int] = {}
        """The most offsets that a `Chunk` may find missing, by reason: filling them takes time and memory."""
        self.mean_bytes = 0.0
        """Mean length of the values seen lately."""

    # -------------------------------------------------------------------------------------------- asking

    def connect(self) -> None:
        """Reach a broker.

        Raises:
            SourceUnreachableError: none answers in time, or it refuses us.
            ConfigurationError: librdkafka refuses the settings.
        """
        self._connection.check_bootstrap_servers()
        quiet = logging.getLogger("gapless.librdkafka")
        quiet.propagate = False
        quiet.setLevel(logging.CRITICAL)
        options = {
            **_READING,
            **self._connection.librdkafka_options(),
            "group.id": self._connection.group_id or "gapless-resend",
            "isolation.level": self._isolation_level,
            "error_cb": self._note,
        }
        try:
            self._consumer = Consumer(options, logger=quiet)
        except KafkaException as error:
            raise BAD_SETTINGS.error(self._connection.bootstrap_servers, reason=_said(error)) from None
        deadline = time.monotonic() + self._connect_timeout_seconds
        while True:
            self._pulse()
            left = deadline - time.monotonic()
            try:
                found = self._consumer.list_topics("", timeout=max(min(left, 1.0), 0.1))
            except KafkaException as error:
                self._consumer.poll(0)
                hopeless = any(fault_of(name) is LOGIN for name in self._complaints)
                if hopeless or left <= 1.0:
                    self._give_up(error)
            else:
                self._complaints.clear()
                self._check_brokers(found)
                return

    def _check_brokers(self, cluster: ClusterMetadata) -> None:
        """Look at the brokers that Kafka names, before anything connects to them. Raises ConfigurationError."""
        self._connection.check_brokers((broker.host, broker.port) for broker in cluster.brokers.values())

    def cluster_id(self) -> str:
        """What the cluster calls itself; nothing if it does not say."""
        return self._ask(lambda: self._consumer.list_topics("", timeout=_ANSWER_SECONDS)).cluster_id or ""

    def topic_id(self, topic: str) -> str | None:
        """Kafka's own id of `topic`; ``None`` where brokers have none, or do not say.

        Raises:
            SourceUnreachableError: Kafka does not answer in time.
        """
        ask = asking(self._connection)  # held on to: with its client the question would go
        answer = ask(topic)
        deadline = time.monotonic() + ANSWER_SECONDS
        while not answer.done():
            self._pulse()
            if time.monotonic() > deadline:
                raise SourceUnreachableError(
                    f"Kafka at {self._connection.bootstrap_servers} does not tell the id of the topic {topic}; see to "
                    f"the brokers and run again."
                )
            time.sleep(0.01)
        found = id_in(answer)
        # Its client writes another Base64 than Kafka's own tools.
        return None if found is None else found.replace("+", "-").replace("/", "_")

    def partition_count(self, topic: str) -> int:
        """How many partitions `topic` has.

        Raises:
            ConfigurationError: there is no such topic.
            SourceUnreachableError: Kafka does not answer or does not let us see the topic.
        """
        error = None
        for _ in range(20):  # A broker that has just begun to lead answers with passing errors.
            cluster = self._ask(lambda: self._consumer.list_topics(topic, timeout=_ANSWER_SECONDS))
            self._check_brokers(cluster)
            found = cluster.topics[topic]
            error = found.error
            if error is None:
                return len(found.partitions)
            if not fault_of(error.name()).passes:
                break
            time.sleep(0.25)
        raise self._refusal(topic, error)

    def check(self, place: Place) -> int:
        """Make sure that the partition exists, and return how many its topic has. Raises like `partition_count`."""
        count = self.partition_count(place.upstream_topic)
        if place.upstream_partition >= count:
            raise ConfigurationError(
                f"Partition {place.upstream_partition} of the topic {place.upstream_topic} does not exist, which has "
                f"{count} (0 to {count - 1}); correct the partition, or partitionStartValue if events carry shifted "
                f"numbers (this one is {place.partition} there)."
            )
        return count

    def watermarks(self, place: Place) -> tuple[int, int]:
        """The partition's first offset, and the one after its last."""
        partition = TopicPartition(place.upstream_topic, place.upstream_partition)
        found: tuple[int, int] = self._ask(
            lambda: self._consumer.get_watermark_offsets(partition, timeout=_ANSWER_SECONDS, cached=False)
        )
        return found

    def first_offset_since(self, place: Place, timestamp_ms: int, end: int) -> int:
        """The earliest offset whose timestamp is `timestamp_ms` or later; `end` when there is none."""
        asked = [TopicPartition(place.upstream_topic, place.upstream_partition, max(timestamp_ms, 0))]
        found = self._ask(lambda: self._consumer.offsets_for_times(asked, timeout=_ANSWER_SECONDS))[0]
        if found.error is not None:
            raise self._refusal(place.upstream_topic, found.error)
        return end if found.offset < 0 else int(found.offset)

    def watch(self, topics: Iterable[str], known: Mapping[str, str], learned: Callable[[str, str], None]) -> None:
        """Begin to see to it that `topics` are not deleted and made anew; `settle_watch` takes the answers in.

        Args:
            topics: as Kafka names them.
            known: the ids of those of an earlier run, which they must still have.
            learned: called with each topic and id that is not known, when its answer is taken in.
        """
        self._watch = TopicWatch(asking(self._connection), known=known, learned=learned, pulse=self._pulse)
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

    def close(self) -> None:
        """Let the connection go."""
        self._watch = None
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    # -------------------------------------------------------------------------------------------- reading

    def read(
        self, plan: PartitionPlan, cursor: int, *, first_ms: int | None = None, last_ms: int | None = None
    ) -> Iterator[Chunk]:
        """RangeCursor through the wanted offsets from `cursor` on; each chunk goes on where the one before ended.

        Raises:
            SourceStalledError: no record came within the deadline.
            SourceUnreachableError: Kafka refuses the topic.
            ConfigurationError: the topic was deleted, or made anew.
        """
        topic = plan.place.upstream_topic
        walk = RangeCursor(plan.wanted, cursor, first_ms, last_ms, self.most_hole_offsets)
        # Where the partition begins and ends is asked only when we meet it: for most partitions nobody needs to know.
        high: int | None = None
        position: int | None = None
        clock = StallClock(self._stall_timeout_seconds)
        while not walk.done and (high is None or walk.target < high):
            if position is None or not 0 <= walk.target - position <= self._worth_reading():
                self._go_to(plan.place, walk.target, first=position is None)
                position = walk.target
            clock.ask()
            found = self._take_in(
                plan.place, walk.reach(position, self._worth_reading(), self._at_once()) - position + 1
            )
            clock.waited(heard=bool(found.records) or (found.end is not None and walk.target < found.end))
            self._glance(topic)
            if found.out_of_range:
                self._make_sure(topic)
                low, high = self.watermarks(plan.place)
                yield from walk.pass_over(low - 1, Reason.EXPIRED)
                position = None
            if found.records:
                position = found.records[-1].offset() + 1
                self._measure(found.records)
                yield from walk.take(found.records)
            if found.end is not None:
                if not walk.done and (high is None or high < found.end):  # A leader that is new may know less.
                    high = max(self.watermarks(plan.place)[1], found.end)
                yield from walk.pass_over(found.end - 1, Reason.NON_EXISTENT)
                position = max(position or 0, found.end)
            elif not found.records:
                self._pulse()
            if clock.is_stalled:
                raise self._stalled(plan.place, walk.target)
        if not walk.done:  # A new topic under the old name is shorter, and what is missing there was written once.
            self._make_sure(topic)
        yield from walk.pass_over(None, Reason.NOT_YET_WRITTEN)

    def sample(self, place: Place, offset: int, most: int) -> list[int]:
        """The lengths of up to `most` values at and behind `offset`, for an estimate; nothing if none come soon."""
        self._go_to(place, offset, first=True)
        lengths: list[int] = []
        deadline = time.monotonic() + 3.0
        while len(lengths) < most and time.monotonic() < deadline:
            messages = self._consumer.consume(most - len(lengths), _WAIT_SECONDS)
            lengths += [len(message) for message in messages if message.error() is None]
            if any(message.error() is not None for message in messages):
                break
        self._consumer.unassign()
        return lengths

    def _glance(self, topic: str) -> None:
        if self._watch is not None:
            self._watch.glance(topic)

    def _make_sure(self, topic: str) -> None:
        if self._watch is not None:
            self._watch.make_sure(topic)

    def _at_once(self) -> int:
        by_bytes = int(self.most_bytes / (self.mean_bytes or UNSEEN_BYTES))
        return max(1, min(self.most_events, by_bytes, MOST_RECORDS_AT_ONCE))

    def _worth_reading(self) -> int:
        """How many unwanted records to read through rather than jump over."""
        return min(SEEK_OVER_RECORDS, int(SEEK_OVER_BYTES / max(self.mean_bytes, 1.0)))

    def _measure(self, records: list[Message]) -> None:
        some = records[:: len(records) // 16 + 1]
        mean = sum(map(len, some)) / len(some)
        self.mean_bytes = max(mean, (self.mean_bytes + mean) / 2, 1.0)

    def _go_to(self, place: Place, offset: int, *, first: bool) -> None:
        partition = TopicPartition(place.upstream_topic, place.upstream_partition, offset)
        if not first:
            try:
                self._consumer.seek(partition)
            except KafkaException:
                pass  # Not yet assigned in librdkafka's eyes: assign does the same, only slower.
            else:
                return
        self._consumer.assign([partition])

    def _take_in(self, place: Place, most: int) -> _Found:
        """Wait a moment for up to `most` records, and look at what came beside them."""
        messages = self._consumer.consume(max(min(most, self._at_once()), 1), _WAIT_SECONDS)
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
            elif error.fatal() or not fault_of(error.name()).passes:
                raise self._refusal(place.upstream_topic, error)
            else:  # Lost brokers, moved leaders, a group that we never use: librdkafka goes on by itself.
                self._note(error)
        return _Found(records, end, out_of_range)

    # -------------------------------------------------------------------------------------------- trouble

    def _note(self, error: KafkaError) -> None:
        self._complaints[error.name()] = error
        if self._watch is not None:
            self._watch.hurry()

    def _why(self) -> str:
        """What librdkafka complained of, the most telling first; empty for nothing."""
        general = {KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT}  # noqa: SLF001
        known = sorted(self._complaints.values(), key=lambda error: error.code() in general)
        return str(known[0].str()) if known else ""

    def _stalled(self, place: Place, offset: int) -> SourceStalledError:
        """The error for records that do not come, with the reason as far as can be found out."""
        why = self._why()
        with suppress(KafkaException):
            error = self._consumer.list_topics(place.upstream_topic, timeout=2.0).topics[place.upstream_topic].error
            if error is not None and not fault_of(error.name()).passes:
                why = str(error.str())
        reason = f" ({why})" if why else ""
        return SourceStalledError(
            f"Kafka at {self._connection.bootstrap_servers} sent no record of {place} for "
            f"{self._stall_timeout_seconds:g} s at offset {offset}{reason}; see to the brokers and start again, with "
            f"the checkpoint if there is one."
        )

    def _ask(self, question: Callable[[], Any]) -> Any:
        """Ask again while Kafka gives no answer, for as long as a stall may last."""
        clock = StallClock(self._stall_timeout_seconds)
        while True:
            clock.ask()
            try:
                return question()
            except KafkaException as error:
                said: KafkaError = error.args[0]
                if not fault_of(said.name()).passes:
                    raise self._refusal("", said) from None
                clock.waited(heard=False, longest_seconds=_ANSWER_SECONDS)
                if clock.is_stalled:
                    self._give_up(error)
                self._note(said)
            self._pulse()
            clock.ask()
            time.sleep(_WAIT_SECONDS)
            clock.waited(heard=False)

    def _give_up(self, error: KafkaException) -> None:
        reason = self._why() or _said(error)
        fault = LOGIN if any(fault_of(name) is LOGIN for name in self._complaints) else UNREACHABLE
        raise fault.error(self._connection.bootstrap_servers, reason=reason) from None

    def _refusal(self, topic: str, error: KafkaError | None) -> GaplessError:
        fault = fault_of(error.name()) if error is not None else OTHER
        return fault.error(
            self._connection.bootstrap_servers,
            f"the topic {topic}" if topic else "us",
            reason=error.str() if error is not None else "no reason given",
            hint=", or give topicTranslations if events carry another name than Kafka's",
        )


def _said(error: KafkaException) -> str:
    return str(error.args[0].str())
