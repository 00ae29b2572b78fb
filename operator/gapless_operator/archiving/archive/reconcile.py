"""Owns the reconciliation of an Archive: for archiving stop, conclude, validate, start; and the same for compacting.

It is pure: the observed objects and the time are arguments, and the result is a plan. It may be called at any time:
after a crash, the same step is repeated with the same names, and an attempt that started without being recorded is
adopted.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from gapless_api.v1alpha1.archive_status import ArchiveStatus
from gapless_api.v1alpha1.conditions import ConditionType
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.archiving.archive.archiving import conclude, start_or_wait, stop, watch
from gapless_operator.archiving.archive.compacting import compaction_step, next_compaction_time
from gapless_operator.archiving.archive.context import context_of
from gapless_operator.common.conditions import conditions_with, transition
from gapless_operator.common.plan import Plan
from gapless_operator.common.result import with_observation
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

_PROBLEMS = frozenset(
    {Reason.RETENTION_OVERTAKING, Reason.NO_PROGRESS, Reason.LOG_TRUNCATED, Reason.RECORDS_LOST, Reason.TOPIC_RECREATED}
)
"""Problems of an archive that runs; what prevents it from running has its own event."""
_CLOCK_TOLERANCE = timedelta(seconds=0.1)
"""Added to the time of the next reconciliation, so that it is not too early by any clock."""


def reconcile_archive(archive: Archive, observed: WorkObserved, now: datetime, *, program: Program) -> Plan:
    """Plan the next step of an Archive.

    Args:
        archive: the resource, with its last written status.
        observed: the objects that belong to it.
        now: the time.
        program: the defaults for pods that the spec does not set.
    """
    if archive.metadata.deleting:
        # A finalizer may keep the resource for a long time.
        return Plan(stop=observed.running())
    context = context_of(archive, observed, now, program=program)
    main = stop(context) or conclude(context) or watch(context) or start_or_wait(context)
    return _plan(context, main, compaction_step(context))


def _plan(context: Context, main: Result, compaction: Result) -> Plan:
    archive, status, now = context.archive, context.archive.status, context.now
    generation = archive.metadata.generation
    following = None
    if context.schedule is not None and not archive.spec.suspend:
        following = context.schedule.next_after(now)
    to_compact = next_compaction_time(context)
    conditions = conditions_with(
        status.conditions, {**main.conditions, **compaction.conditions}, generation=generation, now=now
    )
    last_attempt = {} if context.main.last is None else {"last_attempt": context.main.last}
    after = ArchiveStatus.model_validate(
        {
            **{name: getattr(status, name) for name in ArchiveStatus.model_fields},
            **last_attempt,
            **main.update,
            **compaction.update,
            "observed_generation": generation,
            "conditions": conditions,
            "next_schedule_time": following,
            "next_compaction_time": to_compact,
        }
    )
    parts = (main, compaction)
    waits = [part.again_after for part in parts if part.again_after is not None]
    waits += [moment - now for moment in (following, to_compact) if moment is not None]
    # The tracks do not reflect yet what this plan starts or stops.
    is_steady = not any(part.stop or part.apply for part in parts)
    delete = leftovers((context.main, context.compaction), context.observed) if is_steady else ()
    return Plan(
        stop=(*main.stop, *compaction.stop, *context.observed.orphans()),
        apply=(*main.apply, *compaction.apply),
        delete=delete,
        status=None if after.to_dict() == status.to_dict() else with_observation(after, main.observed_at).to_dict(),
        events=(*main.events, *compaction.events, *_warnings(status.conditions, conditions)),
        requeue_after_seconds=(max(min(waits), timedelta()) + _CLOCK_TOLERANCE).total_seconds() if waits else None,
    )


def _warnings(before: Iterable[Condition], after: Iterable[Condition]) -> tuple[Event, ...]:
    """Return the event for a new problem of an archive that runs."""
    events = transition(before, after, of=ConditionType.STALLED, warnings=_PROBLEMS)
    return tuple(event for event in events if event.reason in _PROBLEMS)
