"""Owns the status of a Restore: plan, progress and what was lost; must not know how it comes about."""

from typing import Annotated, Literal

from pydantic import Field

from gapless_api.v1alpha1.attempt_status import LastAttempt
from gapless_api.v1alpha1.common import Count, Partition
from gapless_api.v1alpha1.conditions import Conditions
from gapless_api.v1alpha1.model import Message, Moment, StatusModel

LONGEST_PLANNED_TOPICS = 100
LONGEST_LOST = 100
"""Ranges in the status; the log has them all."""


class PlannedTopic(StatusModel):
    """What would be restored of one topic."""

    topic: Annotated[str, Field(max_length=249)]
    """Name in the archive."""
    to_topic: Annotated[str, Field(max_length=249)]
    """Name in the target."""
    topic_id: Annotated[str, Field(max_length=64)] | None = None
    """Generation in the archive."""
    partitions: Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})]
    """Number of partitions."""
    records: Count
    """Records that would be written."""
    create: bool = False
    """Whether the topic would be created."""


class RestorePlan(StatusModel):
    """Result of the plan."""

    records: Count
    """Records that would be written."""
    bytes: Count | None = None
    """Bytes of keys, values and headers."""
    segments: Count | None = None
    """Segments that would be read."""
    restored_before: Count = 0
    """Records that an earlier run has written already."""
    topics: Annotated[tuple[PlannedTopic, ...], Field(max_length=LONGEST_PLANNED_TOPICS)] = ()
    """Topics with the most records first."""
    topics_omitted: Count = 0
    """Topics that are not listed."""
    findings: Annotated[tuple[Annotated[str, Field(max_length=512)], ...], Field(max_length=50)] = ()
    """What the preflight check of the target found, such as a retention that would delete the records at once."""


class RestoreProgress(StatusModel):
    """Progress of the work."""

    planned: Count = 0
    """Records to write, as far as they are known."""
    restored: Count = 0
    """Records written."""
    lost: Count = 0
    """Offsets of the source that no segment holds and none explains, or whose segment is damaged."""
    remaining: Count = 0
    """Records that are still to be written."""
    percent: Annotated[int, Field(ge=0, le=100, json_schema_extra={"format": "int32"})] = 0
    """Percentage that is done; 100 only if nothing remains."""
    records_per_second: Annotated[float, Field(ge=0)] | None = None
    """Current rate."""
    eta_seconds: Annotated[float, Field(ge=0)] | None = None
    """Estimated remaining time at this rate."""
    last_write_time: Moment | None = None
    """When records were written last."""
    updated_at: Moment | None = None
    """Time of this update; at most one every 5 seconds."""


class LostRange(StatusModel):
    """Offsets that could not be restored."""

    topic: Annotated[str, Field(max_length=249)]
    """Name in the archive."""
    partition: Partition
    """Partition in the archive."""
    first: Count
    """First offset, inclusive."""
    last: Count
    """Last offset, inclusive."""
    reason: Annotated[str, Field(max_length=64)]
    """NotArchived (no segment has them), Damaged (their segment cannot be read), or another word of gapless restore."""


class RestoreStatus(StatusModel):
    """Observed state of the Restore."""

    observed_generation: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] = 0
    """Generation of the spec that the status describes."""
    conditions: Conditions = ()
    """Accepted, Ready, Reconciling, Stalled and Succeeded, each with its reason."""
    phase: Annotated[str, Field(max_length=32)] | None = None
    """Short summary for people. Programs should read the conditions."""
    plan: RestorePlan | None = None
    """Result of the plan."""
    progress: RestoreProgress | None = None
    """Progress of the work."""
    lost: Annotated[tuple[LostRange, ...], Field(max_length=LONGEST_LOST)] = ()
    """Ranges that could not be restored; the first 100."""
    last_attempt: LastAttempt | None = None
    """The latest run, of a plan or of the work."""
    last_role: Literal["plan", "restore"] | None = None
    """What it did."""
    attempts_before: Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})] = 0
    """Number of attempts before this round. backoffLimit counts the attempts of one round."""
    attempt: Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})] = 0
    """Number of the current or last attempt."""
    retry: Annotated[str, Field(max_length=64)] | None = None
    """Value of spec.retry when this round of attempts began."""
    started_at: Moment | None = None
    """When the first records could be written."""
    finished_at: Moment | None = None
    """When it ended."""
    retry_at: Moment | None = None
    """Start of the next attempt after a failure."""
    message: Message | None = None
    """How the latest attempt ended."""
