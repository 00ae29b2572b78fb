"""The life of a Resend's Jobs: when one waits, starts or is replaced, its progress, and what a plan found.

Must not know whether the Resend is valid, nor what follows from the end of a Job that sends (`conclude`). A Job is
never changed: one with outdated settings is deleted and recreated, which repeats at most one batch, because checkpoints
are on the Diode's volume.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from gapless_api.codec.canonical import moment_text
from gapless_api.v1alpha1.conditions import ConditionType, condition, is_true
from gapless_api.v1alpha1.reasons import Reason
from gapless_api.wire.progress import PROGRESS_LINE
from gapless_operator.common import work_conditions as condition_sets
from gapless_operator.common.children import digest_of, job_ref
from gapless_operator.common.freshness import observed_at
from gapless_operator.common.plan import Ref
from gapless_operator.common.pod_trouble import lost_message, trouble_of
from gapless_operator.common.result import Result
from gapless_operator.sending.progress import (
    WRITE_EVERY,
    log_problem,
    message_problem,
    planned_times,
    planned_unavailable,
    reported_plan,
    unavailable_ranges,
    update_progress,
)
from gapless_operator.sending.queries import PLAN, SEND
from gapless_operator.sending.queue import has_turn, is_sending, lane_mates
from gapless_operator.sending.resend.conclude import (
    SOON,
    attempt_in_round,
    is_concluded,
    job_fields,
    latest_job,
    pods_of,
    schedule_retry,
    wait_for_logs,
    with_retry_time,
    work_fields,
)
from gapless_operator.sending.resend.job_outcome import DEADLINE_HINT, End, Outcome, outcome_of, pause_before
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
    from gapless_operator.common.observed import ObservedJob, ObservedPod
    from gapless_operator.sending.observed import ResendObserved
    from gapless_operator.sending.resend.context import ValidContext

_PLANNING = "A pod on the Diode's node is counting what would be sent."
START_DEADLINE = timedelta(minutes=5)
"""After how long pods that cannot start are deleted, so that the next Resend has its turn."""
SLOW_START_DEADLINE = timedelta(minutes=30)
"""The same for pods that are only slow: deleting one while it pulls its image may restart the download."""


def proceed(context: ValidContext, role: str) -> Result:
    """Queue, start, watch or replace the Job of a `role`, or take in the plan that it found.

    What must not run was stopped before, and a Job that sent was concluded.
    """
    job = latest_job(context.resend, context.observed, role)
    if job is None or is_concluded(context.status, job):
        return _wait_for_retry(context) or _queue(context, role) or _start(context, role)
    if job.meta.deleting:
        return Result(
            conditions=condition_sets.working(
                Reason.STOPPED, f"The Job {job.meta.name} is being stopped; progress is saved."
            ),
            again_after=SOON,
        )
    is_outdated = job.meta.annotations.get(SETTINGS_ANNOTATION) != settings_digest(
        context.resend, context.diode, context.sources, role=role
    )
    if is_outdated:
        retry_now = {"retry_at": context.now} if job.ended else {}
        return Result(
            conditions=condition_sets.working(
                Reason.STOPPED, f"The settings have changed; the Job {job.meta.name} is being replaced."
            ),
            update={**job_fields(job), **retry_now},
            stop=(job_ref(job),),
            again_after=SOON,
        )
    pods = pods_of(context.observed, job)
    if not job.ended:
        return _watch(context, role, job, pods)
    return _conclude_plan(context, job, pods)


def superseded_objects(observed: ResendObserved) -> tuple[Ref, ...]:
    """Return the Jobs and settings of earlier attempts, once a later one exists."""
    last = max((job.meta.attempt for job in observed.jobs), default=0)
    jobs = [job for job in observed.jobs if job.ended and job.meta.attempt < last and not job.meta.deleting]
    maps = [child for child in observed.config_maps if child.meta.role in {PLAN, SEND} and child.meta.attempt < last]
    return (
        *(job_ref(job) for job in jobs),
        *(Ref("v1", "ConfigMap", child.meta.name, child.meta.uid) for child in maps if not child.meta.deleting),
    )


def _wait_for_retry(context: ValidContext) -> Result | None:
    """Wait for the time of the next attempt, or fail after the deadline; ``None`` when an attempt may start."""
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
            f"The Resend did not finish within {limit} seconds (spec.activeDeadlineSeconds); status.progress shows "
            f"what was sent. {DEADLINE_HINT}"
        )
        return Result(
            conditions=condition_sets.failed(Reason.DEADLINE_EXCEEDED, message),
            update={"finished_at": now, "retry_at": None},
        )
    return None


def _queue(context: ValidContext, role: str) -> Result | None:
    """Wait for the Resend's turn on its Diode; ``None`` when it has one.

    The messages contain no counts and no names of other Resends: each change would be a write for every queued Resend.
    """
    diode, name = context.diode, context.diode.metadata.name
    if has_turn(diode, context.resend.metadata.uid, role):
        return None
    limit = diode.spec.max_concurrent_resends
    if role == PLAN:
        at_once = "one plan" if limit == 1 else f"{limit} plans"
        message = f"Waiting for its turn on Diode {name}, which runs {at_once} at a time, by priority, then by age."
        return Result(conditions=condition_sets.working(Reason.QUEUED, message))
    ready = condition(diode.status.conditions, ConditionType.READY)
    if not is_true(diode.status.conditions, ConditionType.READY):
        why = f"({ready.reason}): {ready.message}" if ready is not None else "yet."
        return Result(conditions=condition_sets.working(Reason.DIODE_NOT_READY, f"Diode {name} is not ready {why}"))
    if any(map(is_sending, lane_mates(diode, context.observed.other_diodes))):
        message = f"Waiting for the receiver of Diode {name}, which takes one encrypted resend at a time."
        return Result(conditions=condition_sets.working(Reason.KEY_LANE_BUSY, message))
    at_once = "one resend" if limit == 1 else f"{limit} resends"
    message = f"Waiting for its turn on Diode {name}, which runs {at_once} at a time, by priority, then by age."
    return Result(conditions=condition_sets.working(Reason.QUEUED, message))


def _start(context: ValidContext, role: str) -> Result:
    """Write the Job of the next attempt and what it needs."""
    resend, status, now = context.resend, context.status, context.now
    is_same = status.retry_at is None and status.attempt > 0 and status.job == job_name(resend, role, status.attempt)
    number = status.attempt if is_same else status.attempt + 1
    name, key = job_name(resend, role, number), _session_key(context, role)
    parts = attempt_manifests(_sender_attempt(context, role, name=name, number=number, key=key))
    update = {"attempt": number, "job": name, "retry_at": None, "session_key_secret": key.secret if key else None}
    if role == PLAN:
        conditions = condition_sets.working(Reason.PLANNING, _PLANNING)
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


def _sender_attempt(
    context: ValidContext, role: str, *, name: str, number: int, key: SessionKey | None
) -> SenderAttempt:
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
    """Return the key of the current work: that of the previous attempt, or a new one."""
    if not needs_key(context.diode, role):
        return None
    existing = context.status.session_key_secret
    if existing is not None:
        return SessionKey(existing, b"")
    observed = context.observed
    return SessionKey(session_key_name(context.resend, observed.fresh_mark), observed.fresh_key)


def _watch(context: ValidContext, role: str, job: ObservedJob, pods: Sequence[ObservedPod]) -> Result:
    """Show the progress of a Job that runs, or why its pods do not start."""
    resend, status, now = context.resend, context.status, context.now
    update = {**job_fields(job), "retry_at": None}
    trouble = trouble_of(job, pods, now)
    lost = next((pod for pod in pods if pod.is_lost and not pod.ended), None)
    if lost is not None:
        conditions = condition_sets.working(Reason.NODE_LOST, lost_message(lost))
    elif trouble is not None:
        patience = SLOW_START_DEADLINE if trouble.reason is Reason.POD_SLOW else START_DEADLINE
        if now - job.meta.created >= patience and not any(pod.has_begun for pod in pods):
            at = now + pause_before(attempt_in_round(status, job) + 1)
            return Result(
                conditions=condition_sets.working(trouble.reason, with_retry_time(trouble.message, at)),
                update={**update, "retry_at": at},
                stop=(job_ref(job),),
                again_after=at - now,
            )
        conditions = condition_sets.working(*trouble)
    elif role == PLAN:
        conditions = condition_sets.working(Reason.PLANNING, _PLANNING)
    elif any(pod.phase != "Pending" for pod in pods):
        problem = message_problem(pods, PROGRESS_LINE.event) or log_problem(pods)
        message = f"Sending over Diode {context.diode.metadata.name} (attempt {job.meta.attempt}). {problem}"
        conditions = condition_sets.working(Reason.SENDING, message.rstrip())
    else:
        conditions = condition_sets.working(
            Reason.STARTING, f"Sender pods are being started (attempt {job.meta.attempt})."
        )
    if role == SEND:
        update["started_at"] = status.started_at or job.started or job.meta.created
        update["checkpoint"] = checkpoint_folder(resend)
        update["progress"] = update_progress(status.progress, pods, now=now)
    # By the names that the Job uses.
    attempt = _sender_attempt(context, role, name=job.meta.name, number=job.meta.attempt, key=None)
    *parts, _ = attempt_manifests(attempt)
    digests = {child.meta.name: child.meta.digest for child in context.observed.config_maps}
    outdated = tuple(part for part in parts if digests.get(part["metadata"]["name"]) != digest_of(part))
    return Result(
        conditions=conditions,
        update=update,
        apply=outdated,
        observed_at=observed_at([pod for pod in pods if not pod.ended]),
        again_after=WRITE_EVERY,
    )


def _conclude_plan(context: ValidContext, job: ObservedJob, pods: Sequence[ObservedPod]) -> Result:
    """Record what a plan Job has found, or retry it."""
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
    update = {**job_fields(job), "retry_at": None}
    if outcome.end is End.RETRY:
        return schedule_retry(context.status, job, outcome, update, finished)
    if outcome.end is End.GIVEN_UP:
        update |= {"finished_at": finished, "unavailable": unavailable_ranges(pods)}
        return Result(conditions=condition_sets.failed(outcome.reason, outcome.message), update=update)
    plan = reported_plan(pods)
    if plan is None:
        outcome = Outcome(
            End.RETRY, Reason.RETRYING, f"The log of Job {job.meta.name} with the plan can no longer be read."
        )
        return schedule_retry(context.status, job, outcome, job_fields(job), finished)
    duration = "" if plan.estimated_seconds is None else f" in about {plan.estimated_seconds:,.0f} s"
    unavailable = f"; {plan.unavailable:,} cannot be sent ({planned_unavailable(pods)})" if plan.unavailable else ""
    found = f"Would send {plan.events:,} events{duration}{unavailable}; nothing was sent."
    sentences = (found, planned_times(pods), "Set spec.mode: Send to send them.")
    message = " ".join(filter(None, sentences))
    work = work_fields(resend, context.status, context.diode, pods)
    return Result(conditions=condition_sets.planned(message), update={**update, "plan": plan, **work})
