"""The status of a Restore: plan, progress and lost ranges; must not know how it restores."""

from typing import Annotated, Literal

from pydantic import Field

from gapless_api.v1alpha1.attempt_status import LastAttempt
from gapless_api.v1alpha1.common import Count, Partition
from gapless_api.v1alpha1.conditions import Conditions
from gapless_api.v1alpha1.model import Message, Moment, StatusModel

MAX_STATUS_PLANNED_TOPICS = 100
MAX_STATUS_LOST_RANGES = 100
"""Ranges listed in the status; the log lists all."""


class PlannedTopic(StatusModel):
    """Plan for one topic."""

    topic: Annotated[str, Field(max_length=249)]
    """Name of the topic in the archive."""
    to_topic: Annotated[str, Field(max_length=249)]
    """Name of the topic in the target."""
    topic_id: Annotated[str, Field(max_length=64)] | None = None
    """Topic ID of the generation in the archive."""
    partitions: Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})]
    """Number of partitions."""
    records: Count
    """Number of records to write."""
    create: bool = False
    """Whether the topic will be created."""


class RestorePlan(StatusModel):
    """Result of the plan."""

    records: Count
    """Number of records to write."""
    bytes: Count | None = None
    """Bytes of keys, values and headers."""
    segments: Count | None = None
    """Number of segments to read."""
    restored_before: Count = 0
    """Number of records that an earlier run has already written."""
    topics: Annotated[tuple[PlannedTopic, ...], Field(max_length=MAX_STATUS_PLANNED_TOPICS)] = ()
    """Topics with the most records; at most 100."""
    topics_omitted: Count = 0
    """Number of topics that are not listed."""
    findings: Annotated[tuple[Annotated[str, Field(max_length=512)], ...], Field(max_length=50)] = ()
    """Findings of the preflight check of the target, such as a retention that would delete the records immediately."""


class RestoreProgress(StatusModel):
    """Progress of the Restore."""

    planned: Count = 0
    """Number of records to write, as far as known."""
    restored: Count = 0
    """Number of records written."""
    lost: Count = 0
    """Number of offsets that no segment covers, or whose segment is damaged."""
    remaining: Count = 0
    """Number of records that remain to be written."""
    percent: Annotated[int, Field(ge=0, le=100, json_schema_extra={"format": "int32"})] = 0
    """Percentage of the planned records; 100 only if nothing remains."""
    records_per_second: Annotated[float, Field(ge=0)] | None = None
    """Current rate in records per second."""
    eta_seconds: Annotated[float, Field(ge=0)] | None = None
    """Estimated remaining seconds at the current rate."""
    last_write_time: Moment | None = None
    """Time of the last write."""
    updated_at: Moment | None = None
    """Time of this update; at most one every 5 seconds."""


class LostRange(StatusModel):
    """A range of offsets that could not be restored."""

    topic: Annotated[str, Field(max_length=249)]
    """Name of the topic in the archive."""
    partition: Partition
    """Partition in the archive."""
    first: Count
    """First offset, inclusive."""
    last: Count
    """Last offset, inclusive."""
    reason: Annotated[str, Field(max_length=64)]
    """NotArchived (no segment covers the offsets), Damaged (the segment cannot be read), TargetRefuses (the target
    refuses the record), or another reason of gapless restore."""


class RestoreStatus(StatusModel):
    """Observed state of the Restore."""

    observed_generation: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] = 0
    """Generation of the spec that the status describes."""
    conditions: Conditions = ()
    """Conditions Accepted, Ready, Reconciling, Stalled and Succeeded."""
    phase: Annotated[str, Field(max_length=32)] | None = None
    """Short summary of the state for display. Programs should read the conditions."""
    plan: RestorePlan | None = None
    """Result of the plan."""
    progress: RestoreProgress | None = None
    """Progress of the Restore."""
    lost: Annotated[tuple[LostRange, ...], Field(max_length=MAX_STATUS_LOST_RANGES)] = ()
    """Ranges that could not be restored; at most 100."""
    last_attempt: LastAttempt | None = None
    """The latest attempt, of planning or restoring."""
    last_role: Literal["plan", "restore"] | None = None
    """Role of the latest attempt: plan or restore."""
    attempts_before: Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})] = 0
    """Number of attempts in earlier rounds. backoffLimit applies to the attempts of one round."""
    attempt: Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})] = 0
    """Number of the current or last attempt."""
    retry: Annotated[str, Field(max_length=64)] | None = None
    """Value of spec.retry when this round of attempts started."""
    started_at: Moment | None = None
    """Time at which restoring started."""
    observed_at: Moment | None = None
    """Time at which the operator had last read the progress of the pods when it last changed this status. It is written
    only together with other changes: an old time means that nothing has changed since, not that nothing looks. The
    operator removes the rate and the remaining time when it has read no progress for 15 minutes."""
    finished_at: Moment | None = None
    """Time at which the Restore ended."""
    retry_at: Moment | None = None
    """Time of the next attempt after a failure."""
    message: Message | None = None
    """Outcome of the latest attempt."""
