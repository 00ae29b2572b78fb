"""Owns why partitions and lanes of a mirror make no progress at this moment: the rule from facts to reasons. Pure.

For a partition the first rule of `_PARTITION_RULES` that applies gives the reason; so each partition has one. What
explains all partitions of a lane, or of a cluster, is found once and not for each partition. A cause becomes a stall
when it has lasted: see `gapless_kafka.mirror.watch.tracker`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.wire.mirror_progress import StallReason
from gapless_kafka.access.errors import NO_TOPIC, fault_of
from gapless_kafka.mirror.lanes.identity import HEARTBEAT_TOPIC
from gapless_kafka.mirror.lanes.observations import LanePhase
from gapless_kafka.mirror.watch.facts import reached
from gapless_kafka.mirror.watch.fault_reasons import reason_of
from gapless_kafka.topics.topic_ids import url_safe_topic_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from gapless_kafka.mirror.lanes.observations import LaneObservation, PartitionObservation, SeenError
    from gapless_kafka.mirror.watch.facts import ClusterLook, MirrorFacts, PartitionLook, TopicLook

STUCK_AFTER_SECONDS = 20.0
"""A lane shows a sign of life many times a second, and all its calls of Kafka's clients end sooner than this."""
HEARTBEAT_MISSING_SECONDS = 20.0
LIMITED_SECONDS = 60.0
"""For so long after a lane waited because of its limits, partitions may have to wait for their turn."""
ERROR_LASTS_SECONDS = 60.0
"""Kafka's client reports an error of reading once, and not that it has passed; where nothing waits, we forget it."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why something makes no progress now."""

    reason: StallReason
    sentence: str
    topic: str = ""
    """Of the source; empty when it is not about one."""
    partition: int | None = None
    lane: int | None = None
    mark: int = 0
    """Where it stands: a cause with another mark is another one, which has not lasted yet."""
    at_once: bool = False
    """Whether it is certain already, so that waiting tells no more."""


class _Place(NamedTuple):
    """A partition, and what is known of it."""

    one: PartitionObservation
    lane: LaneObservation
    source: TopicLook | None
    source_partition: PartitionLook | None
    target: TopicLook | None
    target_partition: PartitionLook | None
    facts: MirrorFacts

    @property
    def name(self) -> str:
        return f"{self.one.topic}/{self.one.partition}"

    @property
    def waiting(self) -> int | None:
        """How many offsets can be read and are not copied; ``None`` while that is unknown."""
        look = self.source_partition
        if look is None or look.ends is None:
            return None
        return max(look.ends.stable_end - max(reached(self.one, self.lane), look.ends.log_start), 0)


def causes(facts: MirrorFacts) -> Iterator[Cause]:
    """Everything that keeps something from making progress now; nothing when all is well, also while idle."""
    for problem in facts.problems:
        yield Cause(StallReason(problem.reason), problem.message, problem.topic, at_once=True)
    yield from _of_siblings(facts)
    clusters = [*_of_cluster(facts.source), *_of_cluster(facts.target), *_of_coordinators(facts.target, None)]
    yield from clusters
    if not clusters:
        denied = list(_of_group(facts))
        yield from denied or _of_others(facts)
    for lane in facts.lanes:
        found = [] if clusters else list(_of_lane(lane, facts))
        yield from found
        is_limited = lane.limited_at is not None and facts.now - lane.limited_at < LIMITED_SECONDS
        yield from _of_partitions(lane, facts, explained=bool(clusters or found) or is_limited)


def is_idle(facts: MirrorFacts) -> bool:
    """Whether the source has nothing that is not copied, open transactions included; without lanes nobody can tell."""
    if facts.source.fault is not None or not facts.lanes:
        return False
    for lane in facts.lanes:
        if not lane.partitions and lane.phase is not LanePhase.COPYING:
            return False  # it is not known yet which it has
        for one in lane.partitions:
            if one.topic == HEARTBEAT_TOPIC:
                continue
            look = facts.source.partition(one.topic, one.partition)
            if look is None or look.ends is None or reached(one, lane) < look.ends.high_watermark:
                return False
    return True


def _of_cluster(look: ClusterLook) -> Iterator[Cause]:
    if look.fault is None:
        return
    if reason_of(look.fault.side, look.fault.name) is StallReason.AUTHORIZATION_FAILED:
        sentence = f"The {look.side} refuses the mirror ({look.fault.text}); check the login settings and the rights."
        yield Cause(StallReason.AUTHORIZATION_FAILED, sentence, at_once=True)
        return
    sentence = f"No broker of the {look.side} answers ({look.fault.text}); check the address, network and brokers."
    yield Cause(StallReason.LEADER_MISSING, sentence)


def _of_coordinators(target: ClusterLook, lane: int | None) -> Iterator[Cause]:
    for one in target.coordinators:
        concerns = not one.lanes if lane is None else lane in one.lanes
        if concerns and not _leads(one.leader, target):
            sentence = (
                f"The target has no coordinator for {one.what}: {one.place} has no leader (replicas on "
                f"{_listed(one.replicas)}; registered brokers {_listed(target.brokers)}); start these brokers, or "
                f"reassign the partition."
            )
            yield Cause(StallReason.COORDINATOR_UNAVAILABLE, sentence, lane=lane)


def _of_lane(lane: LaneObservation, facts: MirrorFacts) -> Iterator[Cause]:
    uncoordinated = next(_of_coordinators(facts.target, lane.lane), None)
    if uncoordinated is not None:
        yield uncoordinated
        return
    error = lane.error
    if error is not None and lane.phase in {LanePhase.RETRYING, LanePhase.OPENING}:
        reason = reason_of("target", error.name)
        sentence = f"Lane {lane.lane} fails again and again: {error.message}"
        yield Cause(reason, sentence, lane=lane.lane, at_once=reason is StallReason.AUTHORIZATION_FAILED)
    elif facts.now - lane.tick_at > STUCK_AFTER_SECONDS:
        sentence = f"The thread of lane {lane.lane} does not move; restart this worker."
        yield Cause(StallReason.WORKER_STUCK, sentence, lane=lane.lane)
    elif lane.phase is LanePhase.OPENING:
        sentence = f"The target does not open the transactions of lane {lane.lane}; check __transaction_state."
        yield Cause(StallReason.COORDINATOR_UNAVAILABLE, sentence, lane=lane.lane)
    elif lane.transaction_since is not None and facts.now - lane.transaction_since > STUCK_AFTER_SECONDS:
        sentence = (
            f"The target has not finished a transaction of lane {lane.lane} for "
            f"{facts.now - lane.transaction_since:.0f} s; check whether its brokers have room and enough replicas in "
            f"sync."
        )
        yield Cause(StallReason.TARGET_REFUSES, sentence, lane=lane.lane, at_once=True)


def _of_siblings(facts: MirrorFacts) -> Iterator[Cause]:
    """Workers of this host that hang; whether their lanes have moved already is told beside it, under the same name."""
    for worker, seconds in facts.stuck_workers.items():
        sentence = f"Worker {worker} has shown no sign of life for {seconds:.0f} s; it is killed and started again."
        yield Cause(StallReason.WORKER_STUCK, sentence, mark=worker, at_once=True)


def _of_group(facts: MirrorFacts) -> Iterator[Cause]:
    """A group that this worker may not join. Other errors of the group pass, or are those of its coordinator."""
    error = facts.group_error
    if error is None or facts.lanes or reason_of("target", error.name) is not StallReason.AUTHORIZATION_FAILED:
        return
    sentence = (
        f"The target does not let this worker join the group that shares the lanes ({error.message}); grant Read on "
        f"the group, and Describe on the control topic, to the user of the mirror."
    )
    yield Cause(StallReason.AUTHORIZATION_FAILED, sentence, at_once=True)


def _of_others(facts: MirrorFacts) -> Iterator[Cause]:
    """Lanes of other workers through which nothing comes any more.

    The owner of lane 0 looks after them, and workers without lanes look after that one.
    """
    own = {lane.lane for lane in facts.lanes}
    for lane, age in facts.heartbeat_ages.items():
        looks = 0 in own or (not own and lane == 0)
        if looks and lane not in own and age > HEARTBEAT_MISSING_SECONDS:
            sentence = (
                f"No heartbeat has come through lane {lane} for {age:.0f} s, and this worker does not own it; look "
                f"into the logs of the other workers, and restart them."
            )
            yield Cause(StallReason.WORKER_STUCK, sentence, lane=lane)


def _of_partitions(lane: LaneObservation, facts: MirrorFacts, *, explained: bool) -> Iterator[Cause]:
    rules = _PARTITION_RULES[:-1] if explained else _PARTITION_RULES
    for one in lane.partitions:
        place = _Place(
            one,
            lane,
            facts.source.topics.get(one.topic),
            facts.source.partition(one.topic, one.partition),
            facts.target.topics.get(one.target),
            facts.target.partition(one.target, one.partition),
            facts,
        )
        found = next((cause for rule in rules if (cause := rule(place)) is not None), None)
        if found is not None:
            yield found


def _stopped(place: _Place) -> Cause | None:
    stop = place.one.stop
    return None if stop is None else _cause(place, StallReason(stop.reason), stop.message, at_once=True)


def _recreated(place: _Place) -> Cause | None:
    one, source = place.one, place.source
    if source is not None and source.error and fault_of(source.error) is NO_TOPIC:
        sentence = f"The source topic {one.topic} was deleted; recreate it, or leave it out of the mirror."
        return _cause(place, StallReason.TOPIC_RECREATED, sentence)
    known = url_safe_topic_id(one.source_id)
    if source is None or not source.id or not known or source.id == known:
        return None
    sentence = (
        f"The source topic {one.topic} was deleted and recreated (topic ID {known} -> {source.id}); decide "
        f"with onDataLoss whether the new topic is copied."
    )
    return _cause(place, StallReason.TOPIC_RECREATED, sentence, at_once=True)


def _denied(place: _Place) -> Cause | None:
    for side, look, topic, operation in (
        ("source", place.source, place.one.topic, "READ"),
        ("target", place.target, place.one.target, "WRITE"),
    ):
        if look is None:
            continue
        is_hidden = bool(look.error) and reason_of("source", look.error) is StallReason.AUTHORIZATION_FAILED
        if is_hidden or (look.operations is not None and operation not in look.operations):
            word = "Describe" if is_hidden else operation.capitalize()
            sentence = f"The {side} denies {word} on the topic {topic}; grant it to the user of the mirror."
            return _cause(place, StallReason.AUTHORIZATION_FAILED, sentence, at_once=True)
    return None


def _leaderless(place: _Place) -> Cause | None:
    for cluster, look, topic in (
        (place.facts.source, place.source_partition, place.one.topic),
        (place.facts.target, place.target_partition, place.one.target),
    ):
        if look is not None and not _leads(look.leader, cluster):
            advice = "start these brokers, or reassign the partition"
            if look.replicas and cluster.brokers.issuperset(look.replicas):
                advice = "a disk of these brokers is full or broken: make room, and restart them"
            sentence = (
                f"Partition {place.one.partition} of the {cluster.side} topic {topic} has no leader (replicas on "
                f"{_listed(look.replicas)}; registered brokers {_listed(cluster.brokers)}); {advice}."
            )
            return _cause(place, StallReason.LEADER_MISSING, sentence)
    return None


def _overtaken(place: _Place) -> Cause | None:
    look, position = place.source_partition, place.one.position
    if look is None or look.ends is None or look.ends.log_start <= position:
        return None
    sentence = (
        f"The source has deleted the offsets {position:,} to {look.ends.log_start - 1:,} of {place.name} before they "
        f"were copied; decide with onDataLoss how to continue, and keep records longer."
    )
    return _cause(place, StallReason.RETENTION_OVERTOOK, sentence, at_once=True)


def _missing(place: _Place) -> Cause | None:
    if place.target is None or not place.target.error or fault_of(place.target.error) is not NO_TOPIC:
        return None
    sentence = f"The target has no topic {place.one.target}; create it, or let the mirror create topics."
    return _cause(place, StallReason.TARGET_REFUSES, sentence)


def _failing(place: _Place) -> Cause | None:
    error = place.one.error
    if error is None or error.seen_at <= place.one.progressed_at or _is_forgotten(error, place):
        return None
    reason = reason_of("source", error.name)
    may_read = place.source is not None and place.source.operations is not None  # `_denied` has looked
    if reason is StallReason.AUTHORIZATION_FAILED and may_read:
        return None
    sentence = f"{place.name} cannot be read: {error.message}"
    return _cause(place, reason, sentence, at_once=reason is StallReason.AUTHORIZATION_FAILED)


def _is_forgotten(error: SeenError, place: _Place) -> bool:
    return place.waiting == 0 and place.facts.now - error.seen_at > ERROR_LASTS_SECONDS


def _held_up(place: _Place) -> Cause | None:
    look = place.source_partition
    if look is None or look.ends is None or place.waiting:
        return None
    ends = look.ends
    if ends.stable_end >= ends.high_watermark:
        return None
    sentence = (
        f"A transaction is open in {place.name} since offset {ends.stable_end:,}; "
        f"{ends.high_watermark - ends.stable_end:,} offsets cannot be read before it ends. Find its program with "
        f"kafka-transactions.sh find-hanging, and end it."
    )
    return _cause(place, StallReason.TRANSACTION_OPEN, sentence, mark=ends.stable_end)


def _stuck(place: _Place) -> Cause | None:
    if not place.waiting:
        return None
    sentence = (
        f"Both clusters answer, and {place.waiting:,} offsets of {place.name} are not copied; restart this worker, and "
        f"report a defect with its log."
    )
    return _cause(place, StallReason.WORKER_STUCK, sentence, mark=place.one.position)


_PARTITION_RULES: tuple[Callable[[_Place], Cause | None], ...] = (
    _denied,
    _stopped,
    _recreated,
    _leaderless,
    _overtaken,
    _missing,
    _failing,
    _held_up,
    _stuck,
)
"""The last one only applies where nothing else explains it."""


def _cause(place: _Place, reason: StallReason, sentence: str, *, mark: int = 0, at_once: bool = False) -> Cause:
    return Cause(reason, sentence, place.one.topic, place.one.partition, place.lane.lane, mark, at_once)


def _leads(leader: int | None, cluster: ClusterLook) -> bool:
    return leader is not None and (not cluster.brokers or leader in cluster.brokers)


def _listed(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(brokers))) or "none"
