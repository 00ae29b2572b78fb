"""Owns the order of a GapScan's reconcile: stop, conclude, validate, queue, start; and the clean-up.

Must not know the cluster, the clock or how an engine works. Pure: the same GapScan, observation and time give the same
plan. It may be called at any time: each plan is one small change whose status is written last, so a crash repeats it
with the same names; an attempt that was started but not recorded is found again.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from gapless_api.v1alpha1.scan_status import GapScanStatus
from gapless_operator.common.conditions import conditions_with
from gapless_operator.common.plan import Plan
from gapless_operator.scanning.attempts import queue, show_last_attempt, start, superseded_objects, watch
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

_MARGIN = timedelta(seconds=0.1)
"""Delay after a due time, so that it has passed by every clock."""


def reconcile_gapscan(scan: GapScan, observed: WorkObserved, now: datetime, *, program: Program) -> Plan:
    """Return what a GapScan needs next.

    Args:
        scan: with the status that was last written.
        observed: what exists for it in the cluster.
        now: the time.
        program: what the pods of scans are made of, unless the spec says otherwise.
    """
    if scan.metadata.deleting:
        # A finalizer may keep it for a long time.
        return Plan(stop=observed.running())
    context = context_of(scan, observed, now, program=program)
    return _plan(context, _next(context))


def _next(context: Context) -> Result:
    """Stop, conclude, validate, and only then queue and start."""
    recorded = stop(context) or conclude(context)
    if recorded is not None:
        return recorded
    result = watch(context) or show_last_attempt(context) or validate(context)
    if isinstance(result, Validated):
        queued = queue(context)
        if queued is None:
            return start(context, result)
        result = queued
    return replace(result, delete=superseded_objects(context))


def _plan(context: Context, result: Result) -> Plan:
    """Return the plan of a result, with a status only if it has changed."""
    scan, status, now = context.scan, context.scan.status, context.now
    generation = scan.metadata.generation
    conditions = conditions_with(status.conditions, result.conditions, generation=generation, now=now)
    following = context.schedule.next_after(now) if context.schedule is not None and not scan.spec.suspend else None
    last_attempt = {} if context.last is None else {"last_attempt": context.last}
    after = GapScanStatus.model_validate(
        {
            **{name: getattr(status, name) for name in GapScanStatus.model_fields},
            **last_attempt,
            **result.update,
            "observed_generation": generation,
            "conditions": conditions,
            "next_schedule_time": following,
        }
    ).to_dict()
    delays = [] if result.again_after is None else [result.again_after]
    if following is not None:
        delays.append(following - now)
    return Plan(
        stop=(*result.stop, *context.observed.orphans()),
        apply=result.apply,
        delete=result.delete,
        status=None if after == status.to_dict() else after,
        events=result.events,
        requeue_after_seconds=(max(min(delays), timedelta()) + _MARGIN).total_seconds() if delays else None,
    )
