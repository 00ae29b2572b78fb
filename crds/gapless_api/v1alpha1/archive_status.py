"""The status of an Archive: progress of each topic, and the latest compaction.

Must not know how anything is archived.
"""

from typing import Annotated, Literal

from pydantic import Field

from gapless_api.v1alpha1.attempt_status import LastAttempt
from gapless_api.v1alpha1.common import Count
from gapless_api.v1alpha1.conditions import Conditions
from gapless_api.v1alpha1.model import Moment, StatusModel

MAX_STATUS_TOPICS = 100
"""Topics listed in the status."""


class ArchivedTopic(StatusModel):
    """Progress of one topic."""

    topic: Annotated[str, Field(max_length=249)]
    """Name of the topic."""
    topic_id: Annotated[str, Field(max_length=64)] | None = None
    """Topic ID of the archived generation."""
    partitions: Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})]
    """Number of partitions."""
    segments: Count
    """Number of segments."""
    covered_up_to: Moment | None = None
    """Time up to which all records are archived. Absent if unknown."""
    lag_records: Count | None = None
    """Number of offsets in Kafka that are not archived yet. Absent if nothing has looked since the last attempt."""
    lag_seconds: Annotated[float, Field(ge=0)] | None = None
    """Age in seconds of the oldest record that is not archived yet; 0 if there is none."""
    lost_records: Count = 0
    """Number of offsets that Kafka deleted before they were archived."""


class CompactionStatus(StatusModel):
    """The latest compaction."""

    last_attempt: LastAttempt | None = None
    """The latest run."""
    last_schedule_time: Moment | None = None
    """Latest scheduled time that was processed."""
    segments_before: Count | None = None
    """Number of segments that the last successful run replaced."""
    segments_after: Count | None = None
    """Number of segments that the last successful run wrote."""
    deleted_objects: Count | None = None
    """Number of objects that the last successful run deleted: replaced segments after the grace period, and segments
    that the retention no longer keeps."""


class ArchiveStatus(StatusModel):
    """Observed state of the archive."""

    observed_generation: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] = 0
    """Generation of the spec that the status describes."""
    conditions: Conditions = ()
    """Conditions Ready, Progressing, Reconciling and Stalled, and Compacted with spec.compaction."""
    last_attempt: LastAttempt | None = None
    """The latest run. Without a schedule, it runs until it is replaced."""
    failures: Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})] = 0
    """Number of attempts that have ended since the last commit."""
    last_schedule_time: Moment | None = None
    """Latest scheduled time that was processed."""
    next_schedule_time: Moment | None = None
    """Time of the next scheduled run. Absent without a schedule."""
    next_compaction_time: Moment | None = None
    """Time of the next scheduled compaction. Absent without compaction."""
    segments: Count | None = None
    """Number of segments of the selected topics."""
    bytes: Count | None = None
    """Size of the segments in bytes."""
    records: Count | None = None
    """Number of records in the segments."""
    lag_records: Count | None = None
    """Number of offsets in Kafka that are not archived yet, in all topics. Absent if nothing looks at them."""
    lag_seconds: Annotated[float, Field(ge=0)] | None = None
    """Age in seconds of the oldest record that is not archived yet; 0 if there is none."""
    retention_seconds: Annotated[float, Field(ge=0)] | None = None
    """Estimated seconds until Kafka deletes records that are not archived yet. Absent if no records are at risk."""
    lost_records: Count | None = None
    """Number of offsets that Kafka deleted before they were archived, in all topics."""
    last_commit_time: Moment | None = None
    """Time of the last commit."""
    topics: Annotated[tuple[ArchivedTopic, ...], Field(max_length=MAX_STATUS_TOPICS)] = ()
    """Topics with the highest lag; at most 100."""
    topics_omitted: Count = 0
    """Number of topics that are not listed."""
    read_by: Literal["spark", "local"] | None = None
    """Reader of the last run: spark, or local for one process without Spark."""
    updated_at: Moment | None = None
    """Time of the last change of these figures; at most one every 10 seconds."""
    observed_at: Moment | None = None
    """Time at which the operator had last read the progress of the pods when it last changed this status. It is written
    only together with other changes: an old time means that nothing has changed since, not that nothing looks. The
    operator removes the lag when it has read no progress for 15 minutes."""
    compaction: CompactionStatus | None = None
    """The latest compaction. Absent before the first one."""
