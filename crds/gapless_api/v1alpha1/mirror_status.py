"""The status of a Mirror: the lag of each topic, and what stalls it.

Must not know how anything is copied.
"""

from typing import Annotated, Literal

from pydantic import Field

from gapless_api.v1alpha1.attempt_status import LastAttempt
from gapless_api.v1alpha1.common import Count, Partition
from gapless_api.v1alpha1.conditions import Conditions
from gapless_api.v1alpha1.model import Message, Moment, StatusModel

MAX_STATUS_TOPICS = 100
"""Topics listed in the status."""
MAX_STATUS_PROBLEMS = 20
"""Problems listed in the status."""
_Number = Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})]


class MirroredTopic(StatusModel):
    """Progress of one topic."""

    topic: Annotated[str, Field(max_length=249)]
    """Name of the topic in the source."""
    target: Annotated[str, Field(max_length=249)]
    """Name of the topic in the target."""
    partitions: _Number
    """Number of partitions."""
    lag_records: Count | None = None
    """Number of records that are not copied yet; absent while that is unknown."""
    lag_seconds: Annotated[float, Field(ge=0)] | None = None
    """Age in seconds of the oldest record that is not copied yet; 0 if there is none."""


class MirrorStall(StatusModel):
    """Reason why one or all topics are not copied."""

    reason: Annotated[str, Field(max_length=64)]
    """Machine-readable reason; see docs/reference/conditions.md."""
    topic: Annotated[str, Field(max_length=249)] = ""
    """Name of the topic in the source. Absent if the problem is not limited to one topic."""
    partition: Partition | None = None
    """Affected partition. Absent if the problem is not limited to one partition."""
    since: Moment | None = None
    """Time at which the problem was detected."""
    message: Message
    """Description of the problem and the required action."""


class MirrorStatus(StatusModel):
    """Observed state of the mirror."""

    observed_generation: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] = 0
    """Generation of the spec that the status describes."""
    conditions: Conditions = ()
    """Conditions Ready, Progressing, Reconciling and Stalled."""
    mirror_name: Annotated[str, Field(max_length=63)] | None = None
    """Name of the mirror in the target cluster, where the topic _gapless_mirror_NAME stores its positions."""
    engine: Literal["Workers", "Spark"] | None = None
    """Engine that copies."""
    last_attempt: LastAttempt | None = None
    """The latest Job or SparkApplication, which runs until it is replaced."""
    failures: _Number = 0
    """Number of attempts that have ended since records were last copied."""
    workers: _Number | None = None
    """Number of pods that copy: workers, or the Spark driver."""
    lanes: _Number | None = None
    """Number of lanes of the mirror."""
    lanes_owned: _Number | None = None
    """Number of lanes that are owned by a pod. It is less than lanes only during a failover."""
    records: Count | None = None
    """Number of records that the running pods have copied since they started."""
    partitions: _Number | None = None
    """Number of partitions of the selected topics."""
    partitions_with_lag: _Number | None = None
    """Number of partitions with records that are not copied yet."""
    lag_records: Count | None = None
    """Number of records that are not copied yet, in all topics."""
    lag_seconds: Annotated[float, Field(ge=0)] | None = None
    """Age in seconds of the oldest record that is not copied yet; 0 if there is none."""
    retention_seconds: Annotated[float, Field(ge=0)] | None = None
    """Estimated seconds until the source deletes records that are not copied yet. Absent if no records are at risk."""
    heartbeat_age_seconds: Annotated[float, Field(ge=0)] | None = None
    """Age in seconds of the last heartbeat that arrived in the target. Absent without heartbeats."""
    lost_records: Count | None = None
    """Number of offsets that are not in their target topics by request: deleted before they were copied (onDataLoss:
    SkipAndRecord), or refused by the target (onBadRecord: SkipAndRecord or Park)."""
    last_commit_time: Moment | None = None
    """Time of the last commit."""
    problems: Annotated[tuple[MirrorStall, ...], Field(max_length=MAX_STATUS_PROBLEMS)] = ()
    """Problems that stop copying, most severe first; at most 20."""
    topics: Annotated[tuple[MirroredTopic, ...], Field(max_length=MAX_STATUS_TOPICS)] = ()
    """Topics with the highest lag; at most 100."""
    topics_omitted: Count = 0
    """Number of topics that are not listed."""
    updated_at: Moment | None = None
    """Time of the last change of these figures; at most one every 10 seconds."""
    observed_at: Moment | None = None
    """Time at which the operator had last read the progress of the pods when it last changed this status. It is written
    only together with other changes: an old time means that nothing has changed since, not that nothing looks. The
    operator removes the lag when it has read no progress for 2 minutes."""
