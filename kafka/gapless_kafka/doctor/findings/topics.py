"""Owns what is wrong with topics as such: missing, recreated, copied onto themselves, or not compacted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_api.gaps.cleanup_policy import COMPACT, normal_policy
from gapless_kafka.doctor.findings.places import counted, names
from gapless_kafka.doctor.kinds import FindingId, finding
from gapless_kafka.doctor.observed import Cluster, Unknown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from gapless_api.wire.doctor_report import DoctorFinding, Side
    from gapless_kafka.doctor.observed import Identity


def missing_findings(cluster: Cluster, named: Collection[str]) -> Iterator[DoctorFinding]:
    """Topics that were named and do not exist, and those that are not shown."""
    gone = [name for name in named if name not in cluster.topics and name not in cluster.unseen_topics]
    if gone:
        yield finding(
            FindingId.TOPIC_MISSING,
            cluster.side,
            f"{counted(len(gone), 'topic')} {'does' if len(gone) == 1 else 'do'} not exist.",
            where=names(gone),
        )
    for name, unknown in sorted(cluster.unseen_topics.items()):
        yield finding(
            FindingId.NOT_CHECKED,
            cluster.side,
            f"The topic {name} was not checked: {unknown.reason}.",
            where=name,
            action="Grant this user the operation Describe on it.",
        )
    blind = {
        name: details.configuration.reason
        for name, details in cluster.topics.items()
        if isinstance(details.configuration, Unknown)
    }
    if blind:
        yield finding(
            FindingId.NOT_CHECKED,
            cluster.side,
            f"The settings of {counted(len(blind), 'topic')} were not checked: {next(iter(blind.values()))}.",
            where=names(blind),
            action="Grant this user the operation DescribeConfigs on them.",
        )


def identity_findings(
    clusters: Mapping[Side, Cluster], remembered: Sequence[Identity], remembered_clusters: Mapping[Side, str]
) -> Iterator[DoctorFinding]:
    """Topics and clusters that are not those that are remembered."""
    changed = set()
    for side, known in remembered_clusters.items():
        cluster = clusters.get(side)
        if cluster is not None and known and cluster.id and cluster.id != known:
            changed.add(side)
            message = f"The cluster at {cluster.servers} has the ID {cluster.id}, and {known} is remembered."
            yield finding(FindingId.CLUSTER_CHANGED, side, message)
    seen = set()
    for one in remembered:
        cluster = clusters.get(one.side)
        if cluster is None or one.side in changed or (one.side, one.topic, one.id) in seen:
            continue
        seen.add((one.side, one.topic, one.id))
        details = cluster.topics.get(one.topic)
        if details is None:
            if one.topic not in cluster.partitions and one.topic not in cluster.unseen_topics:
                message = f"The topic {one.topic} (topic ID {one.id}, remembered in {one.where}) does not exist."
                yield finding(FindingId.TOPIC_MISSING, one.side, message, where=one.topic)
        elif one.id and details.id and details.id != one.id:
            message = (
                f"The topic {one.topic} was deleted and recreated (topic ID {one.id} -> {details.id}); {one.where} "
                f"remembers the first."
            )
            yield finding(FindingId.TOPIC_RECREATED, one.side, message, where=one.topic)


def loop_findings(source: Cluster, target: Cluster, target_names: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """A target that is the source."""
    same = [name for name in source.topics if target_names.get(name, name) == name]
    if source.id and source.id == target.id and same:
        message = (
            f"Source and target are the same cluster ({source.id}), and {counted(len(same), 'topic')} would be copied "
            f"into {'itself' if len(same) == 1 else 'themselves'}."
        )
        yield finding(FindingId.SAME_CLUSTER, "target", message, where=names(same))


def compaction_findings(cluster: Cluster, topic: str, kind: FindingId) -> Iterator[DoctorFinding]:
    """A topic with gap records, or a control topic, that is not compacted."""
    policy = cluster.setting(topic, "cleanup.policy")
    if topic not in cluster.topics:
        return  # `missing_findings` says so
    if policy is None:
        message = f"Whether the topic {topic} is compacted was not checked: its settings are not shown."
        action = "Grant this user the operation DescribeConfigs on it."
        yield finding(FindingId.NOT_CHECKED, cluster.side, message, where=topic, action=action)
    elif normal_policy(policy) != COMPACT:
        message = f"The topic {topic} has cleanup.policy={normal_policy(policy)} and requires compact."
        yield finding(kind, cluster.side, message, where=topic)
