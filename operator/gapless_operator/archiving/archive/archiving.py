"""The attempts at archiving: when one is stopped, how its end is recorded, and when the next one starts.

Must not know how archives are compacted. A continuous attempt ends only because of a failure, and is replaced. Two
concurrent attempts are harmless, because the later one fences the earlier one by its epoch.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from gapless_api.base.backoff import backoff
from gapless_api.v1alpha1.attempt_status import LastAttempt
from gapless_api.v1alpha1.conditions import ConditionType, condition
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.archiving.archive import conditions as condition_sets
from gapless_operator.archiving.archive.conditions import DONE
from gapless_operator.archiving.archive.context import ARCHIVE_ROLE, Context, refusal_now
from gapless_operator.archiving.archive.figures import WRITE_EVERY, figures, line_of
from gapless_operator.archiving.archive.properties import (
    command_arguments,
    driver_content,
    executor_content,
    settings_map,
    work_digest,
)
from gapless_operator.common import continuous_conditions
from gapless_operator.common.freshness import SLOWLY_FRESH_FOR, is_stale, observed_at
from gapless_operator.common.observed import moment
from gapless_operator.common.plan import Event, EventType
from gapless_operator.common.refusal import Refusal
from gapless_operator.common.result import Result
from gapless_operator.common.unknown_lag import unknown_lag
from gapless_operator.engines.choice import is_job_fallback
from gapless_operator.engines.endings import Ending
from gapless_operator.engines.engine import Attempt, Run, attempt_annotations
from gapless_operator.engines.scheduling import (
    Due,
    attempt_name,
    due_by_schedule,
    handled_until,
    number_of,
    unscheduled_suffix,
)
from gapless_operator.engines.validate import RECHECK_AFTER, validated_engine
from gapless_operator.lifecycle.tracks import end_by_exit_code
from gapless_operator.lifecycle.work import (
    Deadlines,
    Work,
    has_changed,
    is_replaced,
    is_suspended,
    reference_is_gone,
    would_be_refused,
)

_FIRST_RETRY, _LAST_RETRY = timedelta(seconds=10), timedelta(minutes=10)
_SUCCEEDED_ONCE = Ending(Reason.ARCHIVED, "Everything that was in Kafka at the start is archived.")
_ENDED_CONTINUOUS = Ending(Reason.STOPPED, "The pod has ended, although it should archive continuously.")


def _end(context: Context, attempt: Attempt) -> Ending:
    succeeded = _ENDED_CONTINUOUS if context.is_continuous else _SUCCEEDED_ONCE
    return end_by_exit_code(attempt, succeeded=succeeded, incomplete=Reason.RECORDS_LOST, failed=Reason.ARCHIVE_FAILED)


def _watch(context: Context, attempt: Attempt) -> Result:
    status, pods = context.resource.status, attempt.running_drivers()
    stale = not attempt.ended and is_stale(pods, attempt.meta.created, context.now, fresh_for=SLOWLY_FRESH_FOR)
    update = unknown_lag(status) if stale else figures(status, line_of(attempt), context.now)
    if attempt.scheduled is not None:
        update["last_schedule_time"] = _latest(status.last_schedule_time, attempt.scheduled)
    return Result(
        conditions=condition_sets.running(context, attempt),
        update=update,
        observed_at=None if stale else observed_at(pods),
    )


def _start_or_wait(context: Context) -> Result:
    """Start an attempt if one is due; otherwise report what the Archive waits for."""
    if context.resource.spec.suspend:
        update = unknown_lag(context.resource.status)
        return Result(conditions=condition_sets.suspended(context), update=update)
    refusal = _refusal(context)
    if refusal is not None:
        stalled = condition(context.resource.status.conditions, ConditionType.STALLED)
        is_reported = stalled is not None and stalled.status == "True" and stalled.reason == refusal.reason
        events = () if is_reported else (Event(EventType.WARNING, refusal.reason, refusal.message),)
        return Result(
            conditions=continuous_conditions.blocked(*refusal),
            update=unknown_lag(context.resource.status),
            events=events,
            again_after=RECHECK_AFTER,
        )
    due = _due(context)
    return _wait(context, due) if due.attempt is None else _start(context, due, due.attempt)


def _refusal(context: Context) -> Refusal | None:
    if context.schedule_error:
        return Refusal(Reason.BAD_CONFIGURATION, context.schedule_error)
    engine = validated_engine(
        context.resource.spec.engine, context.access, context.program, spark_operator=context.observed.spark_operator
    )
    return engine if isinstance(engine, Refusal) else refusal_now(context)


def _run_seconds(context: Context) -> int | None:
    return None if context.is_continuous else context.resource.spec.run_deadline_seconds


def _is_current(context: Context, attempt: Attempt) -> bool:
    return attempt.work == work_digest(context.resource, context.resolved, context.program)


def _is_due(context: Context) -> bool:
    return _due(context).attempt is not None


def _record(context: Context, ending: Ending, last: LastAttempt, attempt: Attempt | None) -> Result:
    status, line = context.resource.status, line_of(attempt)
    committed = (moment(line.last_commit) if line is not None else None) or status.last_commit_time
    has_committed = committed is not None and last.started is not None and committed >= last.started
    is_failure = ending.reason not in DONE | {Reason.SUSPENDED}
    failures = 0 if not is_failure else 1 if has_committed else status.failures + 1
    update: dict[str, Any] = {**figures(status, line, context.now, at_once=True), "last_attempt": last}
    update["failures"] = failures
    if attempt is not None and attempt.scheduled is not None:
        update["last_schedule_time"] = _latest(status.last_schedule_time, attempt.scheduled)
    again_at = _retry_at(context, last, failures) if context.is_continuous else _next_time(context)
    conditions = condition_sets.after_attempt(context, last, again_at)
    if ending.reason is Reason.SUSPENDED:
        conditions = condition_sets.suspended(context)
    kind = EventType.WARNING if is_failure else EventType.NORMAL
    return Result(conditions=conditions, update=update, events=(Event(kind, ending.reason, ending.message),))


def _due(context: Context) -> Due:
    archive, track = context.resource, context.main
    spec, last = archive.spec, track.last
    if spec.schedule is not None:
        return due_by_schedule(
            context.schedule,
            after=handled_until(
                archive.metadata.creation_timestamp, archive.status.last_schedule_time, last, track.attempts
            ),
            deadline_seconds=spec.schedule.starting_deadline_seconds,
            name=lambda suffix: attempt_name(archive, suffix, prefix=ARCHIVE_ROLE),
            now=context.now,
        )
    generation, number = archive.metadata.generation, 1
    if last is not None and last.generation == generation:
        at = _retry_at(context, last, archive.status.failures)
        if at is not None and at > context.now:
            return Due(retry_at=at)
        number = number_of(last.name) + 1
    return Due(attempt=attempt_name(archive, unscheduled_suffix(generation, number), prefix=ARCHIVE_ROLE))


def _retry_at(context: Context, last: LastAttempt, failures: int) -> datetime | None:
    """When a continuous attempt is replaced; ``None`` for immediately."""
    if last.finished is None or not failures or last.generation != context.resource.metadata.generation:
        return None
    return last.finished + backoff(failures - 1, first=_FIRST_RETRY, longest=_LAST_RETRY)


def _next_time(context: Context) -> datetime | None:
    return context.schedule.next_after(context.now) if context.schedule is not None else None


def _wait(context: Context, due: Due) -> Result:
    again_at = due.retry_at or _next_time(context)
    last = context.main.last
    stale_at = last.finished + SLOWLY_FRESH_FOR if last is not None and last.finished is not None else context.now
    is_old = context.now >= stale_at
    update: dict[str, Any] = unknown_lag(context.resource.status) if is_old else {}
    events: tuple[Event, ...] = ()
    if due.missed is not None:
        update["last_schedule_time"] = due.missed
        message = f"The run of {due.missed:%Y-%m-%d %H:%M} UTC was skipped: startingDeadlineSeconds has passed."
        events = (Event(EventType.WARNING, "RunMissed", message),)
    return Result(
        conditions=condition_sets.after_attempt(context, last, again_at),
        update=update,
        events=events,
        again_after=min((at - context.now for at in (again_at, None if is_old else stale_at) if at), default=None),
    )


def _start(context: Context, due: Due, name: str) -> Result:
    archive, access = context.resource, context.resolved
    engine = validated_engine(
        archive.spec.engine, access, context.program, spark_operator=context.observed.spark_operator
    )
    if isinstance(engine, Refusal):
        raise TypeError(engine)
    options, generation = archive.spec.engine, archive.metadata.generation
    seconds = _run_seconds(context)
    run = Run(
        owner=archive,
        options=options,
        name=name,
        role=ARCHIVE_ROLE,
        arguments=command_arguments(access, ARCHIVE_ROLE),
        driver=driver_content(archive, access, name, ARCHIVE_ROLE),
        executor=executor_content(access, ARCHIVE_ROLE),
        annotations=attempt_annotations(generation, work_digest(archive, access, context.program), due.scheduled),
        deadline_seconds=None if seconds is None else options.start_deadline_seconds + seconds,
    )
    message = f"The {engine.name} {name} is being started."
    if is_job_fallback(options, engine.name):
        message = f"{message} It has no executors, because engine.type is Auto and no Spark operator is installed."
    update: dict[str, Any] = {
        "last_attempt": LastAttempt(name=name, engine=engine.name, generation=generation, started=context.now)
    }
    if due.scheduled is not None:
        update["last_schedule_time"] = due.scheduled
    return Result(
        conditions=condition_sets.starting(context, message),
        update=update,
        apply=(
            settings_map(archive, access, name, ARCHIVE_ROLE),
            engine.manifest(run, context.program.with_template(archive.spec.pod_template)),
        ),
        events=(Event(EventType.NORMAL, Reason.ARCHIVING, message),),
        again_after=timedelta(seconds=options.start_deadline_seconds),
    )


def _latest(recorded: datetime | None, scheduled: datetime) -> datetime:
    return scheduled if recorded is None else max(recorded, scheduled)


ARCHIVING: Work[Context] = Work(
    track=lambda context: context.main,
    must_stop=(
        *(reference_is_gone, is_suspended, would_be_refused(refusal_now)),
        *(has_changed(_is_current), is_replaced(_is_due, "run")),
    ),
    deadlines=lambda context: Deadlines(context.resource.spec.engine.start_deadline_seconds, _run_seconds(context)),
    end=_end,
    record=_record,
    watch=_watch,
    look_every=WRITE_EVERY,
    rest_or_start=_start_or_wait,
)
