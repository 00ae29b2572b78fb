"""The findings about leaders, replicas and coordinators, from the metadata of all topics and read attempts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gapless_api.base.quantities import quantity
from gapless_kafka.topics.coordinators import coordinator_partition
from gapless_mirror.doctor.findings.wording import names, numbers, partitions, verb
from gapless_mirror.doctor.kinds import FindingId, finding
from gapless_mirror.doctor.observed import GROUP_TOPIC, TRANSACTION_TOPIC, Cluster, Unknown

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_api.wire.doctor_report import DoctorFinding


def replica_findings(cluster: Cluster) -> Iterator[DoctorFinding]:
    """Yield brokers that are not registered, partitions without a leader, and under-replicated partitions."""
    yield from _unregistered_brokers(cluster)
    internal = {GROUP_TOPIC, TRANSACTION_TOPIC}
    leaderless = [(topic, number) for topic, number in _leaderless_partitions(cluster) if topic not in internal]
    if leaderless:
        yield finding(
            FindingId.LEADER_MISSING,
            cluster.side,
            f"{quantity(len(leaderless), 'partition')} {verb(leaderless, 'has', 'have')} no leader.",
            where=partitions(leaderless),
        )
    yield from _out_of_sync(cluster)


def coordinator_findings(cluster: Cluster, transactional_ids: Sequence[str] = ()) -> Iterator[DoctorFinding]:
    """Yield coordinators of groups and transactions that are missing or do not respond."""
    lost = {number for topic, number in _leaderless_partitions(cluster) if topic == GROUP_TOPIC}
    count = len(cluster.partitions.get(GROUP_TOPIC, {}))
    affected = [group.name for group in cluster.groups if coordinator_partition(group.name, count) in lost]
    if lost:
        which = f" Affected groups: {names(affected)}." if affected else ""
        yield finding(
            FindingId.GROUP_COORDINATOR_UNAVAILABLE,
            cluster.side,
            f"{len(lost):,} of {quantity(count, 'partition')} of {GROUP_TOPIC} {verb(lost, 'has', 'have')} no leader, "
            f"so their consumer groups have no coordinator.{which}{_readable(cluster)}",
            where=f"{GROUP_TOPIC} {numbers(lost)}",
        )
    for group in cluster.groups:
        if not isinstance(group.positions, Unknown) or group.is_denied or group.name in affected:
            continue
        yield finding(
            FindingId.GROUP_COORDINATOR_UNAVAILABLE,
            cluster.side,
            f"The coordinator of the group {group.name} does not respond ({group.positions.reason})."
            f"{_readable(cluster)}",
            where=f"group {group.name}",
        )
    yield from _transaction_coordinators(cluster, transactional_ids)
    yield from _hidden_coordinators(cluster)


def probe_findings(cluster: Cluster) -> Iterator[DoctorFinding]:
    """Yield partitions that cannot be read, even without a consumer group."""
    if isinstance(cluster.probes, Unknown):
        if cluster.side == "source":
            message = f"Reading from partitions was not checked: {cluster.probes.reason}."
            yield finding(FindingId.NOT_CHECKED, cluster.side, message)
        return
    for probe in cluster.probes:
        if probe.problem:
            topic, number = probe.partition
            message = f"Partition {number} of {topic} cannot be read, even without a consumer group ({probe.problem})."
            yield finding(FindingId.PARTITION_UNREADABLE, cluster.side, message, where=partitions([probe.partition]))


def _leaderless_partitions(cluster: Cluster) -> list[TopicPartition]:
    """Return the partitions whose leader is missing or not registered."""
    return [
        (topic, number)
        for topic, by_number in cluster.partitions.items()
        for number, partition in by_number.items()
        if partition.leader not in cluster.brokers
    ]


def _unregistered_brokers(cluster: Cluster) -> Iterator[DoctorFinding]:
    missing: dict[int, list[TopicPartition]] = {}
    for topic, by_number in cluster.partitions.items():
        for number, partition in by_number.items():
            for broker in {*partition.replicas, partition.leader} - {-1} - cluster.brokers.keys():
                missing.setdefault(broker, []).append((topic, number))
    if not missing:
        return
    affected = sorted({partition for on_broker in missing.values() for partition in on_broker})
    internal = sorted({topic for topic, _ in affected} & {GROUP_TOPIC, TRANSACTION_TOPIC})
    among = f" Among them are partitions of {' and '.join(internal)}." if internal else ""
    yield finding(
        FindingId.BROKER_NOT_REGISTERED,
        cluster.side,
        f"{quantity(len(affected), 'partition')} {verb(affected, 'has', 'have')} replicas on the broker "
        f"{verb(missing, 'ID', 'IDs')} {numbers(missing)}, which {verb(missing, 'is', 'are')} not registered; "
        f"registered are {numbers(cluster.brokers)}.{among}",
        where=partitions(affected),
        danger=None if GROUP_TOPIC in internal else "",
    )


def _out_of_sync(cluster: Cluster) -> Iterator[DoctorFinding]:
    under_replicated, below = [], []
    for topic, by_number in cluster.partitions.items():
        min_in_sync = int(cluster.setting(topic, "min.insync.replicas") or 1)
        for number, partition in by_number.items():
            if partition.leader not in cluster.brokers:
                continue
            if len(partition.in_sync) < min_in_sync:
                below.append((topic, number))
            elif len(partition.in_sync) < len(partition.replicas):
                under_replicated.append((topic, number))
    if below:
        yield finding(
            FindingId.BELOW_MIN_INSYNC,
            cluster.side,
            f"{quantity(len(below), 'partition')} {verb(below, 'has', 'have')} fewer in-sync replicas than "
            f"min.insync.replicas.",
            where=partitions(below),
        )
    if under_replicated:
        yield finding(
            FindingId.UNDER_REPLICATED,
            cluster.side,
            f"{quantity(len(under_replicated), 'partition')} {verb(under_replicated, 'has', 'have')} replicas that are "
            f"not in sync.",
            where=partitions(under_replicated),
        )


def _transaction_coordinators(cluster: Cluster, transactional_ids: Sequence[str]) -> Iterator[DoctorFinding]:
    lost = {number for topic, number in _leaderless_partitions(cluster) if topic == TRANSACTION_TOPIC}
    if not lost:
        return
    count = len(cluster.partitions[TRANSACTION_TOPIC])
    affected = [name for name in transactional_ids if coordinator_partition(name, count) in lost]
    which = f" Affected transactional IDs: {names(affected)}." if affected else ""
    yield finding(
        FindingId.TRANSACTION_COORDINATOR_UNAVAILABLE,
        cluster.side,
        f"{len(lost):,} of {quantity(count, 'partition')} of {TRANSACTION_TOPIC} {verb(lost, 'has', 'have')} no "
        f"leader, so their transactional IDs have no coordinator.{which}",
        where=f"{TRANSACTION_TOPIC} {numbers(lost)}",
    )


def _hidden_coordinators(cluster: Cluster) -> Iterator[DoctorFinding]:
    unchecked = []
    if cluster.side == "target":
        unchecked.append(TRANSACTION_TOPIC)
    elif all(isinstance(group.positions, Unknown) for group in cluster.groups):
        unchecked.append(GROUP_TOPIC)
    for topic in unchecked:
        if topic in cluster.hidden_topics:
            whose = "groups" if topic == GROUP_TOPIC else "transactions"
            message = f"The coordinators of {whose} were not checked: this user may not describe the topic {topic}."
            action = f"Grant this user the operation Describe on {topic}" + (
                ", or name groups with --groups." if topic == GROUP_TOPIC else "."
            )
            yield finding(FindingId.NOT_CHECKED, cluster.side, message, where=topic, action=action)


def _readable(cluster: Cluster) -> str:
    """Return a sentence about reading without a coordinator; empty if no partition could be read."""
    probes = () if isinstance(cluster.probes, Unknown) else cluster.probes
    readable = [probe.partition for probe in probes if not probe.problem]
    return f" Without a group, {partitions(readable[:1])} can be read: only the coordinator fails." if readable else ""
