"""The status of a Resend: plan, progress, and events that could not be sent; must not know how it sends."""

from typing import Annotated

from pydantic import Field

from gapless_api.v1alpha1.common import (
    Count,
    Offset,
    Partition,
    Sha256,
)
from gapless_api.v1alpha1.conditions import Conditions
from gapless_api.v1alpha1.model import Moment, StatusModel

MAX_STATUS_UNAVAILABLE_RANGES = 100
"""Ranges listed in the status; the report lists all."""


class ResendPlan(StatusModel):
    """Result of the plan."""

    events: Count
    """Number of planned events."""
    ranges: Count = 0
    """Number of ranges of planned offsets."""
    bytes: Count | None = None
    """Payload in bytes, estimated from a sample."""
    datagrams: Count | None = None
    """Number of datagrams, estimated from a sample."""
    estimated_seconds: Annotated[float, Field(ge=0)] | None = None
    """Estimated duration in seconds at the rate that eps and the Diode's budget allow."""
    oldest_event: Moment | None = None
    """Timestamp of the oldest of these events that Kafka has: since when something is missing; absent if not known."""
    expires_from: Moment | None = None
    """When Kafka's retention may delete the first of these events by its age; absent if never, or if not known."""
    unavailable: Count = 0
    """Number of selected offsets that cannot be sent, as far as this is known without reading the records."""


class Progress(StatusModel):
    """Progress of a Resend. planned = sent + filtered + filled + unavailable + remaining."""

    planned: Count = 0
    """Number of planned events."""
    sent: Count = 0
    """Number of events sent."""
    filtered: Count = 0
    """Number of events sent with an empty value because a rule denied them."""
    filled: Count = 0
    """Number of offsets without an event for which empty events were sent."""
    unavailable: Count = 0
    """Number of events that could not be sent."""
    percent: Annotated[int, Field(ge=0, le=100, json_schema_extra={"format": "int32"})] = 0
    """Percentage of the planned events; 100 only if nothing remains."""
    events_per_second: Annotated[float, Field(ge=0)] | None = None
    """Current rate in events per second."""
    eta_seconds: Annotated[float, Field(ge=0)] | None = None
    """Estimated remaining seconds at the current rate."""
    updated_at: Moment | None = None
    """Time of this update; at most one every 5 seconds."""


class UnavailableRange(StatusModel):
    """A range of offsets that could not be sent for the same reason."""

    topic: Annotated[str, Field(max_length=249)]
    """Topic as the receiving side names it."""
    partition: Partition
    """Partition as the receiving side numbers it."""
    first: Offset
    """First offset, inclusive."""
    last: Offset
    """Last offset, inclusive."""
    reason: Annotated[str, Field(max_length=64)]
    """NonExistent (removed by compaction, or a transaction marker), Expired (deleted by retention), NotYetWritten
    (beyond the end of the partition), TooLarge (more datagrams than maxFragments), or ArchiveDamaged (deleted by
    retention, and the segment in the archive is missing or damaged)."""


class ResendStatus(StatusModel):
    """Observed state of the Resend."""

    observed_generation: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] = 0
    """Generation of the spec that the status describes."""
    conditions: Conditions = ()
    """Conditions Accepted, Ready, Reconciling, Stalled and Succeeded."""
    phase: Annotated[str, Field(max_length=32)] | None = None
    """Short summary of the state for display. Programs should read the conditions."""
    plan: ResendPlan | None = None
    """Result of the plan."""
    progress: Progress | None = None
    """Progress of the Resend."""
    unavailable: Annotated[tuple[UnavailableRange, ...], Field(max_length=MAX_STATUS_UNAVAILABLE_RANGES)] = ()
    """Ranges that could not be sent; at most 100. The report lists all."""
    attempt: Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})] = 0
    """Number of the current or last attempt."""
    job: Annotated[str, Field(max_length=253)] | None = None
    """Name of the current or last Job."""
    session_key_secret: Annotated[str, Field(max_length=253)] | None = None
    """Name of the Secret with the session key, which the pods of all attempts share."""
    report: Annotated[str, Field(max_length=253)] | None = None
    """Name of the ConfigMap with the complete report."""
    identity: Sha256 | None = None
    """Digest of the work, as in the Diode's ledger."""
    force: Annotated[str, Field(max_length=64)] | None = None
    """Value of spec.force when the work started."""
    retry: Annotated[str, Field(max_length=64)] | None = None
    """Value of spec.retry when this round of attempts started."""
    attempts_before: Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})] = 0
    """Number of attempts in earlier rounds. backoffLimit applies to the attempts of one round."""
    checkpoint: Annotated[str, Field(max_length=128)] | None = None
    """Folder with the checkpoints on the Diode's volume. The next Resend of the same work resumes from them."""
    bundle_id: Annotated[str, Field(max_length=128)] | None = None
    """ID of the bundle, if it has one."""
    bundle_sha256: Sha256 | None = None
    """Digest of the bundle that was validated. No other bundle is sent."""
    started_at: Moment | None = None
    """Time at which the first attempt started."""
    observed_at: Moment | None = None
    """Time at which the operator had last read the progress of the pods when it last changed this status. It is written
    only together with other changes: an old time means that nothing has changed since, not that nothing looks. The
    operator removes the rate and the remaining time when it has read no progress for 2 minutes."""
    finished_at: Moment | None = None
    """Time at which the Resend ended."""
    retry_at: Moment | None = None
    """Time of the next attempt after a failure."""
