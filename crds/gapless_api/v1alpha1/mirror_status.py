"""Owns what the status of a Mirror says: how far each topic is copied, and why not further.

Must not know how anything is copied.
"""

from typing import Annotated, Literal

from pydantic import Field

from gapless_api.v1alpha1.attempt_status import LastAttempt
from gapless_api.v1alpha1.common import Count, Partition
from gapless_api.v1alpha1.conditions import Conditions
from gapless_api.v1alpha1.model import Message, Moment, StatusModel

LONGEST_TOPICS = 100
"""Topics in the status: those with the most records to copy."""
LONGEST_PROBLEMS = 20
"""Problems in the status: the gravest first."""
_Number = Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})]


class MirroredTopic(StatusModel):
    """How far a topic is copied."""

    topic: Annotated[str, Field(max_length=249)]
    """Name in the source."""
    target: Annotated[str, Field(max_length=249)]
    """Name in the target."""
    partitions: _Number
    """Number of partitions."""
    lag_records: Count
    """Records that are not copied yet."""
    lag_seconds: Annotated[float, Field(ge=0)] | None = None
    """Age of the oldest record that is not copied yet; 0 when there is none."""


class MirrorTrouble(StatusModel):
    """Why a topic, or all of them, are not copied."""

    reason: Annotated[str, Field(max_length=64)]
    """The stall in one word; see docs/reference/conditions.md."""
    topic: Annotated[str, Field(max_length=249)] = ""
    """Name in the source; absent when it is not about one topic."""
    partition: Partition | None = None
    """The partition; absent when it is about several, or about none."""
    since: Moment | None = None
    """When it was noticed."""
    message: Message
    """Description of the stall and the required action."""


class MirrorStatus(StatusModel):
    """Observed state of the mirror."""

    observed_generation: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] = 0
    """Generation of the spec that the status describes."""
    conditions: Conditions = ()
    """Ready, Progressing, Reconciling and Stalled, each with its reason."""
    mirror_name: Annotated[str, Field(max_length=63)] | None = None
    """Name of the mirror in the target cluster; its positions are in the topic _gapless_mirror_NAME."""
    engine: Literal["Workers", "Spark"] | None = None
    """What copies."""
    last_attempt: LastAttempt | None = None
    """The latest Job or SparkApplication, which runs until it is replaced."""
    failures: _Number = 0
    """Number of attempts that have ended since the last one that copied anything."""
    workers: _Number | None = None
    """Pods that copy: workers, or the driver of Spark."""
    lanes: _Number | None = None
    """Number of lanes of the mirror."""
    lanes_owned: _Number | None = None
    """Lanes that a pod has taken; fewer than lanes only while they move."""
    records: Count | None = None
    """Records that the pods which run now have copied since they started."""
    partitions: _Number | None = None
    """Partitions of the chosen topics."""
    partitions_with_lag: _Number | None = None
    """Partitions with records that are not copied yet."""
    lag_records: Count | None = None
    """Records that are not copied yet, in all topics."""
    lag_seconds: Annotated[float, Field(ge=0)] | None = None
    """Age of the oldest record that is not copied yet; 0 when there is none."""
    retention_seconds: Annotated[float, Field(ge=0)] | None = None
    """Estimated seconds until the source deletes records that are not copied yet; absent when none is in danger."""
    heartbeat_age_seconds: Annotated[float, Field(ge=0)] | None = None
    """Age of the last heartbeat that arrived in the target; absent without heartbeats."""
    lost_records: Count | None = None
    """Records that the source deleted before they were copied, and that were skipped by decision."""
    last_commit_time: Moment | None = None
    """When records were copied last."""
    problems: Annotated[tuple[MirrorTrouble, ...], Field(max_length=LONGEST_PROBLEMS)] = ()
    """Why topics are not copied; the gravest first."""
    topics: Annotated[tuple[MirroredTopic, ...], Field(max_length=LONGEST_TOPICS)] = ()
    """The topics with the most records to copy first."""
    topics_omitted: Count = 0
    """Topics that are not listed."""
    updated_at: Moment | None = None
    """Time of these figures; at most one update every 10 seconds."""
