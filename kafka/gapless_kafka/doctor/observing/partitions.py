"""Owns which partitions, groups and clocks of a cluster are looked at, once its metadata are known."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from gapless_kafka.doctor.observed import (
    GROUP_TOPIC,
    TRANSACTION_TOPIC,
    BrokerStamp,
    Group,
    PartitionOffsets,
    Unknown,
)
from gapless_kafka.doctor.observing.reading import OWN_GROUP, PartitionReader
from gapless_kafka.topics.coordinators import coordinator_partition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.doctor.observed import Cluster, Probe
    from gapless_kafka.doctor.observing.cluster import ClusterObserver

_MOST_PARTITIONS = 4000
"""Of so many partitions the offsets are looked at."""
_MOST_STAMPS = 64
_MOST_PROBES = 12
_AT_ONCE = 8
_STAMP_SECONDS = 1.0
"""How long a timestamp of a broker is waited for; consumers that run commit every few seconds."""


class PartitionObserver:
    """The partitions and groups of one cluster."""

    def __init__(self, connection: KafkaConnection, observer: ClusterObserver, *, timeout_seconds: float) -> None:
        """`observer` is of the same cluster."""
        self._observer = observer
        self._reader = PartitionReader(connection, timeout_seconds=timeout_seconds)

    def observe(self, cluster: Cluster, groups: Sequence[str], coordinated: Sequence[str]) -> Cluster:
        """Add offsets, probes, groups and clocks to what is known of the cluster.

        Of the groups in `coordinated`, only the coordinators matter.
        """
        stamped = _stamped_places(cluster)
        before = self._observer.ends(stamped)
        asked = _led(cluster, cluster.topics)
        offsets: dict[TopicPartition, PartitionOffsets | Unknown] = dict(
            self._observer.offsets(asked[:_MOST_PARTITIONS])
        )
        left = Unknown(f"only the first {_MOST_PARTITIONS:,} partitions are looked at; choose topics")
        offsets |= dict.fromkeys(asked[_MOST_PARTITIONS:], left)
        return replace(
            cluster,
            offsets=offsets,
            probes=self._probes(cluster, offsets),
            groups=self._groups(cluster, groups, coordinated, offsets),
            stamps=self._stamps(before),
        )

    def _probes(
        self, cluster: Cluster, offsets: Mapping[TopicPartition, PartitionOffsets | Unknown]
    ) -> tuple[Probe, ...] | Unknown:
        """Read the last offset of one partition of each broker that leads one which this user may read."""
        if _has_no_groups(cluster):
            return Unknown("a consumer would create the topic __consumer_offsets, which the cluster does not have yet")
        by_leader: dict[int, tuple[TopicPartition, int]] = {}
        for (topic, number), found in offsets.items():
            operations = cluster.topics[topic].operations
            if isinstance(found, Unknown) or (not isinstance(operations, Unknown) and "READ" not in operations):
                continue
            leader = cluster.partitions[topic][number].leader
            if leader not in by_leader or (by_leader[leader][1] < 0 and not found.is_empty):
                by_leader[leader] = ((topic, number), -1 if found.is_empty else found.end - 1)
        if not by_leader:
            return Unknown("this user may read none of the checked topics")
        chosen = list(by_leader.values())[:_MOST_PROBES]
        ends = {place: found.end for place, found in offsets.items() if isinstance(found, PartitionOffsets)}
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return tuple(
                pool.map(lambda one: self._reader.probe(one[0], ends[one[0]] if one[1] < 0 else one[1]), chosen)
            )

    def _groups(
        self,
        cluster: Cluster,
        groups: Sequence[str],
        coordinated: Sequence[str],
        offsets: Mapping[TopicPartition, PartitionOffsets | Unknown],
    ) -> tuple[Group, ...]:
        ends = {place: found.end for place, found in offsets.items() if isinstance(found, PartitionOffsets)}
        if _has_no_groups(cluster):
            absent = Unknown("the cluster has no topic __consumer_offsets, so no group has a position")
            return tuple(Group(name, absent, is_denied=True) for name in groups)  # Asking would create the topic.
        led = _led(cluster, [GROUP_TOPIC])
        count = len(cluster.partitions.get(GROUP_TOPIC, {}))

        def is_lost(name: str) -> bool:
            return count > 0 and (GROUP_TOPIC, coordinator_partition(name, count)) not in led

        lost = Unknown(f"the partition of {GROUP_TOPIC} that holds it has no leader")
        only = coordinated if groups or coordinated or not led else [OWN_GROUP]

        def looked_at(name: str) -> Group:
            return Group(name, lost) if is_lost(name) else self._reader.group(name, ends)

        def coordinator_of(name: str) -> Group:
            return Group(name, lost, has_positions=False) if is_lost(name) else self._reader.coordinator(name)

        with ThreadPoolExecutor(_AT_ONCE) as pool:  # A coordinator that does not answer takes all of the time.
            return (*pool.map(looked_at, groups), *pool.map(coordinator_of, only))

    def _stamps(self, before: Mapping[TopicPartition, tuple[int, float]]) -> tuple[BrokerStamp, ...]:
        """Look at the newest timestamps until one was written since the first look, but not for long."""
        deadline = time.monotonic() + _STAMP_SECONDS
        while True:
            newest = self._observer.newest(list(before))
            now_ms = time.time() * 1000
            found = tuple(
                BrokerStamp(place, before[place][1], now_ms, timestamp, offset >= before[place][0])
                for place, (offset, timestamp) in newest.items()
            )
            if not found or any(stamp.is_new for stamp in found) or time.monotonic() > deadline:
                return found
            time.sleep(_STAMP_SECONDS / 5)


def _has_no_groups(cluster: Cluster) -> bool:
    """Whether no group was ever used. Whatever has a group's name, Kafka's client looks for its coordinator then."""
    return GROUP_TOPIC not in cluster.partitions and GROUP_TOPIC not in cluster.hidden_topics


def _led(cluster: Cluster, topics: Iterable[str]) -> list[TopicPartition]:
    """The partitions whose leader runs."""
    return [
        (topic, number)
        for topic in sorted(topics)
        for number, partition in sorted(cluster.partitions.get(topic, {}).items())
        if partition.leader in cluster.brokers
    ]


def _stamped_places(cluster: Cluster) -> list[TopicPartition]:
    """Partitions into which brokers write their own time."""
    appended = [name for name in cluster.topics if cluster.setting(name, "message.timestamp.type") == "LogAppendTime"]
    return _led(cluster, [GROUP_TOPIC, TRANSACTION_TOPIC, *appended])[:_MOST_STAMPS]
