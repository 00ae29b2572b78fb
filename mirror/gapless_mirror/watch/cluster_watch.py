"""The periodic snapshots of a cluster over one connection: leaders, topic IDs, authorized operations and offsets.

Every request has a timeout, and a broker that does not answer only affects its own partitions.
`gapless_mirror.watch.stall` interprets the snapshots.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import OffsetSpec

from gapless_api.base.errors import GaplessError
from gapless_kafka.access.answers import cluster_metadata, listed
from gapless_kafka.access.constructors import new_admin
from gapless_kafka.access.errors import LOGIN, UNREACHABLE, fault_of, reason_in
from gapless_kafka.topics.topic_configuration import topic_configurations
from gapless_kafka.topics.topic_ids import url_safe_topic_id
from gapless_mirror.watch.facts import (
    ClusterSnapshot,
    KafkaFault,
    PartitionEnds,
    PartitionSnapshot,
    Side,
    TopicSnapshot,
)

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection

REQUEST_SECONDS = 5.0
"""The timeout of a request."""
_GRACE_SECONDS = 1.0
"""Kafka's client reports a timeout within this time."""
END_SECONDS = REQUEST_SECONDS + _GRACE_SECONDS
"""How long to wait for a request at the end: Kafka's client crashes a process that drops its future."""
_CONFIGURATION_SECONDS = 300.0
"""How old the known retention of a topic may be."""
_LOG_START_SECONDS = 25.0
"""How old the known log start of a partition may be that is not copied to its end."""
_SNAPSHOTS_PER_DESCRIPTION = 3
"""Every third snapshot describes all topics if nothing is wrong; the others only read offsets."""
_UNKNOWN_START = 2**63
_MAX_ERRORS = 20


class ClusterWatch:
    """Takes snapshots of one cluster."""

    def __init__(self, side: Side, connection: KafkaConnection, *, request_seconds: float = REQUEST_SECONDS) -> None:
        """Connect at the first snapshot."""
        self._side: Side = side
        self._connection = connection
        self._request_seconds = request_seconds
        self._errors: list[KafkaError] = []
        self._client: Any = None
        self._retired: Any = None
        """The client before: Kafka's client crashes a process that drops it with a request under way."""
        self._last = ClusterSnapshot(side=side)
        self._retention: dict[str, float | None] = {}
        self._retention_at = float("-inf")
        self._starts: dict[TopicPartition, int] = {}
        self._starts_at = float("-inf")
        self._newest: dict[int, float] = {}
        """The last answers of `newest_timestamps`, for the topic with the ID `_newest_of`."""
        self._newest_of = ""
        self._description_in = 0
        """After how many more snapshots topics are described again."""

    def snapshot(self, topics: Collection[str], copied: Mapping[TopicPartition, int] | None = None) -> ClusterSnapshot:
        """Return the state of the cluster.

        While the cluster does not answer or denies access, return the last state, with the fault.

        Args:
            topics: to describe.
            copied: partitions whose log starts, ends and retention are read, with the offset up to which each is
                copied.
        """
        del self._errors[:-_MAX_ERRORS]
        try:
            self._last = self._snapshot(topics, copied or {})
            self._client.poll(0)
            self._errors.clear()
        except (KafkaException, FutureTimeoutError, GaplessError) as error:
            self._last = replace(self._last, fault=self._fault(error))
            self._description_in = 0
        return self._last

    def _snapshot(self, topics: Collection[str], copied: Mapping[TopicPartition, int]) -> ClusterSnapshot:
        if self._client is None:
            self._client = new_admin(self._connection, {"error_cb": self._errors.append})
        client, seconds = self._client, self._request_seconds
        brokers = self._brokers()
        known = self._last.topics
        if self._description_in and brokers == self._last.brokers and known.keys() == {*topics}:
            self._description_in -= 1
            snapshots = dict(known)
        else:
            futures = (
                client.describe_topics(
                    TopicCollection(sorted(topics)), include_authorized_operations=True, request_timeout=seconds
                )
                if topics
                else {}
            )
            snapshots = {topic: self._topic(topic, future) for topic, future in futures.items()}
            self._description_in = _SNAPSHOTS_PER_DESCRIPTION - 1
        if copied:
            snapshots = self._with_ends(self._with_retention(snapshots), copied, brokers)
        if any(_has_problem(topic, brokers) for topic in snapshots.values()):
            self._description_in = 0
        return ClusterSnapshot(side=self._side, brokers=brokers, topics=snapshots)

    def _brokers(self) -> frozenset[int]:
        """Return the registered brokers; after a failure the next snapshot has a new client.

        One that was told of no broker may never find one again.
        """
        try:
            return frozenset(cluster_metadata(self._client, timeout_seconds=self._request_seconds).brokers)
        except KafkaException:
            self._client.poll(0)  # calls `error_cb`
            self._retired, self._client = self._client, None
            raise

    def _topic(self, topic: str, future: Any) -> TopicSnapshot:
        try:
            description = self._result(future)
        except KafkaException as error:
            name = error.args[0].name()
            if fault_of(name) in {UNREACHABLE, LOGIN}:
                raise
            return (
                self._last.topics.get(topic, TopicSnapshot())
                if fault_of(name).is_transient
                else TopicSnapshot(error=name)
            )
        topic_id = url_safe_topic_id(str(description.topic_id or ""))
        return TopicSnapshot(
            id=topic_id if topic_id.strip("A") else "",
            partitions={
                each.id: PartitionSnapshot(
                    None if each.leader is None or each.leader.id < 0 else each.leader.id,
                    replicas=tuple(node.id for node in each.replicas),
                )
                for each in description.partitions
            },
            operations=None
            if description.authorized_operations is None
            else frozenset(operation.name for operation in description.authorized_operations),
        )

    def newest_timestamps(self, topic: str) -> dict[int, float]:
        """Return the timestamp of the newest known record of each partition, in seconds since 1970.

        Partitions are those of the last snapshot. Kafka does not name a newest record that is not in all in-sync
        replicas yet, and a partition without a leader does not answer: the record before it is the newest known one
        then. Partitions without a known record are left out.
        """
        last = self._last.topics.get(topic)
        if last is None:
            return {}
        if last.id != self._newest_of:
            self._newest, self._newest_of = {}, last.id
        partitions = [
            KafkaPartition(topic, number)
            for number, partition in last.partitions.items()
            if partition.leader in self._last.brokers and self._last.fault is None
        ]
        results = self._list_offsets(partitions, OffsetSpec.max_timestamp(), IsolationLevel.READ_UNCOMMITTED)
        self._newest |= {number: one.timestamp / 1000 for (_, number), one in results.items() if one.timestamp >= 0}
        return dict(self._newest)

    def _with_ends(
        self, topics: Mapping[str, TopicSnapshot], copied: Mapping[TopicPartition, int], brokers: frozenset[int]
    ) -> dict[str, TopicSnapshot]:
        leaders = {
            (name, number): partition.leader
            for name, topic in topics.items()
            for number, partition in topic.partitions.items()
        }
        # Kafka's client would wait for offline leaders until the timeout.
        online = [KafkaPartition(*each) for each in copied if leaders.get(each) in brokers]
        high = self._offsets(online, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)
        # Only stable records are copied. So a partition that is copied to its end has no open transaction.
        complete = {each: end for each, end in high.items() if copied[each] == end}
        incomplete = [each for each in online if (each.topic, each.partition) not in complete]
        stable = complete | self._offsets(incomplete, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
        starts = self._log_starts(online, high, complete)
        answered = starts.keys() & stable.keys() & high.keys()
        if len(answered) < len(copied):
            self._description_in = 0  # a leader may have moved
        return {
            name: replace(
                topic,
                partitions={
                    number: replace(
                        partition, ends=PartitionEnds(*(offsets[name, number] for offsets in (starts, stable, high)))
                    )
                    if (name, number) in answered
                    else replace(partition, ends=None)
                    for number, partition in topic.partitions.items()
                },
            )
            for name, topic in topics.items()
        }

    def _log_starts(
        self,
        partitions: Collection[KafkaPartition],
        ends: Mapping[TopicPartition, int],
        complete: Collection[TopicPartition],
    ) -> dict[TopicPartition, int]:
        """Return the log starts. They rarely move, so those of complete partitions are cached without a time limit."""
        now = time.monotonic()
        if now - self._starts_at > _LOG_START_SECONDS:
            self._starts = {each: start for each, start in self._starts.items() if each in complete}
            self._starts_at = now
        # A log that ends before its known start was recreated.
        unknown = [
            each
            for each in partitions
            if self._starts.get((each.topic, each.partition), _UNKNOWN_START)
            > ends.get((each.topic, each.partition), 0)
        ]
        self._starts |= self._offsets(unknown, OffsetSpec.earliest(), IsolationLevel.READ_COMMITTED)
        return self._starts

    def _offsets(
        self, partitions: Iterable[KafkaPartition], spec: OffsetSpec, isolation: IsolationLevel
    ) -> dict[TopicPartition, int]:
        results = self._list_offsets(partitions, spec, isolation)
        return {topic_partition: int(result.offset) for topic_partition, result in results.items()}

    def _list_offsets(
        self, partitions: Iterable[KafkaPartition], spec: OffsetSpec, isolation: IsolationLevel
    ) -> dict[TopicPartition, Any]:
        requests = dict.fromkeys(partitions, spec)
        if not requests:
            return {}
        futures = self._client.list_offsets(requests, isolation_level=isolation, request_timeout=self._request_seconds)
        results = {}
        for partition, future in futures.items():
            try:
                results[partition.topic, partition.partition] = listed(self._result(future))
            except (KafkaException, FutureTimeoutError):
                continue  # the leader of this partition does not answer, or denies access
        return results

    def _with_retention(self, topics: Mapping[str, TopicSnapshot]) -> dict[str, TopicSnapshot]:
        known = [name for name, topic in topics.items() if not topic.error]
        if time.monotonic() - self._retention_at > _CONFIGURATION_SECONDS or not self._retention.keys() >= {*known}:
            configurations = topic_configurations(self._connection, known, timeout_seconds=self._request_seconds)
            self._retention = {
                name: configuration.retention_seconds if configuration is not None else None
                for name, configuration in configurations.items()
            }
            self._retention_at = time.monotonic()
        return {name: replace(topic, retention_seconds=self._retention.get(name)) for name, topic in topics.items()}

    def _result(self, future: Any) -> Any:
        return future.result(timeout=self._request_seconds + _GRACE_SECONDS)

    def _fault(self, error: Exception) -> KafkaFault:
        if self._client is not None:
            self._client.poll(0)  # calls `error_cb`
        if isinstance(error, GaplessError):
            return KafkaFault(self._side, "_FAIL", str(error).rstrip("."))
        errors = [each for each in self._errors if fault_of(each.name()) is LOGIN]
        errors += [each for each in reversed(self._errors) if each.name() != "_ALL_BROKERS_DOWN"]
        if isinstance(error, KafkaException):
            errors.append(error.args[0])
        if not errors:
            return KafkaFault(self._side, "_TIMED_OUT", f"no answer within {self._request_seconds:.0f} s")
        return KafkaFault(self._side, errors[0].name(), reason_in(errors[0].str()))


def _has_problem(topic: TopicSnapshot, brokers: frozenset[int]) -> bool:
    """Whether a topic has an error, or a partition without an online leader."""
    is_online = [partition.leader in brokers for partition in topic.partitions.values()]
    return bool(topic.error) or not is_online or not all(is_online)
