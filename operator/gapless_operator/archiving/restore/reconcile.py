"""Owns the reconciliation of a Restore; see `gapless_operator.lifecycle` for the order of its steps.

A finished Restore never starts again by itself, nor when its manifest is applied again: after a failure, only a new
value of spec.retry starts another round. Must not know how records are written or pods are watched.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gapless_api.v1alpha1.conditions import ConditionType, condition
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.archiving.restore.attempts import WORK
from gapless_operator.archiving.restore.context import Context, context_of
from gapless_operator.archiving.restore.figures import without_rate
from gapless_operator.common.result import Announced, Result
from gapless_operator.lifecycle.reconcile import Kind, reconcile

if TYPE_CHECKING:
    from datetime import datetime

    from gapless_api.v1alpha1.restore import Restore
    from gapless_api.v1alpha1.restore_status import RestoreStatus
    from gapless_operator.common.plan import Plan
    from gapless_operator.common.settings import Program
    from gapless_operator.engines.observed import WorkObserved

_NORMAL = frozenset(
    {
        *(Reason.PLANNING, Reason.PLANNED, Reason.STARTING, Reason.RESTORING, Reason.FOLLOWING, Reason.RESTORED),
        *(Reason.NOTHING_TO_RESTORE, Reason.SUSPENDED, Reason.STOPPED),
    }
)


def reconcile_restore(restore: Restore, observed: WorkObserved, now: datetime, *, program: Program) -> Plan:
    """Plan the next step of a Restore.

    Args:
        restore: the resource, with its last written status.
        observed: the objects that belong to it.
        now: the time.
        program: the defaults for pods that the spec does not set.
    """
    return reconcile(
        _RESTORE,
        restore,
        observed,
        lambda: context_of(restore, _status_after_retry(restore), observed, now, program=program),
    )


def _status_after_retry(restore: Restore) -> RestoreStatus:
    """Return the status without what a new value of spec.retry resets."""
    status, retry = restore.status, restore.spec.retry
    if status.retry == retry:
        return status
    update = {"retry": retry, "attempts_before": status.attempt, "retry_at": None}
    succeeded = condition(status.conditions, ConditionType.SUCCEEDED)
    has_failed = succeeded is not None and succeeded.status == "False"
    return status.model_copy(update={**update, **({"finished_at": None} if has_failed else {})})


def _finish(context: Context, result: Result) -> Result:
    if "progress" in result.update:
        return result
    # Nothing runs, so it has no rate.
    return replace(result, update={**result.update, "progress": without_rate(context.status.progress)})


_RESTORE: Kind[Context] = Kind(
    works=(WORK,),
    announced=Announced(ConditionType.READY, frozenset(Reason) - _NORMAL),
    finish=_finish,
    status=lambda context: context.status,
)
