"""Owns the attempts at compacting: when one starts, when it is stopped, and how its end is recorded.

Must not know how topics are archived, which continues meanwhile with commits to the same chains.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.v1alpha1.archive_status import CompactionStatus
from gapless_api.v1alpha1.attempt_status import LastAttempt
from gapless_api.v1alpha1.conditions import ConditionType, condition
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.archiving.archive.context import COMPACT_ROLE, compaction_refusal, refusal_now
from gapless_operator.archiving.archive.properties import (
    HELD,
    command_arguments,
    compaction_digest,
    driver_content,
    executor_content,
    settings_map,
)
from gapless_operator.common.conditions import ConditionUpdate
from gapless_operator.common.plan import Event, EventType
from gapless_operator.common.references import NotFound
from gapless_operator.common.refusal import Refusal
from gapless_operator.common.result import Result
from gapless_operator.engines.choice import ref_of
from gapless_operator.engines.endings import Ending
from gapless_operator.engines.engine import Run, attempt_annotations
from gapless_operator.engines.scheduling import Due, attempt_name, due_by_schedule, handled_until
from gapless_operator.engines.tracks import check_again_after, ended, must_end, own_end
from gapless_operator.engines.validate import RECHECK_AFTER, validated_engine

if TYPE_CHECKING:
    from datetime import datetime

    from gapless_operator.archiving.archive.context import Context
    from gapless_operator.engines.engine import Attempt

_RECHECK_SOON = timedelta(seconds=0.9)
_DONE = Ending(Reason.COMPACTION_DONE, "Segments were compacted.")
_NOTHING: Result = Result(conditions={})


def compaction_step(context: Context) -> Result:
    """Take the next step of compacting. Its end is in the condition Compacted, in an event and in the status."""
    return _stop(context) or _conclude(context) or _watch(context) or _start(context)


def next_compaction_time(context: Context) -> datetime | None:
    """When the next compaction is due; ``None`` for none."""
    if context.compaction_schedule is None or context.archive.spec.suspend:
        return None
    return context.compaction_schedule.next_after(context.now)


def _status(context: Context) -> CompactionStatus:
    return context.archive.status.compaction or CompactionStatus()


def _seconds(context: Context) -> int:
    compaction = context.archive.spec.compaction
    return compaction.run_deadline_seconds if compaction is not None else 0


def _stop(context: Context) -> Result | None:
    attempt, access, spec = context.compaction.current, context.access, context.archive.spec
    if attempt is None or attempt.ended or attempt.meta.deleting:
        return None
    if isinstance(access, NotFound):
        ending: Ending | None = Ending(access.reason, f"{attempt.name} was stopped. {access.message}")
    elif spec.suspend or spec.compaction is None:
        ending = Ending(Reason.STOPPED, f"{attempt.name} was stopped because the spec has changed.")
    elif spec.hold and not attempt.work.startswith(HELD):
        ending = Ending(Reason.STOPPED, f"{attempt.name} was stopped because spec.hold is true and it may delete.")
    elif (refusal := refusal_now(context) or compaction_refusal(context)) is not None:
        ending = Ending(Reason.STOPPED, refusal.stops(attempt.name))
    elif attempt.work != compaction_digest(access, is_held=attempt.work.startswith(HELD)):
        ending = Ending(Reason.STOPPED, f"{attempt.name} was stopped because the StorageLocation has changed.")
    else:
        ending = must_end(
            attempt,
            start_seconds=spec.engine.start_deadline_seconds,
            run_seconds=_seconds(context),
            now=context.now,
        )
    return None if ending is None else _record(context, ending, attempt)


def _conclude(context: Context) -> Result | None:
    failed = Reason.COMPACTION_FAILED
    ending = own_end(context.compaction, succeeded=_DONE, incomplete=failed, failed=failed, now=context.now)
    return None if ending is None else _record(context, ending, context.compaction.current)


def _watch(context: Context) -> Result | None:
    attempt = context.compaction.current
    if attempt is None:
        return None
    again_after = check_again_after(
        attempt,
        start_seconds=context.archive.spec.engine.start_deadline_seconds,
        run_seconds=_seconds(context),
        now=context.now,
    )
    status = _status(context)
    if status.last_attempt is not None and status.last_attempt.name == attempt.name:
        return Result(conditions={}, again_after=again_after)
    update = {"last_attempt": context.compaction.last, "last_schedule_time": attempt.scheduled}
    return Result(conditions={}, update={"compaction": status.model_copy(update=update)}, again_after=again_after)


def _record(context: Context, ending: Ending, attempt: Attempt | None) -> Result:
    running = context.compaction.running
    if running is None:
        raise ValueError("no compaction runs")
    update: dict[str, Any] = {"last_attempt": ended(running, ending, attempt, context.now)}
    line = attempt.driver.output.compaction if attempt is not None and attempt.driver is not None else None
    if line is not None and ending.reason is Reason.COMPACTION_DONE:
        update |= {
            "segments_before": min(line.segments_before, MAX_OFFSET),
            "segments_after": min(line.segments_after, MAX_OFFSET),
            "deleted_objects": min(line.deleted_objects, MAX_OFFSET),
        }
    if attempt is not None and attempt.scheduled is not None:
        update["last_schedule_time"] = attempt.scheduled
    kind = EventType.NORMAL if ending.reason in {Reason.COMPACTION_DONE, Reason.STOPPED} else EventType.WARNING
    stop = (ref_of(attempt),) if attempt is not None and not attempt.ended and not attempt.meta.deleting else ()
    compacted = ConditionUpdate(ending.reason is Reason.COMPACTION_DONE, ending.reason, ending.message)
    return Result(
        conditions={} if ending.reason is Reason.STOPPED else {ConditionType.COMPACTED: compacted},
        update={"compaction": _status(context).model_copy(update=update)},
        stop=stop,
        events=(Event(kind, ending.reason, ending.message),),
        again_after=_RECHECK_SOON,
    )


def _due(context: Context) -> Due:
    archive, track = context.archive, context.compaction
    return due_by_schedule(
        context.compaction_schedule,
        after=handled_until(
            archive.metadata.creation_timestamp, _status(context).last_schedule_time, track.last, track.attempts
        ),
        deadline_seconds=None,
        name=lambda suffix: attempt_name(archive, f"c{suffix}", prefix="archive"),
        now=context.now,
    )


def _without_compaction(context: Context) -> Result:
    """Say of an Archive that is no longer compacted that nothing is known."""
    if condition(context.archive.status.conditions, ConditionType.COMPACTED) is None:
        return _NOTHING
    unknown = ConditionUpdate(None, Reason.STOPPED, "spec.compaction is not set, so nothing is compacted or deleted.")
    return Result(conditions={ConditionType.COMPACTED: unknown})


def _start(context: Context) -> Result:
    archive, access = context.archive, context.access
    if archive.spec.compaction is None:
        return _without_compaction(context)
    if archive.spec.suspend or isinstance(access, NotFound) or refusal_now(context) is not None:
        return _NOTHING
    if (refused := compaction_refusal(context)) is not None:
        return Result(conditions={ConditionType.COMPACTED: ConditionUpdate(False, *refused)}, again_after=RECHECK_AFTER)
    engine = validated_engine(
        archive.spec.engine, access, context.program, spark_operator=context.observed.spark_operator
    )
    due = _due(context)
    if due.attempt is None or isinstance(engine, Refusal):
        return _NOTHING
    options, generation, name = archive.spec.engine, archive.metadata.generation, due.attempt
    run = Run(
        owner=archive,
        options=options,
        name=name,
        role=COMPACT_ROLE,
        arguments=command_arguments(access, COMPACT_ROLE),
        driver=driver_content(archive, access, name, COMPACT_ROLE),
        executor=executor_content(access, COMPACT_ROLE),
        annotations=attempt_annotations(
            generation, compaction_digest(access, is_held=bool(archive.spec.hold)), due.scheduled
        ),
        deadline_seconds=options.start_deadline_seconds + _seconds(context),
    )
    last = LastAttempt(name=name, engine=engine.name, generation=generation, started=context.now)
    update = {"last_attempt": last, "last_schedule_time": due.scheduled}
    return Result(
        conditions={},
        update={"compaction": _status(context).model_copy(update=update)},
        apply=(settings_map(archive, access, name, COMPACT_ROLE), engine.manifest(run, context.program)),
        events=(Event(EventType.NORMAL, Reason.COMPACTING, f"The {engine.name} {name} is being started."),),
        again_after=timedelta(seconds=options.start_deadline_seconds),
    )
