"""Owns what the positions of a mirror say about its target topics: those that had copies, and their state now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_kafka.mirror.lanes.claims import LogNow, compare_target
from gapless_kafka.mirror.lanes.control import read_lanes
from gapless_kafka.reading.topic_offsets import read_cut
from gapless_kafka.topics.target_topics import TargetTopics
from gapless_kafka.topics.topic_choice import existing_topics

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.reading.cuts import TopicCut


def present_cuts(connection: KafkaConnection, topics: Iterable[str], *, timeout_seconds: float) -> dict[str, TopicCut]:
    """Return the current extent of those topics that exist, by name. Raises SourceUnreachableError."""
    wanted = set(topics)
    if not wanted:
        return {}
    present = sorted(wanted.intersection(existing_topics(connection, timeout_seconds=timeout_seconds)))
    cuts = read_cut(connection, present, timeout_seconds=timeout_seconds).topics if present else ()
    return {cut.topic: cut for cut in cuts}


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
