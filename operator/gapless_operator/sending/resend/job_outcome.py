"""What the end of a Job means for its Resend: done, done but incomplete, retry, or give up.

Must not know what is done about it. The sender's exit codes and the reasons in its report decide; the conditions of the
Job decide only where its pods no longer exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.base.backoff import backoff
from gapless_api.base.errors import reason_of_exit_code
from gapless_api.base.exit_codes import ExitCode
from gapless_api.v1alpha1.reasons import Reason
from gapless_api.wire.resend_plan import SHORT_PLAN
from gapless_api.wire.resend_report import SHORT_REPORT
from gapless_api.wire.totals import Totals
from gapless_operator.sending.progress import (
    counts_by_index,
    latest_by_index,
    message_problem,
    unavailable_reasons,
)

if TYPE_CHECKING:
    from gapless_operator.common.observed import ObservedJob, ObservedPod

_FIRST_PAUSE, _MAX_PAUSE = timedelta(seconds=10), timedelta(minutes=5)
_FINAL_MESSAGES = (SHORT_REPORT.event, SHORT_PLAN.event)
RETRY_HINT = "Remove the cause, then set spec.retry to a new value; the Resend continues where it stopped."
"""What to do about a failure that editing the Resend does not solve."""
DEADLINE_HINT = (
    "Raise spec.activeDeadlineSeconds, or set spec.retry to a new value; the Resend continues where it stopped."
)


class End(Enum):
    """What follows from the end of a Job."""

    FINISHED = auto()
    """Every event was sent, filtered, filled or found unavailable."""
    RETRY = auto()
    """Something in the environment failed; the next attempt follows after a pause."""
    GIVEN_UP = auto()
    """A person must act."""


class Outcome(NamedTuple):
    """How a Job ended."""

    end: End
    reason: Reason
    message: str


def pause_before(attempt: int) -> timedelta:
    """Return how long to wait before an attempt; the second is the first that waits."""
    return backoff(attempt - 2, first=_FIRST_PAUSE, longest=_MAX_PAUSE)


def outcome_of(  # noqa: PLR0911 -- one for each way to end
    job: ObservedJob, pods: Sequence[ObservedPod], *, shards: int, attempt: int, backoff_limit: int
) -> Outcome:
    """Return how a Job ended.

    Args:
        job: that has ended.
        pods: of that Job, those that still exist.
        shards: how many it had.
        attempt: its number.
        backoff_limit: how many attempts may follow one that failed without an exit code.
    """
    if job.complete:
        return _completion(pods, shards, incomplete=False)
    if job.failure_reason == "DeadlineExceeded":
        return Outcome(
            End.GIVEN_UP,
            Reason.DEADLINE_EXCEEDED,
            "The Resend did not finish within spec.activeDeadlineSeconds; status.progress shows what was sent. "
            f"{DEADLINE_HINT}",
        )
    last = latest_by_index(pods)
    codes = {index: last[index].exit_code if index in last else None for index in range(shards)}
    for index, code in codes.items():
        if code == ExitCode.BAD_CONFIGURATION:
            return Outcome(End.GIVEN_UP, _reason(last[index]), f"{_message(last[index])} {RETRY_HINT}")
    failed = {index: code for index, code in codes.items() if code not in {ExitCode.DONE, ExitCode.INCOMPLETE}}
    if not failed:
        return _completion(pods, shards, incomplete=True)
    unexplained = [index for index, code in failed.items() if code is None]
    if len(unexplained) == len(failed):
        return _unexplained_failure(job, attempt, backoff_limit)
    for index, code in failed.items():
        if code not in {None, ExitCode.SOURCE_UNREACHABLE}:
            reason = Reason.LINK_FAILED if code == ExitCode.LINK_FAILED else Reason.BACKOFF_LIMIT_EXCEEDED
            return Outcome(
                End.GIVEN_UP,
                reason,
                f"All {backoff_limit + 1} attempts failed; the last error: {_message(last[index])} {RETRY_HINT}",
            )
    index = next(index for index, code in failed.items() if code is not None)
    return Outcome(End.RETRY, _reason(last[index]), _message(last[index]))


def _completion(pods: Sequence[ObservedPod], shards: int, *, incomplete: bool) -> Outcome:
    problem = message_problem(pods, *_FINAL_MESSAGES)
    if problem:
        return Outcome(
            End.GIVEN_UP,
            Reason.REPORT_UNREADABLE,
            f"{problem} The senders succeeded, but only their logs and checkpoints show what they sent. {RETRY_HINT}",
        )
    counts = counts_by_index(pods)
    total = sum(counts.values(), Totals())
    is_counted = len(counts) >= shards and total.done >= total.planned
    if incomplete and not is_counted:
        return Outcome(
            End.FINISHED,
            Reason.INCOMPLETE,
            "Some events could not be sent. The pod logs with the counts and ranges can no longer be read; "
            "status.progress and status.unavailable show those that are known.",
        )
    if incomplete or total.unavailable:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in unavailable_reasons(pods).items() if count)
        return Outcome(
            End.FINISHED,
            Reason.INCOMPLETE,
            f"Sent {total.sent:,} of {total.planned:,} events; {total.unavailable:,} could not be sent"
            f"{' (' + reasons + ')' if reasons else ''} and are listed in status.unavailable.",
        )
    if not is_counted:
        return Outcome(
            End.FINISHED,
            Reason.SENT,
            "Everything was sent. The pod logs with the counts can no longer be read.",
        )
    if not total.planned:
        return Outcome(End.FINISHED, Reason.NOTHING_TO_SEND, "There was nothing to send: no event was selected.")
    kinds = [f"{count:,} {name}" for name, count in (("filtered", total.filtered), ("filled", total.filled)) if count]
    as_empty = f" ({', '.join(kinds)} as empty events)" if kinds else ""
    return Outcome(End.FINISHED, Reason.SENT, f"Sent {total.sent:,} of {total.planned:,} events{as_empty}.")


def _unexplained_failure(job: ObservedJob, attempt: int, backoff_limit: int) -> Outcome:
    detail = f": {job.failure_message}" if job.failure_message else ""
    message = (
        f"The Job {job.meta.name} failed ({job.failure_reason or 'no reason given'}{detail}), and its pods no longer "
        f"exist."
    )
    if attempt <= backoff_limit:
        return Outcome(End.RETRY, Reason.RETRYING, message)
    return Outcome(End.GIVEN_UP, Reason.BACKOFF_LIMIT_EXCEEDED, f"{message} {RETRY_HINT}")


def _reason(pod: ObservedPod) -> Reason:
    """Return why a pod ended: the reason in its report, or what its exit code means."""
    reason = pod.output.report.head.reason if pod.output.report is not None else None
    if reason in set(Reason):
        return Reason(reason)
    return Reason(reason_of_exit_code(pod.exit_code) or Reason.DEFECT)


def _message(pod: ObservedPod) -> str:
    message = pod.output.report.head.message if pod.output.report is not None else ""
    if message or pod.output.error_message:
        return message or pod.output.error_message
    problem = message_problem([pod], *_FINAL_MESSAGES)
    why = f", {pod.ended_reason}" if pod.ended_reason else ""
    message = f"Pod {pod.meta.name} ended with exit code {pod.exit_code}{why}; see kubectl logs {pod.meta.name}."
    return f"{message} {problem}".rstrip()
