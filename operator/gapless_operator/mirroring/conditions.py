"""The conditions of a Mirror, one function for each case; must not know what is done in that case.

A mirror that runs and does not copy is not ready: Ready, Progressing and Stalled have the same reason as the log and
the metrics of the worker. Messages contain no numbers that change all the time; the status has the figures.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gapless_api.base.errors import reason_of_exit_code
from gapless_api.base.exit_codes import ExitCode
from gapless_api.v1alpha1.conditions import ConditionType
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common import continuous_conditions
from gapless_operator.common.conditions import NOT_STALLED, ConditionUpdate
from gapless_operator.common.freshness import FRESH_FOR, unreadable
from gapless_operator.common.pod_output import find_error_message
from gapless_operator.common.pod_trouble import pod_trouble
from gapless_operator.engines.endings import NEEDS_USER_ACTION, reason_of, stalled_by
from gapless_operator.engines.engine import Attempt, Phase

if TYPE_CHECKING:
    from gapless_api.v1alpha1.attempt_status import LastAttempt
    from gapless_operator.common.observed import ObservedPod
    from gapless_operator.mirroring.context import Context
    from gapless_operator.mirroring.figures import Progress

SILENT_AFTER = timedelta(seconds=60)
"""How long a worker may write no progress line before it counts as stuck."""
_CRASHING = "CrashLoopBackOff"
Updates = dict[ConditionType, ConditionUpdate]


def starting(context: Context, message: str) -> Updates:
    """Return the conditions while an attempt is being started."""
    return _unless_known(context) | {
        ConditionType.RECONCILING: ConditionUpdate(True, Reason.MIRRORING, message),
        ConditionType.STALLED: NOT_STALLED,
    }


def running(context: Context, attempt: Attempt, progress: Progress) -> Updates:
    """Return the conditions while an attempt runs, or does not start."""
    what = f"The {attempt.engine} {attempt.name}"
    no_workers = _no_workers(context, attempt)
    if attempt.phase is Phase.PENDING and no_workers is None:
        trouble = f" {attempt.trouble.message}" if attempt.trouble is not None else ""
        return _unless_known(context) | {
            ConditionType.RECONCILING: ConditionUpdate(True, Reason.MIRRORING, f"{what} is being started.{trouble}"),
            ConditionType.STALLED: stalled_by(attempt, context.now),
        }
    missing = _missing_workers(context)
    problem = (
        no_workers
        or _crashing(context)
        or unreadable(context.running_pods(), context.now, fresh_for=FRESH_FOR)
        or _reported_problem(progress)
        or _silence(context, attempt)
    )
    if problem is None and not progress.lines:
        return _unless_known(context) | {
            ConditionType.RECONCILING: ConditionUpdate(True, Reason.MIRRORING, f"{what} is running."),
            ConditionType.STALLED: NOT_STALLED,
        }
    reconciling = ConditionUpdate(bool(missing), Reason.MIRRORING if missing else Reason.SETTLED, missing)
    if problem is not None:
        state = problem if problem.status is None else problem._replace(status=False)
        return {
            ConditionType.READY: state,
            ConditionType.PROGRESSING: state,
            ConditionType.RECONCILING: reconciling,
            ConditionType.STALLED: problem if _needs_intervention(problem) else NOT_STALLED,
        }
    reason = Reason.SOURCE_IDLE if progress.is_idle else Reason.MIRRORING
    return {
        ConditionType.READY: ConditionUpdate(True, Reason.MIRRORING, f"{what} is running."),
        ConditionType.PROGRESSING: ConditionUpdate(True, reason),
        ConditionType.RECONCILING: reconciling,
        ConditionType.STALLED: NOT_STALLED,
    }


def after_attempt(last: LastAttempt, again_at: datetime | None) -> Updates:
    """Return the conditions between two attempts; `again_at` is the time of the next one, ``None`` for now."""
    when = "" if again_at is None else f"The next attempt starts at {again_at:%Y-%m-%d %H:%M:%S} UTC."
    reason, message = reason_of(last, Reason.MIRROR_FAILED), last.message or ""
    failed = ConditionUpdate(False, reason, message)
    stalled = ConditionUpdate(True, reason, message) if reason in NEEDS_USER_ACTION else NOT_STALLED
    return {
        ConditionType.READY: failed,
        ConditionType.PROGRESSING: failed,
        ConditionType.RECONCILING: ConditionUpdate(True, Reason.RETRYING, when),
        ConditionType.STALLED: stalled,
    }


def suspended(context: Context) -> Updates:
    """Return the conditions while spec.suspend is true, with what still runs."""
    return continuous_conditions.suspended(
        context.observed.pods, "spec.suspend is true: nothing is copied until it is false. Positions are kept."
    )


def _unless_known(context: Context) -> Updates:
    """Set ``Ready`` and ``Progressing`` only if they have no current value."""
    if continuous_conditions.is_ready_known(context.resource.status.conditions):
        return {}
    message = "Nothing has been copied since."
    return {
        kind: ConditionUpdate(None, Reason.NEVER_MIRRORED, message)
        for kind in (ConditionType.READY, ConditionType.PROGRESSING)
    }


def _needs_intervention(problem: ConditionUpdate) -> bool:
    """Whether Stalled is true: for every stall, but not while Kafka is unreachable, or a pod starts slowly."""
    passing = {Reason.SOURCE_UNREACHABLE, Reason.SOURCE_STALLED, Reason.STOPPED, Reason.STARTING, Reason.POD_SLOW}
    return problem.reason not in passing | {Reason.PROGRESS_UNKNOWN}


def _missing_workers(context: Context) -> str:
    """Return a sentence about workers that do not run; empty when all run, or for engine Spark."""
    spec, pods = context.resource.spec, context.running_pods()
    if spec.on_spark:
        return ""
    running = [pod for pod in pods if pod.has_begun and pod.waiting_reason != _CRASHING and not pod.is_lost]
    if len(running) >= spec.workers.count:
        return ""
    text = f"{len(running)} of {spec.workers.count} workers run"
    text = f"{text}; they copy the lanes of the others." if running else f"{text}."
    trouble = next(filter(None, (pod_trouble(pod, context.now) for pod in pods)), None)
    return text if trouble is None else f"{text} {trouble.message}"


def _no_workers(context: Context, attempt: Attempt) -> ConditionUpdate | None:
    """Return why no worker has run for a minute; ``None`` while one runs or is being replaced, or for engine Spark.

    The Job always replaces its pods, so an attempt without pods still counts as running, and copies nothing.
    """
    own = [pod for pod in context.observed.pods if pod.job == attempt.name]
    active = [pod for pod in own if not pod.ended and not pod.meta.deleting]
    if context.resource.spec.on_spark or any(pod.has_begun for pod in active):
        return None
    moments = (attempt.meta.created, *(pod.meta.created for pod in own), *(pod.finished for pod in own))
    if context.now - max(filter(None, moments)) < SILENT_AFTER:
        return None
    trouble = attempt.trouble or next(filter(None, (pod_trouble(pod, context.now) for pod in active)), None)
    reason, message = (Reason.STARTING, "") if trouble is None else trouble
    return ConditionUpdate(True, reason, f"No worker of the {attempt.engine} {attempt.name} runs. {message}".rstrip())


def _crashing(context: Context) -> ConditionUpdate | None:
    """Return why all workers are in CrashLoopBackOff; ``None`` while any of them runs."""
    pods = context.running_pods()
    if not pods or any(pod.waiting_reason != _CRASHING for pod in pods):
        return None
    return _last_exit(pods[0])


def _last_exit(pod: ObservedPod) -> ConditionUpdate:
    code = pod.last_exit_code
    by_code = reason_of_exit_code(code) if code != ExitCode.LINK_FAILED else None
    reason = Reason(by_code) if by_code is not None else Reason.MIRROR_FAILED
    message = (
        find_error_message(pod.termination_message) or f"Pod {pod.meta.name} ended with exit code {code}; see its log."
    )
    return ConditionUpdate(True, reason, message)


def _reported_problem(progress: Progress) -> ConditionUpdate | None:
    """Return the most severe problem that the workers report."""
    if not progress.problems:
        return None
    worst = progress.problems[0]
    return ConditionUpdate(True, Reason(worst.reason), worst.message)


def _silence(context: Context, attempt: Attempt) -> ConditionUpdate | None:
    """Find a worker that has logged nothing for too long, although its log can be read."""
    for pod in context.running_pods():
        if not pod.has_begun or pod.is_unread or pod.log_problem or pod.is_lost or pod.waiting_reason:
            continue
        output_changed_at = pod.output_changed_at if pod.output.mirror is not None else None
        since = max(filter(None, (output_changed_at, pod.began, attempt.meta.created)))
        if context.now - since >= SILENT_AFTER:
            return ConditionUpdate(
                True,
                Reason.WORKER_STUCK,
                f"Pod {pod.meta.name} has logged nothing since {since:%Y-%m-%d %H:%M:%S} UTC; check its log and "
                f"delete it, and the Job replaces it.",
            )
    return None
