"""Owns what the status of an Archive says: how far each topic is archived, and what compacting is about to do.

Must not know how anything is archived.
"""

from typing import Annotated, Literal

from pydantic import Field

from gapless_api.v1alpha1.attempt_status import LastAttempt
from gapless_api.v1alpha1.common import Count
from gapless_api.v1alpha1.conditions import Conditions
from gapless_api.v1alpha1.model import Moment, StatusModel

LONGEST_TOPICS = 100
"""Topics in the status: those with the most records to archive."""


class ArchivedTopic(StatusModel):
    """How far a topic is archived."""

    topic: Annotated[str, Field(max_length=249)]
    """Name of the topic."""
    topic_id: Annotated[str, Field(max_length=64)] | None = None
    """Topic ID of the generation that is archived."""
    partitions: Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})]
    """Number of partitions."""
    segments: Count
    """Number of segments."""
    covered_up_to: Moment | None = None
    """Time up to which all its records are archived; absent while that is unknown."""
    lag_records: Count
    """Offsets in Kafka that are not archived yet."""
    lag_seconds: Annotated[float, Field(ge=0)] | None = None
    """Age of the oldest record that is not archived yet; 0 when there is none."""
    lost_records: Count = 0
    """Offsets that Kafka deleted before they were archived."""


class CompactionStatus(StatusModel):
    """The latest compaction."""

    last_attempt: LastAttempt | None = None
    """The latest run."""
    last_schedule_time: Moment | None = None
    """Latest scheduled time that was handled."""
    segments_before: Count | None = None
    """Segments that the last successful run replaced."""
    segments_after: Count | None = None
    """Segments that it wrote in their place."""
    deleted_objects: Count | None = None
    """Objects that it deleted: replaced ones after the grace period, and what the retention no longer keeps."""


class ArchiveStatus(StatusModel):
    """Observed state of the archive."""

    observed_generation: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] = 0
    """Generation of the spec that the status describes."""
    conditions: Conditions = ()
    """Ready, Progressing, Reconciling and Stalled, each with its reason."""
    last_attempt: LastAttempt | None = None
    """The latest run, which is a long one unless there is a schedule."""
    failures: Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})] = 0
    """Number of attempts that have ended since the last one that committed anything."""
    last_schedule_time: Moment | None = None
    """Latest scheduled time that was handled."""
    next_schedule_time: Moment | None = None
    """When the next run is due. Absent without a schedule."""
    next_compaction_time: Moment | None = None
    """When the next compaction is due. Absent without one."""
    segments: Count | None = None
    """Segments of the chosen topics."""
    bytes: Count | None = None
    """Bytes of their objects."""
    records: Count | None = None
    """Records in them."""
    lag_records: Count | None = None
    """Offsets in Kafka that are not archived yet, in all topics."""
    lag_seconds: Annotated[float, Field(ge=0)] | None = None
    """Age of the oldest record that is not archived yet; 0 when there is none."""
    retention_seconds: Annotated[float, Field(ge=0)] | None = None
    """Estimated seconds until Kafka deletes records that are not archived yet; absent when there is nothing to lose."""
    lost_records: Count | None = None
    """Offsets that Kafka deleted before they were archived, in all topics."""
    last_commit_time: Moment | None = None
    """When something was archived last."""
    topics: Annotated[tuple[ArchivedTopic, ...], Field(max_length=LONGEST_TOPICS)] = ()
    """The topics with the most records to archive first."""
    topics_omitted: Count = 0
    """Topics that are not listed."""
    read_by: Literal["spark", "local"] | None = None
    """What read Kafka last: spark, or local, which is one process without Spark."""
    updated_at: Moment | None = None
    """Time of these figures; at most one update every 10 seconds."""
    compaction: CompactionStatus | None = None
    """The latest compaction. Absent before the first one."""
