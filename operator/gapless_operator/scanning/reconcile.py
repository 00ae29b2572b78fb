"""Owns the reconciliation of a GapScan; see `gapless_operator.lifecycle` for the order of its steps.

Before an attempt starts, the last one is shown, the spec is validated, and the state of an audit must be free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_operator.lifecycle.reconcile import Kind, reconcile, with_times
from gapless_operator.lifecycle.work import (
    Deadlines,
    Work,
    has_changed,
    is_replaced,
    is_suspended,
    reference_is_gone,
    would_be_refused,
)
from gapless_operator.scanning.attempts import (
    WRITE_EVERY,
    queue,
    show_last_attempt,
    start,
    superseded_objects,
    watch,
)
from gapless_operator.scanning.context import Context, context_of
from gapless_operator.scanning.manifests import work_digest
from gapless_operator.scanning.outcome import end_of, record
from gapless_operator.scanning.validate import Validated, refusal_now, validate

if TYPE_CHECKING:
    from datetime import datetime

    from gapless_api.v1alpha1.gapscan import GapScan
    from gapless_operator.common.plan import Plan
    from gapless_operator.common.refusal import Refusal
    from gapless_operator.common.result import Result
    from gapless_operator.common.settings import Program
    from gapless_operator.engines.engine import Attempt
    from gapless_operator.engines.observed import WorkObserved


def reconcile_gapscan(scan: GapScan, observed: WorkObserved, now: datetime, *, program: Program) -> Plan:
    """Return what a GapScan needs next.

    Args:
        scan: with the status that was last written.
        observed: what exists for it in the cluster.
        now: the time.
        program: what the pods of scans are made of, unless the spec says otherwise.
    """
    return reconcile(_GAPSCAN, scan, observed, lambda: context_of(scan, observed, now, program=program))


def _refusal_now(context: Context) -> Refusal | None:
    return refusal_now(context.resource, context.program)


def _is_current(context: Context, attempt: Attempt) -> bool:
    """Return whether an attempt does what the spec says now; with a schedule, the next one will."""
    scan = context.resource
    return scan.spec.schedule is not None or attempt.work == work_digest(scan, context.resolved)


def _is_due(context: Context) -> bool:
    return context.due.attempt is not None


def _deadlines(context: Context) -> Deadlines:
    engine = context.resource.spec.engine
    return Deadlines(engine.start_deadline_seconds, engine.run_deadline_seconds)


def _rest_or_start(context: Context) -> Result:
    result = show_last_attempt(context) or validate(context)
    if isinstance(result, Validated):
        return queue(context) or start(context, result)
    return result


def _finish(context: Context, result: Result) -> Result:
    return with_times(context, result, {"next_schedule_time": context.schedule}, last=context.track.last)


_SCANNING: Work[Context] = Work(
    track=lambda context: context.track,
    must_stop=(
        *(reference_is_gone, is_suspended, would_be_refused(_refusal_now)),
        *(has_changed(_is_current, "the spec"), is_replaced(_is_due, "scan")),
    ),
    deadlines=_deadlines,
    end=end_of,
    record=record,
    watch=watch,
    look_every=WRITE_EVERY,
    rest_or_start=_rest_or_start,
)
_GAPSCAN: Kind[Context] = Kind(works=(_SCANNING,), announced=None, finish=_finish, superseded=superseded_objects)
