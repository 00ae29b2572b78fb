"""The progress line of ``gapless mirror``, with the reasons for stalls, which the operator reads.

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
    """Why a partition or a lane makes no progress, as in conditions, metrics, logs and status lines."""

    COORDINATOR_UNAVAILABLE = "CoordinatorUnavailable"
    """The coordinator of the mirror's transactions or consumer group does not answer."""
    LEADER_MISSING = "LeaderMissing"
    """The partition, or its copy, has no leader, or a cluster does not answer."""
    AUTHORIZATION_FAILED = "AuthorizationFailed"
    """A cluster denies an operation, or refuses the login."""
    SOURCE_IDLE = "SourceIdle"
    """The source has no new records; this is not a stall."""
    TARGET_REFUSES = "TargetRefuses"
    """The target rejects records: they are too large, invalid or too old, or its disk is full."""
    RETENTION_OVERTOOK = "RetentionOvertook"
    """The source deleted records before they were copied."""
    SOURCE_DAMAGED = "SourceDamaged"
    """The source log has a batch that cannot be read: its checksum is wrong, or it cannot be decompressed."""
    TOPIC_RECREATED = "TopicRecreated"
    """The topic of the source was deleted and recreated."""
    SOURCE_TRUNCATED = "SourceTruncated"
    """The source lost records that were copied, under the same topic ID."""
    TARGET_DELETED = "TargetDeleted"
    """The topic of the target was deleted, with the copies."""
    TARGET_RECREATED = "TargetRecreated"
    """The topic of the target was deleted and recreated, without the copies."""
    TARGET_TRUNCATED = "TargetTruncated"
    """The log of the target ends before the last copy."""
    TARGET_DIVERGED = "TargetDiverged"
    """The log of the target was truncated before the last copy, and has other records there now."""
    POSITION_MISSING = "PositionMissing"
    """The mirror has no position of a partition whose target has records, as after its control topic was deleted."""
    POSITION_OUTDATED = "PositionOutdated"
    """The target has copies behind the position of a partition, as after the control topic has lost records."""
    POSITION_UNREADABLE = "PositionUnreadable"
    """A record of the control topic about a partition cannot be read."""
    COPY_FAILED = "CopyFailed"
    """An exception that no rule expects, while records of a partition were converted or in the thread of a lane."""
    TRANSACTION_OPEN = "TransactionOpen"
    """A transaction of another program is open in the source, or one of the mirror is still open in the target."""
    WORKER_STUCK = "WorkerStuck"
    """Nothing is copied although both clusters answer; no worker owns the lane, or a worker hangs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirroredTopicLine:
    """Progress of a topic."""

    topic: str
    """Topic of the source."""
    target: str
    """Topic of the target."""
    partitions: Annotated[int, AtMost(_MAX_PARTITIONS)]
    lag_records: int | None
    """Offsets of the source that are not copied yet; null while that is unknown."""
    lag_seconds: float | None
    """Age of the oldest record that is not copied yet, 0 for none; null while that is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorProblem:
    """Why a topic, or all topics, are not copied."""

    reason: StallReason
    topic: str
    """Topic of the source; empty if the problem is not about one topic."""
    partition: PartitionNumber | None
    """Null if the problem is not about one partition."""
    since: str
    """RFC 3339: when the problem was detected."""
    message: str
    """A sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorLine:
    """Progress of the lanes of one worker."""

    time: str
    """RFC 3339, with the offset of the time zone."""
    name: str
    """Name of the mirror."""
    engine: Literal["workers", "spark"]
    worker: str
    """The worker that writes this line: host name and number of the process on this host."""
    state: Literal["copying", "idle", "stalled"]
    """`idle`: the source has no new records. `stalled`: there is a problem."""
    lanes: Annotated[int, AtMost(_MAX_PARTITIONS)]
    """All lanes of the mirror."""
    lanes_owned: Annotated[int, AtMost(_MAX_PARTITIONS)]
    """The lanes of this worker. All numbers are about the partitions in them."""
    records: int
    """Copied since this worker started."""
    bytes: int
    """Bytes of the keys and values of these records."""
    partitions: int
    partitions_with_lag: int
    lag_records: int | None
    """Offsets of the source that are not copied yet; null while that is unknown."""
    lag_seconds: float | None
    """Age of the oldest record that is not copied yet, 0 for none; null while that is unknown."""
    retention_seconds: float | None
    """Estimated seconds until the source deletes records that are not copied yet; null if none is at risk."""
    heartbeat_age_seconds: float | None
    """Age of the last heartbeat in the target, the maximum of all lanes; null without heartbeats."""
    last_commit: str | None
    """RFC 3339; null before the first commit of this worker."""
    lost_records: int
    """Offsets that are not in their target topics by request: deleted before they were copied, or refused."""
    topics: tuple[MirroredTopicLine, ...]
    """At most 100, those with the most records to copy first."""
    topics_omitted: int
    problems: tuple[MirrorProblem, ...]
    """At most 20, one for each reason and topic."""
    problems_omitted: int


MIRROR_LINE = Form("mirror progress line", "gaplessMirrorProgress", 1, MirrorLine, event="mirror-progress")
