"""Owns what the end of a Job means for its Resend: done, done but incomplete, retry, or give up.

Must not know what is done about it. The sender's exit codes and the reasons in its report decide; Kubernetes' own word
decides only where no pod is left to ask.
"""

from __future__ import annotations

from datetime import timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.base.errors import reason_of_exit_code
from gapless_api.base.exit_codes import ExitCode
from gapless_api.v1alpha1.reasons import Reason
from gapless_api.wire.resend_plan import SHORT_PLAN
from gapless_api.wire.resend_report import SHORT_REPORT
from gapless_api.wire.totals import Totals
from gapless_operator.sending.progress import counts_by_index, latest_by_index, unavailable_reasons, unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gapless_operator.common.observed import ObservedJob, ObservedPod

_FIRST_PAUSE, _LONGEST_PAUSE = timedelta(seconds=10), timedelta(minutes=5)
_LAST_WORDS = (SHORT_REPORT.event, SHORT_PLAN.event)


GO_ON = "Remove the cause, then set spec.retry to another word: it continues where it stopped."
"""What to do about a failure that editing the Resend does not mend."""
SPEC_DEADLINE = (
    "Give spec.activeDeadlineSeconds more, or set spec.retry to another word: it continues where it stopped."
)


class End(Enum):
    """What follows."""

    FINISHED = auto()
    """Every event was dealt with."""
    RETRY = auto()
    """Something in the environment failed; another attempt follows after a pause."""
    GIVEN_UP = auto()
    """A person must act."""


class Outcome(NamedTuple):
    """How a Job ended."""

    end: End
    reason: Reason
    message: str


def pause_before(attempt: int) -> timedelta:
    """How long to wait before `attempt`, the second being the first that waits."""
    doublings = min(max(attempt - 2, 0), 10)
    return min(_FIRST_PAUSE * (1 << doublings), _LONGEST_PAUSE)


def outcome_of(  # noqa: PLR0911 -- one for each way to end
    job: ObservedJob, pods: Iterable[ObservedPod], *, shards: int, attempt: int, backoff_limit: int
) -> Outcome:
    """Say how a Job ended.

    Args:
        job: that has ended.
        pods: of that Job, as many as are left.
        shards: how many it had.
        attempt: its number.
        backoff_limit: how many attempts may follow one whose end nobody can explain.
    """
    found = list(pods)
    if job.complete:
        return _completion(found, shards, incomplete=False)
    if job.failure_reason == "DeadlineExceeded":
        return Outcome(
            End.GIVEN_UP,
            Reason.DEADLINE_EXCEEDED,
            "It was not finished within spec.activeDeadlineSeconds; what was sent is in status.progress. "
            f"{SPEC_DEADLINE}",
        )
    last = latest_by_index(found)
    codes = {index: last[index].exit_code if index in last else None for index in range(shards)}
    for index, code in codes.items():
        if code == ExitCode.BAD_CONFIGURATION:
            return Outcome(End.GIVEN_UP, _reason(last[index]), f"{_message(last[index])} {GO_ON}")
    failed = {index: code for index, code in codes.items() if code not in {ExitCode.DONE, ExitCode.INCOMPLETE}}
    if not failed:
        return _completion(found, shards, incomplete=True)
    unexplained = [index for index, code in failed.items() if code is None]
    if len(unexplained) == len(failed):
        return _unexplained_failure(job, attempt, backoff_limit)
    for index, code in failed.items():
        if code not in {None, ExitCode.SOURCE_UNREACHABLE}:
            reason = Reason.LINK_FAILED if code == ExitCode.LINK_FAILED else Reason.BACKOFF_LIMIT_EXCEEDED
            return Outcome(
                End.GIVEN_UP,
                reason,
                f"All {backoff_limit + 1} attempts failed; the last error: {_message(last[index])} {GO_ON}",
            )
    index = next(index for index, code in failed.items() if code is not None)
    return Outcome(End.RETRY, _reason(last[index]), _message(last[index]))


def _completion(pods: list[ObservedPod], shards: int, *, incomplete: bool) -> Outcome:
    problem = unreadable(pods, *_LAST_WORDS)
    if problem:
        return Outcome(
            End.GIVEN_UP,
            Reason.REPORT_UNREADABLE,
            f"{problem} The senders succeeded; what they sent is recorded in their logs and checkpoints only. {GO_ON}",
        )
    counts = counts_by_index(pods)
    total = sum(counts.values(), Totals())
    is_counted = len(counts) >= shards and total.done >= total.planned
    if incomplete and not is_counted:
        return Outcome(
            End.FINISHED,
            Reason.INCOMPLETE,
            "Some events could not be sent; the logs of pods, which have the counts and the ranges, can no longer be "
            "read. Those that are known are in status.progress and status.unavailable.",
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
            "Everything was sent; the pods' logs, which have the counts, can no longer be read.",
        )
    if not total.planned:
        return Outcome(End.FINISHED, Reason.NOTHING_TO_SEND, "There was nothing to send: no event was selected.")
    kinds = [f"{count:,} {name}" for name, count in (("filtered", total.filtered), ("filled", total.filled)) if count]
    as_empty = f" ({', '.join(kinds)} as empty ones)" if kinds else ""
    return Outcome(End.FINISHED, Reason.SENT, f"Sent {total.sent:,} of {total.planned:,} events{as_empty}.")


def _unexplained_failure(job: ObservedJob, attempt: int, backoff_limit: int) -> Outcome:
    detail = f": {job.failure_message}" if job.failure_message else ""
    message = (
        f"The Job {job.meta.name} failed ({job.failure_reason or 'no reason given'}{detail}) and its pods are gone."
    )
    if attempt <= backoff_limit:
        return Outcome(End.RETRY, Reason.RETRYING, message)
    return Outcome(End.GIVEN_UP, Reason.BACKOFF_LIMIT_EXCEEDED, f"{message} {GO_ON}")


def _reason(pod: ObservedPod) -> Reason:
    """Why a pod ended as it did: what its report says, or what its exit code means."""
    reason = pod.output.report.head.reason if pod.output.report is not None else None
    if reason in set(Reason):
        return Reason(reason)
    return Reason(reason_of_exit_code(pod.exit_code) or Reason.DEFECT)


def _message(pod: ObservedPod) -> str:
    message = pod.output.report.head.message if pod.output.report is not None else ""
    if message or pod.output.error_message:
        return message or pod.output.error_message
    problem = unreadable([pod], *_LAST_WORDS)
    why = f", {pod.ended_reason}" if pod.ended_reason else ""
    message = f"Pod {pod.meta.name} ended with exit code {pod.exit_code}{why}; see kubectl logs {pod.meta.name}."
    return f"{message} {problem}".rstrip()
