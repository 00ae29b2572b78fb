"""The rules that find out why partitions and lanes of a mirror make no progress at the moment. Pure.

The first rule of `_PARTITION_RULES` that applies to a partition gives its only reason. A cause that concerns a whole
lane or cluster is found once and not for each partition. A cause that lasts becomes a stall: see
`gapless_mirror.watch.tracker`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from gapless_api.wire.mirror_progress import StallReason
from gapless_kafka.access.errors import NO_TOPIC, fault_of
from gapless_kafka.topics.topic_ids import url_safe_topic_id
from gapless_mirror.lanes.claims import target_deleted_sentence
from gapless_mirror.lanes.identity import HEARTBEAT_TOPIC
from gapless_mirror.lanes.observations import LaneObservation, LanePhase, SeenError
from gapless_mirror.lanes.unexpected import COPY_FAILED
from gapless_mirror.watch.facts import ClusterSnapshot, MirrorFacts, PartitionFacts, reached_offset
from gapless_mirror.watch.fault_reasons import reason_of

STUCK_AFTER_SECONDS = 20.0
"""A lane updates `tick_at` many times a second, and each of its calls of Kafka's clients returns sooner than this."""
HEARTBEAT_TIMEOUT_SECONDS = 20.0
LIMITED_SECONDS = 60.0
"""For this long after a lane was rate limited, slow partitions are not reported."""
ERROR_LASTS_SECONDS = 60.0
"""Kafka's client reports a read error once, and not its end. Without lag, the error is ignored after this time."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a partition, a lane or the mirror makes no progress."""

    reason: StallReason
    sentence: str
    topic: str = ""
    """Of the source; empty when no single topic is concerned."""
    partition: int | None = None
    lane: int | None = None
    instance: int = 0
    """Tells causes of the same kind apart, such as an offset: a cause with a new value has just begun."""
    is_certain: bool = False
    """Whether it is a stall at once, without having to last."""


def causes(facts: MirrorFacts) -> Iterator[Cause]:
    """Find everything that prevents progress at the moment; nothing for a healthy or idle mirror."""
    for problem in facts.problems:
        yield Cause(StallReason(problem.reason), problem.message, problem.topic, is_certain=True)
    yield from _of_silent_workers(facts)
    of_clusters = [*_of_cluster(facts.source), *_of_cluster(facts.target), *_of_coordinators(facts.target, None)]
    yield from of_clusters
    if not of_clusters:
        denied = list(_of_group(facts))
        yield from denied or _of_other_workers(facts)
    for lane in facts.lanes:
        of_lane = [] if of_clusters else list(_of_lane(lane, facts))
        yield from of_lane
        is_limited = lane.limited_at is not None and facts.now - lane.limited_at < LIMITED_SECONDS
        yield from _of_partitions(lane, facts, explained=bool(of_clusters or of_lane) or is_limited)


def is_idle(facts: MirrorFacts) -> bool:
    """Whether everything in the source is copied, including open transactions; false without lanes."""
    if facts.source.fault is not None or not facts.lanes:
        return False
    for lane in facts.lanes:
        if not lane.partitions and lane.phase is not LanePhase.COPYING:
            return False  # its partitions are not known yet
        for observed in lane.partitions:
            if observed.topic == HEARTBEAT_TOPIC:
                continue
            partition = facts.source.partition(observed.topic, observed.partition)
            ends = None if partition is None else partition.ends
            if (observed.topic, observed.partition) in facts.beyond_end:
                return False
            if ends is None or reached_offset(observed, lane) < ends.high_watermark:
                return False
    return True


def _of_cluster(cluster: ClusterSnapshot) -> Iterator[Cause]:
    side, fault = cluster.side, cluster.fault
    if fault is None:
        return
    if reason_of(fault.side, fault.name) is StallReason.AUTHORIZATION_FAILED:
        sentence = f"The {side} refuses the mirror ({fault.text}); check the login settings and the rights."
        yield Cause(StallReason.AUTHORIZATION_FAILED, sentence, is_certain=True)
        return
    sentence = f"The {side} does not answer ({fault.text}); check its address, network and brokers."
    yield Cause(StallReason.LEADER_MISSING, sentence)


def _of_coordinators(target: ClusterSnapshot, lane: int | None) -> Iterator[Cause]:
    for coordinator in target.coordinators:
        concerns = not coordinator.lanes if lane is None else lane in coordinator.lanes
        if concerns and not _is_online(coordinator.leader, target):
            sentence = (
                f"The target has no coordinator for {coordinator.what}: {coordinator.partition} has no leader "
                f"(replicas on {_listed(coordinator.replicas)}; registered brokers {_listed(target.brokers)}); start "
                f"these brokers, or reassign the partition."
            )
            yield Cause(StallReason.COORDINATOR_UNAVAILABLE, sentence, lane=lane)


def _of_lane(lane: LaneObservation, facts: MirrorFacts) -> Iterator[Cause]:
    without_coordinator = next(_of_coordinators(facts.target, lane.lane), None)
    if without_coordinator is not None:
        yield without_coordinator
        return
    error = lane.error
    if lane.stop is not None:
        yield Cause(StallReason(lane.stop.reason), lane.stop.message, lane=lane.lane, is_certain=True)
    elif error is not None and error.name == COPY_FAILED:
        yield Cause(StallReason.COPY_FAILED, error.message, lane=lane.lane, is_certain=True)
    elif error is not None and lane.phase in {LanePhase.RETRYING, LanePhase.OPENING}:
        reason = reason_of("target", error.name)
        sentence = f"Lane {lane.lane} keeps failing: {error.message}"
        yield Cause(reason, sentence, lane=lane.lane, is_certain=reason is StallReason.AUTHORIZATION_FAILED)
    elif facts.now - lane.tick_at > STUCK_AFTER_SECONDS:
        sentence = f"The thread of lane {lane.lane} hangs; restart this worker."
        yield Cause(StallReason.WORKER_STUCK, sentence, lane=lane.lane)
    elif lane.phase is LanePhase.OPENING:
        sentence = f"The target does not initialize the transactions of lane {lane.lane}; check __transaction_state."
        yield Cause(StallReason.COORDINATOR_UNAVAILABLE, sentence, lane=lane.lane)
    elif lane.transaction_since is not None and facts.now - lane.transaction_since > STUCK_AFTER_SECONDS:
        sentence = (
            f"The target has not finished a transaction of lane {lane.lane} for "
            f"{facts.now - lane.transaction_since:.0f} s; check that its brokers have disk space and enough "
            f"in-sync replicas."
        )
        yield Cause(StallReason.TARGET_REFUSES, sentence, lane=lane.lane, is_certain=True)


def _of_silent_workers(facts: MirrorFacts) -> Iterator[Cause]:
    """Workers of this host that hang. Their lanes, until they move, are reported under the same reason."""
    for worker, seconds in facts.stuck_workers.items():
        sentence = f"Worker {worker} has not responded for {seconds:.0f} s; it is killed and restarted."
        yield Cause(StallReason.WORKER_STUCK, sentence, instance=worker, is_certain=True)


def _of_group(facts: MirrorFacts) -> Iterator[Cause]:
    """A group that this worker may not join. Other errors of the group are temporary, or those of its coordinator."""
    error = facts.group_error
    if error is None or facts.lanes or reason_of("target", error.name) is not StallReason.AUTHORIZATION_FAILED:
        return
    sentence = (
        f"The target does not let this worker join the group that shares the lanes ({error.message}); grant Read on "
        f"the group, and Describe on the control topic, to the user of the mirror."
    )
    yield Cause(StallReason.AUTHORIZATION_FAILED, sentence, is_certain=True)


def _of_other_workers(facts: MirrorFacts) -> Iterator[Cause]:
    """Lanes of other workers that copy no heartbeats.

    The owner of lane 0 monitors them, and workers without lanes monitor lane 0.
    """
    own = {lane.lane for lane in facts.lanes}
    for lane, age in facts.heartbeat_ages.items():
        monitors = 0 in own or (not own and lane == 0)
        if monitors and lane not in own and age > HEARTBEAT_TIMEOUT_SECONDS:
            sentence = (
                f"No heartbeat has come through lane {lane} for {age:.0f} s, and this worker does not own it; "
                f"check the logs of the other workers, and restart them."
            )
            yield Cause(StallReason.WORKER_STUCK, sentence, lane=lane)


def _of_partitions(lane: LaneObservation, facts: MirrorFacts, *, explained: bool) -> Iterator[Cause]:
    rules = _PARTITION_RULES[:-1] if explained else _PARTITION_RULES
    for observed in lane.partitions:
        partition = PartitionFacts.of(observed, lane, facts)
        cause = next((cause for rule in rules if (cause := rule(partition)) is not None), None)
        if cause is not None:
            yield cause


def _stopped(partition: PartitionFacts) -> Cause | None:
    stop = partition.observed.stop
    return None if stop is None else _cause(partition, StallReason(stop.reason), stop.message, is_certain=True)


def _recreated(partition: PartitionFacts) -> Cause | None:
    observed, source = partition.observed, partition.source
    if source is not None and source.error and fault_of(source.error) is NO_TOPIC:
        sentence = f"The source topic {observed.topic} was deleted; recreate it, or leave it out of the mirror."
        return _cause(partition, StallReason.TOPIC_RECREATED, sentence)
    known = url_safe_topic_id(observed.source_id)
    if source is None or not source.id or not known or source.id == known:
        return None
    sentence = (
        f"The source topic {observed.topic} was deleted and recreated (topic ID {known} -> {source.id}); set "
        f"onDataLoss to skip-and-record to copy the new topic."
    )
    return _cause(partition, StallReason.TOPIC_RECREATED, sentence, is_certain=True)


def _denied(partition: PartitionFacts) -> Cause | None:
    for side, topic, name, operation in (
        ("source", partition.source, partition.observed.topic, "READ"),
        ("target", partition.target, partition.observed.target, "WRITE"),
    ):
        if topic is None:
            continue
        is_hidden = bool(topic.error) and reason_of("source", topic.error) is StallReason.AUTHORIZATION_FAILED
        if is_hidden or (topic.operations is not None and operation not in topic.operations):
            denied = "Describe" if is_hidden else operation.capitalize()
            sentence = f"The {side} denies {denied} on the topic {name}; grant it to the user of the mirror."
            return _cause(partition, StallReason.AUTHORIZATION_FAILED, sentence, is_certain=True)
    return None


def _leaderless(partition: PartitionFacts) -> Cause | None:
    for cluster, snapshot, topic in (
        (partition.facts.source, partition.source_partition, partition.observed.topic),
        (partition.facts.target, partition.target_partition, partition.observed.target),
    ):
        if snapshot is not None and not _is_online(snapshot.leader, cluster):
            advice = "start these brokers, or reassign the partition"
            if snapshot.replicas and cluster.brokers.issuperset(snapshot.replicas):
                advice = "a disk of these brokers is full or broken: free disk space, and restart them"
            sentence = (
                f"Partition {partition.observed.partition} of the {cluster.side} topic {topic} has no leader "
                f"(replicas on {_listed(snapshot.replicas)}; registered brokers {_listed(cluster.brokers)}); {advice}."
            )
            return _cause(partition, StallReason.LEADER_MISSING, sentence)
    return None


def _overtaken(partition: PartitionFacts) -> Cause | None:
    ends, position = partition.source_ends, partition.observed.position
    if ends is None or ends.log_start <= position:
        return None
    sentence = (
        f"The source has deleted the offsets {position:,} to {ends.log_start - 1:,} of {partition.name} before they "
        f"were copied; set onDataLoss to skip-and-record to continue, and increase the retention."
    )
    return _cause(partition, StallReason.RETENTION_OVERTOOK, sentence, is_certain=True)


def _missing(partition: PartitionFacts) -> Cause | None:
    if partition.target is None or not partition.target.error or fault_of(partition.target.error) is not NO_TOPIC:
        return None
    observed = partition.observed
    if observed.has_copies:  # the lane has not looked yet, or does so again
        deleted = target_deleted_sentence(partition.name, observed.target, observed.position)
        return _cause(partition, StallReason.TARGET_DELETED, deleted)
    sentence = f"The target has no topic {observed.target}; create it, or set createTopics=true."
    return _cause(partition, StallReason.TARGET_REFUSES, sentence)


def _failing(partition: PartitionFacts) -> Cause | None:
    error = partition.observed.error
    if error is None or error.seen_at <= partition.observed.progressed_at or _is_outdated(error, partition):
        return None
    reason = reason_of("source", error.name)
    may_read = partition.source is not None and partition.source.operations is not None  # `_denied` has checked them
    if reason is StallReason.AUTHORIZATION_FAILED and may_read:
        return None
    sentence = f"{partition.name} cannot be read: {error.message}"
    return _cause(partition, reason, sentence, is_certain=reason is StallReason.AUTHORIZATION_FAILED)


def _is_outdated(error: SeenError, partition: PartitionFacts) -> bool:
    return partition.waiting == 0 and partition.facts.now - error.seen_at > ERROR_LASTS_SECONDS


def _open_transaction(partition: PartitionFacts) -> Cause | None:
    ends = partition.source_ends
    if ends is None or partition.waiting:
        return None
    if ends.stable_end >= ends.high_watermark:
        return None
    sentence = (
        f"A transaction is open in {partition.name} since offset {ends.stable_end:,}; "
        f"{ends.high_watermark - ends.stable_end:,} offsets cannot be read before it ends. Find its producer with "
        f"kafka-transactions.sh find-hanging, and stop it."
    )
    return _cause(partition, StallReason.TRANSACTION_OPEN, sentence, instance=ends.stable_end)


def _stuck(partition: PartitionFacts) -> Cause | None:
    if not partition.waiting:
        return None
    sentence = (
        f"Both clusters answer, and {partition.waiting:,} offsets of {partition.name} are not copied; restart this "
        f"worker, and report a defect with its log."
    )
    return _cause(partition, StallReason.WORKER_STUCK, sentence, instance=partition.observed.position)


_PARTITION_RULES: tuple[Callable[[PartitionFacts], Cause | None], ...] = (
    _denied,
    _stopped,
    _recreated,
    _leaderless,
    _overtaken,
    _missing,
    _failing,
    _open_transaction,
    _stuck,
)
"""In the order of precedence. The last one applies only if no cause of the lane or a cluster was found."""


def _cause(
    partition: PartitionFacts, reason: StallReason, sentence: str, *, instance: int = 0, is_certain: bool = False
) -> Cause:
    return Cause(
        reason,
        sentence,
        partition.observed.topic,
        partition.observed.partition,
        partition.lane.lane,
        instance,
        is_certain,
    )


def _is_online(leader: int | None, cluster: ClusterSnapshot) -> bool:
    return leader is not None and (not cluster.brokers or leader in cluster.brokers)


def _listed(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(brokers))) or "none"
