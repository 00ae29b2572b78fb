"""Owns the status of a Resend: plan, progress and what could not be sent; must not know how it comes about."""

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

LONGEST_UNAVAILABLE = 100
"""Ranges in the status; the report has them all."""


class ResendPlan(StatusModel):
    """Result of the plan."""

    events: Count
    """Planned offsets."""
    ranges: Count = 0
    """Ranges of the planned offsets."""
    bytes: Count | None = None
    """Payload in bytes, estimated by a sample."""
    datagrams: Count | None = None
    """Datagrams, estimated by a sample."""
    estimated_seconds: Annotated[float, Field(ge=0)] | None = None
    """Estimated duration at the rate that eps and the Diode's budget allow."""
    unavailable: Count = 0
    """Chosen offsets that cannot be sent, as far as is known without reading."""


class Progress(StatusModel):
    """Progress. planned = sent + filtered + filled + unavailable + remaining."""

    planned: Count = 0
    """Planned events."""
    sent: Count = 0
    """Events sent."""
    filtered: Count = 0
    """Events sent empty because a rule denied them."""
    filled: Count = 0
    """Offsets without an event, sent as empty ones."""
    unavailable: Count = 0
    """Events that could not be sent."""
    percent: Annotated[int, Field(ge=0, le=100, json_schema_extra={"format": "int32"})] = 0
    """Percentage that is done; 100 only if nothing remains."""
    events_per_second: Annotated[float, Field(ge=0)] | None = None
    """Current rate."""
    eta_seconds: Annotated[float, Field(ge=0)] | None = None
    """Estimated remaining time at this rate."""
    updated_at: Moment | None = None
    """Time of this update; at most one every 5 seconds."""


class UnavailableRange(StatusModel):
    """Offsets that could not be sent, for one reason."""

    topic: Annotated[str, Field(max_length=249)]
    """Topic as the receiving side names it."""
    partition: Partition
    """Partition as the receiving side numbers it."""
    first: Offset
    """First offset, inclusive."""
    last: Offset
    """Last offset, inclusive."""
    reason: Annotated[str, Field(max_length=64)]
    """NonExistent (compacted away, or a transaction marker), Expired (deleted by retention), NotYetWritten (beyond the
    partition's end), TooLarge (more datagrams than the receiver accepts), or ArchiveDamaged (deleted by retention, and
    in the archive only in a segment that is missing or damaged)."""


class ResendStatus(StatusModel):
    """Observed state of the Resend."""

    observed_generation: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] = 0
    """Generation of the spec that the status describes."""
    conditions: Conditions = ()
    """Accepted, Ready, Reconciling, Stalled and Succeeded, each with its reason."""
    phase: Annotated[str, Field(max_length=32)] | None = None
    """Short summary for people. Programs should read the conditions."""
    plan: ResendPlan | None = None
    """Result of the plan."""
    progress: Progress | None = None
    """Progress of the Resend."""
    unavailable: Annotated[tuple[UnavailableRange, ...], Field(max_length=LONGEST_UNAVAILABLE)] = ()
    """Ranges that could not be sent; the first 100, all are in the report."""
    attempt: Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})] = 0
    """Number of the current or last attempt."""
    job: Annotated[str, Field(max_length=253)] | None = None
    """Name of the Job that sends or sent."""
    session_key_secret: Annotated[str, Field(max_length=253)] | None = None
    """Name of the Secret with the session key; the pods of all attempts at the same work share it."""
    report: Annotated[str, Field(max_length=253)] | None = None
    """Name of the ConfigMap with the complete report."""
    identity: Sha256 | None = None
    """Digest of the work, as in the Diode's ledger."""
    force: Annotated[str, Field(max_length=64)] | None = None
    """Value of spec.force when this work began."""
    retry: Annotated[str, Field(max_length=64)] | None = None
    """Value of spec.retry when this round of attempts began."""
    attempts_before: Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})] = 0
    """Number of attempts before this round. backoffLimit counts the attempts of one round."""
    checkpoint: Annotated[str, Field(max_length=128)] | None = None
    """Folder on the Diode's volume with the checkpoints. The next Resend of the same work resumes there."""
    bundle_id: Annotated[str, Field(max_length=128)] | None = None
    """Id of the bundle, when it has one."""
    bundle_sha256: Sha256 | None = None
    """Digest of the bundle that was validated. A different bundle in its place is not sent."""
    started_at: Moment | None = None
    """Time of its first turn."""
    finished_at: Moment | None = None
    """When it ended."""
    retry_at: Moment | None = None
    """Start of the next attempt after a failure."""
