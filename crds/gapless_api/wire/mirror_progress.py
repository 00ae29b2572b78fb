"""Owns the line with which ``gapless mirror`` tells how far it is and why it stands still, which the operator reads.

Must not know when one is written.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from gapless_api.offsets.ids import MAX_PARTITION
from gapless_api.wire.form import AtMost, Form, PartitionNumber

MAX_TOPICS, MAX_PROBLEMS = 100, 20
_MAX_PARTITIONS = MAX_PARTITION + 1


class StallReason(StrEnum):
    """Why a partition or a lane makes no progress: the word in conditions, metrics, logs and status lines."""

    COORDINATOR_UNAVAILABLE = "CoordinatorUnavailable"
    """The coordinator of the mirror's transactions or of its group does not answer."""
    LEADER_MISSING = "LeaderMissing"
    """The partition, or its copy, has no leader."""
    AUTHORIZATION_FAILED = "AuthorizationFailed"
    """A cluster denies an operation, or refuses the login."""
    SOURCE_IDLE = "SourceIdle"
    """The source has nothing new: no stall."""
    TARGET_REFUSES = "TargetRefuses"
    """The target does not take records: they are too large, invalid or too old, or it has no room for them."""
    RETENTION_OVERTOOK = "RetentionOvertook"
    """The source has deleted records before they were copied."""
    TOPIC_RECREATED = "TopicRecreated"
    """The topic of the source was deleted and recreated."""
    TRANSACTION_OPEN = "TransactionOpen"
    """A transaction of another program is open in the source, or Kafka has left one of ours open in the target."""
    WORKER_STUCK = "WorkerStuck"
    """Nothing is copied although both clusters answer, no worker owns the lane, or a worker hangs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirroredTopicLine:
    """How far a topic is copied."""

    topic: str
    """Of the source."""
    target: str
    """The topic that it is copied to."""
    partitions: Annotated[int, AtMost(_MAX_PARTITIONS)]
    lag_records: int
    """Offsets of the source that are not copied yet."""
    lag_seconds: float | None
    """Age of the oldest record that is not copied yet, 0 for none; null while that is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorProblem:
    """Why a topic, or all of them, are not copied."""

    reason: StallReason
    topic: str
    """Of the source; empty when it is not about one topic."""
    partition: PartitionNumber | None
    """Null when it is about several partitions, or about none."""
    since: str
    """RFC 3339: when it was noticed."""
    message: str
    """A sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorLine:
    """How far a worker's share of all topics is copied."""

    time: str
    """RFC 3339, with the offset of the time zone."""
    name: str
    """Of the mirror."""
    engine: Literal["workers", "spark"]
    worker: str
    """Which of the mirror's workers writes this: host name and process number."""
    state: Literal["copying", "idle", "stalled"]
    """`idle` when the source has nothing new, `stalled` when there is a problem."""
    lanes: Annotated[int, AtMost(_MAX_PARTITIONS)]
    """Of the mirror."""
    lanes_owned: Annotated[int, AtMost(_MAX_PARTITIONS)]
    """By this worker. All figures are of the partitions in these lanes."""
    records: int
    """Copied since this worker started."""
    bytes: int
    """Of their keys and values."""
    partitions: int
    partitions_with_lag: int
    lag_records: int
    """Offsets of the source that are not copied yet."""
    lag_seconds: float | None
    """Age of the oldest record that is not copied yet, 0 for none; null while that is unknown."""
    retention_seconds: float | None
    """Estimated seconds until the source deletes records that are not copied yet; null when none is in danger."""
    heartbeat_age_seconds: float | None
    """Age of the last heartbeat that arrived in the target, the oldest of all lanes; null without heartbeats."""
    last_commit: str | None
    """RFC 3339; null before the first one of this worker."""
    lost_records: int
    """Offsets that the source deleted before they were copied, and that were skipped by decision."""
    topics: tuple[MirroredTopicLine, ...]
    """At most 100, those with the most records to copy first."""
    topics_omitted: int
    problems: tuple[MirrorProblem, ...]
    """At most 20, one for each reason and topic."""
    problems_omitted: int


MIRROR_LINE = Form("mirror progress line", "gaplessMirrorProgress", 1, MirrorLine, event="mirror-progress")
