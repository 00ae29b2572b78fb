"""The reconciliation of a Restore; see `gapless_operator.lifecycle` for the order of its steps.

A finished Restore never starts again by itself, nor when its manifest is applied again: after a failure, only a new
value of spec.retry starts another round. The target itself stores the positions of what was written, from which the
next attempt continues. Must not know how records are written or pods are watched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from gapless_api.base.backoff import backoff
from gapless_api.codec.canonical import moment_text
from gapless_api.v1alpha1.attempt_status import LastAttempt
from gapless_api.v1alpha1.conditions import ConditionType, condition
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.archiving.no_progress import find_no_progress
from gapless_operator.archiving.restore.context import PLAN_ROLE, RESTORE_ROLE, Context, context_of
from gapless_operator.archiving.restore.figures import (
    WRITE_EVERY,
    last_line,
    lost_ranges,
    plan_of,
    progress_of,
    waits_for,
    without_rate,
)
from gapless_operator.archiving.restore.properties import (
    allowed_groups,
    command_arguments,
    driver_content,
    executor_content,
    settings_map,
    targets,
    work_digest,
)
from gapless_operator.common import work_conditions as condition_sets
from gapless_operator.common.conditions import ConditionUpdate
from gapless_operator.common.freshness import SLOWLY_FRESH_FOR, is_stale, observed_at, unreadable
from gapless_operator.common.observed import moment
from gapless_operator.common.pod_trouble import suspended_message
from gapless_operator.common.references import NotFound
from gapless_operator.common.refusal import Refusal, refusal_of
from gapless_operator.common.result import Announced, Result
from gapless_operator.engines.endings import INTERRUPTED, NEEDS_USER_ACTION, Ending
from gapless_operator.engines.engine import Attempt, Phase, Run, attempt_annotations
from gapless_operator.engines.scheduling import attempt_name
from gapless_operator.engines.validate import RECHECK_AFTER, check_engine, validated_engine
from gapless_operator.lifecycle.reconcile import Kind, reconcile
from gapless_operator.lifecycle.tracks import end_by_exit_code
from gapless_operator.lifecycle.work import (
    Deadlines,
    Work,
    has_changed,
    is_suspended,
    reference_is_gone,
    would_be_refused,
)

if TYPE_CHECKING:
    from gapless_api.v1alpha1.restore import Restore
    from gapless_api.v1alpha1.restore_status import RestoreStatus
    from gapless_api.wire.restore_progress import RestoreLine
    from gapless_operator.common.plan import Plan
    from gapless_operator.common.settings import Program
    from gapless_operator.engines.observed import WorkObserved


_FIRST_RETRY, _LAST_RETRY = timedelta(seconds=10), timedelta(minutes=10)
_FINAL = NEEDS_USER_ACTION - {
    Reason.IMAGE_PULL_FAILED,
    Reason.MOUNT_FAILED,
    Reason.POD_REJECTED,
    Reason.POD_UNSCHEDULABLE,
}
"""Failures that another attempt would only repeat."""
_ROLE_WORDS = {PLAN_ROLE: "plan", RESTORE_ROLE: "restore"}


def _end(context: Context, attempt: Attempt) -> Ending:
    line = last_line(attempt)
    done = Ending(Reason.RESTORED, "Everything was restored.")
    if line is not None and not line.planned:
        done = Ending(Reason.NOTHING_TO_RESTORE, "There is nothing to restore: the archive has no matching records.")
    if context.running_role == PLAN_ROLE:
        done = Ending(Reason.PLANNED, "The plan is complete.")
    return end_by_exit_code(attempt, succeeded=done, incomplete=Reason.INCOMPLETE, failed=Reason.RESTORE_FAILED)


def _watch(context: Context, attempt: Attempt) -> Result:
    update: dict[str, Any] = {"last_attempt": context.track.last, "last_role": _ROLE_WORDS[context.running_role]}
    pods = attempt.running_drivers()
    stale = not attempt.ended and is_stale(pods, attempt.meta.created, context.now, fresh_for=SLOWLY_FRESH_FOR)
    if context.running_role == RESTORE_ROLE:
        before = context.status.progress
        update["progress"] = without_rate(before) if stale else progress_of(before, attempt, context.now)
        if attempt.started is not None and context.status.started_at is None:
            update["started_at"] = attempt.started
    return Result(
        conditions=_conditions_while_running(context, attempt),
        update=update,
        observed_at=None if stale else observed_at(pods),
    )


def _rest_or_start(context: Context) -> Result:
    """Start an attempt if one is due; otherwise report how the Restore ended, or what it waits for."""
    if context.status.finished_at is None:
        return _start_unless(context)
    succeeded = condition(context.status.conditions, ConditionType.SUCCEEDED)
    if succeeded is None:
        return Result(conditions={})
    # Set again, because an earlier rejection by the API server may have changed the conditions.
    is_done = succeeded.status == "True"
    return Result(conditions=condition_sets.finished(succeeded.reason, succeeded.message, complete=is_done))


def _start_unless(context: Context) -> Result:
    """Start an attempt, unless the Restore waits for something."""
    spec, status, role = context.resource.spec, context.status, context.role
    if spec.suspend:
        message = suspended_message(context.observed.pods, "spec.suspend is true, so nothing is planned or written.")
        return Result(conditions=condition_sets.suspended(Reason.SUSPENDED, message))
    if role == PLAN_ROLE and status.plan is not None:
        return Result(conditions=condition_sets.planned(_plan_message(context)))
    if status.retry_at is not None and context.now < status.retry_at:
        message = f"{status.message or ''} The next attempt starts at {moment_text(status.retry_at)}.".strip()
        return Result(
            conditions=condition_sets.working(Reason.RETRYING, message), again_after=status.retry_at - context.now
        )
    access = context.access
    engine = validated_engine(spec.engine, access, context.program, spark_operator=context.observed.spark_operator)
    refusal = engine if isinstance(engine, Refusal) else None
    refusal = refusal or _refusal_now(context)
    if refusal is not None or isinstance(engine, Refusal) or isinstance(access, NotFound):
        refusal = refusal or Refusal(Reason.DEFECT, "")
        waits = isinstance(access, NotFound) and refusal.reason is not Reason.BAD_CONFIGURATION
        build = condition_sets.waiting_for if waits else condition_sets.refused
        return Result(conditions=build(*refusal), again_after=RECHECK_AFTER)
    number, generation = status.attempt + 1, context.resource.metadata.generation
    name = attempt_name(context.resource, f"{_ROLE_WORDS[role]}-{number}", prefix="restore")
    run = Run(
        owner=context.resource,
        options=spec.engine,
        name=name,
        role=role,
        arguments=command_arguments(context.resource.spec, access),
        driver=driver_content(context.resource, access, name),
        executor=executor_content(access),
        annotations=attempt_annotations(generation, work_digest(context.resource, access, context.program)),
        deadline_seconds=None,
    )
    message = f"The {engine.name} {name} is being started."
    reason = Reason.PLANNING if role == PLAN_ROLE else Reason.STARTING
    return Result(
        conditions=condition_sets.working(reason, message),
        update={
            "last_attempt": LastAttempt(name=name, engine=engine.name, generation=generation, started=context.now),
            "last_role": _ROLE_WORDS[role],
            "attempt": number,
            "retry_at": None,
        },
        apply=(
            settings_map(context.resource, access, name, role),
            engine.manifest(run, context.program.with_template(spec.pod_template)),
        ),
        again_after=timedelta(seconds=spec.engine.start_deadline_seconds),
    )


def _plan_message(context: Context) -> str:
    plan = context.status.plan
    if plan is None:
        return ""
    findings = f" The preflight check found: {plan.findings[0]}" if plan.findings else ""
    return (
        f"Would write {plan.records:,} records; nothing was written.{findings} Set spec.mode to Once or Follow to "
        f"restore."
    )


def _refusal_now(context: Context) -> Refusal | None:
    """Return why nothing may be planned or written, if it was allowed before; ``None`` if it may."""
    spec, access = context.resource.spec, context.access
    if isinstance(access, NotFound):
        return Refusal(*access)
    return refusal_of(
        lambda: check_engine(spec.engine, context.program),
        lambda: context.program.pod_templates.check(spec.pod_template, context.resource.metadata.namespace),
        lambda: access.kafka.topics.check(targets(spec), what="spec"),
        lambda: access.archive.check((topic.name for topic in spec.topics), what="spec"),
        lambda: allowed_groups(spec, access.kafka),
    )


def _is_current(context: Context, attempt: Attempt) -> bool:
    wanted = work_digest(context.resource, context.resolved, context.program)
    return context.running_role == context.role and attempt.work == wanted


def _record(context: Context, ending: Ending, last: LastAttempt, attempt: Attempt | None) -> Result:
    """Record how an attempt ended, and whether the Restore ends or another attempt follows."""
    role = context.running_role
    update: dict[str, Any] = {"last_attempt": last, "last_role": _ROLE_WORDS[role], "message": ending.message}
    if role == RESTORE_ROLE:
        update["progress"] = progress_of(context.status.progress, attempt, context.now, at_once=True)
        update["lost"] = lost_ranges(last_line(attempt)) or context.status.lost
    conditions, more = _what_follows(context, ending, attempt)
    return Result(conditions=conditions, update={**update, **more})


def _what_follows(  # noqa: PLR0911 -- one for each way to end
    context: Context, ending: Ending, attempt: Attempt | None
) -> tuple[Mapping[ConditionType, ConditionUpdate], dict[str, Any]]:
    reason, message = ending
    status, is_follow = context.status, context.resource.spec.mode == "Follow"
    uncounted = {"retry_at": None, "attempts_before": status.attempts_before + 1}
    finished = {"finished_at": context.now.replace(microsecond=0), "retry_at": None}
    if reason is Reason.PLANNED:
        plan = plan_of(attempt) if attempt is not None else None
        if plan is not None:
            return condition_sets.working(Reason.PLANNING, "The plan was read."), {"plan": plan, **uncounted}
        reason, message = Reason.RESULT_UNREADABLE, "The pod succeeded, but its plan cannot be read."
    if reason in {Reason.RESTORED, Reason.NOTHING_TO_RESTORE} and not is_follow:
        return condition_sets.finished(reason, message, complete=True), finished
    if reason is Reason.INCOMPLETE and context.running_role == RESTORE_ROLE and not is_follow:
        return condition_sets.finished(reason, message, complete=False), finished
    if reason in INTERRUPTED or reason in {Reason.RESTORED, Reason.NOTHING_TO_RESTORE}:
        return condition_sets.working(Reason.STOPPED, message), uncounted
    if reason in _FINAL:
        return condition_sets.failed(reason, message), finished
    # In the mode Follow, an attempt that has written records resets the count of failures.
    before = status.attempt - 1 if is_follow and _has_written(context, attempt) else status.attempts_before
    failures = status.attempt - before
    if failures > context.resource.spec.backoff_limit:
        text = f"{message} It failed more often than spec.backoffLimit permits; fix the cause and change spec.retry."
        return condition_sets.failed(Reason.BACKOFF_LIMIT_EXCEEDED, text), finished
    at = context.now.replace(microsecond=0) + backoff(max(failures - 1, 0), first=_FIRST_RETRY, longest=_LAST_RETRY)
    text = f"{message} The next attempt starts at {moment_text(at)}."
    return condition_sets.working(reason, text), {"retry_at": at, "attempts_before": before}


def _has_written(context: Context, attempt: Attempt | None) -> bool:
    """Whether the attempt has written records, according to its log or the status."""
    line, running, progress = last_line(attempt), context.track.running, context.status.progress
    recorded = progress.last_write_time if progress is not None else None
    written = moment(line.last_write) if line is not None else recorded
    return written is not None and running is not None and running.started is not None and written >= running.started


def _conditions_while_running(context: Context, attempt: Attempt) -> Mapping[ConditionType, ConditionUpdate]:
    what = f"The {attempt.engine} {attempt.name}"
    if attempt.phase is Phase.PENDING:
        trouble = attempt.trouble
        reason = trouble.reason if trouble is not None else Reason.STARTING
        return condition_sets.working(reason, trouble.message if trouble is not None else f"{what} is being started.")
    if context.running_role == PLAN_ROLE:
        return condition_sets.working(Reason.PLANNING, f"{what} compares the archive with the target.")
    line = last_line(attempt)
    no_progress = find_no_progress(attempt, context.now)
    unknown = unreadable(attempt.running_drivers(), context.now, fresh_for=SLOWLY_FRESH_FOR)
    if unknown is not None:
        return condition_sets.of_work(ready=unknown, reconciling=unknown._replace(status=True), succeeded=unknown)
    if no_progress is not None:
        return condition_sets.of_work(
            ready=no_progress._replace(status=False),
            reconciling=no_progress,
            succeeded=no_progress._replace(status=None),
            stalled=no_progress,
        )
    if context.resource.spec.mode == "Follow" and line is not None and line.state == "following":
        return _conditions_while_following(line, what)
    return condition_sets.working(Reason.RESTORING, f"{what} is writing records.")


def _conditions_while_following(line: RestoreLine, what: str) -> Mapping[ConditionType, ConditionUpdate]:
    if line.waits_for:
        return condition_sets.working(Reason.WAITING_FOR_ARCHIVE, waits_for(line))
    message = f"{what} is waiting for new segments."
    return condition_sets.of_work(
        ready=ConditionUpdate(True, Reason.FOLLOWING, message),
        reconciling=ConditionUpdate(False, Reason.SETTLED),
        succeeded=ConditionUpdate(None, Reason.FOLLOWING, message),
    )


WORK: Work[Context] = Work(
    track=lambda context: context.track,
    must_stop=(reference_is_gone, is_suspended, would_be_refused(_refusal_now), has_changed(_is_current)),
    deadlines=lambda context: Deadlines(context.resource.spec.engine.start_deadline_seconds),
    end=_end,
    record=_record,
    watch=_watch,
    look_every=WRITE_EVERY,
    rest_or_start=_rest_or_start,
)


_NORMAL = frozenset(
    {
        *(Reason.PLANNING, Reason.PLANNED, Reason.STARTING, Reason.RESTORING, Reason.FOLLOWING, Reason.RESTORED),
        *(Reason.NOTHING_TO_RESTORE, Reason.SUSPENDED, Reason.STOPPED, Reason.WAITING_FOR_ARCHIVE),
    }
)


def reconcile_restore(restore: Restore, observed: WorkObserved, now: datetime, *, program: Program) -> Plan:
    """Plan the next step of a Restore.

    Args:
        restore: the resource, with its last written status.
        observed: the objects that belong to it.
        now: the time.
        program: the defaults for pods that the spec does not set.
    """
    return reconcile(
        _RESTORE,
        restore,
        observed,
        lambda: context_of(restore, _status_after_retry(restore), observed, now, program=program),
    )


def _status_after_retry(restore: Restore) -> RestoreStatus:
    """Return the status without what a new value of spec.retry resets."""
    status, retry = restore.status, restore.spec.retry
    if status.retry == retry:
        return status
    update = {"retry": retry, "attempts_before": status.attempt, "retry_at": None}
    succeeded = condition(status.conditions, ConditionType.SUCCEEDED)
    has_failed = succeeded is not None and succeeded.status == "False"
    return status.model_copy(update={**update, **({"finished_at": None} if has_failed else {})})


def _finish(context: Context, result: Result) -> Result:
    if "progress" in result.update:
        return result
    # Nothing runs, so it has no rate.
    return replace(result, update={**result.update, "progress": without_rate(context.status.progress)})


_RESTORE: Kind[Context] = Kind(
    works=(WORK,),
    announced=Announced(ConditionType.READY, frozenset(Reason) - _NORMAL),
    finish=_finish,
    status=lambda context: context.status,
)
