"""The outcome of a Job, by its conditions and its remaining pods, with exact messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gapless_api.v1alpha1.reasons import Reason
from gapless_api.wire.totals import Totals
from gapless_operator.common.observed import Meta, ObservedJob, ObservedPod
from gapless_operator.common.pod_output import read_output
from gapless_operator.sending.resend.job_outcome import RETRY_HINT, End, Outcome, outcome_of, pause_before
from kit.story import messages

NOW = datetime(2026, 11, 20, 10, 0, 0, tzinfo=UTC)


def meta(name: str, seconds: int = 0) -> Meta:
    return Meta(name=name, namespace="ns", uid=name, created=NOW + timedelta(seconds=seconds))


def pod(
    code: int | None, *lines: Mapping[str, Any] | str, index: int = 0, number: int = 0, why: str = ""
) -> ObservedPod:
    """A pod that ended with a code, `number` seconds younger than its shard's first, with what its log says."""
    log = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    return ObservedPod(
        meta=meta(f"job-{index}-{number}", number),
        index=index,
        exit_code=code,
        ended_reason=why,
        output=read_output(log),
    )


def report(sent: int = 0, planned: int = 1000, **more: Any) -> dict[str, Any]:
    return messages.report(Totals(planned=planned, sent=sent, remaining=planned - sent), **more)


def ended(*pods: ObservedPod, shards: int = 1, attempt: int = 1, backoff_limit: int = 2, **job: Any) -> Outcome:
    """How a Job ended that failed, unless `job` says otherwise."""
    observed = ObservedJob(meta=meta("job"), **{"failed": True, "failure_reason": "FailedIndexes", **job})
    return outcome_of(observed, pods, shards=shards, attempt=attempt, backoff_limit=backoff_limit)


@pytest.mark.parametrize(
    ("attempt", "seconds"), [(1, 10), (2, 10), (3, 20), (4, 40), (5, 80), (6, 160), (7, 300), (8, 300), (1000, 300)]
)
def test_pauses_double_up_to_five_minutes(attempt: int, seconds: int) -> None:
    assert pause_before(attempt) == timedelta(seconds=seconds)


def test_an_exceeded_deadline_gives_up_whatever_the_pods_report() -> None:
    found = ended(pod(2, "gapless: Wrong; correct it."), failure_reason="DeadlineExceeded")
    assert (found.end, found.reason) == (End.GIVEN_UP, Reason.DEADLINE_EXCEEDED)
    assert found.message == (
        "The Resend did not finish within spec.activeDeadlineSeconds; status.progress shows what was sent. Raise "
        "spec.activeDeadlineSeconds, or set spec.retry to a new value; the Resend continues where it stopped."
    )


def test_a_bad_configuration_of_one_shard_gives_up_all() -> None:
    pods = [pod(3, "gapless: Away."), pod(2, "gapless: Wrong; correct it.", index=1)]
    found = ended(*pods, shards=2)
    assert found == Outcome(End.GIVEN_UP, Reason.BAD_CONFIGURATION, f"Wrong; correct it. {RETRY_HINT}")
    assert ended(*pods, shards=1) == Outcome(End.RETRY, Reason.SOURCE_UNREACHABLE, "Away."), "it had one shard"


def test_only_the_last_pod_of_a_shard_counts() -> None:
    pods = [pod(3, "gapless: Away.", number=1), pod(2, "gapless: Wrong; correct it.")]
    assert ended(*pods) == Outcome(End.RETRY, Reason.SOURCE_UNREACHABLE, "Away.")


def test_finished_shards_are_final_even_with_unavailable_events() -> None:
    whole = messages.report(Totals(planned=1000, sent=1000))
    part = messages.report(Totals(planned=1000, sent=990, unavailable=10))
    found = ended(pod(0, whole), pod(4, part, index=1), shards=2)
    assert (found.end, found.reason) == (End.FINISHED, Reason.INCOMPLETE)
    assert found.message == (
        "Sent 1,990 of 2,000 events; 10 could not be sent (10 Expired) and are listed in status.unavailable."
    )


def test_an_incomplete_shard_without_a_log_is_not_a_success() -> None:
    found = ended(pod(4), pod(0, messages.report(Totals(planned=9, sent=9)), index=1), shards=2)
    assert (found.end, found.reason) == (End.FINISHED, Reason.INCOMPLETE)
    assert found.message.startswith("Some events could not be sent. The pod logs")


@pytest.mark.parametrize("told", [Totals(), Totals(planned=9, sent=9)])
def test_counts_of_some_shards_are_not_reported_as_the_total(told: Totals) -> None:
    found = ended(pod(0, messages.report(told), index=1), shards=2, complete=True, failed=False)
    assert (found.end, found.reason) == (End.FINISHED, Reason.SENT)
    assert "can no longer be read" in found.message


@pytest.mark.parametrize(
    ("reasons", "words"),
    [({}, ""), ({"Expired": 0}, ""), ({"TooLarge": 4, "Expired": 6}, " (6 Expired, 4 TooLarge)")],
)
def test_unavailable_events_are_reported_by_reason(reasons: dict[str, int], words: str) -> None:
    line = messages.report(Totals(planned=2000, sent=1990, unavailable=10), unavailable=reasons)
    found = ended(pod(0, line), complete=True, failed=False)
    assert (found.end, found.reason) == (End.FINISHED, Reason.INCOMPLETE)
    assert found.message == (
        f"Sent 1,990 of 2,000 events; 10 could not be sent{words} and are listed in status.unavailable."
    )


@pytest.mark.parametrize(
    ("totals", "reason", "message"),
    [
        (Totals(planned=1000, sent=1000), Reason.SENT, "Sent 1,000 of 1,000 events."),
        (
            Totals(planned=1000, sent=900, filtered=100),
            Reason.SENT,
            "Sent 900 of 1,000 events (100 filtered as empty events).",
        ),
        (
            Totals(planned=9000, sent=6000, filtered=1000, filled=2000),
            Reason.SENT,
            "Sent 6,000 of 9,000 events (1,000 filtered, 2,000 filled as empty events).",
        ),
        (Totals(), Reason.NOTHING_TO_SEND, "There was nothing to send: no event was selected."),
        (
            Totals(planned=1000, sent=999, remaining=1),
            Reason.SENT,
            "Everything was sent. The pod logs with the counts can no longer be read.",
        ),
    ],
)
def test_a_job_that_completed_has_sent_everything(totals: Totals, reason: Reason, message: str) -> None:
    job = {"complete": True, "failed": False, "failure_reason": ""}
    assert ended(pod(0, messages.report(totals)), **job) == Outcome(End.FINISHED, reason, message)


def test_a_completed_job_without_logs_has_sent_everything() -> None:
    found = ended(pod(0), complete=True)
    assert (found.end, found.reason) == (End.FINISHED, Reason.SENT)
    assert "can no longer be read" in found.message


@pytest.mark.parametrize("line", [{**report(), "gaplessReport": 99}, {**messages.plan(1), "gaplessPlan": 99}])
def test_an_unreadable_report_is_not_a_success(line: dict[str, Any]) -> None:
    found = ended(pod(0, line), complete=True)
    assert (found.end, found.reason) == (End.GIVEN_UP, Reason.REPORT_UNREADABLE)
    assert found.message.startswith("The output of pod job-0-0 cannot be read: ")
    assert found.message.endswith(
        f". The senders succeeded, but only their logs and checkpoints show what they sent. {RETRY_HINT}"
    )


@pytest.mark.parametrize(
    ("job", "why"),
    [
        ({"failure_reason": "Evicted", "failure_message": "too much memory"}, "Evicted: too much memory"),
        ({"failure_reason": "Evicted"}, "Evicted"),
        ({"failure_reason": ""}, "no reason given"),
    ],
)
def test_a_job_without_pods_is_tried_again_as_often_as_the_backoff_limit_says(job: dict[str, str], why: str) -> None:
    message = f"The Job job failed ({why}), and its pods no longer exist."
    for pods in ((), (pod(None),)):
        for attempt, end, reason in ((1, End.RETRY, Reason.RETRYING), (2, End.RETRY, Reason.RETRYING)):
            assert ended(*pods, attempt=attempt, **job) == Outcome(end, reason, message)
        given_up = Outcome(End.GIVEN_UP, Reason.BACKOFF_LIMIT_EXCEEDED, f"{message} {RETRY_HINT}")
        assert ended(*pods, attempt=3, **job) == given_up


@pytest.mark.parametrize(("code", "reason"), [(5, Reason.LINK_FAILED), (1, Reason.BACKOFF_LIMIT_EXCEEDED)])
def test_the_last_failure_within_the_backoff_limit_gives_up_with_its_error(code: int, reason: Reason) -> None:
    pods = [pod(None), pod(3, "gapless: Away.", index=1), pod(code, "gapless: Broken; mend it.", index=2)]
    message = f"All 3 attempts failed; the last error: Broken; mend it. {RETRY_HINT}"
    assert ended(*pods, shards=3) == Outcome(End.GIVEN_UP, reason, message)


def test_a_shard_that_says_why_it_failed_comes_before_one_of_which_nothing_is_known() -> None:
    pods = [pod(None), pod(3, "gapless: Away.", index=1), pod(0, index=2), pod(3, "gapless: Gone.", index=3)]
    assert ended(*pods, shards=4) == Outcome(End.RETRY, Reason.SOURCE_UNREACHABLE, "Away.")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (report(reason="TopicRecreated", message="M."), "TopicRecreated"),
        (report(reason="SomethingNew", message="M."), "SourceUnreachable"),
        (report(message="M."), "SourceUnreachable"),
    ],
)
def test_the_reason_of_a_report_comes_before_what_the_exit_code_means(line: dict[str, Any], reason: str) -> None:
    assert ended(pod(3, line)) == Outcome(End.RETRY, Reason(reason), "M.")


@pytest.mark.parametrize(
    ("lines", "why", "message"),
    [
        ([report(message="Of the report."), "gapless: Of the command."], "OOMKilled", "Of the report."),
        ([report(), "gapless: Of the command."], "OOMKilled", "Of the command."),
        ([], "", "Pod job-0-0 ended with exit code 3; see kubectl logs job-0-0."),
        ([], "OOMKilled", "Pod job-0-0 ended with exit code 3, OOMKilled; see kubectl logs job-0-0."),
    ],
)
def test_the_message_of_a_failed_pod_is_its_report_or_how_it_ended(lines: list[Any], why: str, message: str) -> None:
    assert ended(pod(3, *lines, why=why)).message == message


def test_the_message_of_a_failed_pod_includes_an_unreadable_report() -> None:
    found = ended(pod(3, {**report(), "gaplessReport": 99}))
    begin = "Pod job-0-0 ended with exit code 3; see kubectl logs job-0-0. The output of pod job-0-0 cannot be read: "
    assert found.message.startswith(begin)
