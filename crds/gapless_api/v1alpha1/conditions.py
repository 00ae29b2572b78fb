"""Conditions: their types, and how a list of them is updated; must not know which kind sets which, or why.

They follow the Kubernetes API conventions, so that ``kubectl wait``, Flux (kstatus) and Argo CD read them: every
condition has an observedGeneration, and its lastTransitionTime changes only with its status.
"""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from gapless_api.v1alpha1.model import Message, Moment, StatusModel
from gapless_api.v1alpha1.reasons import Reason


class ConditionType(StrEnum):
    """The types of conditions."""

    ACCEPTED = "Accepted"
    """Resend and Restore: the spec is valid, and the objects that it refers to exist."""
    COMPACTED = "Compacted"
    """Archive: the latest compaction, which also applies the retention, has succeeded (True) or failed (False). Absent
    before the first one has ended."""
    GAP_TOPIC_COMPACTED = "GapTopicCompacted"
    """GapScan: the cleanup.policy of the gaps topic is compact, so that gap records never expire (True); it is not
    (False); or it is unknown (Unknown)."""
    GAPS_CLOSED = "GapsClosed"
    """GapScan: no event of the previous bundle is still missing (True), some are (False), or this cannot be determined
    (Unknown)."""
    HEALTHY = "Healthy"
    """KafkaConnection: the last check found no errors (True), or some (False). Absent before the first check."""
    LINK_UP = "LinkUp"
    """Diode: the last preflight check found that the interface of the node can send."""
    PROGRESSING = "Progressing"
    """Archive and Mirror: the lag decreases or is 0 (True), or it does not decrease (False)."""
    READY = "Ready"
    """Diode, GapScan, Archive and Mirror: the observed state matches the spec; Resend and Restore: it has succeeded."""
    RECONCILING = "Reconciling"
    """Gapless is reconciling the spec."""
    STALLED = "Stalled"
    """Progress requires a manual change; the message says which."""
    SUCCEEDED = "Succeeded"
    """Resend and Restore: the work is done (True), has failed (False), or is not finished (Unknown)."""


ConditionStatus = Literal["True", "False", "Unknown"]


class Condition(StatusModel):
    """Condition of the resource."""

    type: Annotated[str, Field(min_length=1, max_length=64)]
    """Type of the condition, such as Ready."""
    status: ConditionStatus
    """Status of the condition: True, False or Unknown."""
    observed_generation: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})]
    """Generation of the spec that the condition describes."""
    last_transition_time: Moment
    """When the status last changed."""
    reason: Annotated[str, Field(min_length=1, max_length=64)]
    """Machine-readable reason; docs/reference/conditions.md lists all reasons."""
    message: Message = ""
    """Description of the state and the required action."""


Conditions = Annotated[
    tuple[Condition, ...],
    Field(
        max_length=16,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    ),
]


def condition(conditions: Iterable[Condition], kind: ConditionType) -> Condition | None:
    """Return the condition of a type; ``None`` if it is not set."""
    return next((found for found in conditions if found.type == kind), None)


def is_true(conditions: Iterable[Condition], kind: ConditionType) -> bool:
    """Whether a condition is set and True."""
    found = condition(conditions, kind)
    return found is not None and found.status == "True"


def set_condition(  # noqa: PLR0913 -- the parts of a condition
    conditions: Iterable[Condition],
    kind: ConditionType,
    status: bool | None,  # noqa: FBT001 -- a condition's status has three values
    reason: Reason | str,
    message: str = "",
    *,
    generation: int,
    now: datetime,
) -> tuple[Condition, ...]:
    """Set one condition; return all conditions, sorted by type.

    Args:
        conditions: the conditions so far; those of other types stay unchanged.
        kind: the type of the condition.
        status: of the condition; ``None`` for Unknown.
        reason: machine-readable; a string for a reason that another version of the operator wrote.
        message: a sentence for people.
        generation: the observed generation of the resource.
        now: the time of the transition, if the status changes.
    """
    new_status: ConditionStatus = "Unknown" if status is None else "True" if status else "False"
    by_type = {existing.type: existing for existing in conditions}
    before = by_type.get(str(kind))
    since = before.last_transition_time if before is not None and before.status == new_status else now
    by_type[str(kind)] = Condition(
        type=str(kind),
        status=new_status,
        observed_generation=generation,
        last_transition_time=since,
        reason=str(reason),
        message=message,
    )
    return tuple(by_type[name] for name in sorted(by_type))
