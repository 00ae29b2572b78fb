"""Owns how an attempt ends without a result, or does not begin, as a reason and a sentence; must not know its work."""

from __future__ import annotations

from datetime import timedelta
from textwrap import shorten
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.base.errors import reason_of_exit_code
from gapless_api.base.exit_codes import ExitCode
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.log_grace import LOG_GRACE, is_being_read, unreadable_until
from gapless_operator.engines.engine import Phase

if TYPE_CHECKING:
    from datetime import datetime

    from gapless_operator.common.observed import ObservedPod
    from gapless_operator.engines.engine import Attempt

TROUBLE_GRACE = timedelta(seconds=30)
"""For how long what keeps a driver from starting may go away by itself, such as a registry that stumbles."""
NEED_A_PERSON = frozenset(
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
"""What does not get better by itself."""
_LONGEST_COMPLAINT = 500
_HOPELESS = frozenset({Reason.IMAGE_PULL_FAILED, Reason.MOUNT_FAILED})
"""Why a driver does not start and, after the grace, will not. Without a pod or a node it may still: there Kubernetes
tries again by itself, and says the same while its own controllers are only late."""


class Ending(NamedTuple):
    """How an attempt has ended, or must end."""

    reason: Reason
    message: str


def start_problem(attempt: Attempt, start_deadline_seconds: int, now: datetime) -> Ending | None:
    """Why an attempt that does not run yet must end; ``None`` while it may still start."""
    late, trouble = now - attempt.meta.created, attempt.trouble
    if trouble is not None and late >= TROUBLE_GRACE and _is_hopeless(attempt):
        return Ending(Reason(trouble.reason), trouble.message)
    if late < timedelta(seconds=start_deadline_seconds):
        return None
    why = f" {trouble.message}" if trouble is not None else ""
    return Ending(
        Reason.START_DEADLINE_EXCEEDED,
        f"The {attempt.engine} {attempt.name} did not start within {start_deadline_seconds} seconds.{why}",
    )


def start_deadline(attempt: Attempt, start_deadline_seconds: int) -> datetime:
    """When `start_problem` must be called again at the latest."""
    deadline = attempt.meta.created + timedelta(seconds=start_deadline_seconds)
    return min(deadline, attempt.meta.created + TROUBLE_GRACE) if _is_hopeless(attempt) else deadline


def is_waiting_for_log(attempt: Attempt, now: datetime) -> bool:
    """Whether the end of an ended attempt's log, or of its pod, may still become known."""
    driver, ended = attempt.driver, attempt.finished or attempt.meta.created
    if (driver is None or not driver.ended) and now - ended < LOG_GRACE:
        return True  # the pod's end may reach us after the Job's
    if driver is None or not driver.is_unread:
        return False
    return is_being_read([driver]) or now < unreadable_until(ended, [driver])


def without_a_log(attempt: Attempt, *, otherwise: Reason) -> Ending:
    """The end of an attempt whose pod is gone.

    Args:
        attempt: that has ended.
        otherwise: the reason of a failure of which nothing is known.
    """
    if attempt.phase is Phase.SUCCEEDED:
        return Ending(
            Reason.RESULT_UNREADABLE,
            f"The {attempt.engine} {attempt.name} succeeded, but its pod was gone before its log could be read.",
        )
    # spark-submit complains in pages.
    complaint = shorten(attempt.complaint, _LONGEST_COMPLAINT, placeholder=" …")
    detail = f": {complaint}" if complaint else " and left no pod behind"
    return Ending(otherwise, f"The {attempt.engine} {attempt.name} failed{detail}.")


def failure_of(driver: ObservedPod, *, otherwise: Reason) -> Ending:
    """Tell from the exit code and the last words of a pod what went wrong; `otherwise` as for `without_a_log`."""
    name, code, complaint = driver.meta.name, driver.exit_code, driver.output.complaint
    if driver.ended_reason == "OOMKilled":
        return Ending(otherwise, f"Pod {name} ran out of memory and was killed; raise engine.driver.memory.")
    if driver.ended_reason in {"Evicted", "Preempting", "Terminated", "NodeLost", "NodeShutdown"}:
        return Ending(Reason.STOPPED, f"The node ended pod {name} ({driver.ended_reason}).")
    # 1 can also be Spark's own, and nothing on Spark has a link.
    found = reason_of_exit_code(code) if code != ExitCode.LINK_FAILED else None
    reason = Reason(found) if found is not None else otherwise
    return Ending(reason, complaint or f"Pod {name} ended with exit code {code}; see its log.")


def _is_hopeless(attempt: Attempt) -> bool:
    """Whether Kubernetes says itself why the driver does not start; being slow is not enough, images can be large."""
    said_by_kubernetes = attempt.driver is not None and bool(attempt.driver.waiting_reason)
    return attempt.trouble is not None and attempt.trouble.reason in _HOPELESS and said_by_kubernetes
