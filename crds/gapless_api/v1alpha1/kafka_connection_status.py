"""Owns what the status of a KafkaConnection says: what ``gapless doctor`` found when it checked the cluster last.

Must not know how anything is checked.
"""

from typing import Annotated, Literal

from pydantic import Field

from gapless_api.v1alpha1.attempt_status import LastAttempt
from gapless_api.v1alpha1.conditions import Conditions
from gapless_api.v1alpha1.model import Message, Moment, StatusModel

LONGEST_FINDINGS = 20
"""Findings in the status, the worst first; the log of the pod has more."""
LONGEST_REQUEST = 256
_Number = Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})]
_Text = Annotated[str, Field(max_length=1024)]
Severity = Literal["Error", "Warning", "Note"]


class Finding(StatusModel):
    """One thing that is wrong, may become wrong, or could not be checked."""

    id: Annotated[str, Field(max_length=64)]
    """Which check found it; see docs/reference/doctor-findings.md."""
    severity: Severity
    """Error: something does not work, or data is lost. Warning: it may come to that. Note: good to know, or not
    checked."""
    where: _Text = ""
    """Topics with partitions, brokers, groups or files; absent for the cluster itself."""
    message: Message
    """What is wrong."""
    action: _Text = ""
    """What to do about it."""
    danger: _Text = ""
    """What the obvious repair destroys; absent for nothing."""


class DoctorStatus(StatusModel):
    """What the last check found."""

    request: Annotated[str, Field(max_length=LONGEST_REQUEST)]
    """Value of the annotation gapless.dev/doctor that started it."""
    checked_at: Moment | None = None
    """When it ended. Absent when no check has ended with a result."""
    worst: Severity | None = None
    """Severity of the worst finding; absent when there is none."""
    errors: _Number = 0
    """Findings of severity Error."""
    warnings: _Number = 0
    """Findings of severity Warning."""
    notes: _Number = 0
    """Findings of severity Note."""
    findings: Annotated[tuple[Finding, ...], Field(max_length=LONGEST_FINDINGS)] = ()
    """The worst first."""
    findings_omitted: _Number = 0
    """Findings that are not listed; the log of the pod has more."""


class KafkaConnectionStatus(StatusModel):
    """Observed state of the connection. Empty before the first check."""

    observed_generation: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] = 0
    """Generation of the spec that the status describes."""
    conditions: Conditions = ()
    """Healthy, Reconciling and Stalled, each with its reason."""
    runs: _Number = 0
    """Number of checks that have begun."""
    last_attempt: LastAttempt | None = None
    """The latest check."""
    doctor: DoctorStatus | None = None
    """What the last check found."""
