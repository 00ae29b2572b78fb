"""What follows from the end of a Job that sends: the outcome, the report and final progress, or a retry.

Must not know whether the Resend is valid or may continue: the outcome is recorded before anything else is decided. The
Diode may have been deleted meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from gapless_api.codec.canonical import moment_text
from gapless_api.v1alpha1.identity import resend_identity
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common import work_conditions as condition_sets
from gapless_operator.common.conditions import ConditionUpdate
from gapless_operator.common.log_grace import LOG_GRACE, is_being_read, unreadable_until
from gapless_operator.common.result import Result
from gapless_operator.sending.progress import (
    final_progress,
    latest_by_index,
    log_problem,
    merge_reports,
    reported_bundle,
    unavailable_ranges,
    update_progress,
)
from gapless_operator.sending.queries import SEND
from gapless_operator.sending.resend.job_outcome import End, Outcome, outcome_of, pause_before
from gapless_operator.sending.resend.manifests import KEY_ANNOTATION, RUN_LABEL, report_map, report_name, run_label
from gapless_operator.sending.resend.properties import checkpoint_folder

if TYPE_CHECKING:
    from gapless_api.v1alpha1.conditions import ConditionType
    from gapless_api.v1alpha1.diode import Diode
    from gapless_api.v1alpha1.resend import Resend
    from gapless_api.v1alpha1.resend_status import ResendStatus
    from gapless_operator.common.observed import ObservedJob, ObservedPod
    from gapless_operator.sending.observed import ResendObserved
    from gapless_operator.sending.resend.context import Context

SOON = timedelta(seconds=2)
"""When to continue after something was recorded or stopped."""
_SHA256_CHARACTERS = 64


def conclude(context: Context) -> Result | None:
    """Record how the last Job that sent has ended; ``None`` when there is nothing to record."""
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
    progress = update_progress(status.progress, pods, now=now, at_once=True)
    update: dict[str, Any] = {**job_fields(job), "retry_at": None, "progress": progress}
    if outcome.end is End.RETRY:
        return schedule_retry(status, job, outcome, update, finished)
    if outcome.end is End.GIVEN_UP:
        update |= {"finished_at": finished, "unavailable": unavailable_ranges(pods)}
        return Result(conditions=condition_sets.failed(outcome.reason, outcome.message), update=update)
    report = merge_reports(pods, reason=outcome.reason, message=outcome.message)
    name = report_name(resend)
    work = work_fields(resend, status, observed.diode, pods)
    identified = resend.model_copy(update={"status": status.model_copy(update=work)})
    update |= {
        "progress": final_progress(status.progress, pods, now=finished),
        "unavailable": unavailable_ranges(pods),
        "report": None if report is None else name,
        "finished_at": finished,
        **work,
        "checkpoint": checkpoint_folder(identified),  # Missing if the operator died right after it had started the Job.
    }
    return Result(
        conditions=_entering_ledger(outcome.reason, outcome.message),
        update=update,
        apply=() if report is None else (report_map(resend, name, report),),
        again_after=SOON,
    )


def _entering_ledger(reason: Reason, message: str) -> Mapping[ConditionType, ConditionUpdate]:
    """The conditions of a Resend whose work is done and that succeeds once the Diode's ledger has it."""
    waiting = f"{message} The Diode's ledger is being written."
    return condition_sets.of_work(
        ready=ConditionUpdate(False, Reason.SENDING, waiting),
        reconciling=ConditionUpdate(True, reason, waiting),
        succeeded=ConditionUpdate(None, reason, message),
    )


def is_current(resend: Resend, job: ObservedJob, role: str) -> bool:
    """Whether a Job has a `role` and belongs to the current work."""
    return job.meta.role == role and job.meta.labels.get(RUN_LABEL) == run_label(resend)


def latest_job(resend: Resend, observed: ResendObserved, role: str) -> ObservedJob | None:
    """Return the Job of the last attempt at the current work, if it exists."""
    current = [job for job in observed.jobs if is_current(resend, job, role)]
    return max(current, key=lambda job: job.meta.attempt, default=None)


def is_concluded(status: ResendStatus, job: ObservedJob) -> bool:
    """Whether the status already contains what followed from a Job."""
    return status.retry_at is not None and status.job == job.meta.name


def pods_of(observed: ResendObserved, job: ObservedJob) -> list[ObservedPod]:
    """The pods of a Job."""
    return [pod for pod in observed.pods if pod.job == job.meta.name]


def wait_for_logs(job: ObservedJob, pods: Iterable[ObservedPod], *, now: datetime, reason: Reason) -> Result | None:
    """Wait until the final messages of a Job's pods were read; ``None`` when they were, or can no longer be.

    The watch may report the end of a pod after that of its Job, so a pod of a complete Job that seems to run has ended.
    """
    latest = latest_by_index(pods).values()
    unread = [pod for pod in latest if pod.exit_code is not None and not pod.output.has_final_message]
    unread += [pod for pod in latest if pod.exit_code is None and job.complete]
    if not unread:
        return None
    finished = job.ended_at.replace(microsecond=0)
    problem = log_problem(unread)
    until = unreadable_until(finished, unread)
    if problem and now < until:
        message = f"The pods have ended. {problem} Waiting for their reports until {moment_text(until)}."
        return Result(
            conditions=condition_sets.working(Reason.LOG_UNREADABLE, message),
            update=job_fields(job),
            again_after=LOG_GRACE,
        )
    if not is_being_read(unread) and now - finished >= LOG_GRACE:
        return None
    conditions = condition_sets.working(reason, "The pods have ended; their reports are being read.")
    return Result(conditions=conditions, update=job_fields(job), again_after=SOON)


def attempt_in_round(status: ResendStatus, job: ObservedJob) -> int:
    """Return the number of a Job's attempt since the count last began again; the first is 1."""
    return max(job.meta.attempt - status.attempts_before, 1)


def schedule_retry(
    status: ResendStatus, job: ObservedJob, outcome: Outcome, update: dict[str, Any], finished: datetime
) -> Result:
    """Have the next attempt start after a pause."""
    at = finished + pause_before(attempt_in_round(status, job) + 1)
    return Result(
        conditions=condition_sets.working(outcome.reason, with_retry_time(outcome.message, at)),
        update={**update, "retry_at": at},
        again_after=SOON,
    )


def job_fields(job: ObservedJob) -> dict[str, Any]:
    """Return the fields of the status that name a Job."""
    key = job.meta.annotations.get(KEY_ANNOTATION)
    return {"attempt": job.meta.attempt, "job": job.meta.name, **({"session_key_secret": key} if key else {})}


def work_fields(
    resend: Resend, status: ResendStatus, diode: Diode | None, pods: Sequence[ObservedPod]
) -> dict[str, Any]:
    """Return the fields of the status that identify the bundle and the work, by what the pods have read.

    The work keeps the identity with which it began, even if the Diode's window has changed since.
    """
    bundle = reported_bundle(pods) if resend.spec.bundle is not None else None
    if bundle is not None and len(bundle.sha256) != _SHA256_CHARACTERS:
        bundle = None
    sha256 = bundle.sha256 if bundle is not None else status.bundle_sha256
    read: dict[str, Any] = {}
    if bundle is not None:
        read = {"bundle_sha256": sha256, "bundle_id": None if bundle.id is None else bundle.id[:128]}
    is_identified = status.identity is not None and status.bundle_sha256 == sha256
    if is_identified or diode is None or (resend.spec.bundle is not None and sha256 is None):
        return read
    window = diode.spec.partition_window
    return {**read, "identity": resend_identity(resend.spec, window=window, bundle_sha256=sha256)}


def with_retry_time(message: str, at: datetime) -> str:
    """Return a message that ends with the time of the next attempt."""
    return f"{message} The next attempt begins at {moment_text(at)}."
