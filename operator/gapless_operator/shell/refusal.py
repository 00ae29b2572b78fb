"""Owns the status of a resource that cannot be reconciled; must not know the rules of any kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gapless_api.v1alpha1.conditions import Condition, ConditionType, condition
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
    """Return a status with the reason, and an event if the reason is new; ``None`` when the status has it already.

    Args:
        body: the object as the API server has it.
        reason: of the conditions.
        message: of the conditions.
        now: the time.
        final: whether retrying is useless until the spec changes.
    """
    status = dict(body.get("status") or {})
    generation = int(body["metadata"].get("generation", 0))
    owner = f"{body.get('kind')} {body['metadata'].get('namespace')}/{body['metadata'].get('name')}"
    before = tuple(
        parse(Condition, entry, owner=owner, path="status.conditions") for entry in status.get("conditions") or ()
    )
    updates = {
        ConditionType.RECONCILING: ConditionUpdate(not final, reason, message),
        ConditionType.STALLED: ConditionUpdate(True, reason, message),
    }
    if body.get("kind") != KafkaConnection.KIND:  # It has no condition Ready.
        updates[ConditionType.READY] = ConditionUpdate(False, reason, message)
    conditions = [entry.to_dict() for entry in conditions_with(before, updates, generation=generation, now=now)]
    after = {**status, "observedGeneration": generation, "conditions": conditions}
    if after == status:
        return None, ()
    stalled = condition(before, ConditionType.STALLED)
    is_known = stalled is not None and (stalled.status, stalled.reason) == ("True", str(reason))
    return after, () if is_known else (Event(EventType.WARNING, reason, message),)
