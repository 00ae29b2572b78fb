"""Owns the life of a Resend's Jobs: when one begins, what is shown while it runs, and what a plan found.

Must not know whether the Resend may be carried out at all, nor what the end of a Job that sends leads to (`conclude`).
A Job is never changed: what has to run otherwise is deleted and recreated, which costs at most one batch, because
checkpoints are on the Diode's volume.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from gapless_api.codec.canonical import moment_text
from gapless_api.v1alpha1.conditions import ConditionType, condition, is_true
from gapless_api.v1alpha1.reasons import Reason
from gapless_api.wire.progress import PROGRESS_LINE
from gapless_operator.common.children import digest_of, job_ref
from gapless_operator.common.plan import Ref
from gapless_operator.common.pod_trouble import lost_message, trouble_of
from gapless_operator.common.result import Result
from gapless_operator.sending.progress import (
    WRITE_EVERY,
    plan_of,
    planned_unavailable,
    progress_while_sending,
    unavailable_ranges,
    unread,
    unreadable,
)
from gapless_operator.sending.queries import PLAN, SEND
from gapless_operator.sending.queue import has_turn, is_sending, lane_mates
from gapless_operator.sending.resend import conditions as condition_sets
from gapless_operator.sending.resend.conclude import (
    and_again,
    attempt_in_round,
    is_concluded,
    latest_job,
    of_job,
    of_work,
    pods_of,
    try_again,
    wait_for_logs,
)
from gapless_operator.sending.resend.job_outcome import SPEC_DEADLINE, End, Outcome, outcome_of, pause_before
from gapless_operator.sending.resend.manifests import (
    SETTINGS_ANNOTATION,
    SenderAttempt,
    SessionKey,
    attempt_manifests,
    job_name,
    key_secret,
    needs_key,
    session_key_name,
    settings_digest,
)
from gapless_operator.sending.resend.properties import checkpoint_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gapless_operator.common.observed import ObservedJob, ObservedPod
    from gapless_operator.sending.observed import ResendObserved
    from gapless_operator.sending.resend.context import ValidContext

START_DEADLINE = timedelta(minutes=5)
"""After how long pods that could not start are given up for now, so that the next Resend has its turn."""
SLOW_START_DEADLINE = timedelta(minutes=30)
"""The same for pods that are only slow: to delete one that loads its image may restart the download."""
_SOON = timedelta(seconds=2)


def proceed(context: ValidContext, role: str) -> Result:
    """Do what the Jobs of a `role` need next; what must not run is stopped already, and what was sent is concluded."""
    job = latest_job(context.resend, context.observed, role)
    if job is None or is_concluded(context.status, job):
        return _start(context, role)
    if job.meta.deleting:
        return Result(
            conditions=condition_sets.working(
                Reason.STOPPED, f"The Job {job.meta.name} is being stopped; progress is saved."
            ),
            again_after=_SOON,
        )
    changed = job.meta.annotations.get(SETTINGS_ANNOTATION) != settings_digest(
        context.resend, context.diode, context.sources, role=role
    )
    if changed:
        again = {"retry_at": context.now} if job.ended else {}
        return Result(
            conditions=condition_sets.working(
                Reason.STOPPED, "The settings have changed; it continues with the new ones."
            ),
            update={**of_job(job), **again},
            stop=(job_ref(job),),
            again_after=_SOON,
        )
    pods = pods_of(context.observed, job)
    if not job.ended:
        return _watch(context, role, job, pods)
    return conclude_plan(context, job, pods)


def superseded_objects(observed: ResendObserved) -> tuple[Ref, ...]:
    """Jobs and settings of earlier attempts, once a later one is there."""
    last = max((job.meta.attempt for job in observed.jobs), default=0)
    jobs = [job for job in observed.jobs if job.ended and job.meta.attempt < last and not job.meta.deleting]
    maps = [child for child in observed.config_maps if child.meta.role in {PLAN, SEND} and child.meta.attempt < last]
    return (
        *(job_ref(job) for job in jobs),
        *(Ref("v1", "ConfigMap", child.meta.name, child.meta.uid) for child in maps if not child.meta.deleting),
    )


def _start(context: ValidContext, role: str) -> Result:
    """There is no Job: wait, queue, or begin."""
    resend, status, now = context.resend, context.status, context.now
    if status.retry_at is not None and now < status.retry_at:
        before = condition(status.conditions, ConditionType.RECONCILING)
        reason, message = str(Reason.RETRYING), f"The next attempt begins at {moment_text(status.retry_at)}."
        if before is not None and before.status == "True" and before.message.endswith(message):
            reason, message = before.reason, before.message
        return Result(conditions=condition_sets.working(reason, message), again_after=status.retry_at - now)
    limit = resend.spec.active_deadline_seconds
    if (
        limit is not None
        and status.retry_at is not None
        and status.started_at is not None
        and now - status.started_at >= timedelta(seconds=limit)
    ):
        message = (
            f"It was not finished within {limit} seconds (spec.activeDeadlineSeconds); what was sent is in "
            f"status.progress. {SPEC_DEADLINE}"
        )
        return Result(
            conditions=condition_sets.failed(Reason.DEADLINE_EXCEEDED, message),
            update={"finished_at": now, "retry_at": None},
        )
    if not has_turn(context.diode, resend.metadata.uid, role):
        return _queue(context, role)
    is_same = status.retry_at is None and status.attempt > 0 and status.job == job_name(resend, role, status.attempt)
    number = status.attempt if is_same else status.attempt + 1
    name, key = job_name(resend, role, number), _session_key(context, role)
    parts = attempt_manifests(_attempt(context, role, name=name, number=number, key=key))
    update = {"attempt": number, "job": name, "retry_at": None, "session_key_secret": key.secret if key else None}
    if role == PLAN:
        conditions = condition_sets.working(Reason.PLANNING, "A pod on the Diode's node counts what would be sent.")
    else:
        update["started_at"] = status.started_at or now
        update["checkpoint"] = checkpoint_folder(resend)
        conditions = condition_sets.working(Reason.STARTING, f"Sender pods are being started (attempt {number}).")
    return Result(
        conditions=conditions,
        update=update,
        create=(key_secret(resend, key),) if key is not None and key.content else (),
        apply=parts,
        again_after=WRITE_EVERY,
    )


def _attempt(context: ValidContext, role: str, *, name: str, number: int, key: SessionKey | None) -> SenderAttempt:
    return SenderAttempt(
        resend=context.resend,
        diode=context.diode,
        sources=context.sources,
        program=context.program,
        role=role,
        name=name,
        number=number,
        key=key,
    )


def _session_key(context: ValidContext, role: str) -> SessionKey | None:
    """The key of the current work: the one of the attempt before, or a new one."""
    if not needs_key(context.diode, role):
        return None
    known = context.status.session_key_secret
    if known is not None:
        return SessionKey(known, b"")
    observed = context.observed
    return SessionKey(session_key_name(context.resend, observed.fresh_mark), observed.fresh_key)


def _queue(context: ValidContext, role: str) -> Result:
    """Say what a Resend waits for. The sentences do not count or name others: each change would be 200 writes."""
    diode, name = context.diode, context.diode.metadata.name
    most = diode.spec.max_concurrent_resends
    if role == PLAN:
        at_once = "one plan" if most == 1 else f"{most} plans"
        message = f"Waits for its turn on Diode {name}, which makes {at_once} at a time, by priority, then by age."
        return Result(conditions=condition_sets.working(Reason.QUEUED, message))
    ready = condition(diode.status.conditions, ConditionType.READY)
    if not is_true(diode.status.conditions, ConditionType.READY):
        why = f"({ready.reason}): {ready.message}" if ready is not None else "yet."
        return Result(conditions=condition_sets.working(Reason.DIODE_NOT_READY, f"Diode {name} is not ready {why}"))
    if any(map(is_sending, lane_mates(diode, context.observed.other_diodes))):
        message = f"Waits until the receiver of Diode {name} is free; it takes one encrypted resend at a time."
        return Result(conditions=condition_sets.working(Reason.KEY_LANE_BUSY, message))
    at_once = "one resend" if most == 1 else f"{most} resends"
    message = f"Waits for its turn on Diode {name}, which runs {at_once} at a time, by priority, then by age."
    return Result(conditions=condition_sets.working(Reason.QUEUED, message))


def _watch(context: ValidContext, role: str, job: ObservedJob, pods: Sequence[ObservedPod]) -> Result:
    resend, status, now = context.resend, context.status, context.now
    update = {**of_job(job), "retry_at": None}
    trouble = trouble_of(job, pods, now)
    lost = next((pod for pod in pods if pod.is_lost and not pod.ended), None)
    if lost is not None:
        conditions = condition_sets.working(Reason.NODE_LOST, lost_message(lost))
    elif trouble is not None:
        patience = SLOW_START_DEADLINE if trouble.reason is Reason.POD_SLOW else START_DEADLINE
        if now - job.meta.created >= patience and not any(pod.has_begun for pod in pods):
            at = now + pause_before(attempt_in_round(status, job) + 1)
            return Result(
                conditions=condition_sets.working(trouble.reason, and_again(trouble.message, at)),
                update={**update, "retry_at": at},
                stop=(job_ref(job),),
                again_after=at - now,
            )
        conditions = condition_sets.working(*trouble)
    elif role == PLAN:
        conditions = condition_sets.working(Reason.PLANNING, "A pod on the Diode's node counts what would be sent.")
    elif any(pod.phase != "Pending" for pod in pods):
        where = context.diode.metadata.name
        problem = unreadable(pods, PROGRESS_LINE.event) or unread(pods)
        message = f"Events go over Diode {where} (attempt {job.meta.attempt}). {problem}"
        conditions = condition_sets.working(Reason.SENDING, message.rstrip())
    else:
        conditions = condition_sets.working(
            Reason.STARTING, f"Sender pods are being started (attempt {job.meta.attempt})."
        )
    if role == SEND:
        update["started_at"] = status.started_at or job.started or job.meta.created
        update["checkpoint"] = checkpoint_folder(resend)
        update["progress"] = progress_while_sending(status.progress, pods, now=now)
    # Under the names that the Job uses: one of the version before has others than it would be given now.
    attempt = _attempt(context, role, name=job.meta.name, number=job.meta.attempt, key=None)
    *parts, _ = attempt_manifests(attempt)
    there = {child.meta.name: child.meta.digest for child in context.observed.config_maps}
    missing = tuple(part for part in parts if there.get(part["metadata"]["name"]) != digest_of(part))
    return Result(conditions=conditions, update=update, apply=missing, again_after=WRITE_EVERY)


def conclude_plan(context: ValidContext, job: ObservedJob, pods: Sequence[ObservedPod]) -> Result:
    """Take in what a Job that plans has found, or try again."""
    finished = job.ended_at.replace(microsecond=0)
    waiting = wait_for_logs(job, pods, now=context.now, reason=Reason.PLANNING)
    if waiting is not None:
        return waiting
    resend = context.resend
    outcome = outcome_of(
        job,
        pods,
        shards=1,
        attempt=attempt_in_round(context.status, job),
        backoff_limit=resend.spec.backoff_limit,
    )
    update = {**of_job(job), "retry_at": None}
    if outcome.end is End.RETRY:
        return try_again(context.status, job, outcome, update, finished)
    if outcome.end is End.GIVEN_UP:
        update |= {"finished_at": finished, "unavailable": unavailable_ranges(pods)}
        return Result(conditions=condition_sets.failed(outcome.reason, outcome.message), update=update)
    found = plan_of(pods)
    if found is None:
        outcome = Outcome(End.RETRY, Reason.RETRYING, f"The log of Job {job.meta.name}, which has the plan, is gone.")
        return try_again(context.status, job, outcome, of_job(job), finished)
    lasting = "" if found.estimated_seconds is None else f" in about {found.estimated_seconds:,.0f} s"
    lost = f"; {found.unavailable:,} cannot be sent ({planned_unavailable(pods)})" if found.unavailable else ""
    message = f"Would send {found.events:,} events{lasting}{lost}; nothing was sent. Set spec.mode: Send to send them."
    read = of_work(resend, context.status, context.diode, pods)
    return Result(conditions=condition_sets.planned(message), update={**update, "plan": found, **read})
