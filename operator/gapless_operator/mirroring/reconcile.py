"""Owns the reconciliation of a Mirror, in this order: stop, conclude, watch, validate and start; then clean up.

A pure function from observed state to a plan: it must not know the cluster, the clock or how an engine works. It is
idempotent: after a crash it creates the same names again, and adopts an attempt that was started and not recorded.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.plan import Plan
from gapless_operator.common.result import plan_of
from gapless_operator.engines.tracks import leftovers
from gapless_operator.mirroring.attempts import conclude, rest_or_start, stop, watch
from gapless_operator.mirroring.context import context_of

if TYPE_CHECKING:
    from datetime import datetime

    from gapless_api.v1alpha1.mirror import Mirror
    from gapless_operator.common.settings import Program
    from gapless_operator.engines.observed import WorkObserved

_NORMAL = frozenset(
    {Reason.MIRRORING, Reason.SOURCE_IDLE, Reason.NEVER_MIRRORED, Reason.SUSPENDED, Reason.STOPPED, Reason.RETRYING}
)
_WARNINGS = frozenset(Reason) - _NORMAL


def reconcile_mirror(
    mirror: Mirror, observed: WorkObserved, now: datetime, *, spark: Program, workers: Program
) -> Plan:
    """Return the plan for a Mirror.

    Args:
        mirror: with its last status.
        observed: its child objects, and the objects that it names.
        now: the time.
        spark: image and service account of engine Spark, unless the spec sets them.
        workers: image and service account of engine Workers.
    """
    if mirror.metadata.deleting:
        # A finalizer may keep it for a long time.
        return Plan(stop=observed.running())
    context = context_of(mirror, observed, now, spark=spark, workers=workers)
    result = stop(context) or conclude(context) or watch(context) or rest_or_start(context)
    if not (result.stop or result.apply):
        result = replace(result, delete=leftovers((context.track,), observed))
    result = replace(result, stop=(*result.stop, *observed.orphans()))
    return plan_of(mirror, mirror.status, result, now=now, warnings=_WARNINGS)
