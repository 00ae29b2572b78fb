"""Owns the reconciliation of a Mirror; see `gapless_operator.lifecycle` for the order of its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_api.v1alpha1.conditions import ConditionType
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.result import Announced
from gapless_operator.lifecycle.reconcile import Kind, reconcile
from gapless_operator.mirroring.attempts import WORK
from gapless_operator.mirroring.context import Context, context_of

if TYPE_CHECKING:
    from datetime import datetime

    from gapless_api.v1alpha1.mirror import Mirror
    from gapless_operator.common.plan import Plan
    from gapless_operator.common.settings import Program
    from gapless_operator.engines.observed import WorkObserved

_NORMAL = frozenset(
    {Reason.MIRRORING, Reason.SOURCE_IDLE, Reason.NEVER_MIRRORED, Reason.SUSPENDED, Reason.STOPPED, Reason.RETRYING}
)
_MIRROR: Kind[Context] = Kind(works=(WORK,), announced=Announced(ConditionType.READY, frozenset(Reason) - _NORMAL))


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
    return reconcile(_MIRROR, mirror, observed, lambda: context_of(mirror, observed, now, spark=spark, workers=workers))
