"""Owns the reconciliation of a Restore: stop, conclude, validate, then plan or restore; and the clean-up.

Must not know how records are written or pods are watched. A finished Restore never starts again by itself, nor when its
manifest is applied again: after a failure, only a new value of spec.retry starts another round.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gapless_api.v1alpha1.conditions import ConditionType, condition
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.archiving.restore.attempts import begin, conclude, stop, watch
from gapless_operator.archiving.restore.context import context_of
from gapless_operator.archiving.restore.figures import without_rate
from gapless_operator.common.plan import Plan
from gapless_operator.common.result import Result, plan_of
from gapless_operator.common.work_conditions import finished
from gapless_operator.engines.tracks import leftovers

if TYPE_CHECKING:
    from datetime import datetime

    from gapless_api.v1alpha1.restore import Restore
    from gapless_api.v1alpha1.restore_status import RestoreStatus
    from gapless_operator.archiving.restore.context import Context
    from gapless_operator.common.settings import Program
    from gapless_operator.engines.observed import WorkObserved

_NORMAL = frozenset(
    {
        *(Reason.PLANNING, Reason.PLANNED, Reason.STARTING, Reason.RESTORING, Reason.FOLLOWING, Reason.RESTORED),
        *(Reason.NOTHING_TO_RESTORE, Reason.SUSPENDED, Reason.STOPPED),
    }
)
_WARNINGS = frozenset(Reason) - _NORMAL


def reconcile_restore(restore: Restore, observed: WorkObserved, now: datetime, *, program: Program) -> Plan:
    """Plan the next step of a Restore.

    Args:
        restore: the resource, with its last written status.
        observed: the objects that belong to it.
        now: the time.
        program: the defaults for pods that the spec does not set.
    """
    if restore.metadata.deleting:
        # A finalizer may keep the resource for a long time.
        return Plan(stop=observed.running())
    context = context_of(restore, _status_after_retry(restore), observed, now, program=program)
    result = stop(context) or conclude(context) or watch(context) or _begin(context)
    if not (result.stop or result.apply):
        result = replace(result, delete=leftovers((context.track,), observed))
    result = replace(result, stop=(*result.stop, *observed.orphans()))
    return _plan(context, result)


def _begin(context: Context) -> Result:
    if context.status.finished_at is None:
        return begin(context)
    succeeded = condition(context.status.conditions, ConditionType.SUCCEEDED)
    if succeeded is None:
        return Result(conditions={})
    # Set again, because an earlier rejection by the API server may have changed the conditions.
    is_done = succeeded.status == "True"
    return Result(conditions=finished(succeeded.reason, succeeded.message, complete=is_done))


def _status_after_retry(restore: Restore) -> RestoreStatus:
    """Return the status without what a new value of spec.retry resets."""
    status, retry = restore.status, restore.spec.retry
    if status.retry == retry:
        return status
    update = {"retry": retry, "attempts_before": status.attempt, "retry_at": None}
    succeeded = condition(status.conditions, ConditionType.SUCCEEDED)
    has_failed = succeeded is not None and succeeded.status == "False"
    return status.model_copy(update={**update, **({"finished_at": None} if has_failed else {})})


def _plan(context: Context, result: Result) -> Plan:
    if "progress" not in result.update:  # Nothing runs, so it has no rate.
        result = replace(result, update={**result.update, "progress": without_rate(context.status.progress)})
    return plan_of(context.restore, context.status, result, now=context.now, warnings=_WARNINGS)
