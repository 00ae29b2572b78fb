"""How all positions of a mirror are compared with what both clusters say now, for programs that copy nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from gapless_kafka.topics.target_topics import TargetTopics
from gapless_mirror.lanes.added_partitions import not_begun
from gapless_mirror.lanes.claims import (
    Comparison,
    LogNow,
    PositionState,
    compare_position,
    compare_source,
    compare_target,
)
from gapless_mirror.lanes.control import read_lanes
from gapless_mirror.lanes.divergence import Divergence, find_diverged, source_claim, target_claim
from gapless_mirror.lanes.identity import HEARTBEAT_TOPIC
from gapless_mirror.lanes.layout import lanes_of
from gapless_mirror.lanes.target_claims import see_logs

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_mirror.lanes.records import LanePosition


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
    states = read_lanes(target, control_topic, range(found.partitions)) if found is not None else {}
    lanes = lanes_of(control_topic, found.partitions, states) if found is not None else 0
    positions = {each: position for lane in range(lanes) for each, position in states[lane].positions.items()}
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
    sources = see_logs(source, {topic for topic, _ in claims}, timeout_seconds=timeout_seconds)
    targets = see_logs(target, {claim.target for claim in claims.values()}, timeout_seconds=timeout_seconds)
    logs = {
        each: (sources.log(*each), targets.log(claim.target, each[1], is_target=True)) for each, claim in claims.items()
    }
    may_hold = {each: claim for each, claim in claims.items() if not compare_position("", claim, *logs[each]).is_loss}
    in_sources = find_diverged(source, {each: (source_claim(may_hold[each]), logs[each][0]) for each in may_hold})
    # whatever is wrong with the source: a loss in the target comes first
    have_targets = {
        each: claim for each, claim in claims.items() if not compare_target("", claim, logs[each][1]).is_loss
    }
    in_targets = find_diverged(
        target, {(claim.target, each[1]): (target_claim(claim), logs[each][1]) for each, claim in have_targets.items()}
    )
    compared = {}
    for each, claim in claims.items():
        at = (claim.target, each[1])
        in_source = _with_divergence(logs[each][0], each, in_sources)
        in_target = _with_divergence(logs[each][1], at, in_targets)
        found = compare_position("{}/{}".format(*each), claim, in_source, in_target)
        if found.state is PositionState.UNKNOWN:
            reasons = (
                ("source", sources.why_unknown(*each) or in_sources.why_unanswered(each)),
                ("target", targets.why_unknown(*at) or in_targets.why_unanswered(at)),
            )
            shown = "; ".join(f"the {side} {reason}" for side, reason in reasons if reason)
            found = replace(found, sentence=f"Nothing is known of {each[0]}/{each[1]}: {shown}.")
        compared[each] = Compared(claim, found, in_source, in_target)
    return compared


def compare_not_begun(
    positions: Mapping[TopicPartition, LanePosition], source: KafkaConnection, *, timeout_seconds: float
) -> dict[TopicPartition, Compared]:
    """Compare with the source where a mirror will begin the partitions of its topics of which it has no position.

    Raises:
        SourceUnreachableError: the source does not answer.
    """
    sources = see_logs(source, {topic for topic, _ in positions} - {HEARTBEAT_TOPIC}, timeout_seconds=timeout_seconds)
    compared = {}
    for each, start in not_begun(positions, sources.cuts).items():
        log = sources.log(*each)
        found = compare_source("{}/{}".format(*each), start, log)
        if found.state is PositionState.UNKNOWN:
            reason = sources.why_unknown(*each)
            found = replace(found, sentence=f"Nothing is known of {each[0]}/{each[1]}: the source {reason}.")
        compared[each] = Compared(start, found, log, None)
    return compared


def _with_divergence(log: LogNow | None, topic_partition: TopicPartition, found: Divergence) -> LogNow | None:
    """Return a log with what its leader has answered; ``None`` if it has not answered."""
    if log is None or topic_partition in found.errors:
        return None
    return replace(log, diverged_at=found.ends.get(topic_partition))
