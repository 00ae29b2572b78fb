"""Owns what the end of a Job that sends leads to: the outcome, the report, the account, or the next attempt.

Must not know whether the Resend is valid or may continue: what has ended has ended, and is written down before anything
else is decided. The Diode may be gone by then.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from gapless_api.codec.canonical import moment_text
from gapless_api.v1alpha1.identity import resend_identity
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.log_grace import LOG_GRACE, is_being_read, unreadable_until
from gapless_operator.common.result import Result
from gapless_operator.sending.progress import (
    bundle_of,
    final_progress,
    latest_by_index,
    merged_report,
    progress_while_sending,
    unavailable_ranges,
    unread,
)
from gapless_operator.sending.queries import SEND
from gapless_operator.sending.resend import conditions as condition_sets
from gapless_operator.sending.resend.job_outcome import End, outcome_of, pause_before
from gapless_operator.sending.resend.manifests import KEY_ANNOTATION, RUN_LABEL, report_map, report_name, run_label
from gapless_operator.sending.resend.properties import checkpoint_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from gapless_api.v1alpha1.diode import Diode
    from gapless_api.v1alpha1.resend import Resend
    from gapless_api.v1alpha1.resend_status import ResendStatus
    from gapless_operator.common.observed import ObservedJob, ObservedPod
    from gapless_operator.sending.observed import ResendObserved
    from gapless_operator.sending.resend.context import Context
    from gapless_operator.sending.resend.job_outcome import Outcome

_SOON = timedelta(seconds=2)
_SHA256_CHARACTERS = 64


def conclude(context: Context) -> Result | None:
    """What follows from the end of the last Job that sent; ``None`` when there is nothing to conclude."""
    resend, status, observed, now = context.resend, context.status, context.observed, context.now
    job = latest_job(resend, observed, SEND)
    if job is None or not job.ended or job.meta.deleting or is_concluded(status, job):
        return None
    pods = pods_of(observed, job)
    waiting = wait_for_logs(job, pods, now=now, reason=Reason.SENDING)
    if waiting is not None:
        return waiting
    finished = job.ended_at.replace(microsecond=0)
    outcome = outcome_of(
        job,
        pods,
        shards=resend.spec.parallelism,
        attempt=attempt_in_round(status, job),
        backoff_limit=resend.spec.backoff_limit,
    )
    progress = progress_while_sending(status.progress, pods, now=now, at_once=True)
    update: dict[str, Any] = {**of_job(job), "retry_at": None, "progress": progress}
    if outcome.end is End.RETRY:
        return try_again(status, job, outcome, update, finished)
    if outcome.end is End.GIVEN_UP:
        update |= {"finished_at": finished, "unavailable": unavailable_ranges(pods)}
        return Result(conditions=condition_sets.failed(outcome.reason, outcome.message), update=update)
    report = merged_report(pods, reason=outcome.reason, message=outcome.message)
    name = report_name(resend)
    work = of_work(resend, status, observed.diode, pods)
    known = resend.model_copy(update={"status": status.model_copy(update=work)})
    update |= {
        "progress": final_progress(status.progress, pods, now=finished),
        "unavailable": unavailable_ranges(pods),
        "report": None if report is None else name,
        "finished_at": finished,
        **work,
        "checkpoint": checkpoint_folder(known),  # Not yet there if the operator died when it had started the Job.
    }
    return Result(
        conditions=condition_sets.entering_ledger(outcome.reason, outcome.message),
        update=update,
        apply=() if report is None else (report_map(resend, name, report),),
        again_after=_SOON,
    )


def is_current(resend: Resend, job: ObservedJob, role: str) -> bool:
    """Whether a Job belongs to the current work."""
    return job.meta.role == role and job.meta.labels.get(RUN_LABEL) == run_label(resend)


def latest_job(resend: Resend, observed: ResendObserved, role: str) -> ObservedJob | None:
    """The Job of the last attempt at the current work."""
    mine = [job for job in observed.jobs if is_current(resend, job, role)]
    return max(mine, key=lambda job: job.meta.attempt, default=None)


def is_concluded(status: ResendStatus, job: ObservedJob) -> bool:
    """Whether what followed from this Job is already in the status."""
    return status.retry_at is not None and status.job == job.meta.name


def pods_of(observed: ResendObserved, job: ObservedJob) -> list[ObservedPod]:
    """The pods of a Job."""
    return [pod for pod in observed.pods if pod.job == job.meta.name]


def wait_for_logs(job: ObservedJob, pods: Iterable[ObservedPod], *, now: datetime, reason: Reason) -> Result | None:
    """Give the last words of a Job's pods time to be read; ``None`` when they are, or will not be any more."""
    silent = [
        pod for pod in latest_by_index(pods).values() if pod.exit_code is not None and not pod.output.has_final_message
    ]
    if not silent:
        return None
    finished = job.ended_at.replace(microsecond=0)
    problem = unread(silent)
    until = unreadable_until(finished, silent)
    if problem and now < until:
        message = f"The pods have ended. {problem} Waiting for their reports until {moment_text(until)}."
        return Result(
            conditions=condition_sets.working(Reason.LOG_UNREADABLE, message), update=of_job(job), again_after=LOG_GRACE
        )
    if not is_being_read(silent) and now - finished >= LOG_GRACE:
        return None
    conditions = condition_sets.working(reason, "The pods have ended; their reports are being read.")
    return Result(conditions=conditions, update=of_job(job), again_after=_SOON)


def attempt_in_round(status: ResendStatus, job: ObservedJob) -> int:
    """Which attempt of its round a Job is; the first is 1."""
    return max(job.meta.attempt - status.attempts_before, 1)


def try_again(
    status: ResendStatus, job: ObservedJob, outcome: Outcome, update: dict[str, Any], finished: datetime
) -> Result:
    """Have the next attempt begin after a pause."""
    at = finished + pause_before(attempt_in_round(status, job) + 1)
    return Result(
        conditions=condition_sets.working(outcome.reason, and_again(outcome.message, at)),
        update={**update, "retry_at": at},
        again_after=_SOON,
    )


def of_job(job: ObservedJob) -> dict[str, Any]:
    """The fields of the status that name a Job."""
    key = job.meta.annotations.get(KEY_ANNOTATION)
    return {"attempt": job.meta.attempt, "job": job.meta.name, **({"session_key_secret": key} if key else {})}


def of_work(resend: Resend, status: ResendStatus, diode: Diode | None, pods: Sequence[ObservedPod]) -> dict[str, Any]:
    """Which bundle was read, and so which work this is: what the reader found counts, not what the spec names.

    The work keeps the identity with which it began, whatever has become of the Diode's window since.
    """
    found = bundle_of(pods) if resend.spec.bundle is not None else None
    if found is not None and len(found.sha256) != _SHA256_CHARACTERS:
        found = None
    sha256 = found.sha256 if found is not None else status.bundle_sha256
    read: dict[str, Any] = {}
    if found is not None:
        read = {"bundle_sha256": sha256, "bundle_id": None if found.id is None else found.id[:128]}
    is_begun = status.identity is not None and status.bundle_sha256 == sha256
    if is_begun or diode is None or (resend.spec.bundle is not None and sha256 is None):
        return read
    window = diode.spec.partition_window
    return {**read, "identity": resend_identity(resend.spec, window=window, bundle_sha256=sha256)}


def and_again(message: str, at: datetime) -> str:
    """A message, with when it is tried again."""
    return f"{message} The next attempt begins at {moment_text(at)}."
