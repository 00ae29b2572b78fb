"""The status of a resource that cannot be reconciled, or must not; must not know the rules of any kind."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gapless_api.v1alpha1.archive import Archive
from gapless_api.v1alpha1.conditions import Condition, ConditionType, condition
from gapless_api.v1alpha1.gapscan import GapScan
from gapless_api.v1alpha1.kafka_connection import KafkaConnection
from gapless_api.v1alpha1.mirror import Mirror
from gapless_api.v1alpha1.model import parse
from gapless_api.v1alpha1.reasons import Reason
from gapless_api.v1alpha1.resend import Resend
from gapless_api.v1alpha1.restore import Restore
from gapless_operator.common.conditions import NOT_STALLED, ConditionUpdate, conditions_with
from gapless_operator.common.plan import Event, EventType
from gapless_operator.common.unknown_lag import without_lag

_CONTINUOUS = {Archive.KIND, Mirror.KIND}
"""Kinds with the condition Progressing."""
_FINITE = {Resend.KIND, Restore.KIND}
"""Kinds with the condition Succeeded, and a phase."""
_Changed = tuple[dict[str, Any] | None, tuple[Event, ...]]


def refusal_status(body: Mapping[str, Any], reason: Reason, message: str, *, now: datetime, final: bool) -> _Changed:
    """Return a status with the reason, and an event if the reason is new; ``None`` when the status has it already.

    Args:
        body: the object as the API server has it.
        reason: of the conditions.
        message: of the conditions.
        now: the time.
        final: whether retrying is useless until the spec changes, and what runs is stopped.
    """
    kind, status = str(body.get("kind")), dict(body.get("status") or {})
    update = ConditionUpdate(False, reason, message)
    updates = {
        ConditionType.RECONCILING: ConditionUpdate(not final, reason, message),
        ConditionType.STALLED: ConditionUpdate(True, reason, message),
    }
    if kind != KafkaConnection.KIND:  # It has no condition Ready.
        updates[ConditionType.READY] = update
    if final and kind in _CONTINUOUS:
        updates[ConditionType.PROGRESSING] = update
        status = without_lag(status)
    if final and kind in _FINITE:
        status["phase"] = str(reason)
        if not status.get("finishedAt"):  # What has succeeded before still has.
            updates[ConditionType.SUCCEEDED] = update
    before = _conditions(body)
    stalled = condition(before, ConditionType.STALLED)
    is_known = stalled is not None and (stalled.status, stalled.reason) == ("True", str(reason))
    return _with(body, status, updates, now, () if is_known else (Event(EventType.WARNING, reason, message),))


def suspension_status(body: Mapping[str, Any], message: str, *, now: datetime) -> _Changed:
    """Return the status of a resource in a suspended namespace, and an event if that is new; ``None`` if unchanged.

    What has finished stays as it is, and so does `Ready` of a GapScan, which is about its last scan.

    Args:
        body: the object as the API server has it; its spec need not be valid.
        message: why it is suspended, and what still runs.
        now: the time.
    """
    kind, status = str(body.get("kind")), dict(body.get("status") or {})
    if status.get("finishedAt"):
        return None, ()
    update = ConditionUpdate(False, Reason.SUSPENDED, message)
    updates = {ConditionType.RECONCILING: update, ConditionType.STALLED: NOT_STALLED}
    if kind not in {GapScan.KIND, KafkaConnection.KIND}:
        updates[ConditionType.READY] = update
    if kind in _CONTINUOUS:
        updates[ConditionType.PROGRESSING] = update
        status = without_lag(status)
    if kind in _FINITE:
        updates[ConditionType.SUCCEEDED] = ConditionUpdate(None, Reason.SUSPENDED, message)
        status["phase"] = str(Reason.SUSPENDED)
    reconciling = condition(_conditions(body), ConditionType.RECONCILING)
    is_known = reconciling is not None and reconciling.reason == Reason.SUSPENDED
    events = () if is_known else (Event(EventType.WARNING, Reason.SUSPENDED, message),)
    return _with(body, status, updates, now, events)


def _conditions(body: Mapping[str, Any]) -> tuple[Condition, ...]:
    owner = f"{body.get('kind')} {body['metadata'].get('namespace')}/{body['metadata'].get('name')}"
    entries = (body.get("status") or {}).get("conditions") or ()
    return tuple(parse(Condition, entry, owner=owner, path="status.conditions") for entry in entries)


def _with(
    body: Mapping[str, Any],
    status: Mapping[str, Any],
    updates: Mapping[ConditionType, ConditionUpdate],
    now: datetime,
    events: tuple[Event, ...],
) -> _Changed:
    """Return `status` with changed conditions, and the events; ``None`` and no events if nothing has changed."""
    generation = int(body["metadata"].get("generation", 0))
    changed = conditions_with(_conditions(body), updates, generation=generation, now=now)
    conditions = [entry.to_dict() for entry in changed]
    after = {**status, "observedGeneration": generation, "conditions": conditions}
    return (None, ()) if after == (body.get("status") or {}) else (after, events)
