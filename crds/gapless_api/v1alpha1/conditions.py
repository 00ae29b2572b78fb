"""Owns conditions: what they are and how a list of them changes; must not know which kind has which, or why.

The conventions are those of Kubernetes, so that ``kubectl wait``, Flux (kstatus) and Argo CD read them: every condition
carries the generation it is about, and its time changes only with its status.
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
    """Resend: the spec is understood, and what it refers to exists."""
    GAP_TOPIC_COMPACTED = "GapTopicCompacted"
    """GapScan: the gaps topic is purely compacted, so that no record of a gap expires (True), is not (False), or its
    cleanup policy is unknown (Unknown)."""
    GAPS_CLOSED = "GapsClosed"
    """GapScan: no event that the previous bundle listed is still missing (True), some are (False), or this cannot be
    determined (Unknown)."""
    HEALTHY = "Healthy"
    """KafkaConnection: the last check found no error (True), or some (False). Absent before the first check."""
    LINK_UP = "LinkUp"
    """Diode: the last preflight on its node found the interface fit to send."""
    PROGRESSING = "Progressing"
    """Archive and Mirror: what Kafka has and the copy has not becomes less, or is nothing (True); it does not
    (False)."""
    READY = "Ready"
    """Diode, GapScan, Archive and Mirror: the observed state matches the spec; Resend and Restore: it has succeeded."""
    RECONCILING = "Reconciling"
    """Gapless is reconciling the spec."""
    STALLED = "Stalled"
    """Progress requires a manual change; the message says who must do what."""
    SUCCEEDED = "Succeeded"
    """The work is done (True), could not be done (False), or is not finished (Unknown)."""


ConditionStatus = Literal["True", "False", "Unknown"]


class Condition(StatusModel):
    """One condition of the resource."""

    type: Annotated[str, Field(min_length=1, max_length=64)]
    """Type of the condition, such as Ready."""
    status: ConditionStatus
    """Status of the condition: True, False or Unknown."""
    observed_generation: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})]
    """Generation of the spec that the condition describes."""
    last_transition_time: Moment
    """When the status last changed."""
    reason: Annotated[str, Field(min_length=1, max_length=64)]
    """Machine-readable reason; docs/reference/conditions.md lists all of them."""
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
    """Find a condition; ``None`` when it is not set."""
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
        reason: why, in one word; another text is kept as it is.
        message: why, in a sentence.
        generation: of the resource that was looked at.
        now: the time of the transition, if it is one.
    """
    new_status: ConditionStatus = "Unknown" if status is None else "True" if status else "False"
    others = {found.type: found for found in conditions}
    before = others.get(str(kind))
    since = before.last_transition_time if before is not None and before.status == new_status else now
    others[str(kind)] = Condition(
        type=str(kind),
        status=new_status,
        observed_generation=generation,
        last_transition_time=since,
        reason=str(reason),
        message=message,
    )
    return tuple(others[name] for name in sorted(others))
