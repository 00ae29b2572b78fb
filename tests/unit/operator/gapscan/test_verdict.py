"""The outcome of an attempt: every deadline to the second, every reason by name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from gapless_api.v1alpha1.attempt_status import LastAttempt
from gapless_api.v1alpha1.gapscan import Engine
from gapless_api.v1alpha1.reasons import Reason
from gapless_api.wire.result_lines import ScanResult
from gapless_operator.common.observed import Meta, ObservedPod
from gapless_operator.common.pod_output import PodOutput
from gapless_operator.common.pod_trouble import Trouble
from gapless_operator.engines.engine import Attempt, Phase
from gapless_operator.lifecycle.tracks import Track, check_again_after, must_end, own_end
from gapless_operator.scanning.reconcile import end_of
from gapless_spark.output.result_log import short_report
from kit.story.messages import scan_report

if TYPE_CHECKING:
    from gapless_operator.engines.endings import Ending

START = datetime(2026, 11, 20, 10, 0, 0, tzinfo=UTC)
ENGINE = Engine(start_deadline_seconds=100, run_deadline_seconds=1000)
NAME = "Job night-scan-uid-g1-1"


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def an_attempt(phase: Phase, *, pod: ObservedPod | None = None, **more: Any) -> Attempt:
    meta = Meta(name="night-scan-uid-g1-1", namespace="s", uid="u", created=START)
    return Attempt(meta=meta, engine="Job", phase=phase, driver=pod, **more)


def a_pod(phase: str = "Failed", *, outcome: str | None = None, error_message: str = "", **more: Any) -> ObservedPod:
    result = None
    if outcome is not None:
        report = scan_report({}, {"id": "b-1", "sha256": "0" * 64}, outcome=outcome, message="M.")
        result = ScanResult(short_report(report, omits_bundle=True), None)
    meta = Meta(name="p", namespace="s", uid="u", created=START)
    output = PodOutput(result=result, error_message=error_message, result_error="it is cut")
    return ObservedPod(meta=meta, phase=phase, output=output, **more)


def outcome_of(attempt: Attempt, engine: Engine, now: datetime) -> Ending | None:
    """Return how an attempt has ended, or why it must end."""
    if not attempt.ended:
        start, run = engine.start_deadline_seconds, engine.run_deadline_seconds
        return must_end(attempt, start_seconds=start, run_seconds=run, now=now)
    last = LastAttempt(name=attempt.name, engine="Job", generation=1, started=START)
    nothing: Any = None
    return own_end(Track(attempts=(attempt,), last=last), now, end_of=partial(end_of, nothing))


def deadline_of(attempt: Attempt, engine: Engine) -> datetime:
    """Return when an attempt that has not ended must be looked at again."""
    start, run = engine.start_deadline_seconds, engine.run_deadline_seconds
    after = check_again_after(attempt, start_seconds=start, run_seconds=run, now=START)
    assert after is not None
    return START + after


def reason_at(attempt: Attempt, seconds: float) -> Reason | None:
    ending = outcome_of(attempt, ENGINE, at(seconds))
    return None if ending is None else ending.reason


# -------------------------------------------------------------------------------------------------------- deadlines


def test_an_attempt_has_its_time_to_start_and_then_is_given_up_with_what_kept_it() -> None:
    trouble = Trouble(Reason.POD_UNSCHEDULABLE, "No node takes it.")
    waiting = an_attempt(Phase.PENDING, trouble=trouble)
    assert reason_at(waiting, 99) is None
    ending = outcome_of(waiting, ENGINE, at(100))
    assert ending is not None
    assert ending == (
        Reason.START_DEADLINE_EXCEEDED,
        f"The {NAME} did not start within 100 seconds. No node takes it.",
    )
    silent = outcome_of(an_attempt(Phase.PENDING), ENGINE, at(100))
    assert silent is not None
    assert silent.message == f"The {NAME} did not start within 100 seconds."
    assert deadline_of(waiting, ENGINE) == at(100)


@pytest.mark.parametrize("reason", [Reason.IMAGE_PULL_FAILED, Reason.MOUNT_FAILED])
def test_a_driver_that_cannot_start_has_half_a_minute(reason: Reason) -> None:
    pod = a_pod("Pending", waiting_reason="ErrImagePull")
    hopeless = an_attempt(Phase.PENDING, pod=pod, trouble=Trouble(reason, "It cannot."))
    assert deadline_of(hopeless, ENGINE) == at(30)
    assert reason_at(hopeless, 29) is None
    assert outcome_of(hopeless, ENGINE, at(30)) == (reason, "It cannot.")
    short = Engine(start_deadline_seconds=30, run_deadline_seconds=30)
    assert deadline_of(hopeless, short) == at(30)


@pytest.mark.parametrize(
    ("pod", "trouble"),
    [
        (a_pod("Pending", waiting_reason="Unschedulable"), Trouble(Reason.POD_UNSCHEDULABLE, "T")),
        (a_pod("Pending"), Trouble(Reason.MOUNT_FAILED, "only slow")),
        (None, Trouble(Reason.IMAGE_PULL_FAILED, "nobody says so")),
        (a_pod("Pending", waiting_reason="ErrImagePull"), None),
    ],
)
def test_what_may_still_start_is_waited_for_until_the_deadline(
    pod: ObservedPod | None, trouble: Trouble | None
) -> None:
    attempt = an_attempt(Phase.PENDING, pod=pod, trouble=trouble)
    assert reason_at(attempt, 31) is None
    assert deadline_of(attempt, ENGINE) == at(100)


@pytest.mark.parametrize(("started", "ends"), [(None, 1000), (at(50), 1050)])
def test_an_attempt_that_runs_has_its_time_from_its_start(started: datetime | None, ends: int) -> None:
    running = an_attempt(Phase.RUNNING, started=started)
    assert deadline_of(running, ENGINE) == at(ends)
    assert reason_at(running, ends - 1) is None
    ending = outcome_of(running, ENGINE, at(ends))
    assert ending is not None
    assert ending.reason is Reason.RUN_DEADLINE_EXCEEDED
    assert ending.message.startswith(f"The {NAME} ran for more than 1000 seconds; raise runDeadlineSeconds")


def test_an_attempt_on_a_lost_node_is_given_up_after_a_minute() -> None:
    pod = a_pod("Running", node="n", is_lost=True, lost_since=at(200))
    running = an_attempt(Phase.RUNNING, pod=pod, started=at(10))
    assert reason_at(running, 259) is None
    assert reason_at(running, 260) is Reason.NODE_LOST


# ---------------------------------------------------------------------------------------------- the log may be late


@pytest.mark.parametrize("pod", [None, a_pod("Running")])
@pytest.mark.parametrize("phase", [Phase.SUCCEEDED, Phase.FAILED])
@pytest.mark.parametrize("finished", [None, at(20)])
def test_the_log_of_what_has_ended_is_waited_for_half_a_minute(
    pod: ObservedPod | None, phase: Phase, finished: datetime | None
) -> None:
    ended = an_attempt(phase, pod=pod, finished=finished)
    until = 30 if finished is None else 50
    assert reason_at(ended, until - 1) is None
    assert reason_at(ended, until) is (Reason.RESULT_UNREADABLE if phase is Phase.SUCCEEDED else Reason.SCAN_FAILED)


def test_without_a_pod_the_message_is_that_of_the_engine() -> None:
    def message(phase: Phase, error_message: str = "") -> str:
        ending = outcome_of(an_attempt(phase, error_message=error_message), ENGINE, at(60))
        assert ending is not None
        return ending.message

    assert message(Phase.SUCCEEDED) == f"The {NAME} succeeded, but its pod was deleted before its log was read."
    assert message(Phase.FAILED) == f"The {NAME} failed, and its pod no longer exists."
    assert message(Phase.FAILED, "no room") == f"The {NAME} failed: no room."
    assert message(Phase.FAILED, "a" * 498 + " b") == f"The {NAME} failed: {'a' * 498} b."
    assert message(Phase.FAILED, "a" * 498 + " bb") == f"The {NAME} failed: {'a' * 498} …."


def test_a_result_that_is_there_counts_although_its_pod_seems_to_run() -> None:
    pod = a_pod("Running", outcome="gaps-found")
    ended = an_attempt(Phase.SUCCEEDED, pod=pod)
    assert reason_at(ended, 29) is None
    assert reason_at(ended, 30) is Reason.GAPS_FOUND


# ---------------------------------------------------------------------------------------------------------- reasons


@pytest.mark.parametrize(
    ("outcome", "reason", "is_answer"),
    [
        ("gaps-found", Reason.GAPS_FOUND, True),
        ("nothing-missing", Reason.NOTHING_MISSING, True),
        ("nothing-to-do", Reason.NOTHING_TO_DO, True),
        ("unreadable-records", Reason.UNREADABLE_RECORDS, True),
        ("topic-missing", Reason.TOPIC_MISSING, False),
        ("unreachable", Reason.SOURCE_UNREACHABLE, False),
        ("bad-configuration", Reason.BAD_CONFIGURATION, False),
        ("stopped", Reason.STOPPED, False),
    ],
)
def test_what_a_report_says_is_how_the_attempt_ended(outcome: str, reason: Reason, *, is_answer: bool) -> None:
    pod = a_pod("Succeeded", outcome=outcome)
    assert outcome_of(an_attempt(Phase.SUCCEEDED, pod=pod), ENGINE, at(0)) == (reason, "M.")
    failed = outcome_of(an_attempt(Phase.FAILED, pod=a_pod(outcome=outcome, exit_code=1)), ENGINE, at(0))
    assert failed is not None
    assert failed.reason is (Reason.SCAN_FAILED if is_answer else reason), "an answer of what failed counts only"
    incomplete = outcome_of(an_attempt(Phase.FAILED, pod=a_pod(outcome=outcome, exit_code=4)), ENGINE, at(0))
    assert incomplete is not None
    assert incomplete.reason is reason, "when it says that it is incomplete"


@pytest.mark.parametrize(("phase", "pod", "code"), [(Phase.SUCCEEDED, "Succeeded", 0), (Phase.FAILED, "Failed", 4)])
@pytest.mark.parametrize(
    ("outcome", "problem"),
    [
        (None, "it is cut"),
        (
            "of-a-version-" + 40 * "x",
            f"the outcome 'of-a-version-{27 * 'x'}' is unknown to this version of the operator",
        ),
    ],
)
def test_an_end_without_a_result_that_can_be_read_says_so(
    phase: Phase, pod: str, code: int, outcome: str | None, problem: str
) -> None:
    ending = outcome_of(an_attempt(phase, pod=a_pod(pod, outcome=outcome, exit_code=code)), ENGINE, at(0))
    assert ending == (
        Reason.RESULT_UNREADABLE,
        f"Pod p succeeded, but its result cannot be read: {problem}.",
    )


@pytest.mark.parametrize(
    ("code", "why", "reason", "message"),
    [
        (2, "Error", Reason.BAD_CONFIGURATION, "Pod p ended with exit code 2; see its log."),
        (3, "Error", Reason.SOURCE_UNREACHABLE, "Pod p ended with exit code 3; see its log."),
        (130, "Error", Reason.STOPPED, "Pod p ended with exit code 130; see its log."),
        (143, "Error", Reason.STOPPED, "Pod p ended with exit code 143; see its log."),
        (1, "Error", Reason.SCAN_FAILED, "Pod p ended with exit code 1; see its log."),
        (None, "", Reason.SCAN_FAILED, "Pod p ended with exit code None; see its log."),
        (137, "OOMKilled", Reason.SCAN_FAILED, "Pod p ran out of memory and was killed; raise engine.driver.memory."),
        (2, "Evicted", Reason.STOPPED, "The node stopped pod p (Evicted)."),
        (2, "Preempting", Reason.STOPPED, "The node stopped pod p (Preempting)."),
        (2, "Terminated", Reason.STOPPED, "The node stopped pod p (Terminated)."),
        (2, "NodeLost", Reason.STOPPED, "The node stopped pod p (NodeLost)."),
        (2, "NodeShutdown", Reason.STOPPED, "The node stopped pod p (NodeShutdown)."),
    ],
)
def test_a_failure_has_the_reason_of_its_exit_code_unless_the_node_ended_it(
    code: int | None, why: str, reason: Reason, message: str
) -> None:
    attempt = an_attempt(Phase.FAILED, pod=a_pod(exit_code=code, ended_reason=why))
    assert outcome_of(attempt, ENGINE, at(0)) == (reason, message)


def test_the_error_of_a_pod_is_the_message() -> None:
    pod = a_pod(exit_code=3, ended_reason="Error", error_message="Kafka is away; wait.")
    assert outcome_of(an_attempt(Phase.FAILED, pod=pod), ENGINE, at(0)) == (
        Reason.SOURCE_UNREACHABLE,
        "Kafka is away; wait.",
    )


def test_a_log_that_cannot_be_read_is_waited_for_longer() -> None:
    def ended(problem: str, since: datetime | None = None) -> Attempt:
        pod = a_pod("Succeeded", exit_code=0, is_unread=True, log_problem=problem, log_problem_since=since)
        return an_attempt(Phase.SUCCEEDED, pod=pod, finished=at(0))

    assert reason_at(ended(""), 29) is None, "it is being read"
    assert reason_at(ended(""), 100_000) is None, "and it is, however long ago the pod ended: the operator was away"
    assert reason_at(ended("i/o timeout", since=at(5000)), 5599) is None
    assert reason_at(ended("i/o timeout", since=at(5000)), 5600) is Reason.RESULT_UNREADABLE
    assert reason_at(ended("i/o timeout"), 599) is None
    late = outcome_of(ended("i/o timeout"), ENGINE, at(600))
    assert late is not None
    assert late.reason is Reason.RESULT_UNREADABLE
    assert "i/o timeout" in late.message
