"""The attempts at compacting: when one starts, when it is stopped, and how its end is recorded.

Must not know how topics are archived, which continues meanwhile with commits to the same chains.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.v1alpha1.archive_status import CompactionStatus
from gapless_api.v1alpha1.attempt_status import LastAttempt
from gapless_api.v1alpha1.conditions import ConditionType, condition
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.archiving.archive.context import COMPACT_ROLE, Context, compaction_refusal, refusal_now
from gapless_operator.archiving.archive.figures import WRITE_EVERY
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
from gapless_operator.engines.endings import Ending
from gapless_operator.engines.engine import Attempt, Run, attempt_annotations
from gapless_operator.engines.scheduling import Due, attempt_name, due_by_schedule, handled_until
from gapless_operator.engines.validate import RECHECK_AFTER, validated_engine
from gapless_operator.lifecycle.tracks import end_by_exit_code
from gapless_operator.lifecycle.work import (
    Deadlines,
    Work,
    has_changed,
    reference_is_gone,
    would_be_refused,
)

_DONE = Ending(Reason.COMPACTION_DONE, "Segments were compacted.")
_NOTHING: Result = Result(conditions={})


def _status(context: Context) -> CompactionStatus:
    return context.resource.status.compaction or CompactionStatus()


def _seconds(context: Context) -> int:
    compaction = context.resource.spec.compaction
    return compaction.run_deadline_seconds if compaction is not None else 0


def _is_unwanted(context: Context, attempt: Attempt) -> Ending | None:
    spec = context.resource.spec
    if not spec.suspend and spec.compaction is not None:
        return None
    return Ending(Reason.STOPPED, f"{attempt.name} was stopped because the spec has changed.")


def _may_delete_what_is_held(context: Context, attempt: Attempt) -> Ending | None:
    if not context.resource.spec.hold or attempt.work.startswith(HELD):
        return None
    return Ending(Reason.STOPPED, f"{attempt.name} was stopped because spec.hold is true and it may delete.")


def _refusal_now(context: Context) -> Refusal | None:
    return refusal_now(context) or compaction_refusal(context)


def _is_current(context: Context, attempt: Attempt) -> bool:
    return attempt.work == compaction_digest(context.resolved, is_held=attempt.work.startswith(HELD))


def _end(_context: Context, attempt: Attempt) -> Ending:
    failed = Reason.COMPACTION_FAILED
    return end_by_exit_code(attempt, succeeded=_DONE, incomplete=failed, failed=failed)


def _watch(context: Context, attempt: Attempt) -> Result:
    status = _status(context)
    if status.last_attempt is not None and status.last_attempt.name == attempt.name:
        return _NOTHING
    update = {"last_attempt": context.compaction.last, "last_schedule_time": attempt.scheduled}
    return Result(conditions={}, update={"compaction": status.model_copy(update=update)})


def _record(context: Context, ending: Ending, last: LastAttempt, attempt: Attempt | None) -> Result:
    """Record the end in the condition Compacted, in an event and in the status."""
    update: dict[str, Any] = {"last_attempt": last}
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
    compacted = ConditionUpdate(ending.reason is Reason.COMPACTION_DONE, ending.reason, ending.message)
    return Result(
        conditions={} if ending.reason is Reason.STOPPED else {ConditionType.COMPACTED: compacted},
        update={"compaction": _status(context).model_copy(update=update)},
        events=(Event(kind, ending.reason, ending.message),),
    )


def _due(context: Context) -> Due:
    archive, track = context.resource, context.compaction
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
    if condition(context.resource.status.conditions, ConditionType.COMPACTED) is None:
        return _NOTHING
    unknown = ConditionUpdate(None, Reason.STOPPED, "spec.compaction is not set, so nothing is compacted or deleted.")
    return Result(conditions={ConditionType.COMPACTED: unknown})


def _start(context: Context) -> Result:
    archive, access = context.resource, context.access
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
        apply=(
            settings_map(archive, access, name, COMPACT_ROLE),
            engine.manifest(run, context.program.with_template(archive.spec.pod_template)),
        ),
        events=(Event(EventType.NORMAL, Reason.COMPACTING, f"The {engine.name} {name} is being started."),),
        again_after=timedelta(seconds=options.start_deadline_seconds),
    )


COMPACTING: Work[Context] = Work(
    track=lambda context: context.compaction,
    must_stop=(
        *(reference_is_gone, _is_unwanted, _may_delete_what_is_held),
        would_be_refused(_refusal_now),
        has_changed(_is_current, "the StorageLocation"),
    ),
    deadlines=lambda context: Deadlines(context.resource.spec.engine.start_deadline_seconds, _seconds(context)),
    end=_end,
    record=_record,
    watch=_watch,
    look_every=WRITE_EVERY,
    rest_or_start=_start,
)
