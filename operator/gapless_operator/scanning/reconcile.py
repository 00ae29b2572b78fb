"""Owns what a GapScan needs next, in this order: stop, conclude, validate, then queue and start; and the clean-up.

Must not know the cluster, the clock or how an engine works: all of it is handed in, and a plan comes out. It may be
called at any time: each plan is one small change whose status is written last, so a crash anywhere repeats it under the
same names; an attempt that began and was not recorded is found again and taken over.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from gapless_api.v1alpha1.scan_status import GapScanStatus
from gapless_operator.common.conditions import conditions_with
from gapless_operator.common.plan import Plan
from gapless_operator.scanning.attempts import leftovers, queue, rest, start, watch
from gapless_operator.scanning.context import context_of
from gapless_operator.scanning.outcome import conclude, stop
from gapless_operator.scanning.validate import Validated, validate

if TYPE_CHECKING:
    from datetime import datetime

    from gapless_api.v1alpha1.gapscan import GapScan
    from gapless_operator.common.result import Result
    from gapless_operator.common.settings import Program
    from gapless_operator.engines.observed import WorkObserved
    from gapless_operator.scanning.context import Context

_AFTER_IT = timedelta(seconds=0.1)
"""How long after a moment to reconcile, so that it has come by any clock."""


def reconcile_gapscan(scan: GapScan, observed: WorkObserved, now: datetime, *, program: Program) -> Plan:
    """Say what a GapScan needs next.

    Args:
        scan: the resource, with its status as it was written last.
        observed: what belongs to it.
        now: the time.
        program: what the pods of scans are made of, unless the spec says otherwise.
    """
    if scan.metadata.deleting:
        return Plan()  # its children go with it
    context = context_of(scan, observed, now, program=program)
    return _plan(context, _next(context))


def _next(context: Context) -> Result:
    """Stop, conclude, validate, and only then start."""
    over = stop(context) or conclude(context)
    if over is not None:
        return over
    result = watch(context) or rest(context) or validate(context)
    if isinstance(result, Validated):
        waiting = queue(context)
        if waiting is None:
            return start(context, result)
        result = waiting
    return replace(result, delete=leftovers(context))


def _plan(context: Context, result: Result) -> Plan:
    """The plan with the status that follows from a result, if it is another one."""
    scan, status, now = context.scan, context.scan.status, context.now
    generation = scan.metadata.generation
    conditions = conditions_with(status.conditions, result.conditions, generation=generation, now=now)
    following = context.schedule.next_after(now) if context.schedule is not None and not scan.spec.suspend else None
    known = {} if context.last is None else {"last_attempt": context.last}
    after = GapScanStatus.model_validate(
        {
            **{name: getattr(status, name) for name in GapScanStatus.model_fields},
            **known,
            **result.update,
            "observed_generation": generation,
            "conditions": conditions,
            "next_schedule_time": following,
        }
    ).to_dict()
    waits = [] if result.again_after is None else [result.again_after]
    if following is not None:
        waits.append(following - now)
    return Plan(
        apply=result.apply,
        delete=result.delete,
        status=None if after == status.to_dict() else after,
        events=result.events,
        requeue_after_seconds=(max(min(waits), timedelta()) + _AFTER_IT).total_seconds() if waits else None,
    )
