"""Owns the status of a resource that its reconciler cannot or may not serve; must not know any kind's own rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gapless_api.v1alpha1.conditions import Condition, ConditionType
from gapless_api.v1alpha1.kafka_connection import KafkaConnection
from gapless_api.v1alpha1.model import parse
from gapless_operator.common.conditions import ConditionUpdate, conditions_with
from gapless_operator.common.plan import Event, EventType

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from gapless_api.v1alpha1.reasons import Reason


def refusal_status(
    body: Mapping[str, Any], reason: Reason, message: str, *, now: datetime, final: bool
) -> tuple[dict[str, Any] | None, tuple[Event, ...]]:
    """The status that says why nothing happens, and an event if that is news; ``None`` when it says so already.

    Args:
        body: the object as the API server has it.
        reason: in one word.
        message: in a sentence.
        now: the time.
        final: whether trying again is of no use before somebody changes the spec.
    """
    status = dict(body.get("status") or {})
    generation = int(body["metadata"].get("generation", 0))
    owner = f"{body.get('kind')} {body['metadata'].get('namespace')}/{body['metadata'].get('name')}"
    before = tuple(
        parse(Condition, condition, owner=owner, path="status.conditions")
        for condition in status.get("conditions") or ()
    )
    updates = {
        ConditionType.RECONCILING: ConditionUpdate(not final, reason, message),
        ConditionType.STALLED: ConditionUpdate(True, reason, message),
    }
    if body.get("kind") != KafkaConnection.KIND:  # which has nothing to do, and so is never ready
        updates[ConditionType.READY] = ConditionUpdate(False, reason, message)
    conditions = [condition.to_dict() for condition in conditions_with(before, updates, generation=generation, now=now)]
    after = {**status, "observedGeneration": generation, "conditions": conditions}
    if after == status:
        return None, ()
    stalled = next((condition for condition in before if condition.type == ConditionType.STALLED), None)
    known = stalled is not None and (stalled.status, stalled.reason) == ("True", str(reason))
    return after, () if known else (Event(EventType.WARNING, reason, message),)
