"""Owns the conditions of a Mirror, one function for each case; must not know what is done in that case.

A mirror that runs and does not copy is not ready: Ready, Progressing and Stalled name the reason, the same word as in
the log and the metrics of the worker. The messages do not count; the figures are in the status.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from gapless_api.base.errors import reason_of_exit_code
from gapless_api.base.exit_codes import ExitCode
from gapless_api.v1alpha1.conditions import ConditionType, condition
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common import continuous_conditions
from gapless_operator.common.conditions import ConditionUpdate
from gapless_operator.common.pod_output import find_error_message
from gapless_operator.common.pod_trouble import pod_trouble
from gapless_operator.engines.endings import NEEDS_USER_ACTION, TROUBLE_GRACE
from gapless_operator.engines.engine import Phase

if TYPE_CHECKING:
    from datetime import datetime

    from gapless_api.v1alpha1.attempt_status import LastAttempt
    from gapless_operator.common.observed import ObservedPod
    from gapless_operator.engines.engine import Attempt
    from gapless_operator.mirroring.context import Context
    from gapless_operator.mirroring.figures import Told

SILENT_AFTER = timedelta(seconds=60)
"""After how long without a line a worker counts as stuck."""
NOT_STALLED = ConditionUpdate(False, Reason.NOT_STALLED)
_CRASHING = "CrashLoopBackOff"
Updates = dict[ConditionType, ConditionUpdate]


def starting(context: Context, message: str) -> Updates:
    """The conditions while an attempt is being started."""
    return _unless_known(context) | {
        ConditionType.RECONCILING: ConditionUpdate(True, Reason.MIRRORING, message),
        ConditionType.STALLED: NOT_STALLED,
    }


def running(context: Context, attempt: Attempt, told: Told) -> Updates:
    """The conditions while an attempt runs, or does not start."""
    what = f"The {attempt.engine} {attempt.name}"
    idle = _nobody_runs(context, attempt)
    if attempt.phase is Phase.PENDING and idle is None:
        trouble = f" {attempt.trouble.message}" if attempt.trouble is not None else ""
        return _unless_known(context) | {
            ConditionType.RECONCILING: ConditionUpdate(True, Reason.MIRRORING, f"{what} is being started.{trouble}"),
            ConditionType.STALLED: _stalled_by_trouble(context, attempt),
        }
    missing = _missing_workers(context)
    problem = idle or _failing(context) or _told_problem(told) or _silence(context, attempt)
    if problem is None and not told.lines:
        return _unless_known(context) | {
            ConditionType.RECONCILING: ConditionUpdate(True, Reason.MIRRORING, f"{what} is running."),
            ConditionType.STALLED: NOT_STALLED,
        }
    reconciling = ConditionUpdate(bool(missing), Reason.MIRRORING if missing else Reason.SETTLED, missing)
    if problem is not None:
        return {
            ConditionType.READY: problem._replace(status=False),
            ConditionType.PROGRESSING: problem._replace(status=False),
            ConditionType.RECONCILING: reconciling,
            ConditionType.STALLED: problem if _needs_a_person(problem) else NOT_STALLED,
        }
    reason = Reason.SOURCE_IDLE if told.is_idle else Reason.MIRRORING
    return {
        ConditionType.READY: ConditionUpdate(True, Reason.MIRRORING, f"{what} is running."),
        ConditionType.PROGRESSING: ConditionUpdate(True, reason),
        ConditionType.RECONCILING: reconciling,
        ConditionType.STALLED: NOT_STALLED,
    }


def after_attempt(last: LastAttempt, again_at: datetime | None) -> Updates:
    """The conditions between two attempts; `again_at` is when the next one begins, ``None`` for at once."""
    when = "" if again_at is None else f"The next attempt begins at {again_at:%Y-%m-%d %H:%M:%S} UTC."
    reason, message = reason_of(last), last.message or ""
    found = ConditionUpdate(False, reason, message)
    stalled = ConditionUpdate(True, reason, message) if reason in NEEDS_USER_ACTION else NOT_STALLED
    return {
        ConditionType.READY: found,
        ConditionType.PROGRESSING: found,
        ConditionType.RECONCILING: ConditionUpdate(True, Reason.RETRYING, when),
        ConditionType.STALLED: stalled,
    }


def suspended() -> Updates:
    """spec.suspend is true."""
    return continuous_conditions.suspended(
        "spec.suspend is true: nothing is copied until it is false. Positions are kept."
    )


def reason_of(last: LastAttempt) -> Reason:
    """How an attempt ended; a word that we do not know was written by a newer version."""
    try:
        return Reason(str(last.outcome))
    except ValueError:
        return Reason.MIRROR_FAILED


def _unless_known(context: Context) -> Updates:
    """``Ready`` while nothing new is known of it: an alert that waits for it does not start again with each attempt."""
    known = condition(context.mirror.status.conditions, ConditionType.READY)
    if known is not None and known.reason not in {Reason.SUSPENDED, Reason.STOPPED, Reason.ENGINE_UNAVAILABLE}:
        return {}
    message = "Nothing has been copied since."
    return {
        kind: ConditionUpdate(None, Reason.NEVER_MIRRORED, message)
        for kind in (ConditionType.READY, ConditionType.PROGRESSING)
    }


def _needs_a_person(problem: ConditionUpdate) -> bool:
    """Whether Stalled is true: always when a stall has a name, and not while Kafka is only away, or a pod only slow."""
    passing = {Reason.SOURCE_UNREACHABLE, Reason.SOURCE_STALLED, Reason.STOPPED, Reason.STARTING, Reason.POD_SLOW}
    return problem.reason not in passing


def _missing_workers(context: Context) -> str:
    """Which pods of several do not run, in a sentence; empty when all do, or Spark copies."""
    spec, pods = context.mirror.spec, context.running_pods()
    if spec.on_spark:
        return ""
    running = [pod for pod in pods if pod.has_begun and pod.waiting_reason != _CRASHING and not pod.is_lost]
    if len(running) >= spec.workers.count:
        return ""
    text = f"{len(running)} of {spec.workers.count} workers run"
    text = f"{text}; they have the lanes of the others." if running else f"{text}."
    trouble = next((found for pod in pods if (found := pod_trouble(pod, context.now)) is not None), None)
    return text if trouble is None else f"{text} {trouble.message}"


def _nobody_runs(context: Context, attempt: Attempt) -> ConditionUpdate | None:
    """Why no worker has run for a minute; ``None`` while one does, is only being replaced, or Spark copies.

    The Job replaces its pods for ever: an attempt whose pods are gone still runs, and copies nothing.
    """
    own = [pod for pod in context.observed.pods if pod.job == attempt.name]
    living = [pod for pod in own if not pod.ended and not pod.meta.deleting]
    if context.mirror.spec.on_spark or any(pod.has_begun for pod in living):
        return None
    moments = (attempt.meta.created, *(pod.meta.created for pod in own), *(pod.finished for pod in own))
    if context.now - max(filter(None, moments)) < SILENT_AFTER:
        return None
    trouble = attempt.trouble or next(filter(None, (pod_trouble(pod, context.now) for pod in living)), None)
    reason, why = (Reason.STARTING, "") if trouble is None else trouble
    return ConditionUpdate(True, reason, f"No worker of the {attempt.engine} {attempt.name} runs. {why}".rstrip())


def _failing(context: Context) -> ConditionUpdate | None:
    """Why the workers end again and again; ``None`` while any of them runs."""
    pods = context.running_pods()
    failing = [pod for pod in pods if pod.waiting_reason == _CRASHING]
    if not failing or len(failing) < len(pods):
        return None
    return _last_end(failing[0])


def _last_end(pod: ObservedPod) -> ConditionUpdate:
    code = pod.last_exit_code
    found = reason_of_exit_code(code) if code != ExitCode.LINK_FAILED else None
    reason = Reason(found) if found is not None else Reason.MIRROR_FAILED
    message = (
        find_error_message(pod.termination_message) or f"Pod {pod.meta.name} ended with exit code {code}; see its log."
    )
    return ConditionUpdate(True, reason, message)


def _told_problem(told: Told) -> ConditionUpdate | None:
    """The gravest of what the workers say themselves."""
    if not told.problems:
        return None
    worst = told.problems[0]
    return ConditionUpdate(True, Reason(worst.reason), worst.message)


def _silence(context: Context, attempt: Attempt) -> ConditionUpdate | None:
    """A worker that has logged nothing for too long, although its log can be read."""
    for pod in context.running_pods():
        if not pod.has_begun or pod.is_unread or pod.log_problem or pod.is_lost or pod.waiting_reason:
            continue
        output_changed_at = pod.output_changed_at if pod.output.mirror is not None else None
        since = max(filter(None, (output_changed_at, pod.began, attempt.meta.created)))
        if context.now - since >= SILENT_AFTER:
            return ConditionUpdate(
                True,
                Reason.WORKER_STUCK,
                f"Pod {pod.meta.name} has logged nothing since {since:%Y-%m-%d %H:%M:%S} UTC; look at its log and "
                f"delete it, another one takes over.",
            )
    return None


def _stalled_by_trouble(context: Context, attempt: Attempt) -> ConditionUpdate:
    """Whether a person must act for an attempt to start; the attempt waits for that until its deadline."""
    trouble = attempt.trouble
    is_new = context.now - attempt.meta.created < TROUBLE_GRACE
    if trouble is None or trouble.reason not in NEEDS_USER_ACTION or is_new:
        return NOT_STALLED
    return ConditionUpdate(True, trouble.reason, trouble.message)
