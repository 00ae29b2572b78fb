"""Which partitions, groups and clocks of a cluster are checked, given its metadata."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from gapless_kafka.topics.coordinators import coordinator_partition
from gapless_mirror.doctor.observed import (
    GROUP_TOPIC,
    TRANSACTION_TOPIC,
    BrokerStamp,
    Cluster,
    Group,
    PartitionOffsets,
    Probe,
    Unknown,
)
from gapless_mirror.doctor.observing.reading import OWN_GROUP, PartitionReader

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_mirror.doctor.observing.cluster import ClusterObserver

_MAX_PARTITIONS = 4000
"""Limit for partitions whose offsets are checked."""
_MAX_STAMPS = 64
_MAX_PROBES = 12
_MAX_CONCURRENT_READS = 8
_STAMP_SECONDS = 1.0
"""How long to wait for a new timestamp of a broker; running consumers commit every few seconds."""


class PartitionObserver:
    """The partitions and groups of one cluster."""

    def __init__(self, connection: KafkaConnection, observer: ClusterObserver, *, timeout_seconds: float) -> None:
        """Prepare an observer of one cluster; `observer` belongs to the same cluster."""
        self._observer = observer
        self._reader = PartitionReader(connection, timeout_seconds=timeout_seconds)

    def observe(self, cluster: Cluster, groups: Sequence[str], coordinated: Sequence[str]) -> Cluster:
        """Return the cluster with its offsets, probes, groups and clocks.

        Of the groups in `coordinated`, only the coordinators are checked.
        """
        ends_before = self._observer.ends(_stamped_partitions(cluster))
        partitions = _online_partitions(cluster, cluster.topics)
        # Before the ends: a position that was committed before can be above them only if records are gone.
        found = self._groups(cluster, groups, coordinated, partitions[:_MAX_PARTITIONS])
        offsets = self._observer.offsets(partitions[:_MAX_PARTITIONS])
        omitted = Unknown(f"only the first {_MAX_PARTITIONS:,} partitions are checked; select fewer topics")
        offsets |= dict.fromkeys(partitions[_MAX_PARTITIONS:], omitted)
        return replace(
            cluster,
            offsets=offsets,
            probes=self._probes(cluster, offsets),
            groups=self._with_timestamps(found, offsets),
            stamps=self._stamps(ends_before),
        )

    def _probes(
        self, cluster: Cluster, offsets: Mapping[TopicPartition, PartitionOffsets | Unknown]
    ) -> tuple[Probe, ...] | Unknown:
        """Read the last offset of one partition per leader, if this user may read one."""
        if _has_no_groups(cluster):
            return Unknown("a consumer would create the topic __consumer_offsets, which the cluster does not have yet")
        by_leader: dict[int, tuple[TopicPartition, PartitionOffsets]] = {}
        for (topic, number), extent in offsets.items():
            operations = cluster.topics[topic].operations
            if isinstance(extent, Unknown) or (not isinstance(operations, Unknown) and "READ" not in operations):
                continue
            leader = cluster.partitions[topic][number].leader
            if leader not in by_leader or (by_leader[leader][1].is_empty and not extent.is_empty):
                by_leader[leader] = ((topic, number), extent)
        if not by_leader:
            return Unknown("this user may read none of the checked topics")

        def probe(partition: TopicPartition, extent: PartitionOffsets) -> Probe:
            return self._reader.probe(partition, extent.end if extent.is_empty else extent.end - 1)

        with ThreadPoolExecutor(_MAX_CONCURRENT_READS) as pool:
            return tuple(pool.map(lambda item: probe(*item), list(by_leader.values())[:_MAX_PROBES]))

    def _groups(
        self,
        cluster: Cluster,
        groups: Sequence[str],
        coordinated: Sequence[str],
        partitions: Sequence[TopicPartition],
    ) -> tuple[Group, ...]:
        if _has_no_groups(cluster):
            absent = Unknown("the cluster has no topic __consumer_offsets, so no group has committed offsets")
            return tuple(Group(name, absent, is_denied=True) for name in groups)  # A request would create the topic.
        online = _online_partitions(cluster, [GROUP_TOPIC])
        count = len(cluster.partitions.get(GROUP_TOPIC, {}))

        def is_lost(name: str) -> bool:
            return count > 0 and (GROUP_TOPIC, coordinator_partition(name, count)) not in online

        lost = Unknown(f"its partition of {GROUP_TOPIC} has no leader")
        only = coordinated if groups or coordinated or not online else [OWN_GROUP]

        def group_of(name: str) -> Group:
            return Group(name, lost) if is_lost(name) else self._reader.group(name, partitions)

        def coordinator_of(name: str) -> Group:
            return Group(name, lost, has_positions=False) if is_lost(name) else self._reader.coordinator(name)

        with ThreadPoolExecutor(_MAX_CONCURRENT_READS) as pool:  # An unresponsive coordinator takes all of the timeout.
            return (*pool.map(group_of, groups), *pool.map(coordinator_of, only))

    def _with_timestamps(
        self, groups: Sequence[Group], offsets: Mapping[TopicPartition, PartitionOffsets | Unknown]
    ) -> tuple[Group, ...]:
        """Add the timestamps of the next records of each group."""
        ends = {partition: extent.end for partition, extent in offsets.items() if isinstance(extent, PartitionOffsets)}
        with ThreadPoolExecutor(_MAX_CONCURRENT_READS) as pool:
            return tuple(pool.map(lambda group: self._reader.with_timestamps(group, ends), groups))

    def _stamps(self, ends_before: Mapping[TopicPartition, tuple[int, float]]) -> tuple[BrokerStamp, ...]:
        """Query the newest timestamps until one is new, for up to `_STAMP_SECONDS`."""
        deadline = time.monotonic() + _STAMP_SECONDS
        while True:
            newest = self._observer.newest(list(ends_before))
            now_ms = time.time() * 1000
            stamps = tuple(
                BrokerStamp(partition, first_seen_ms, now_ms, newest[partition][1], newest[partition][0] >= end)
                for partition, (end, first_seen_ms) in ends_before.items()
                if partition in newest
            )
            if not stamps or any(stamp.is_new for stamp in stamps) or time.monotonic() > deadline:
                return stamps
            time.sleep(_STAMP_SECONDS / 5)


def _has_no_groups(cluster: Cluster) -> bool:
    """Whether no group was ever used. A consumer would then look up a coordinator, which creates the topic."""
    return GROUP_TOPIC not in cluster.partitions and GROUP_TOPIC not in cluster.hidden_topics


def _online_partitions(cluster: Cluster, topics: Iterable[str]) -> list[TopicPartition]:
    """Return the partitions whose leader is registered."""
    return [
        (topic, number)
        for topic in sorted(topics)
        for number, partition in sorted(cluster.partitions.get(topic, {}).items())
        if partition.leader in cluster.brokers
    ]


def _stamped_partitions(cluster: Cluster) -> list[TopicPartition]:
    """Return partitions whose timestamps brokers write."""
    appended = [name for name in cluster.topics if cluster.setting(name, "message.timestamp.type") == "LogAppendTime"]
    return _online_partitions(cluster, [GROUP_TOPIC, TRANSACTION_TOPIC, *appended])[:_MAX_STAMPS]
