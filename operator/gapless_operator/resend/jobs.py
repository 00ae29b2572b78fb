"""Owns the life of a Resend's Jobs: when one begins, what it is worth while it runs, and what its end leads to.

Must not know whether the Resend may be carried out at all. A Job is never changed: what has to run otherwise is deleted
and begun again, which costs at most one batch, because checkpoints are on the Diode's volume.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from gapless_api.marks import moment_text
from gapless_api.v1alpha1.conditions import ConditionType, condition, is_true
from gapless_api.v1alpha1.identity import resend_identity
from gapless_api.v1alpha1.reasons import Reason
from gapless_api.wire.progress import PROGRESS_LINE
from gapless_operator.children import digest_of
from gapless_operator.diode.queue import lane_mates
from gapless_operator.plan import Ref
from gapless_operator.pod_trouble import trouble_of
from gapless_operator.resend import standing
from gapless_operator.resend.ending import End, Ending, ending_of, pause_before
from gapless_operator.resend.manifests import (
    PLAN,
    RUN_LABEL,
    SEND,
    SETTINGS_ANNOTATION,
    attempt_of,
    job_name,
    report_map,
    report_name,
    run_label,
    settings_digest,
)
from gapless_operator.resend.progress import (
    WRITE_EVERY,
    bundle_of,
    final_progress,
    latest_by_index,
    merged_report,
    plan_of,
    progress_while_sending,
    unavailable_ranges,
    unreadable,
)
from gapless_operator.resend.step import Situation, Step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gapless_operator.observed import ObservedJob, ObservedPod

START_DEADLINE = timedelta(minutes=5)
"""After how long pods that could not start are given up for now, so that the next Resend has its turn."""
SLOW_START_DEADLINE = timedelta(minutes=30)
"""The same for pods of which nobody says that they cannot: to delete one that loads its image may begin that anew."""
LOG_PATIENCE = timedelta(seconds=30)
"""How long to wait for the last lines of a pod's log after its Job has ended."""
_SOON = timedelta(seconds=2)
_SHA256_CHARACTERS = 64


def proceed(situation: Situation, role: str) -> Step:
    """Do what the Jobs of a `role` need next."""
    stray = [job for job in situation.observed.jobs if not job.ended and not _is_current(situation, job, role)]
    if situation.resend.spec.suspend or stray:
        return _stopped(situation, stray)
    job = latest_job(situation, role)
    if job is None or _is_concluded(situation, job):
        return _begun(situation, role)
    if job.meta.deleting:
        return Step(
            said=standing.working(Reason.STOPPED, f"The Job {job.meta.name} is being stopped; progress is saved."),
            again_after=_SOON,
        )
    pods = [pod for pod in situation.observed.pods if pod.job == job.meta.name]
    changed = job.meta.annotations.get(SETTINGS_ANNOTATION) != settings_digest(
        situation.resend, situation.diode, role=role
    )
    if changed and (not job.ended or role == PLAN):
        again = {"retry_at": situation.now} if job.ended else {}
        return Step(
            said=standing.working(Reason.STOPPED, "The settings have changed; it goes on with the new ones."),
            update={**_of_job(job), **again},
            delete=(_ref(job),),
            again_after=_SOON,
        )
    if not job.ended:
        return _running(situation, role, job, pods)
    return _ended(situation, role, job, pods)


def latest_job(situation: Situation, role: str) -> ObservedJob | None:
    """The Job of the last attempt at the work that is wanted now."""
    mine = [job for job in situation.observed.jobs if _is_current(situation, job, role)]
    return max(mine, key=lambda job: job.meta.attempt, default=None)


def has_turn(situation: Situation) -> bool:
    """Whether the Diode has given the Resend its turn."""
    uid = situation.resend.metadata.uid
    return any(entry.resend_uid == uid for entry in situation.diode.status.active)


def superseded(situation: Situation) -> tuple[Ref, ...]:
    """Jobs and settings of earlier attempts, once a later one is there."""
    observed = situation.observed
    last = max((job.meta.attempt for job in observed.jobs), default=0)
    jobs = [job for job in observed.jobs if job.ended and job.meta.attempt < last and not job.meta.deleting]
    maps = [child for child in observed.config_maps if child.meta.role in {PLAN, SEND} and child.meta.attempt < last]
    return (
        *(_ref(job) for job in jobs),
        *(Ref("v1", "ConfigMap", child.meta.name, child.meta.uid) for child in maps if not child.meta.deleting),
    )


def _is_current(situation: Situation, job: ObservedJob, role: str) -> bool:
    return job.meta.role == role and job.meta.labels.get(RUN_LABEL) == run_label(situation.resend)


def _is_concluded(situation: Situation, job: ObservedJob) -> bool:
    """Whether what followed from this Job is already in the status."""
    status = situation.status
    return status.retry_at is not None and status.job == job.meta.name


def _stopped(situation: Situation, stray: Sequence[ObservedJob]) -> Step:
    """Nothing may run, or what runs is not what is wanted any more."""
    suspend = situation.resend.spec.suspend
    stopping = [job for job in situation.observed.jobs if not job.ended] if suspend else stray
    delete = tuple(_ref(job) for job in stopping if not job.meta.deleting)
    if not suspend:
        message = "What runs is not what the spec says any more; it is being stopped, and progress is saved."
        return Step(said=standing.working(Reason.STOPPED, message), delete=delete, again_after=_SOON)
    return Step(said=standing.suspended("spec.suspend is true; progress is saved."), delete=delete)


def _begun(situation: Situation, role: str) -> Step:
    """There is no Job: wait, ask for a turn, or begin."""
    resend, status, now = situation.resend, situation.status, situation.now
    if status.retry_at is not None and now < status.retry_at:
        before = condition(status.conditions, ConditionType.RECONCILING)
        reason, message = Reason.RETRYING, f"The next attempt begins at {moment_text(status.retry_at)}."
        if before is not None and before.status == "True" and before.message.endswith(message):
            reason, message = Reason(before.reason), before.message
        return Step(said=standing.working(reason, message), again_after=status.retry_at - now)
    limit = resend.spec.active_deadline_seconds
    if (
        limit is not None
        and status.retry_at is not None
        and status.started_at is not None
        and now - status.started_at >= timedelta(seconds=limit)
    ):
        message = (
            f"It was not finished within {limit} seconds (spec.activeDeadlineSeconds); what was sent is in "
            f"status.progress: create a new Resend with more time for the rest."
        )
        return Step(
            said=standing.failed(Reason.DEADLINE_EXCEEDED, message), update={"finished_at": now, "retry_at": None}
        )
    if role == SEND and not has_turn(situation):
        return _queued(situation)
    is_same = status.retry_at is None and status.attempt > 0 and status.job == job_name(resend, role, status.attempt)
    number = status.attempt if is_same else status.attempt + 1
    attempt = attempt_of(
        resend,
        situation.diode,
        situation.program,
        role=role,
        number=number,
        fresh_key=situation.observed.fresh_key,
    )
    begun = {"attempt": number, "job": job_name(resend, role, number), "retry_at": None}
    if role == PLAN:
        said = standing.working(Reason.PLANNING, "A pod on the Diode's node counts what would be sent.")
    else:
        begun["started_at"] = status.started_at or now
        said = standing.working(Reason.STARTING, f"Sender pods are being started (attempt {number}).")
    return Step(
        said=said,
        update=begun,
        create=() if attempt.key is None else (attempt.key,),
        apply=attempt.parts,
        again_after=WRITE_EVERY,
    )


def _queued(situation: Situation) -> Step:
    """Say what a Resend waits for. The sentences do not count or name others: each change would be 200 writes."""
    diode, name = situation.diode, situation.diode.metadata.name
    ready = condition(diode.status.conditions, ConditionType.READY)
    if not is_true(diode.status.conditions, ConditionType.READY):
        why = f"({ready.reason}): {ready.message}" if ready is not None else "yet."
        return Step(said=standing.working(Reason.DIODE_NOT_READY, f"Diode {name} is not ready {why}"))
    if any(mate.status.active for mate in lane_mates(diode, situation.observed.other_diodes)):
        message = f"Waits until the receiver of Diode {name} is free; it takes one encrypted resend at a time."
        return Step(said=standing.working(Reason.KEY_LANE_BUSY, message))
    most = diode.spec.max_concurrent_resends
    at_once = "one resend" if most == 1 else f"{most} resends"
    message = f"Waits for its turn on Diode {name}, which runs {at_once} at a time, by priority, then by age."
    return Step(said=standing.working(Reason.QUEUED, message))


def _running(situation: Situation, role: str, job: ObservedJob, pods: Sequence[ObservedPod]) -> Step:
    resend, status, now = situation.resend, situation.status, situation.now
    update = {**_of_job(job), "retry_at": None}
    trouble = trouble_of(job, pods, now)
    if trouble is not None:
        patience = SLOW_START_DEADLINE if trouble.reason is Reason.POD_SLOW else START_DEADLINE
        if now - job.meta.created >= patience and not any(pod.has_begun for pod in pods):
            at = now + pause_before(job.meta.attempt + 1)
            return Step(
                said=standing.working(trouble.reason, _and_again(trouble.message, at)),
                update={**update, "retry_at": at},
                delete=(_ref(job),),
                again_after=at - now,
            )
        said = standing.working(*trouble)
    elif role == PLAN:
        said = standing.working(Reason.PLANNING, "A pod on the Diode's node counts what would be sent.")
    elif any(pod.phase != "Pending" for pod in pods):
        where = situation.diode.metadata.name
        message = f"Events go over Diode {where} (attempt {job.meta.attempt}). {unreadable(pods, PROGRESS_LINE.event)}"
        said = standing.working(Reason.SENDING, message.rstrip())
    else:
        said = standing.working(Reason.STARTING, f"Sender pods are being started (attempt {job.meta.attempt}).")
    if role == SEND:
        update["started_at"] = status.started_at or job.started or job.meta.created
        update["progress"] = progress_while_sending(status.progress, pods, now=now)
    parts = attempt_of(
        resend, situation.diode, situation.program, role=role, number=job.meta.attempt, fresh_key=b""
    ).parts[:-1]
    there = {child.meta.name: child.meta.digest for child in situation.observed.config_maps}
    missing = tuple(part for part in parts if there.get(part["metadata"]["name"]) != digest_of(part))
    return Step(said=said, update=update, apply=missing, again_after=WRITE_EVERY)


def _ended(situation: Situation, role: str, job: ObservedJob, pods: Sequence[ObservedPod]) -> Step:
    resend, status, now = situation.resend, situation.status, situation.now
    finished = job.ended_at.replace(microsecond=0)
    unread = [
        pod for pod in latest_by_index(pods).values() if pod.exit_code is not None and not pod.output.tells_the_end
    ]
    if unread and now - finished < LOG_PATIENCE:
        reason = Reason.PLANNING if role == PLAN else Reason.SENDING
        said = standing.working(reason, "The pods have ended; their reports are being read.")
        return Step(said=said, update=_of_job(job), again_after=_SOON)
    ending = ending_of(
        job,
        pods,
        shards=resend.spec.parallelism if role == SEND else 1,
        attempt=job.meta.attempt,
        backoff_limit=resend.spec.backoff_limit,
    )
    if role == PLAN and ending.end is End.FINISHED:
        return _planned(situation, job, pods, finished)
    update = {**_of_job(job), "retry_at": None}
    if role == SEND:
        update["progress"] = progress_while_sending(status.progress, pods, now=now, at_once=True)
    if ending.end is End.RETRY:
        return _again(job, ending, update, finished)
    if ending.end is End.GIVEN_UP:
        update |= {"finished_at": finished, "unavailable": unavailable_ranges(pods)}
        return Step(said=standing.failed(ending.reason, ending.message), update=update)
    report = merged_report(pods, reason=ending.reason, message=ending.message)
    name = report_name(resend)
    update |= {
        "progress": final_progress(status.progress, pods, now=finished),
        "unavailable": unavailable_ranges(pods),
        "report": None if report is None else name,
        "finished_at": finished,
        **_of_bundle(situation, pods),
    }
    return Step(
        said=standing.entering_ledger(ending.reason, ending.message),
        update=update,
        apply=() if report is None else (report_map(resend, name, report),),
        again_after=_SOON,
    )


def _again(job: ObservedJob, ending: Ending, update: dict[str, Any], finished: Any) -> Step:
    at = finished + pause_before(job.meta.attempt + 1)
    return Step(
        said=standing.working(ending.reason, _and_again(ending.message, at)),
        update={**update, "retry_at": at},
        again_after=_SOON,
    )


def _planned(situation: Situation, job: ObservedJob, pods: Sequence[ObservedPod], finished: Any) -> Step:
    found = plan_of(pods)
    if found is None:
        ending = Ending(End.RETRY, Reason.RETRYING, f"The log of Job {job.meta.name}, which has the plan, is gone.")
        return _again(job, ending, _of_job(job), finished)
    lasting = "" if found.estimated_seconds is None else f" in about {found.estimated_seconds:,.0f} s"
    lost = f"; {found.unavailable:,} are no longer in Kafka" if found.unavailable else ""
    message = f"Would send {found.events:,} events{lasting}{lost}; nothing was sent. Set spec.mode: Send to send them."
    update = {**_of_job(job), "retry_at": None, "plan": found, **_of_bundle(situation, pods)}
    return Step(said=standing.planned(message), update=update)


def _of_job(job: ObservedJob) -> dict[str, Any]:
    return {"attempt": job.meta.attempt, "job": job.meta.name}


def _of_bundle(situation: Situation, pods: Sequence[ObservedPod]) -> dict[str, Any]:
    """Which bundle was read, and so which work this is: what the reader found counts, not what it was said to be."""
    found = bundle_of(pods)
    if situation.resend.spec.bundle is None or found is None or len(found.sha256) != _SHA256_CHARACTERS:
        return {}
    window = situation.diode.spec.partition_window
    return {
        "bundle_sha256": found.sha256,
        "bundle_id": None if found.id is None else found.id[:128],
        "identity": resend_identity(situation.resend.spec, window=window, bundle_sha256=found.sha256),
    }


def _and_again(message: str, at: Any) -> str:
    return f"{message} The next attempt begins at {moment_text(at)}."


def _ref(job: ObservedJob) -> Ref:
    return Ref("batch/v1", "Job", job.meta.name, job.meta.uid)
