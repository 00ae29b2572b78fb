"""The reconciliation of an Archive, whose two works run at the same time: archiving and compacting.

See `gapless_operator.lifecycle` for the order of the steps of each.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from gapless_api.v1alpha1.conditions import ConditionType
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.archiving.archive.archiving import ARCHIVING
from gapless_operator.archiving.archive.compacting import COMPACTING
from gapless_operator.archiving.archive.context import Context, context_of
from gapless_operator.common.result import Announced, Result
from gapless_operator.lifecycle.reconcile import Kind, reconcile, with_times

if TYPE_CHECKING:
    from gapless_api.v1alpha1.archive import Archive
    from gapless_operator.common.plan import Plan
    from gapless_operator.common.settings import Program
    from gapless_operator.engines.observed import WorkObserved

_PROBLEMS = frozenset(
    {Reason.RETENTION_OVERTAKING, Reason.NO_PROGRESS, Reason.LOG_TRUNCATED, Reason.RECORDS_LOST, Reason.TOPIC_RECREATED}
)
"""Problems of an archive that runs; what prevents it from running has its own event."""


def reconcile_archive(archive: Archive, observed: WorkObserved, now: datetime, *, program: Program) -> Plan:
    """Plan the next step of an Archive.

    Args:
        archive: the resource, with its last written status.
        observed: the objects that belong to it.
        now: the time.
        program: the defaults for pods that the spec does not set.
    """
    return reconcile(_ARCHIVE, archive, observed, lambda: context_of(archive, observed, now, program=program))


def _finish(context: Context, result: Result) -> Result:
    schedules = {"next_schedule_time": context.schedule, "next_compaction_time": context.compaction_schedule}
    return with_times(context, result, schedules, last=context.main.last)


_ARCHIVE: Kind[Context] = Kind(
    works=(ARCHIVING, COMPACTING),
    announced=Announced(ConditionType.STALLED, _PROBLEMS, only_warnings=True),
    finish=_finish,
)
