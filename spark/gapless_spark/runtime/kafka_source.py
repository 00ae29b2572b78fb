"""Owns how the jobs read Kafka: a look at the topics before Spark starts, and the same cut of them as a DataFrame.

Must not know what the records mean. The look is taken with librdkafka, because it answers in milliseconds and tells
apart what Java's client mixes up: unreachable, refused, missing, denied.

Both read committed records only. The gap detector writes in transactions, and what it takes back after a crash it
writes again; the peer's reader takes also what was taken back. The end of a cut is the last stable offset, so that a
transaction that is open, or was left open by a dead program, delays nothing.
"""

from __future__ import annotations

import json
import time
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from gapless_kafka.errors import DENIED, EXPIRED, LOGIN, NO_TOPIC, PASSING, UNREACHABLE, fault_of, reason_in
from gapless_kafka.stall_clock import STALLED_AFTER_SECONDS
from gapless_spark.model.outcome import TopicMissingError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from gapless_api.base.errors import GaplessError
    from gapless_kafka.connection import KafkaConnection
    from gapless_kafka.errors import Fault

_EARLIEST = -2
"""Spark's number for the first offset there is."""


@dataclass(frozen=True, slots=True)
class TopicCut:
    """What of a topic is read: everything up to a moment."""

    topic: str
    first_offsets: tuple[int, ...]
    """By partition: the lowest offset that was there at that moment."""
    end_offsets: tuple[int, ...]
    """By partition: one more than the highest offset that is read."""
    uncommitted: int
    """How many offsets behind the ends belong to transactions that are still open."""
    id: str = ""
    """Kafka's own for the topic, which another topic of the same name does not have; empty where brokers have none."""
    from_the_beginning: bool = True
    """Whether it is read from the lowest offset that is there when reading begins, and not from `first_offsets`."""
    log_starts: tuple[int, ...] = ()
    """By partition: the lowest offset that was there, where `first_offsets` go on behind what an earlier run read."""
    expired: frozenset[int] = frozenset()
    """The partitions of which records were deleted before anybody has read them, as far as somebody keeps count."""

    @property
    def offsets(self) -> int:
        """How many offsets the cut spans; there are not more records than that."""
        return sum(self.end_offsets) - sum(self.first_offsets)


@dataclass(frozen=True, slots=True)
class Cut:
    """What is read, of all topics."""

    cluster_id: str
    topics: tuple[TopicCut, ...]

    @property
    def offsets(self) -> int:
        """How many offsets all topics span together."""
        return sum(topic.offsets for topic in self.topics)


class _TryAgainError(Exception):
    """Kafka is busy with itself, such as with the choice of a leader."""


def look(connection: KafkaConnection, topics: Sequence[str], *, timeout_seconds: float) -> Cut:
    """Find the topics and how far they reach. Creates no topic, whatever the brokers' settings.

    Raises:
        SourceUnreachableError: Kafka does not answer within the time, or refuses us.
        TopicMissingError: a topic does not exist.
    """
    asking = _Asking(connection, timeout_seconds)
    while True:
        try:
            return asking.cut(topics)
        except _TryAgainError:
            if asking.late:
                raise asking.unreachable() from None
            time.sleep(0.2)


class _Asking:
    """One client that asks until a deadline, and what it has heard meanwhile."""

    def __init__(self, connection: KafkaConnection, timeout_seconds: float) -> None:
        self._connection = connection
        self._timeout = timeout_seconds
        self._deadline = time.monotonic() + timeout_seconds
        self._complaints: list[KafkaError] = []
        self._ids: dict[str, str] = {}
        self._admin = AdminClient(
            {**connection.librdkafka_options(), "error_cb": self._complaints.append, "log_level": 0}
        )

    @property
    def late(self) -> bool:
        return time.monotonic() > self._deadline

    def cut(self, topics: Sequence[str]) -> Cut:
        cluster = self._admin.describe_cluster(request_timeout=self._timeout)
        partitions = self._partitions(topics)
        first = self._offsets(partitions, OffsetSpec.earliest(), IsolationLevel.READ_COMMITTED)
        end = self._offsets(partitions, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
        high = self._offsets(partitions, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)
        return Cut(
            self._answer(cluster, "the cluster").cluster_id or "",
            tuple(
                TopicCut(topic, first[topic], end[topic], sum(high[topic]) - sum(end[topic]), self._ids[topic])
                for topic in partitions
            ),
        )

    def _partitions(self, topics: Sequence[str]) -> dict[str, int]:
        asked = self._admin.describe_topics(TopicCollection(list(topics)), request_timeout=self._timeout)
        described = {topic: self._answer(asked[topic], f"the topic {topic}") for topic in topics}
        self._ids = {topic: _id(described[topic].topic_id) for topic in topics}
        return {topic: len(described[topic].partitions) for topic in topics}

    def _offsets(
        self, partitions: Mapping[str, int], spec: OffsetSpec, isolation: IsolationLevel
    ) -> dict[str, tuple[int, ...]]:
        everywhere = [TopicPartition(topic, number) for topic in partitions for number in range(partitions[topic])]
        asked = self._admin.list_offsets(
            dict.fromkeys(everywhere, spec), isolation_level=isolation, request_timeout=self._timeout
        )
        found: dict[str, list[int]] = {topic: [] for topic in partitions}
        for place in everywhere:
            found[place.topic].append(self._answer(asked[place], f"the topic {place.topic}").offset)
        return {topic: tuple(offsets) for topic, offsets in found.items()}

    def _answer(self, future: Any, what: str) -> Any:
        """Wait for a result, and end early when Kafka says that trying again is useless."""
        while True:
            try:
                return future.result(timeout=0.1)
            except FutureTimeoutError:
                self._admin.poll(0)
                refusal = next((error for error in self._complaints if fault_of(error.name()) is LOGIN), None)
                if refusal is not None:
                    raise LOGIN.error(self._connection.bootstrap_servers, reason=reason_in(refusal.str())) from None
                if time.monotonic() > self._deadline + 1:
                    raise self.unreachable() from None
            except KafkaException as error:
                self._admin.poll(0)
                raise self._meaning(error.args[0], what) from None

    def _meaning(self, error: KafkaError, what: str) -> Exception:
        fault = fault_of(error.name())
        if fault is UNREACHABLE:
            return self.unreachable()
        if fault is PASSING:
            return _TryAgainError()
        found = fault.error(self._connection.bootstrap_servers, what, reason=reason_in(error.str()))
        return TopicMissingError(str(found)) if fault is NO_TOPIC else found

    def unreachable(self) -> GaplessError:
        telling = [error for error in self._complaints if error.name() != "_ALL_BROKERS_DOWN"]
        reason = reason_in(telling[-1].str()) if telling else ""
        return UNREACHABLE.error(self._connection.bootstrap_servers, reason=reason)


def _id(uuid: Any) -> str:
    """Kafka's way to write a topic's id; old brokers have none, which is all zeros."""
    return str(uuid) if uuid.get_most_significant_bits() or uuid.get_least_significant_bits() else ""


def records(
    spark: SparkSession, connection: KafkaConnection, cut: Cut, columns: Sequence[str], *, parallelism: int
) -> DataFrame:
    """The records of `cut` with the `columns` of Spark's Kafka source that are named."""
    reader = spark.read.format("kafka").options(**java_options(connection))
    reader = reader.options(
        assign=json.dumps({topic.topic: list(range(len(topic.end_offsets))) for topic in cut.topics}),
        startingOffsets=json.dumps({topic.topic: dict(enumerate(_begins(topic))) for topic in cut.topics}),
        endingOffsets=json.dumps({topic.topic: dict(enumerate(topic.end_offsets)) for topic in cut.topics}),
        failOnDataLoss="true",
        minPartitions=str(parallelism),
    )
    return reader.load().select(*columns)


def _begins(topic: TopicCut) -> Sequence[int]:
    # What expires between the look and the start of Spark is no loss when nobody has promised to read it.
    return [_EARLIEST] * len(topic.end_offsets) if topic.from_the_beginning else topic.first_offsets


def java_options(connection: KafkaConnection) -> dict[str, str]:
    """The options for Java's client, as Spark wants them. The result is secret: it holds the key and the password.

    The certificates and the key go in as text: so they reach executors on other machines, and no decrypted key lies in
    a file. Java's client shows none of them in its logs, and Spark is told to redact them (see `session`).
    """
    options = {
        "bootstrap.servers": connection.bootstrap_servers,
        "client.id": connection.client_id,
        "security.protocol": connection.security_protocol,
        "isolation.level": "read_committed",
        "default.api.timeout.ms": "20000",
        "request.timeout.ms": "15000",
    }
    if connection.group_id:
        options["group.id"] = connection.group_id
    if connection.ca_file is not None:
        options["ssl.truststore.type"] = "PEM"
        options["ssl.truststore.certificates"] = _pem_text(connection.ca_file)
    key = connection.key_pem()
    if key is not None and connection.cert_file is not None:
        options["ssl.keystore.type"] = "PEM"
        options["ssl.keystore.key"] = key.decode("ascii")
        options["ssl.keystore.certificate.chain"] = _pem_text(connection.cert_file)
    if connection.sasl_mechanism is not None:
        module = "plain.PlainLoginModule" if connection.sasl_mechanism == "PLAIN" else "scram.ScramLoginModule"
        options["sasl.mechanism"] = connection.sasl_mechanism
        options["sasl.jaas.config"] = (
            f"org.apache.kafka.common.security.{module} required "
            f"username={_quoted(connection.sasl_username or '')} password={_quoted(connection.sasl_password())};"
        )
    named = {f"kafka.{name}": value for name, value in options.items()}
    return {**named, "kafkaConsumer.pollTimeoutMs": str(int(STALLED_AFTER_SECONDS * 1000))}


def _pem_text(file: Path) -> str:
    """A PEM file as text; what openssl writes above a certificate may be in any encoding and does not count."""
    return file.read_text(encoding="ascii", errors="replace")


def _quoted(text: str) -> str:
    """A value of a JAAS configuration."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


_JAVA: Mapping[str, Fault] = {
    "TopicAuthorizationException": DENIED,
    "GroupAuthorizationException": DENIED,
    "SaslAuthenticationException": LOGIN,
    "SslAuthenticationException": LOGIN,
    "UnknownTopicOrPartitionException": NO_TOPIC,
    "KAFKA_DATA_LOSS": EXPIRED,
}
"""What Java's client and Spark call some of them."""
_JAVA_STALLED = ("TimeoutException", "KafkaException", "DisconnectException")


def failure_of_kafka(text: str, connection: KafkaConnection, topics: Sequence[str]) -> GaplessError | None:
    """What the text of an exception out of Spark says about Kafka; ``None`` when it is about something else."""
    servers, subject = connection.bootstrap_servers, f"the topic {', '.join(topics[:3])}"
    for word, fault in _JAVA.items():
        if word in text:
            return fault.error(servers, "the group groupID" if word.startswith("Group") else subject)
    if "org.apache.kafka" in text and any(word in text for word in _JAVA_STALLED):
        return PASSING.error(servers, subject)
    return None
