"""The findings about settings of topics and brokers that lose records or are incompatible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from gapless_api.base.quantities import duration_text, quantity
from gapless_kafka.writing.control_topic import MAX_TRANSACTION_SECONDS
from gapless_mirror.doctor.findings.wording import names, numbers, verb
from gapless_mirror.doctor.kinds import FindingId, finding
from gapless_mirror.doctor.observed import Cluster, Unknown

if TYPE_CHECKING:
    from gapless_api.wire.doctor_report import DoctorFinding

_REQUEST_OVERHEAD_BYTES = 1024
_BATCH_OVERHEAD_BYTES = 12
"""Of offset and length, which are in Kafka's default of max.message.bytes, and not in replica.fetch.max.bytes."""
_MIN_OFFSETS_RETENTION_MINUTES = 1440


def durability_findings(cluster: Cluster) -> Iterator[DoctorFinding]:
    """Yield settings of checked topics that can lose acknowledged records."""
    unclean = [name for name in cluster.topics if cluster.setting(name, "unclean.leader.election.enable") == "true"]
    if unclean:
        message = (
            f"{quantity(len(unclean), 'topic')} {verb(unclean, 'has', 'have')} unclean.leader.election.enable=true."
        )
        yield finding(FindingId.UNCLEAN_ELECTION, cluster.side, message, where=names(unclean))
    replicas = {name: _replicas(cluster, name) for name in {*cluster.partitions, *cluster.topics}}
    weak = [
        name for name in cluster.topics if replicas[name] >= 3 and cluster.setting(name, "min.insync.replicas") == "1"
    ]
    if weak:
        message = (
            f"{quantity(len(weak), 'topic')} with three or more replicas {verb(weak, 'has', 'have')} "
            f"min.insync.replicas=1."
        )
        yield finding(FindingId.MIN_INSYNC_ONE, cluster.side, message, where=names(weak))
    internal = [name for name in cluster.partitions if name.startswith("__")]
    single = [name for name in {*cluster.topics, *internal} if replicas[name] == 1]
    if single and len(cluster.brokers) > 1:
        message = (
            f"{quantity(len(single), 'topic')} {verb(single, 'has', 'have')} partitions with one replica, and the "
            f"cluster has {len(cluster.brokers)} brokers."
        )
        yield finding(FindingId.SINGLE_REPLICA, cluster.side, message, where=names(single))


def broker_findings(cluster: Cluster) -> Iterator[DoctorFinding]:
    """Yield settings of brokers that Gapless cannot work with."""
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
    minutes = _min(cluster.broker_setting("offsets.retention.minutes"))
    if minutes is not None and minutes < _MIN_OFFSETS_RETENTION_MINUTES:
        message = f"offsets.retention.minutes is {minutes} ({duration_text(60 * minutes)})."
        yield finding(FindingId.OFFSETS_EXPIRE, cluster.side, message)
    allowed_ms = _min(cluster.broker_setting("transaction.max.timeout.ms"))
    requested_ms = int(MAX_TRANSACTION_SECONDS * 1000)
    if cluster.side == "target" and allowed_ms is not None and allowed_ms < requested_ms:
        message = f"transaction.max.timeout.ms is {allowed_ms}, and Gapless requests {requested_ms}."
        yield finding(FindingId.TRANSACTION_TIMEOUT, cluster.side, message)
    yield from _request_sizes(cluster)


def size_findings(source: Cluster, target: Cluster, target_names: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Yield topics for which the source accepts larger messages than the target."""
    broker_limit = _min(target.broker_setting("message.max.bytes"))
    too_large: dict[str, tuple[int, int]] = {}
    unknown = []
    for name, target_name in target_names.items():
        if name not in source.topics:
            continue
        source_limit = _number(source.setting(name, "max.message.bytes"))
        target_limit = _number(target.setting(target_name, "max.message.bytes"))
        if target_limit is None and target_name not in target.topics:
            target_limit = broker_limit
        if source_limit is None or target_limit is None:
            unknown.append(name)
        elif source_limit > target_limit:
            too_large[name] = (source_limit, target_limit)
    if too_large:
        worst = max(too_large, key=lambda name: too_large[name][0] - too_large[name][1])
        message = (
            f"{quantity(len(too_large), 'topic')} may have larger messages than the target accepts; for {worst}, the "
            f"source accepts {too_large[worst][0]:,} bytes and the target {too_large[worst][1]:,}."
        )
        yield finding(FindingId.MESSAGE_TOO_LARGE, "target", message, where=names(too_large))
    if unknown:
        message = (
            f"The message size limit of {quantity(len(unknown), 'topic')} was not checked: max.message.bytes cannot be "
            f"read on both clusters."
        )
        action = "Grant this user the operation DescribeConfigs on the topics of both clusters."
        yield finding(FindingId.NOT_CHECKED, "target", message, where=names(unknown), action=action)


def _request_sizes(cluster: Cluster) -> Iterator[DoctorFinding]:
    request = _min(cluster.broker_setting("socket.request.max.bytes"))
    fetch = _min(cluster.broker_setting("replica.fetch.max.bytes"))
    sizes = {name: _number(cluster.setting(name, "max.message.bytes")) or 0 for name in cluster.topics}
    over = [name for name, size in sizes.items() if request is not None and size + _REQUEST_OVERHEAD_BYTES > request]
    if over:
        message = (
            f"max.message.bytes of {quantity(len(over), 'topic')} is up to {max(sizes[name] for name in over):,}, and "
            f"socket.request.max.bytes is {request:,}."
        )
        yield finding(FindingId.REQUEST_TOO_LARGE, cluster.side, message, where=names(over))
    slow = [
        name
        for name, size in sizes.items()
        if fetch is not None and size > fetch + _BATCH_OVERHEAD_BYTES and _replicas(cluster, name) > 1
    ]
    if slow:
        message = (
            f"max.message.bytes of {quantity(len(slow), 'topic')} is up to {max(sizes[name] for name in slow):,}, and "
            f"replica.fetch.max.bytes is {fetch:,}."
        )
        yield finding(FindingId.REPLICA_FETCH_SMALL, cluster.side, message, where=names(slow))


def _replicas(cluster: Cluster, topic: str) -> int:
    """Return the smallest replication factor of the topic's partitions."""
    return min((len(partition.replicas) for partition in cluster.partitions.get(topic, {}).values()), default=0)


def _min(by_broker: Mapping[int, str]) -> int | None:
    values = [number for number in map(_number, by_broker.values()) if number is not None]
    return min(values, default=None)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.lstrip("-").isdecimal() else None
