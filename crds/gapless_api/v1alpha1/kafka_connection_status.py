"""The status of a KafkaConnection, the result of ``gapless doctor``; must not know how it checks."""

from typing import Annotated, Literal

from pydantic import Field

from gapless_api.v1alpha1.attempt_status import LastAttempt
from gapless_api.v1alpha1.conditions import Conditions
from gapless_api.v1alpha1.model import Message, Moment, StatusModel

MAX_STATUS_FINDINGS = 20
"""Findings in the status, by severity; the log of the pod has more."""
MAX_REQUEST_LENGTH = 256
_Number = Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})]
_Text = Annotated[str, Field(max_length=1024)]
Severity = Literal["Error", "Warning", "Note"]


class Finding(StatusModel):
    """A problem, a risk, or a fact that could not be checked."""

    id: Annotated[str, Field(max_length=64)]
    """Kind of the finding; see docs/reference/doctor-findings.md."""
    severity: Severity
    """Error: something does not work, or data is lost. Warning: this may happen. Note: information, or a check that was
    not possible."""
    where: _Text = ""
    """Affected topics with partitions, brokers, groups or files. Absent if it concerns the cluster itself."""
    message: Message
    """Description of the problem."""
    action: _Text = ""
    """Required action."""
    danger: _Text = ""
    """Data that the obvious repair would destroy. Absent if it destroys none."""


class DoctorStatus(StatusModel):
    """Result of the last check."""

    request: Annotated[str, Field(max_length=MAX_REQUEST_LENGTH)]
    """Value of the annotation gapless.dev/doctor that started the check."""
    checked_at: Moment | None = None
    """Time at which the check ended. Absent if no check has ended with a result."""
    worst: Severity | None = None
    """Highest severity of the findings. Absent if there are none."""
    errors: _Number = 0
    """Number of findings with severity Error."""
    warnings: _Number = 0
    """Number of findings with severity Warning."""
    notes: _Number = 0
    """Number of findings with severity Note."""
    findings: Annotated[tuple[Finding, ...], Field(max_length=MAX_STATUS_FINDINGS)] = ()
    """Findings, highest severity first."""
    findings_omitted: _Number = 0
    """Number of findings that are not listed; the log of the pod has more."""


class KafkaConnectionStatus(StatusModel):
    """Observed state of the connection. Healthy is Unknown before the first check."""

    observed_generation: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] = 0
    """Generation of the spec that the status describes."""
    conditions: Conditions = ()
    """Healthy, Reconciling and Stalled, each with its reason."""
    runs: _Number = 0
    """Number of checks that have started."""
    last_attempt: LastAttempt | None = None
    """The latest check."""
    doctor: DoctorStatus | None = None
    """Result of the last check."""
