"""Owns the attempts at archiving: when one is stopped, how its end is recorded, and when the next one starts.

Must not know how archives are compacted. A continuous attempt ends only because of a failure, and is replaced. Two
concurrent attempts are harmless, because the later one fences the earlier one by its epoch.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from gapless_api.base.backoff import backoff
from gapless_api.v1alpha1.attempt_status import LastAttempt
from gapless_api.v1alpha1.conditions import ConditionType, condition
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.archiving.archive import conditions as condition_sets
from gapless_operator.archiving.archive.conditions import DONE
from gapless_operator.archiving.archive.context import ARCHIVE_ROLE, refusal_now
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
from gapless_operator.common.references import NotFound
from gapless_operator.common.refusal import Refusal
from gapless_operator.common.result import Result
from gapless_operator.common.unknown_lag import unknown_lag
from gapless_operator.engines.choice import is_job_fallback, ref_of
from gapless_operator.engines.endings import Ending
from gapless_operator.engines.engine import Run, attempt_annotations
from gapless_operator.engines.scheduling import (
    Due,
    attempt_name,
    due_by_schedule,
    handled_until,
    number_of,
    unscheduled_suffix,
)
from gapless_operator.engines.tracks import check_again_after, ended, must_end, own_end
from gapless_operator.engines.validate import RECHECK_AFTER, validated_engine

if TYPE_CHECKING:
    from datetime import datetime

    from gapless_operator.archiving.archive.context import Context
    from gapless_operator.engines.engine import Attempt

RECHECK_SOON = timedelta(seconds=0.9)
"""When to reconcile again after a change of the status."""
_FIRST_RETRY, _LAST_RETRY = timedelta(seconds=10), timedelta(minutes=10)
_SUCCEEDED_ONCE = Ending(Reason.ARCHIVED, "Everything that was in Kafka at the start is archived.")
_ENDED_CONTINUOUS = Ending(Reason.STOPPED, "The pod has ended, although it should archive continuously.")


def stop(context: Context) -> Result | None:
    """Stop an attempt that must not continue; ``None`` if it may continue, or none runs."""
    attempt = context.main.current
    if attempt is None or attempt.ended or attempt.meta.deleting:
        return None
    spec = context.archive.spec
    ending = _reason_to_stop(context, attempt) or must_end(
        attempt,
        start_seconds=spec.engine.start_deadline_seconds,
        run_seconds=_run_seconds(context),
        now=context.now,
    )
    return None if ending is None else _record(context, ending, attempt)


def conclude(context: Context) -> Result | None:
    """Record how an attempt has ended by itself; ``None`` while it runs, or while its log is being read."""
    succeeded = _ENDED_CONTINUOUS if context.is_continuous else _SUCCEEDED_ONCE
    ending = own_end(
        context.main,
        succeeded=succeeded,
        incomplete=Reason.RECORDS_LOST,
        failed=Reason.ARCHIVE_FAILED,
        now=context.now,
    )
    return None if ending is None else _record(context, ending, context.main.current)


def watch(context: Context) -> Result | None:
    """Report the progress of the running attempt; ``None`` when none runs."""
    attempt = context.main.current
    if attempt is None:
        return None
    pods = attempt.running_drivers()
    stale = not attempt.ended and is_stale(pods, attempt.meta.created, context.now, fresh_for=SLOWLY_FRESH_FOR)
    update: dict[str, Any] = (
        unknown_lag(context.archive.status) if stale else figures(context.archive.status, line_of(attempt), context.now)
    )
    if attempt.scheduled is not None:
        update["last_schedule_time"] = _latest(context.archive.status.last_schedule_time, attempt.scheduled)
    again_after = check_again_after(
        attempt,
        start_seconds=context.archive.spec.engine.start_deadline_seconds,
        run_seconds=_run_seconds(context),
        now=context.now,
    )
    return Result(
        conditions=condition_sets.running(context, attempt),
        update=update,
        observed_at=None if stale else observed_at(pods),
        again_after=WRITE_EVERY if again_after is None else max(min(again_after, WRITE_EVERY), timedelta()),
    )


def start_or_wait(context: Context) -> Result:
    """Start an attempt if one is due; otherwise report what the Archive waits for."""
    if context.archive.spec.suspend:
        update = unknown_lag(context.archive.status)
        return Result(conditions=condition_sets.suspended(context), update=update)
    refusal = _refusal(context)
    if refusal is not None:
        stalled = condition(context.archive.status.conditions, ConditionType.STALLED)
        is_reported = stalled is not None and stalled.status == "True" and stalled.reason == refusal.reason
        events = () if is_reported else (Event(EventType.WARNING, refusal.reason, refusal.message),)
        return Result(
            conditions=continuous_conditions.blocked(*refusal),
            update=unknown_lag(context.archive.status),
            events=events,
            again_after=RECHECK_AFTER,
        )
    due = _due(context)
    return _wait(context, due) if due.attempt is None else _start(context, due, due.attempt)


def _refusal(context: Context) -> Refusal | None:
    if context.schedule_error:
        return Refusal(Reason.BAD_CONFIGURATION, context.schedule_error)
    engine = validated_engine(
        context.archive.spec.engine, context.access, context.program, spark_operator=context.observed.spark_operator
    )
    return engine if isinstance(engine, Refusal) else refusal_now(context)


def _run_seconds(context: Context) -> int | None:
    return None if context.is_continuous else context.archive.spec.run_deadline_seconds


def _reason_to_stop(context: Context, attempt: Attempt) -> Ending | None:
    """Return why the running attempt must be stopped; ``None`` if it may continue."""
    spec, access = context.archive.spec, context.access
    if isinstance(access, NotFound):
        return Ending(access.reason, f"{attempt.name} was stopped. {access.message}")
    if spec.suspend:
        return Ending(Reason.SUSPENDED, f"{attempt.name} was stopped because spec.suspend is true.")
    if (refusal := refusal_now(context)) is not None:
        return Ending(Reason.STOPPED, refusal.stops(attempt.name))
    if attempt.work != work_digest(context.archive, access, context.program):
        return Ending(
            Reason.STOPPED,
            f"{attempt.name} was stopped because the spec, a referenced resource, or the image has changed.",
        )
    if (
        spec.schedule is not None
        and spec.schedule.concurrency_policy == "Replace"
        and _due(context).attempt is not None
    ):
        return Ending(Reason.STOPPED, f"{attempt.name} was stopped because the next run is due (Replace).")
    return None


def _record(context: Context, ending: Ending, attempt: Attempt | None) -> Result:
    """Record how an attempt ended, and delete it immediately, because another one may follow."""
    running = context.main.running
    if running is None:
        raise ValueError("no attempt runs")
    last = ended(running, ending, attempt, context.now)
    status, line = context.archive.status, line_of(attempt)
    committed = (moment(line.last_commit) if line is not None else None) or status.last_commit_time
    has_committed = committed is not None and running.started is not None and committed >= running.started
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
    stop = (ref_of(attempt),) if attempt is not None and not attempt.ended and not attempt.meta.deleting else ()
    kind = EventType.WARNING if is_failure else EventType.NORMAL
    return Result(
        conditions=conditions,
        update=update,
        stop=stop,
        events=(Event(kind, ending.reason, ending.message),),
        again_after=RECHECK_SOON,
    )


def _due(context: Context) -> Due:
    archive, track = context.archive, context.main
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
    if last.finished is None or not failures or last.generation != context.archive.metadata.generation:
        return None
    return last.finished + backoff(failures - 1, first=_FIRST_RETRY, longest=_LAST_RETRY)


def _next_time(context: Context) -> datetime | None:
    return context.schedule.next_after(context.now) if context.schedule is not None else None


def _wait(context: Context, due: Due) -> Result:
    again_at = due.retry_at or _next_time(context)
    last = context.main.last
    stale_at = last.finished + SLOWLY_FRESH_FOR if last is not None and last.finished is not None else context.now
    is_old = context.now >= stale_at
    update: dict[str, Any] = unknown_lag(context.archive.status) if is_old else {}
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
    archive, access = context.archive, context.access
    engine = validated_engine(
        archive.spec.engine, access, context.program, spark_operator=context.observed.spark_operator
    )
    if isinstance(engine, Refusal) or isinstance(access, NotFound):
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
        apply=(settings_map(archive, access, name, ARCHIVE_ROLE), engine.manifest(run, context.program)),
        events=(Event(EventType.NORMAL, Reason.ARCHIVING, message),),
        again_after=timedelta(seconds=options.start_deadline_seconds),
    )


def _latest(recorded: datetime | None, scheduled: datetime) -> datetime:
    return scheduled if recorded is None else max(recorded, scheduled)
