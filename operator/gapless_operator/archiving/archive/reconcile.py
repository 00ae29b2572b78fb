"""Owns what an Archive needs next: for archiving stop, conclude, validate, start; beside it the same for compacting.

Must not know the cluster, the clock or how an engine works: all of it is handed in, and a plan comes out. It may be
called at any time: a crash anywhere repeats it under the same names; an attempt that began and was not recorded is
found again and taken over.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from gapless_api.v1alpha1.archive_status import ArchiveStatus
from gapless_api.v1alpha1.conditions import ConditionType
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.archiving.archive.archiving import conclude, rest_or_start, stop, watch
from gapless_operator.archiving.archive.compacting import compaction_step, next_compaction_time
from gapless_operator.archiving.archive.context import context_of
from gapless_operator.common.children import running_children
from gapless_operator.common.conditions import conditions_with, transition
from gapless_operator.common.plan import Plan
from gapless_operator.engines.tracks import leftovers

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from gapless_api.v1alpha1.archive import Archive
    from gapless_api.v1alpha1.conditions import Condition
    from gapless_operator.archiving.archive.context import Context
    from gapless_operator.common.plan import Event
    from gapless_operator.common.result import Result
    from gapless_operator.common.settings import Program
    from gapless_operator.engines.observed import WorkObserved

_PROBLEMS = frozenset({Reason.RETENTION_OVERTAKING, Reason.NO_PROGRESS, Reason.RECORDS_LOST, Reason.TOPIC_RECREATED})
"""What an archive that runs can tell of; what keeps it from running has its own event."""
_AFTER_IT = timedelta(seconds=0.1)
"""How long after a moment to reconcile, so that it has come by any clock."""


def reconcile_archive(archive: Archive, observed: WorkObserved, now: datetime, *, program: Program) -> Plan:
    """Say what an Archive needs next.

    Args:
        archive: the resource, with its status as it was written last.
        observed: what belongs to it.
        now: the time.
        program: what the pods are made of, unless the spec says otherwise.
    """
    if archive.metadata.deleting:
        # Somebody's finalizer may keep it for long.
        return Plan(stop=running_children(observed.jobs, observed.pods))
    context = context_of(archive, observed, now, program=program)
    main = stop(context) or conclude(context) or watch(context) or rest_or_start(context)
    return _plan(context, main, compaction_step(context))


def _plan(context: Context, main: Result, compaction: Result) -> Plan:
    archive, status, now = context.archive, context.archive.status, context.now
    generation = archive.metadata.generation
    following = None
    if context.schedule is not None and not archive.spec.suspend:
        following = context.schedule.next_after(now)
    to_compact = next_compaction_time(context)
    conditions = conditions_with(status.conditions, main.conditions, generation=generation, now=now)
    known = {} if context.main.last is None else {"last_attempt": context.main.last}
    after = ArchiveStatus.model_validate(
        {
            **{name: getattr(status, name) for name in ArchiveStatus.model_fields},
            **known,
            **main.update,
            **compaction.update,
            "observed_generation": generation,
            "conditions": conditions,
            "next_schedule_time": following,
            "next_compaction_time": to_compact,
        }
    ).to_dict()
    parts = (main, compaction)
    waits = [part.again_after for part in parts if part.again_after is not None]
    waits += [moment - now for moment in (following, to_compact) if moment is not None]
    # What is being started or stopped is in no track yet, or in one too many.
    is_steady = not any(part.stop or part.apply for part in parts)
    delete = leftovers((context.main, context.compaction), context.observed) if is_steady else ()
    return Plan(
        stop=(*main.stop, *compaction.stop),
        apply=(*main.apply, *compaction.apply),
        delete=delete,
        status=None if after == status.to_dict() else after,
        events=(*main.events, *compaction.events, *_warnings(status.conditions, conditions)),
        requeue_after_seconds=(max(min(waits), timedelta()) + _AFTER_IT).total_seconds() if waits else None,
    )


def _warnings(before: Iterable[Condition], after: Iterable[Condition]) -> tuple[Event, ...]:
    """The event that tells of a new problem of an archive that runs."""
    events = transition(before, after, of=ConditionType.STALLED, warnings=_PROBLEMS)
    return tuple(event for event in events if event.reason in _PROBLEMS)
