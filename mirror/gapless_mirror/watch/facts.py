"""The observed facts about a mirror and its two clusters, as plain data. Pure.

`gapless_mirror.watch.cluster_watch` creates a `ClusterSnapshot`, and lanes describe themselves in
`gapless_mirror.lanes.observations`. `gapless_mirror.watch.stall` interprets these facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_mirror.lanes.observations import LaneObservation, PartitionObservation, SeenError
    from gapless_mirror.lanes.sources import TopicProblem

Side = Literal["source", "target"]


@dataclass(frozen=True, slots=True)
class KafkaFault:
    """An error of a Kafka client."""

    side: Side
    name: str
    """The error name in librdkafka."""
    text: str


@dataclass(frozen=True, slots=True)
class PartitionEnds:
    """The offsets of a source partition."""

    log_start: int
    stable_end: int
    """The last stable offset: no transaction before it is open."""
    high_watermark: int


@dataclass(frozen=True, slots=True)
class PartitionSnapshot:
    """The state of a partition."""

    leader: int | None
    """A broker ID; ``None`` for none."""
    ends: PartitionEnds | None = None
    """``None`` when the leader does not answer."""
    replicas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSnapshot:
    """The state of a topic."""

    id: str = ""
    partitions: Mapping[int, PartitionSnapshot] = field(default_factory=dict)
    operations: frozenset[str] | None = None
    """The authorized operations, by Kafka's names in capitals; ``None`` when unknown."""
    retention_seconds: float | None = None
    """``None`` when unlimited or unknown."""
    error: str = ""
    """The error name in librdkafka when the topic cannot be described; otherwise empty."""


@dataclass(frozen=True, slots=True)
class CoordinatorSnapshot:
    """The broker that coordinates transactions or a consumer group."""

    what: str
    """Such as ``the transactions of lane 3``."""
    partition: str
    """The partition, such as ``__transaction_state/7``, whose leader is the coordinator."""
    leader: int | None
    replicas: tuple[int, ...] = ()
    lanes: frozenset[int] = frozenset()
    """The lanes that need it; empty for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """The state of a cluster at one moment."""

    side: Side
    fault: KafkaFault | None = None
    """Why the cluster does not answer; the other fields are then of the last answer."""
    brokers: frozenset[int] = frozenset()
    topics: Mapping[str, TopicSnapshot] = field(default_factory=dict)
    coordinators: tuple[CoordinatorSnapshot, ...] = ()

    def partition(self, topic: str, number: int) -> PartitionSnapshot | None:
        """Return the state of a partition; ``None`` if unknown."""
        snapshot = self.topics.get(topic)
        return None if snapshot is None else snapshot.partitions.get(number)


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorFacts:
    """All facts at one moment."""

    now: float
    """On the monotonic clock."""
    source: ClusterSnapshot
    target: ClusterSnapshot
    lanes: tuple[LaneObservation, ...]
    """Of this worker."""
    problems: tuple[TopicProblem, ...] = ()
    """Why topics are not copied at all."""
    heartbeat_ages: Mapping[int, float] = field(default_factory=dict)
    """By lane, the age in seconds of the last heartbeat in the target; empty without heartbeats."""
    stuck_workers: Mapping[int, float] = field(default_factory=dict)
    """The processes of this host that hang, by number, with the seconds of their silence."""
    beyond_end: frozenset[TopicPartition] = frozenset()
    """Partitions whose source log ended, in the snapshot, before what had been copied earlier: their lag is unknown."""
    group_error: SeenError | None = None
    """The last error of the group that shares the lanes; ``None`` without an error, or without a group."""


def reached_offset(partition: PartitionObservation, lane: LaneObservation) -> int:
    """Return the source offset up to which a partition is copied, exclusive.

    Offsets after the last record, such as those of transaction markers, hold no records. So if no transaction is open,
    everything up to the end that the reader has seen is copied, although the committed position may be lower.
    """
    is_all_committed = lane.transaction_since is None and partition.end_seen is not None
    return max(partition.position, partition.end_seen or 0) if is_all_committed else partition.position


def ended_before(source: ClusterSnapshot, copied: Mapping[TopicPartition, int]) -> frozenset[TopicPartition]:
    """Return the partitions whose log ends before what had been copied when the snapshot was taken."""
    if source.fault is not None:
        return frozenset()  # the snapshot is older
    beyond = set()
    for topic_partition, offset in copied.items():
        partition = source.partition(*topic_partition)
        if partition is not None and partition.ends is not None and partition.ends.high_watermark < offset:
            beyond.add(topic_partition)
    return frozenset(beyond)


class PartitionFacts(NamedTuple):
    """The facts about one partition."""

    observed: PartitionObservation
    lane: LaneObservation
    source: TopicSnapshot | None
    source_partition: PartitionSnapshot | None
    target: TopicSnapshot | None
    target_partition: PartitionSnapshot | None
    facts: MirrorFacts

    @classmethod
    def of(cls, observed: PartitionObservation, lane: LaneObservation, facts: MirrorFacts) -> PartitionFacts:
        """Collect the facts about one partition of a lane."""
        return cls(
            observed,
            lane,
            facts.source.topics.get(observed.topic),
            facts.source.partition(observed.topic, observed.partition),
            facts.target.topics.get(observed.target),
            facts.target.partition(observed.target, observed.partition),
            facts,
        )

    @property
    def name(self) -> str:
        """For messages."""
        return f"{self.observed.topic}/{self.observed.partition}"

    @property
    def waiting(self) -> int | None:
        """The number of offsets that can be read and are not copied; ``None`` while unknown."""
        ends, observed = self.source_ends, self.observed
        if ends is None or (observed.topic, observed.partition) in self.facts.beyond_end:
            return None
        # What was copied after the snapshot is behind its end, and no lag.
        return max(ends.stable_end - max(reached_offset(observed, self.lane), ends.log_start), 0)

    @property
    def source_ends(self) -> PartitionEnds | None:
        """The offsets in the source; ``None`` while unknown."""
        return None if self.source_partition is None else self.source_partition.ends
