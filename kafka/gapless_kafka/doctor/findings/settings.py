"""Owns which settings of topics and brokers lose records, or do not fit together along the way of a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_kafka.doctor.findings.places import counted, duration, names, numbers
from gapless_kafka.doctor.kinds import FindingId, finding
from gapless_kafka.doctor.observed import Cluster, Unknown
from gapless_kafka.writing.control_topic import MAX_TRANSACTION_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gapless_api.wire.doctor_report import DoctorFinding

_REQUEST_OVERHEAD_BYTES = 1024
_LEAST_OFFSET_RETENTION_MINUTES = 1440


def durability_findings(cluster: Cluster) -> Iterator[DoctorFinding]:
    """Settings of checked topics by which acknowledged records can be lost."""
    unclean = [name for name in cluster.topics if cluster.setting(name, "unclean.leader.election.enable") == "true"]
    if unclean:
        message = f"{counted(len(unclean), 'topic')} {_has(unclean)} unclean.leader.election.enable=true."
        yield finding(FindingId.UNCLEAN_ELECTION, cluster.side, message, where=names(unclean))
    replicas = {name: _replicas(cluster, name) for name in cluster.partitions}
    loose = [
        name for name in cluster.topics if replicas[name] >= 3 and cluster.setting(name, "min.insync.replicas") == "1"
    ]
    if loose:
        message = f"{counted(len(loose), 'topic')} with three or more replicas {_has(loose)} min.insync.replicas=1."
        yield finding(FindingId.MIN_INSYNC_ONE, cluster.side, message, where=names(loose))
    internal = [name for name in cluster.partitions if name.startswith("__")]
    single = [name for name in {*cluster.topics, *internal} if replicas[name] == 1]
    if single and len(cluster.brokers) > 1:
        message = (
            f"{counted(len(single), 'topic')} {_has(single)} partitions with one replica, and the cluster has "
            f"{len(cluster.brokers)} brokers."
        )
        yield finding(FindingId.SINGLE_REPLICA, cluster.side, message, where=names(single))


def broker_findings(cluster: Cluster) -> Iterator[DoctorFinding]:
    """Settings of brokers that break what Gapless does."""
    if isinstance(cluster.broker_settings, Unknown):
        yield finding(
            FindingId.NOT_CHECKED,
            cluster.side,
            f"The settings of the brokers were not checked: {cluster.broker_settings.reason}.",
            action="Grant this user the operation DescribeConfigs on the cluster.",
        )
        return
    creating = [
        number for number, value in cluster.broker_setting("auto.create.topics.enable").items() if value == "true"
    ]
    if creating:
        message = f"auto.create.topics.enable is true on broker {numbers(creating)}."
        yield finding(FindingId.AUTO_CREATE, cluster.side, message, where=f"broker {numbers(creating)}")
    minutes = _least(cluster.broker_setting("offsets.retention.minutes"))
    if minutes is not None and minutes < _LEAST_OFFSET_RETENTION_MINUTES:
        message = f"offsets.retention.minutes is {minutes}, which is {duration(60 * minutes)}."
        yield finding(FindingId.OFFSETS_EXPIRE, cluster.side, message)
    longest = _least(cluster.broker_setting("transaction.max.timeout.ms"))
    needed = int(MAX_TRANSACTION_SECONDS * 1000)
    if cluster.side == "target" and longest is not None and longest < needed:
        message = f"transaction.max.timeout.ms is {longest}, and Gapless requests {needed}."
        yield finding(FindingId.TRANSACTION_TIMEOUT, cluster.side, message)
    yield from _request_sizes(cluster)


def size_findings(source: Cluster, target: Cluster, target_names: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Topics of which the source takes larger messages than the target."""
    of_brokers = _least(target.broker_setting("message.max.bytes"))
    too_large: dict[str, tuple[int, int]] = {}
    unknown = []
    for name in source.topics:
        of_source = _number(source.setting(name, "max.message.bytes"))
        of_target = _number(target.setting(target_names[name], "max.message.bytes"))
        if of_target is None and target_names[name] not in target.topics:
            of_target = of_brokers
        if of_source is None or of_target is None:
            unknown.append(name)
        elif of_source > of_target:
            too_large[name] = (of_source, of_target)
    if too_large:
        worst = max(too_large, key=lambda name: too_large[name][0] - too_large[name][1])
        message = (
            f"{counted(len(too_large), 'topic')} may hold larger messages than the target takes; of {worst} the source "
            f"takes {too_large[worst][0]:,} bytes and the target {too_large[worst][1]:,}."
        )
        yield finding(FindingId.MESSAGE_TOO_LARGE, "target", message, where=names(too_large))
    if unknown:
        message = (
            f"Whether messages of {counted(len(unknown), 'topic')} fit into the target was not checked: "
            f"max.message.bytes is not shown on both sides."
        )
        action = "Grant this user the operation DescribeConfigs on the topics of both clusters."
        yield finding(FindingId.NOT_CHECKED, "target", message, where=names(unknown), action=action)


def _request_sizes(cluster: Cluster) -> Iterator[DoctorFinding]:
    request = _least(cluster.broker_setting("socket.request.max.bytes"))
    fetch = _least(cluster.broker_setting("replica.fetch.max.bytes"))
    sizes = {name: _number(cluster.setting(name, "max.message.bytes")) or 0 for name in cluster.topics}
    over = [name for name, size in sizes.items() if request is not None and size + _REQUEST_OVERHEAD_BYTES > request]
    if over:
        message = (
            f"max.message.bytes of {counted(len(over), 'topic')} is up to {max(sizes[name] for name in over):,}, and "
            f"socket.request.max.bytes is {request:,}."
        )
        yield finding(FindingId.REQUEST_TOO_LARGE, cluster.side, message, where=names(over))
    slow = [name for name, size in sizes.items() if fetch is not None and size > fetch and _replicas(cluster, name) > 1]
    if slow:
        message = (
            f"max.message.bytes of {counted(len(slow), 'topic')} is up to {max(sizes[name] for name in slow):,}, and "
            f"replica.fetch.max.bytes is {fetch:,}."
        )
        yield finding(FindingId.REPLICA_FETCH_SMALL, cluster.side, message, where=names(slow))


def _replicas(cluster: Cluster, topic: str) -> int:
    """The fewest replicas that a partition of the topic has."""
    return min((len(partition.replicas) for partition in cluster.partitions.get(topic, {}).values()), default=0)


def _least(by_broker: Mapping[int, str]) -> int | None:
    found = [number for number in map(_number, by_broker.values()) if number is not None]
    return min(found, default=None)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.lstrip("-").isdecimal() else None


def _has(found: list[str]) -> str:
    return "has" if len(found) == 1 else "have"
