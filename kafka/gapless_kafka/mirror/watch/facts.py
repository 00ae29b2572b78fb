"""Owns what is observed of a mirror and of both its clusters, as plain data. Pure.

A look at a cluster gives a `ClusterLook`; lanes describe themselves in `gapless_kafka.mirror.lanes.observations`. Both
are facts only: what they mean is for `gapless_kafka.mirror.watch.stall` to say.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gapless_kafka.mirror.lanes.observations import LaneObservation, PartitionObservation, SeenError
    from gapless_kafka.mirror.lanes.sources import TopicProblem

Side = Literal["source", "target"]


@dataclass(frozen=True, slots=True)
class KafkaFault:
    """An error of a Kafka client."""

    side: Side
    name: str
    """As librdkafka spells it."""
    text: str


@dataclass(frozen=True, slots=True)
class PartitionEnds:
    """How far a partition of the source reaches."""

    log_start: int
    stable_end: int
    """The last stable offset: no transaction before it is open."""
    high_watermark: int


@dataclass(frozen=True, slots=True)
class PartitionLook:
    """What a cluster tells of a partition."""

    leader: int | None
    """The ID of a broker; ``None`` for none."""
    ends: PartitionEnds | None = None
    """``None`` when the leader does not tell."""
    replicas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLook:
    """What a cluster tells of a topic."""

    id: str = ""
    partitions: Mapping[int, PartitionLook] = field(default_factory=dict)
    operations: frozenset[str] | None = None
    """What this user may do with it, by Kafka's names in capitals; ``None`` when the cluster does not tell."""
    retention_seconds: float | None = None
    """``None`` for ever, or unknown."""
    error: str = ""
    """librdkafka's name of the error when the cluster does not describe the topic."""


@dataclass(frozen=True, slots=True)
class CoordinatorLook:
    """The broker that coordinates transactions or a consumer group."""

    what: str
    """Such as ``the transactions of lane 3``."""
    place: str
    """Topic and partition that decide which broker it is."""
    leader: int | None
    replicas: tuple[int, ...] = ()
    lanes: frozenset[int] = frozenset()
    """Those that need it; empty when all do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLook:
    """What a cluster tells at one moment."""

    side: Side
    fault: KafkaFault | None = None
    """Why it tells nothing at all."""
    brokers: frozenset[int] = frozenset()
    topics: Mapping[str, TopicLook] = field(default_factory=dict)
    coordinators: tuple[CoordinatorLook, ...] = ()

    def partition(self, topic: str, number: int) -> PartitionLook | None:
        """What it tells of a partition; ``None`` for nothing."""
        found = self.topics.get(topic)
        return None if found is None else found.partitions.get(number)


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorFacts:
    """All that is known at one moment."""

    now: float
    """On the monotonic clock."""
    source: ClusterLook
    target: ClusterLook
    lanes: tuple[LaneObservation, ...]
    """Of this worker."""
    problems: tuple[TopicProblem, ...] = ()
    """Why topics are not copied at all."""
    heartbeat_ages: Mapping[int, float] = field(default_factory=dict)
    """By lane, in seconds, of the last one in the target; empty without heartbeats."""
    stuck_workers: Mapping[int, float] = field(default_factory=dict)
    """By number, other processes of this host that hang, with the seconds of their silence."""
    group_error: SeenError | None = None
    """Why this process is no member of the group that shares the lanes; ``None`` when it is, or there is no group."""


def reached(one: PartitionObservation, lane: LaneObservation) -> int:
    """The source offset up to which a partition is copied.

    What follows the last record, such as the marker of a transaction, is no record: a reader that has come to the end
    has reached more than what is committed.
    """
    is_all_committed = lane.transaction_since is None and one.end_seen is not None
    return max(one.position, one.end_seen or 0) if is_all_committed else one.position
