"""The findings about topics that are missing, recreated, copied to themselves, or not compacted."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gapless_api.base.quantities import quantity
from gapless_api.gaps.cleanup_policy import COMPACT, normal_policy
from gapless_mirror.doctor.findings.wording import names, verb
from gapless_mirror.doctor.kinds import FindingId, finding
from gapless_mirror.doctor.observed import Cluster, Identity, Unknown

if TYPE_CHECKING:
    from gapless_api.wire.doctor_report import DoctorFinding, Side


def missing_findings(cluster: Cluster, named: Collection[str]) -> Iterator[DoctorFinding]:
    """Yield named topics that do not exist, and topics that could not be checked."""
    missing = [name for name in named if name not in cluster.topics and name not in cluster.unseen_topics]
    if missing:
        yield finding(
            FindingId.TOPIC_MISSING,
            cluster.side,
            f"{quantity(len(missing), 'topic')} {verb(missing, 'does', 'do')} not exist.",
            where=names(missing),
        )
    for name, unknown in sorted(cluster.unseen_topics.items()):
        yield finding(
            FindingId.NOT_CHECKED,
            cluster.side,
            f"The topic {name} was not checked: {unknown.reason}.",
            where=name,
            action="Grant this user the operation Describe on it.",
        )
    unchecked = {
        name: details.configuration.reason
        for name, details in cluster.topics.items()
        if isinstance(details.configuration, Unknown)
    }
    if unchecked:
        yield finding(
            FindingId.NOT_CHECKED,
            cluster.side,
            f"The settings of {quantity(len(unchecked), 'topic')} were not checked: {next(iter(unchecked.values()))}.",
            where=names(unchecked),
            action="Grant this user the operation DescribeConfigs on them.",
        )


def identity_findings(
    clusters: Mapping[Side, Cluster], remembered: Sequence[Identity], remembered_clusters: Mapping[Side, str]
) -> Iterator[DoctorFinding]:
    """Yield topics and clusters whose IDs have changed."""
    changed = set()
    for side, known in remembered_clusters.items():
        cluster = clusters.get(side)
        if cluster is not None and known and cluster.id and cluster.id != known:
            changed.add(side)
            message = f"The cluster at {cluster.servers} has the ID {cluster.id}; the earlier report has {known}."
            yield finding(FindingId.CLUSTER_CHANGED, side, message)
    seen = set()
    for identity in remembered:
        side, topic, topic_id = identity.side, identity.topic, identity.id
        cluster = clusters.get(side)
        if cluster is None or side in changed or (side, topic, topic_id) in seen:
            continue
        seen.add((side, topic, topic_id))
        details = cluster.topics.get(topic)
        if details is None:
            if topic not in cluster.partitions and topic not in cluster.unseen_topics:
                message = f"The topic {topic} does not exist; {identity.where} has it with the topic ID {topic_id}."
                yield finding(FindingId.TOPIC_MISSING, side, message, where=topic)
        elif topic_id and details.id and details.id != topic_id:
            message = (
                f"The topic {topic} was deleted and recreated (topic ID {topic_id} -> {details.id}); "
                f"{identity.where} has the old ID."
            )
            yield finding(FindingId.TOPIC_RECREATED, side, message, where=topic)


def position_findings(differences: Sequence[tuple[str, str, str]]) -> Iterator[DoctorFinding]:
    """Yield positions of a mirror that do not hold; others report recreated source topics, and expired records."""
    for where, state, sentence in differences:
        if state.startswith("Target"):
            yield finding(FindingId(state), "target", sentence, where=where)
        elif state == FindingId.SOURCE_TRUNCATED:
            yield finding(FindingId.SOURCE_TRUNCATED, "source", sentence, where=where)


def left_out_findings(left_out: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Yield the topics that a mirror does not copy."""
    for topic, why in sorted(left_out.items()):
        yield finding(FindingId.TOPIC_LEFT_OUT, "source", f"{why}; the mirror does not copy it.", where=topic)


def loop_findings(source: Cluster, target: Cluster, target_names: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Yield topics that would be copied to themselves."""
    same = [name for name, target_name in target_names.items() if name in source.topics and target_name == name]
    if source.id and source.id == target.id and same:
        message = (
            f"Source and target are the same cluster ({source.id}), and {quantity(len(same), 'topic')} would be copied "
            f"to {verb(same, 'itself', 'themselves')}."
        )
        yield finding(FindingId.SAME_CLUSTER, "target", message, where=names(same))


def compaction_findings(cluster: Cluster, topic: str, kind: FindingId) -> Iterator[DoctorFinding]:
    """Yield a topic with gap records, or a control topic, that is not compacted."""
    policy = cluster.setting(topic, "cleanup.policy")
    if topic not in cluster.topics:
        return  # `missing_findings` reports it
    if policy is None:
        message = f"The cleanup policy of the topic {topic} was not checked: its settings could not be read."
        action = "Check the brokers, and grant this user the operation DescribeConfigs on the topic."
        yield finding(FindingId.NOT_CHECKED, cluster.side, message, where=topic, action=action)
    elif normal_policy(policy) != COMPACT:
        message = f"The topic {topic} has cleanup.policy={normal_policy(policy)} instead of compact."
        yield finding(kind, cluster.side, message, where=topic)
