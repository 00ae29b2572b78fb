"""Owns what is wrong with leaders, replicas and coordinators, from the metadata of all topics and attempts to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_kafka.doctor.findings.places import counted, names, numbers, partitions
from gapless_kafka.doctor.kinds import FindingId, finding
from gapless_kafka.doctor.observed import GROUP_TOPIC, TRANSACTION_TOPIC, Cluster, Unknown
from gapless_kafka.topics.coordinators import coordinator_partition

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gapless_api.offsets.ids import TopicPartition
    from gapless_api.wire.doctor_report import DoctorFinding


def replica_findings(cluster: Cluster) -> Iterator[DoctorFinding]:
    """Brokers that are not registered, partitions without a leader, and replicas that lag."""
    yield from _unregistered(cluster)
    leaderless = leaderless_partitions(cluster)
    ordinary = [place for place in leaderless if place[0] not in {GROUP_TOPIC, TRANSACTION_TOPIC}]
    if ordinary:
        yield finding(
            FindingId.LEADER_MISSING,
            cluster.side,
            f"{counted(len(ordinary), 'partition')} {_have(ordinary)} no leader.",
            where=partitions(ordinary),
        )
    yield from _lagging(cluster)


def coordinator_findings(cluster: Cluster, transactional_ids: Sequence[str] = ()) -> Iterator[DoctorFinding]:
    """Coordinators of groups and of transactions that are lost or do not answer."""
    lost = {number for topic, number in leaderless_partitions(cluster) if topic == GROUP_TOPIC}
    all_of_groups = cluster.partitions.get(GROUP_TOPIC, {})
    affected = [group.name for group in cluster.groups if coordinator_partition(group.name, len(all_of_groups)) in lost]
    if lost:
        which = f" Affected of the groups that were named: {names(affected)}." if affected else ""
        read = _readable(cluster)
        yield finding(
            FindingId.GROUP_COORDINATOR_UNAVAILABLE,
            cluster.side,
            f"{len(lost):,} of {counted(len(all_of_groups), 'partition')} of {GROUP_TOPIC} have no leader, so the "
            f"groups that they hold have no coordinator.{which}{read}",
            where=f"{GROUP_TOPIC} {numbers(lost)}",
        )
    silent = [group for group in cluster.groups if isinstance(group.positions, Unknown) and not group.is_denied]
    for group in silent:
        if group.name in affected:
            continue
        reason = group.positions.reason if isinstance(group.positions, Unknown) else ""
        yield finding(
            FindingId.GROUP_COORDINATOR_UNAVAILABLE,
            cluster.side,
            f"The coordinator of the group {group.name} does not answer ({reason}).{_readable(cluster)}",
            where=f"group {group.name}",
        )
    yield from _transactions(cluster, transactional_ids)
    yield from _hidden(cluster)


def probe_findings(cluster: Cluster) -> Iterator[DoctorFinding]:
    """Partitions that cannot be read even without a group."""
    if isinstance(cluster.probes, Unknown):
        if cluster.side == "source":
            message = f"Whether partitions can be read was not checked: {cluster.probes.reason}."
            yield finding(FindingId.NOT_CHECKED, cluster.side, message)
        return
    for probe in cluster.probes:
        if probe.problem:
            yield finding(
                FindingId.PARTITION_UNREADABLE,
                cluster.side,
                f"Partition {probe.place[1]} of {probe.place[0]} cannot be read without a group ({probe.problem}).",
                where=partitions([probe.place]),
            )


def leaderless_partitions(cluster: Cluster) -> list[TopicPartition]:
    """The partitions without a leader that runs."""
    return [
        (topic, number)
        for topic, found in cluster.partitions.items()
        for number, partition in found.items()
        if partition.leader not in cluster.brokers
    ]


def _unregistered(cluster: Cluster) -> Iterator[DoctorFinding]:
    missing: dict[int, list[TopicPartition]] = {}
    for topic, found in cluster.partitions.items():
        for number, partition in found.items():
            for broker in {*partition.replicas, partition.leader} - {-1} - cluster.brokers.keys():
                missing.setdefault(broker, []).append((topic, number))
    if not missing:
        return
    places = sorted({place for found in missing.values() for place in found})
    internal = sorted({topic for topic, _ in places} & {GROUP_TOPIC, TRANSACTION_TOPIC})
    told = f" {' and '.join(internal)} {'is' if len(internal) == 1 else 'are'} among them." if internal else ""
    noun = "ID" if len(missing) == 1 else "IDs"
    yield finding(
        FindingId.BROKER_NOT_REGISTERED,
        cluster.side,
        f"{counted(len(places), 'partition')} {_have(places)} replicas on the broker {noun} {numbers(missing)}, which "
        f"{'is' if len(missing) == 1 else 'are'} not registered; registered are {numbers(cluster.brokers)}.{told}",
        where=partitions(places),
        danger=None if GROUP_TOPIC in internal else "",
    )


def _lagging(cluster: Cluster) -> Iterator[DoctorFinding]:
    behind, below = [], []
    for topic, found in cluster.partitions.items():
        least = int(cluster.setting(topic, "min.insync.replicas") or 1)
        for number, partition in found.items():
            if partition.leader in cluster.brokers and len(partition.in_sync) < len(partition.replicas):
                behind.append((topic, number))
            if partition.leader in cluster.brokers and len(partition.in_sync) < least:
                below.append((topic, number))
    if below:
        yield finding(
            FindingId.BELOW_MIN_INSYNC,
            cluster.side,
            f"{counted(len(below), 'partition')} {_have(below)} fewer in-sync replicas than min.insync.replicas.",
            where=partitions(below),
        )
    rest = sorted(set(behind) - set(below))
    if rest:
        yield finding(
            FindingId.UNDER_REPLICATED,
            cluster.side,
            f"{counted(len(rest), 'partition')} {_have(rest)} replicas that are not in sync.",
            where=partitions(rest),
        )


def _transactions(cluster: Cluster, transactional_ids: Sequence[str]) -> Iterator[DoctorFinding]:
    lost = {number for topic, number in leaderless_partitions(cluster) if topic == TRANSACTION_TOPIC}
    if not lost:
        return
    count = len(cluster.partitions[TRANSACTION_TOPIC])
    affected = [name for name in transactional_ids if coordinator_partition(name, count) in lost]
    which = f" Affected of the transactional IDs that were named: {names(affected)}." if affected else ""
    yield finding(
        FindingId.TRANSACTION_COORDINATOR_UNAVAILABLE,
        cluster.side,
        f"{len(lost):,} of {counted(count, 'partition')} of {TRANSACTION_TOPIC} have no leader, so the transactional "
        f"IDs that they hold have no coordinator.{which}",
        where=f"{TRANSACTION_TOPIC} {numbers(lost)}",
    )


def _hidden(cluster: Cluster) -> Iterator[DoctorFinding]:
    answered = [group for group in cluster.groups if not isinstance(group.positions, Unknown)]
    missed = [GROUP_TOPIC] if not answered and cluster.side == "source" else []
    if cluster.side == "target":
        missed.append(TRANSACTION_TOPIC)
    for topic in missed:
        if topic in cluster.hidden_topics:
            whose = "groups" if topic == GROUP_TOPIC else "transactions"
            message = f"The coordinators of {whose} were not checked: this user may not see the topic {topic}."
            action = f"Grant this user the operation Describe on {topic}" + (
                ", or name groups with --groups." if topic == GROUP_TOPIC else "."
            )
            yield finding(FindingId.NOT_CHECKED, cluster.side, message, where=topic, action=action)


def _readable(cluster: Cluster) -> str:
    """What the probes say about reading without a coordinator."""
    probes = () if isinstance(cluster.probes, Unknown) else cluster.probes
    good = [probe.place for probe in probes if not probe.problem]
    return f" Without a group, {partitions(good[:1])} can be read: the data are there." if good else ""


def _have(found: Sequence[object]) -> str:
    return "has" if len(found) == 1 else "have"
