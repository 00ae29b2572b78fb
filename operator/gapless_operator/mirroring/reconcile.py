"""Owns what a Mirror needs next, in this order: stop, conclude, watch, validate and start; and the clean-up.

Must not know the cluster, the clock or how an engine works: all of it is handed in, and a plan comes out. It may be
called at any time: a crash anywhere repeats it under the same names; an attempt that began and was not recorded is
found again and taken over.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.children import running_children
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

_CALM = frozenset(
    {Reason.MIRRORING, Reason.SOURCE_IDLE, Reason.NEVER_MIRRORED, Reason.SUSPENDED, Reason.STOPPED, Reason.RETRYING}
)
_WARNINGS = frozenset(Reason) - _CALM


def reconcile_mirror(
    mirror: Mirror, observed: WorkObserved, now: datetime, *, spark: Program, workers: Program
) -> Plan:
    """Say what a Mirror needs next.

    Args:
        mirror: with the status that was written last.
        observed: what belongs to it.
        now: the time.
        spark: what the pods of engine Spark are made of, unless the spec says otherwise.
        workers: what the pods of engine Workers are made of.
    """
    if mirror.metadata.deleting:
        # Somebody's finalizer may keep it for long.
        return Plan(stop=running_children(observed.jobs, observed.pods))
    context = context_of(mirror, observed, now, spark=spark, workers=workers)
    result = stop(context) or conclude(context) or watch(context) or rest_or_start(context)
    if not (result.stop or result.apply):
        result = replace(result, delete=leftovers((context.track,), observed))
    return plan_of(mirror, mirror.status, result, now=now, warnings=_WARNINGS)
