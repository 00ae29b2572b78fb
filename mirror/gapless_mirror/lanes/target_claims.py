"""What the positions of a mirror say about its target topics: those that had copies, and their state now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from gapless_kafka.access.admin import ELECTION_SECONDS
from gapless_kafka.reading.topic_offsets import read_cut
from gapless_kafka.topics.leaderless import denied_topics, leaderless_by_topic
from gapless_kafka.topics.target_topics import TargetTopics
from gapless_mirror.lanes.claims import LogNow, compare_target, log_in
from gapless_mirror.lanes.control import read_lanes

if TYPE_CHECKING:
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.reading.cuts import TopicCut


class SeenLogs(NamedTuple):
    """The logs of topics as a cluster says that they are now."""

    cuts: dict[str, TopicCut]
    """The topics that exist, by name; the offsets of partitions without a leader are unknown."""
    denied: set[str]
    """Topics of which this user may not even know whether they exist."""

    def log(self, topic: str, partition: int, *, is_target: bool = False) -> LogNow | None:
        """Return the log of a partition; ``None`` where nothing is known."""
        if topic in self.denied:
            return None
        return log_in(self.cuts.get(topic), partition, is_target=is_target)

    def why_unknown(self, topic: str, partition: int) -> str:
        """Say why nothing is known of a partition; empty if it is known."""
        if topic in self.denied:
            return f"denies Describe on the topic {topic}; grant it to this user"
        cut = self.cuts.get(topic)
        if cut is None:
            return ""
        if partition >= len(cut.end_offsets):
            return f"has no partition {partition} of the topic {topic}; add partitions, or correct the name"
        if cut.end_offsets[partition] < 0:
            return f"has no leader for {topic}/{partition}; start the brokers of its replicas, or reassign it"
        return ""


def see_logs(
    connection: KafkaConnection,
    topics: Iterable[str],
    *,
    timeout_seconds: float,
    election_seconds: float = ELECTION_SECONDS,
) -> SeenLogs:
    """Return the current extent of topics. What is unknown of one partition does not hide the others.

    Args:
        connection: to the cluster.
        topics: their names.
        timeout_seconds: of each request.
        election_seconds: how long other leaders are waited for, once Kafka answers.

    Raises:
        SourceUnreachableError: the cluster does not answer.
    """
    wanted = set(topics)
    if not wanted:
        return SeenLogs({}, set())
    leaderless = leaderless_by_topic(connection, timeout_seconds=timeout_seconds)
    present = sorted(wanted & leaderless.keys())
    denied = denied_topics(connection, wanted - leaderless.keys(), timeout_seconds=timeout_seconds)
    if not present:
        return SeenLogs({}, denied)
    cut = read_cut(
        connection, present, timeout_seconds=timeout_seconds, without=leaderless, election_seconds=election_seconds
    )
    return SeenLogs({topic.topic: topic for topic in cut.topics}, denied)


def lost_targets(
    connection: KafkaConnection, control_topic: str, missing: Mapping[str, str], *, timeout_seconds: float
) -> dict[str, str]:
    """Return why missing target topics had copies, by source topic; those without copies are left out.

    Args:
        connection: to the target.
        control_topic: of the mirror.
        missing: target topics that do not exist, by source topic.
        timeout_seconds: of each request.

    Raises:
        GaplessError: the target does not answer, or a position cannot be read.
    """
    control = TargetTopics(connection, timeout_seconds=timeout_seconds).describe([control_topic]).get(control_topic)
    if control is None:
        return {}
    lost: dict[str, str] = {}
    for state in read_lanes(connection, control_topic, range(control.partitions)).values():
        for (topic, number), position in sorted(state.positions.items()):
            if missing.get(topic) != position.target:
                continue
            found = compare_target(f"{topic}/{number}", position, LogNow(exists=False))
            if found.is_loss:
                lost.setdefault(topic, found.sentence)
    return lost
