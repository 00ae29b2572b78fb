"""Owns how all positions of a mirror are compared with what both clusters say now, for programs that copy nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from gapless_kafka.mirror.lanes.claims import Comparison, PositionState, compare_position, log_in
from gapless_kafka.mirror.lanes.control import read_lanes
from gapless_kafka.mirror.lanes.identity import HEARTBEAT_TOPIC
from gapless_kafka.mirror.lanes.target_claims import present_cuts
from gapless_kafka.reading.log_truncation import LogPosition, find_truncated
from gapless_kafka.topics.target_topics import TargetTopics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.mirror.lanes.claims import LogNow
    from gapless_kafka.mirror.lanes.records import LanePosition


class Compared(NamedTuple):
    """A position, and how it compares with both clusters."""

    position: LanePosition
    comparison: Comparison
    source: LogNow | None
    """``None`` for a partition that the source topic does not have."""
    target: LogNow | None


def compare_mirror(
    control_topic: str, source: KafkaConnection, target: KafkaConnection, *, timeout_seconds: float
) -> dict[TopicPartition, Compared]:
    """Compare all positions of a mirror; nothing before its first run. Raises GaplessError."""
    found = TargetTopics(target, timeout_seconds=timeout_seconds).describe([control_topic]).get(control_topic)
    lanes = read_lanes(target, control_topic, range(found.partitions)) if found is not None else {}
    positions = {each: position for state in lanes.values() for each, position in state.positions.items()}
    return compare_all(positions, source, target, timeout_seconds=timeout_seconds)


def compare_all(
    positions: Mapping[TopicPartition, LanePosition],
    source: KafkaConnection,
    target: KafkaConnection,
    *,
    timeout_seconds: float,
) -> dict[TopicPartition, Compared]:
    """Compare positions, which were read before this is called, with both clusters.

    Heartbeats are left out: their copies may be lost.

    Raises:
        SourceUnreachableError: a cluster does not answer.
    """
    claims = {each: position for each, position in positions.items() if each[0] != HEARTBEAT_TOPIC}
    sources = present_cuts(source, {topic for topic, _ in claims}, timeout_seconds=timeout_seconds)
    targets = present_cuts(target, {claim.target for claim in claims.values()}, timeout_seconds=timeout_seconds)
    logs = {
        each: (log_in(sources.get(each[0]), each[1]), log_in(targets.get(claim.target), each[1], is_target=True))
        for each, claim in claims.items()
    }
    same = [
        LogPosition(*each, claim.epoch_end, claim.leader_epoch)
        for each, claim in claims.items()
        if claim.epoch_end is not None
        and claim.leader_epoch is not None
        and compare_position("", claim, *logs[each]).state is PositionState.HOLDS
        and _is_in(claim.epoch_end, logs[each][0])
    ]
    diverged = find_truncated(source, same)
    compared = {}
    for each, claim in claims.items():
        in_source, in_target = logs[each]
        if in_source is not None and each in diverged:
            in_source = replace(in_source, diverged_at=diverged[each])
        found = compare_position("{}/{}".format(*each), claim, in_source, in_target)
        compared[each] = Compared(claim, found, in_source, in_target)
    return compared


def _is_in(epoch_end: int, source: LogNow | None) -> bool:
    """Whether the log has the end of what is known of the leader epoch."""
    return source is not None and source.start <= epoch_end <= source.end
