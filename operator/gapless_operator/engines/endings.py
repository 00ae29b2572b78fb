"""Why an attempt ended without a result, or did not start, as a reason and a message; must not know its work."""

from __future__ import annotations

from datetime import datetime, timedelta
from textwrap import shorten
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.base.errors import reason_of_exit_code
from gapless_api.base.exit_codes import ExitCode
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.conditions import NOT_STALLED, ConditionUpdate
from gapless_operator.common.log_grace import LOG_GRACE, is_being_read, unreadable_until
from gapless_operator.engines.engine import Attempt, Phase

if TYPE_CHECKING:
    from gapless_api.v1alpha1.attempt_status import LastAttempt
    from gapless_operator.common.observed import ObservedPod

TROUBLE_GRACE = timedelta(seconds=30)
"""How long a problem that prevents a driver from starting may resolve itself, such as a registry error."""
NEEDS_USER_ACTION = frozenset(
    {
        Reason.BAD_CONFIGURATION,
        Reason.TOPIC_MISSING,
        Reason.IMAGE_PULL_FAILED,
        Reason.MOUNT_FAILED,
        Reason.POD_REJECTED,
        Reason.POD_UNSCHEDULABLE,
        Reason.ENGINE_UNAVAILABLE,
        Reason.RUN_DEADLINE_EXCEEDED,
        Reason.RESULT_TOO_LARGE,
        Reason.RESULT_UNREADABLE,
        Reason.STORAGE_FAILED,
        Reason.DEFECT,
    }
)
"""Reasons that do not resolve themselves."""
INTERRUPTED = frozenset({Reason.STOPPED, Reason.SUSPENDED, Reason.NODE_LOST})
"""Ends that are not failures of the work: the next attempt starts at once."""
_MAX_ERROR_LENGTH = 500
_PERMANENT = frozenset({Reason.IMAGE_PULL_FAILED, Reason.MOUNT_FAILED})
"""Reasons for which a driver will not start after the grace period. A rejected or unschedulable pod may still start:
Kubernetes retries these, and reports the same while its controllers are only late."""


class Ending(NamedTuple):
    """How an attempt ended, or why it must be stopped."""

    reason: Reason
    message: str


def reason_of(last: LastAttempt, unknown: Reason) -> Reason:
    """Return how an attempt ended; `unknown` for an outcome that a newer version of the operator wrote."""
    try:
        return Reason(str(last.outcome))
    except ValueError:
        return unknown


def start_problem(attempt: Attempt, start_deadline_seconds: int, now: datetime) -> Ending | None:
    """Return why a pending attempt must be stopped; ``None`` while it may still start."""
    age, trouble = now - attempt.meta.created, attempt.trouble
    if trouble is not None and age >= TROUBLE_GRACE and _is_permanent(attempt):
        return Ending(Reason(trouble.reason), trouble.message)
    if age < timedelta(seconds=start_deadline_seconds):
        return None
    why = f" {trouble.message}" if trouble is not None else ""
    return Ending(
        Reason.START_DEADLINE_EXCEEDED,
        f"The {attempt.engine} {attempt.name} did not start within {start_deadline_seconds} seconds.{why}",
    )


def start_deadline(attempt: Attempt, start_deadline_seconds: int) -> datetime:
    """Return the latest time for the next call of `start_problem`."""
    deadline = attempt.meta.created + timedelta(seconds=start_deadline_seconds)
    return min(deadline, attempt.meta.created + TROUBLE_GRACE) if _is_permanent(attempt) else deadline


def is_waiting_for_log(attempt: Attempt, now: datetime) -> bool:
    """Return whether the end of the log, or of the pod, of an ended attempt may still be observed."""
    driver, ended = attempt.driver, attempt.finished or attempt.meta.created
    if (driver is None or not driver.ended) and now - ended < LOG_GRACE:
        return True  # the watch may report the end of the pod after the end of the Job
    if driver is None or not driver.is_unread:
        return False
    return is_being_read([driver]) or now < unreadable_until(ended, [driver])


def without_a_log(attempt: Attempt, *, otherwise: Reason) -> Ending:
    """Return the end of an attempt whose pod was deleted.

    Args:
        attempt: an attempt that has ended.
        otherwise: the reason of a failure with unknown cause.
    """
    if attempt.phase is Phase.SUCCEEDED:
        return Ending(
            Reason.RESULT_UNREADABLE,
            f"The {attempt.engine} {attempt.name} succeeded, but its pod was deleted before its log was read.",
        )
    # The errors of spark-submit are very long.
    error_message = shorten(attempt.error_message, _MAX_ERROR_LENGTH, placeholder=" …")
    detail = f": {error_message}" if error_message else ", and its pod no longer exists"
    return Ending(otherwise, f"The {attempt.engine} {attempt.name} failed{detail}.")


def failure_of(driver: ObservedPod, *, otherwise: Reason) -> Ending:
    """Return why a pod failed, by its exit code and error message; `otherwise` is for an unknown cause."""
    name, code, error_message = driver.meta.name, driver.exit_code, driver.output.error_message
    if driver.ended_reason == "OOMKilled":
        return Ending(otherwise, f"Pod {name} ran out of memory and was killed; raise engine.driver.memory.")
    if driver.ended_reason in {"Evicted", "Preempting", "Terminated", "NodeLost", "NodeShutdown"}:
        return Ending(Reason.STOPPED, f"The node stopped pod {name} ({driver.ended_reason}).")
    # 1 is also an exit code of Spark, and no work on Spark uses a link.
    known_reason = reason_of_exit_code(code) if code != ExitCode.LINK_FAILED else None
    reason = Reason(known_reason) if known_reason is not None else otherwise
    return Ending(reason, error_message or f"Pod {name} ended with exit code {code}; see its log.")


def _is_permanent(attempt: Attempt) -> bool:
    """Return whether the pod status shows a permanent problem; a slow start is none, because images can be large."""
    has_waiting_reason = attempt.driver is not None and bool(attempt.driver.waiting_reason)
    return attempt.trouble is not None and attempt.trouble.reason in _PERMANENT and has_waiting_reason


def stalled_by(attempt: Attempt, now: datetime) -> ConditionUpdate:
    """Return whether `attempt` cannot start without a manual change; it waits for that until its deadline."""
    trouble = attempt.trouble
    if trouble is None or trouble.reason not in NEEDS_USER_ACTION or now - attempt.meta.created < TROUBLE_GRACE:
        return NOT_STALLED
    return ConditionUpdate(True, trouble.reason, trouble.message)
