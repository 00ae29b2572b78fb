"""Owns how an attempt has ended, as a reason and a sentence; must not know what the scan found or what comes next."""

from __future__ import annotations

from datetime import timedelta
from textwrap import shorten
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.base.exit_codes import ExitCode
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.log_grace import LOG_GRACE, is_being_read, unreadable_until
from gapless_operator.engines.engine import Attempt, Phase

if TYPE_CHECKING:
    from datetime import datetime

    from gapless_api.v1alpha1.gapscan import Engine
    from gapless_api.wire.result_lines import ScanResult
    from gapless_operator.common.observed import ObservedPod

TROUBLE_GRACE = timedelta(seconds=30)
"""For how long what keeps a driver from starting may go away by itself, such as a registry that stumbles."""
_LONGEST_COMPLAINT = 500
_HOPELESS = frozenset({Reason.IMAGE_PULL_FAILED, Reason.MOUNT_FAILED})
"""Why a driver does not start and, after the grace, will not. Without a pod or a node it may still: there Kubernetes
tries again by itself, and says the same while its own controllers are only late."""

_OUTCOMES = {
    "gaps-found": Reason.GAPS_FOUND,
    "nothing-missing": Reason.NOTHING_MISSING,
    "nothing-to-do": Reason.NOTHING_TO_DO,
    "unknown-events": Reason.UNKNOWN_EVENTS,
    "unreadable-records": Reason.UNREADABLE_RECORDS,
    "topic-missing": Reason.TOPIC_MISSING,
    "unreachable": Reason.SOURCE_UNREACHABLE,
    "bad-configuration": Reason.BAD_CONFIGURATION,
    "stopped": Reason.STOPPED,
}
"""What the report's ``outcome`` says."""
_EXIT_CODES: dict[int | None, Reason] = {
    ExitCode.BAD_CONFIGURATION: Reason.BAD_CONFIGURATION,
    ExitCode.SOURCE_UNREACHABLE: Reason.SOURCE_UNREACHABLE,
    ExitCode.INTERRUPTED: Reason.STOPPED,
    ExitCode.TERMINATED: Reason.STOPPED,
}
"""What the exit code says when there is no report; 1 can also be Spark's own."""
PARTIAL = frozenset({Reason.UNREADABLE_RECORDS, Reason.UNKNOWN_EVENTS})
"""How an attempt ends whose answer is not the whole truth: more may be missing."""
ANSWERED = frozenset({Reason.GAPS_FOUND, Reason.NOTHING_MISSING, Reason.NOTHING_TO_DO}) | PARTIAL
"""How an attempt ends that has an answer."""
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
FINAL = frozenset(
    {
        Reason.BAD_CONFIGURATION,
        Reason.RUN_DEADLINE_EXCEEDED,
        Reason.RESULT_TOO_LARGE,
        Reason.RESULT_UNREADABLE,
        Reason.DEFECT,
    }
)
"""What the same attempt again would only repeat; everything else may be mended outside of the spec."""


class Ending(NamedTuple):
    """How an attempt has ended."""

    reason: Reason
    message: str
    result: ScanResult | None = None
    """What it found, if `reason` is among `ANSWERED`."""


def ending_of(attempt: Attempt, engine: Engine, now: datetime) -> Ending | None:
    """How `attempt` has ended, by itself or because it must; ``None`` while it goes on.

    Args:
        attempt: as the engine describes it.
        engine: the deadlines.
        now: the time.
    """
    if attempt.ended:
        return _ended(attempt, now)
    late = now - attempt.meta.created
    if attempt.phase is Phase.PENDING:
        trouble = attempt.trouble
        if trouble is not None and late >= TROUBLE_GRACE and _hopeless(attempt):
            return Ending(Reason(trouble.reason), trouble.message)
        if late >= timedelta(seconds=engine.start_deadline_seconds):
            why = f" {trouble.message}" if trouble is not None else ""
            return Ending(
                Reason.START_DEADLINE_EXCEEDED,
                f"The {attempt.engine} {attempt.name} did not start within {engine.start_deadline_seconds} seconds."
                f"{why}",
            )
        return None
    running = now - (attempt.started or attempt.meta.created)
    if running >= timedelta(seconds=engine.run_deadline_seconds):
        return Ending(
            Reason.RUN_DEADLINE_EXCEEDED,
            f"The {attempt.engine} {attempt.name} ran for more than {engine.run_deadline_seconds} seconds; raise "
            f"engine.runDeadlineSeconds or give the engine more.",
        )
    return None


def _hopeless(attempt: Attempt) -> bool:
    """Whether Kubernetes says itself why the driver does not start; being slow is not enough, images can be large."""
    said_by_kubernetes = attempt.driver is not None and bool(attempt.driver.waiting_reason)
    return attempt.trouble is not None and attempt.trouble.reason in _HOPELESS and said_by_kubernetes


def deadline_of(attempt: Attempt, engine: Engine) -> datetime:
    """When `ending_of` must look at a running attempt at the latest."""
    if attempt.phase is Phase.PENDING:
        deadline = attempt.meta.created + timedelta(seconds=engine.start_deadline_seconds)
        return min(deadline, attempt.meta.created + TROUBLE_GRACE) if _hopeless(attempt) else deadline
    return (attempt.started or attempt.meta.created) + timedelta(seconds=engine.run_deadline_seconds)


def _ended(attempt: Attempt, now: datetime) -> Ending | None:
    driver = attempt.driver
    if driver is None or not driver.ended:
        # The pod's end may reach us after the Job's.
        if now - (attempt.finished or attempt.meta.created) < LOG_GRACE:
            return None
        if driver is None or driver.output.result is None:
            return _without_a_log(attempt)
    if driver.is_unread and (
        is_being_read([driver]) or now < unreadable_until(attempt.finished or attempt.meta.created, [driver])
    ):
        return None
    result = driver.output.result
    if result is not None:
        reason, message = _OUTCOMES.get(result.report.outcome), result.report.message
        if reason is not None and (reason not in ANSWERED or attempt.phase is Phase.SUCCEEDED or _incomplete(attempt)):
            return Ending(reason, message, result if reason in ANSWERED else None)
    if attempt.phase is Phase.SUCCEEDED or _incomplete(attempt):
        problem = driver.log_problem or driver.output.result_error
        if result is not None:
            problem = f"this operator does not know the outcome {result.report.outcome[:40]!r}"
        return Ending(
            Reason.RESULT_UNREADABLE, f"Pod {driver.meta.name} ended well, and its result cannot be read: {problem}."
        )
    return _failed(driver)


def _incomplete(attempt: Attempt) -> bool:
    return attempt.driver is not None and attempt.driver.exit_code == ExitCode.INCOMPLETE


def _without_a_log(attempt: Attempt) -> Ending:
    if attempt.phase is Phase.SUCCEEDED:
        return Ending(
            Reason.RESULT_UNREADABLE,
            f"The {attempt.engine} {attempt.name} ended well, and its pod was gone before its log could be read.",
        )
    # spark-submit complains in pages.
    complaint = shorten(attempt.complaint, _LONGEST_COMPLAINT, placeholder=" …")
    said = f": {complaint}" if complaint else " and left no pod behind"
    return Ending(Reason.SCAN_FAILED, f"The {attempt.engine} {attempt.name} failed{said}.")


def _failed(driver: ObservedPod) -> Ending:
    """Tell from the exit code and the last words of the pod what went wrong."""
    name, code, said = driver.meta.name, driver.exit_code, driver.output.complaint
    if driver.ended_reason == "OOMKilled":
        return Ending(Reason.SCAN_FAILED, f"Pod {name} ran out of memory and was ended; raise engine.driver.memory.")
    if driver.ended_reason in {"Evicted", "Preempting", "Terminated", "NodeLost", "NodeShutdown"}:
        return Ending(Reason.STOPPED, f"The node ended pod {name} ({driver.ended_reason}).")
    reason = _EXIT_CODES.get(code, Reason.SCAN_FAILED)
    return Ending(reason, said or f"Pod {name} ended with exit code {code}; its log says more.")
