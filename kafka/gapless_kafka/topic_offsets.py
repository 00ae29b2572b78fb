"""Owns how far topics reach at this moment: their IDs, their log starts and their last stable offsets, as a cut.

Asked through the admin client, because it answers in milliseconds and tells apart unreachable, refused, missing and
denied. It creates no topic, whatever the brokers' settings.
"""

from __future__ import annotations

import time
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TYPE_CHECKING, Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from gapless_kafka.cuts import Cut, TopicCut
from gapless_kafka.errors import LOGIN, NO_TOPIC, PASSING, UNREACHABLE, TopicMissingError, fault_of, reason_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gapless_api.base.errors import GaplessError
    from gapless_kafka.connection import KafkaConnection


class _TryAgainError(Exception):
    """Kafka is busy with itself, such as with the choice of a leader."""


def read_cut(connection: KafkaConnection, topics: Sequence[str], *, timeout_seconds: float) -> Cut:
    """Find the topics and how far they reach.

    Raises:
        SourceUnreachableError: Kafka does not answer within the time, or refuses us.
        TopicMissingError: a topic does not exist.
    """
    query = _CutQuery(connection, timeout_seconds)
    while True:
        try:
            return query.cut(topics)
        except _TryAgainError:
            if query.late:
                raise query.unreachable() from None
            time.sleep(0.2)


class _CutQuery:
    """One admin client, used until a deadline, and the errors that it has reported."""

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
        specific = [error for error in self._complaints if error.name() != "_ALL_BROKERS_DOWN"]
        reason = reason_in(specific[-1].str()) if specific else ""
        return UNREACHABLE.error(self._connection.bootstrap_servers, reason=reason)


def _id(uuid: Any) -> str:
    """Kafka's way to write a topic's id; old brokers have none, which is all zeros."""
    return str(uuid) if uuid.get_most_significant_bits() or uuid.get_least_significant_bits() else ""
