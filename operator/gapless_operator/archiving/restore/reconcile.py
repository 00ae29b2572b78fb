"""Owns what a Restore needs next, in this order: stop, conclude, validate, then plan or restore; and the clean-up.

Must not know how anything is written or watched. A Restore that has ended never begins again by itself, nor because
its manifest is applied again: only another value of spec.retry starts another round after a failure.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gapless_api.v1alpha1.conditions import ConditionType, condition
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.archiving.restore.attempts import begin, conclude, stop, watch
from gapless_operator.archiving.restore.context import context_of
from gapless_operator.common.children import running_children
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

_CALM = frozenset(
    {
        *(Reason.PLANNING, Reason.PLANNED, Reason.STARTING, Reason.RESTORING, Reason.FOLLOWING, Reason.RESTORED),
        *(Reason.NOTHING_TO_RESTORE, Reason.SUSPENDED, Reason.STOPPED),
    }
)
_WARNINGS = frozenset(Reason) - _CALM


def reconcile_restore(restore: Restore, observed: WorkObserved, now: datetime, *, program: Program) -> Plan:
    """Say what a Restore needs next.

    Args:
        restore: with the status that was written last.
        observed: what belongs to it.
        now: the time.
        program: what the pods are made of, unless the spec says otherwise.
    """
    if restore.metadata.deleting:
        # Somebody's finalizer may keep it for long.
        return Plan(stop=running_children(observed.jobs, observed.pods))
    context = context_of(restore, _resumed(restore), observed, now, program=program)
    result = stop(context) or conclude(context) or watch(context) or _begin(context)
    if not (result.stop or result.apply):
        result = replace(result, delete=leftovers((context.track,), observed))
    return _plan(context, result)


def _begin(context: Context) -> Result:
    if context.status.finished_at is None:
        return begin(context)
    succeeded = condition(context.status.conditions, ConditionType.SUCCEEDED)
    if succeeded is None:
        return Result(conditions={})
    # Again, because the API server may have refused something since, which is over as well.
    is_done = succeeded.status == "True"
    return Result(conditions=finished(succeeded.reason, succeeded.message, complete=is_done))


def _resumed(restore: Restore) -> RestoreStatus:
    """The status without what another value of spec.retry has made void."""
    status, retry = restore.status, restore.spec.retry
    if status.retry == retry:
        return status
    update = {"retry": retry, "attempts_before": status.attempt, "retry_at": None}
    succeeded = condition(status.conditions, ConditionType.SUCCEEDED)
    has_failed = succeeded is not None and succeeded.status == "False"
    return status.model_copy(update={**update, **({"finished_at": None} if has_failed else {})})


def _plan(context: Context, result: Result) -> Plan:
    return plan_of(context.restore, context.status, result, now=context.now, warnings=_WARNINGS)
