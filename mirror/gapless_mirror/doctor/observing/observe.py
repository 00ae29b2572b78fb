"""The order in which both clusters are observed; derives no findings."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError, GaplessError
from gapless_mirror.doctor.observed import GROUP_TOPIC, TRANSACTION_TOPIC, Cluster, Observations, Unreachable
from gapless_mirror.doctor.observing.brokers import bootstrap_brokers, certificates_in_files, connections_to
from gapless_mirror.doctor.observing.cluster import ClusterObserver
from gapless_mirror.doctor.observing.left_out import LeftOut, topics_left_out
from gapless_mirror.doctor.observing.mirror import with_mirror
from gapless_mirror.doctor.observing.partitions import PartitionObserver

if TYPE_CHECKING:
    from gapless_api.wire.doctor_report import Side
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_mirror.doctor.observing.remembered import Remembered
    from gapless_mirror.doctor.settings import DoctorSettings

    Selection = Callable[[Collection[str]], list[str]]
    """Selects the topics to check from the existing topics."""


def observe(settings: DoctorSettings, remembered: Remembered) -> Observations:
    """Observe both clusters. Raises ConfigurationError when settings are wrong."""
    timeout = settings.timeout_seconds

    def source_topics(existing: Collection[str]) -> list[str]:
        selected = {*_selected_topics(settings, existing), *(set(remembered.topics("source")) & set(existing))}
        allowed = settings.allowed_topics
        return sorted(name for name in selected if allowed is None or allowed.allow(name))

    source = _cluster("source", settings.source, source_topics, settings.groups, timeout)
    names = source.checked if isinstance(source, Cluster) else settings.choice.names
    left_out = LeftOut(reasons={})
    target: Cluster | Unreachable | None = None

    def target_names() -> dict[str, str]:
        copied = [name for name in names if name != settings.gap_topic and name not in left_out.reasons]
        return {name: settings.target_topic(name) for name in copied}

    certificates = certificates_in_files(settings.source, cluster="")
    if settings.target is not None:
        target_connection = settings.target

        def target_topics(existing: Collection[str]) -> list[str]:
            nonlocal left_out
            more, mirror = set(remembered.topics("target")), settings.mirror
            if mirror is not None:
                more.add(mirror.control_topic)
                if isinstance(source, Cluster) and mirror.control_topic in existing:
                    clusters = (settings.source, target_connection)
                    left_out = topics_left_out(mirror, names, *clusters, timeout_seconds=timeout)
            return sorted({*target_names().values(), *(more & set(existing))})

        mirror_group = [settings.mirror.group] if settings.mirror is not None else []
        target = _cluster("target", settings.target, target_topics, (), timeout, coordinated=mirror_group)
        certificates += certificates_in_files(settings.target, cluster="target")
    seen = Observations(
        at_ms=time.time() * 1000,
        source=source,
        target=target,
        target_names=target_names(),
        left_out=left_out.reasons,
        unknown=[("target", unknown) for unknown in left_out.unknown],
        certificates=certificates,
        remembered=remembered.identities,
        remembered_clusters=remembered.clusters,
        named={"source": [*settings.choice.names, *filter(None, [settings.gap_topic])]},
        gap_topic=settings.gap_topic,
        transactional_ids=settings.transactional_ids,
        certificate_days=settings.certificate_days,
    )
    return with_mirror(seen, settings)


def _selected_topics(settings: DoctorSettings, existing: Collection[str]) -> list[str]:
    choice = settings.choice
    if not choice.names and choice.is_fixed:
        choice = replace(choice, pattern=re.compile(".*"))
    return [*choice.chosen(existing), *filter(None, [settings.gap_topic])]


def _cluster(  # noqa: PLR0913
    side: Side,
    connection: KafkaConnection,
    selection: Selection,
    groups: Sequence[str],
    timeout_seconds: float,
    *,
    coordinated: Sequence[str] = (),
) -> Cluster | Unreachable:
    """Observe one cluster.

    Args:
        side: source or target.
        connection: to the cluster.
        selection: of the topics to check.
        groups: whose coordinators and positions are checked.
        timeout_seconds: for each request.
        coordinated: groups of which only the coordinators are checked.
    """
    observer = ClusterObserver(connection, timeout_seconds=timeout_seconds)
    try:
        cluster_id, operations = observer.cluster()
        brokers, partitions = observer.metadata()
    except ConfigurationError:
        raise
    except GaplessError as error:
        attempts = connections_to(bootstrap_brokers(connection), connection, timeout_seconds=timeout_seconds)
        return Unreachable(side, connection.bootstrap_servers, str(error), attempts)
    checked = selection(partitions.keys())
    topics, unseen = observer.topics(checked)
    internal = [name for name in (GROUP_TOPIC, TRANSACTION_TOPIC) if name not in partitions]
    cluster = Cluster(
        side=side,
        servers=connection.bootstrap_servers,
        id=cluster_id,
        brokers=brokers,
        partitions=partitions,
        checked=checked,
        operations=operations,
        topics=topics,
        unseen_topics=unseen,
        hidden_topics=frozenset(observer.topics(internal)[1]),
        principal=f"User:{connection.sasl_username}" if connection.sasl_username else "",
        transactional_rules=observer.transactional_rules() if side == "target" else None,
        broker_settings=observer.broker_settings(brokers),
        connections=connections_to(list(brokers.values()), connection, timeout_seconds=timeout_seconds),
    )
    return PartitionObserver(connection, observer, timeout_seconds=timeout_seconds).observe(
        cluster, groups, coordinated
    )
