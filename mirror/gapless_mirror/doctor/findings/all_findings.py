"""The list of all findings and their order: the worst first, then in the order of the table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gapless_api.base.quantities import quantity
from gapless_api.wire.doctor_report import SEVERITIES, DoctorFinding
from gapless_mirror.doctor.findings.certificates import certificate_findings, connection_findings
from gapless_mirror.doctor.findings.replicas import coordinator_findings, probe_findings, replica_findings
from gapless_mirror.doctor.findings.rights import right_findings, transaction_findings
from gapless_mirror.doctor.findings.settings import broker_findings, durability_findings, size_findings
from gapless_mirror.doctor.findings.times import clock_findings, future_findings, group_findings, timestamp_findings
from gapless_mirror.doctor.findings.topics import (
    compaction_findings,
    identity_findings,
    left_out_findings,
    loop_findings,
    missing_findings,
    position_findings,
)
from gapless_mirror.doctor.findings.wording import partitions
from gapless_mirror.doctor.kinds import FindingId, finding
from gapless_mirror.doctor.observed import Cluster, Observations, PartitionOffsets, Unreachable

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition

_RANK = {str(kind): rank for rank, kind in enumerate(FindingId)}


def findings_of(seen: Observations) -> list[DoctorFinding]:
    """Return all findings, including those for checks that could not be made."""
    return in_order(_all(seen))


def in_order(findings: Iterable[DoctorFinding]) -> list[DoctorFinding]:
    """Sort findings by severity, kind, side and location."""
    return sorted(findings, key=lambda item: (SEVERITIES.index(item.severity), _RANK[item.id], item.side, item.where))


def _all(seen: Observations) -> Iterator[DoctorFinding]:
    for cluster in (seen.source, seen.target):
        if isinstance(cluster, Unreachable):
            yield finding(FindingId.CLUSTER_UNREACHABLE, cluster.side, cluster.problem, where=cluster.servers)
            yield from _connections(seen, cluster)
        elif cluster is not None:
            yield from _cluster(seen, cluster)
    yield from certificate_findings("local", seen.certificates, at_ms=seen.at_ms, days=seen.certificate_days)
    if isinstance(seen.source, Cluster) and isinstance(seen.target, Cluster):
        route = (seen.source, seen.target, seen.target_names)
        yield from loop_findings(*route)
        yield from size_findings(*route)
        yield from timestamp_findings(*route)
    yield from identity_findings(seen.clusters(), seen.remembered, seen.remembered_clusters)
    yield from position_findings(seen.position_differences)
    yield from left_out_findings(seen.left_out)
    for side, unknown in seen.unknown:
        yield finding(FindingId.NOT_CHECKED, side, f"{unknown.reason}.")


def _cluster(seen: Observations, cluster: Cluster) -> Iterator[DoctorFinding]:
    yield from _connections(seen, cluster)
    yield from replica_findings(cluster)
    yield from coordinator_findings(cluster, seen.transactional_ids)
    yield from probe_findings(cluster)
    yield from missing_findings(cluster, seen.named.get(cluster.side, ()))
    to_create = set()
    if cluster.side == "target":
        to_create = {*seen.target_names.values()} - cluster.topics.keys() - cluster.unseen_topics.keys()
    yield from right_findings(cluster, to_create=to_create)
    yield from durability_findings(cluster)
    yield from broker_findings(cluster)
    yield from clock_findings(cluster)
    yield from future_findings(cluster, seen.at_ms)
    yield from group_findings(cluster, seen.at_ms)
    yield from _unknown_offsets(cluster)
    if cluster.side == "source" and seen.gap_topic is not None:
        yield from compaction_findings(cluster, seen.gap_topic, FindingId.GAP_TOPIC_NOT_COMPACTED)
    if cluster.side == "target":
        yield from transaction_findings(cluster, seen.transactional_ids)
    if cluster.side == "target" and seen.control_topic is not None:
        yield from compaction_findings(cluster, seen.control_topic, FindingId.CONTROL_TOPIC_NOT_COMPACTED)


def _connections(seen: Observations, cluster: Cluster | Unreachable) -> Iterator[DoctorFinding]:
    yield from connection_findings(cluster.side, cluster.connections)
    certificates = (certificate for connection in cluster.connections for certificate in connection.certificates)
    yield from certificate_findings(cluster.side, certificates, at_ms=seen.at_ms, days=seen.certificate_days)


def _unknown_offsets(cluster: Cluster) -> Iterator[DoctorFinding]:
    reasons: dict[str, list[TopicPartition]] = {}
    for partition, offsets in cluster.offsets.items():
        if not isinstance(offsets, PartitionOffsets):
            reasons.setdefault(offsets.reason, []).append(partition)
    for reason, unchecked in reasons.items():
        message = f"The offsets of {quantity(len(unchecked), 'partition')} were not checked: {reason}."
        yield finding(FindingId.NOT_CHECKED, cluster.side, message, where=partitions(unchecked))
