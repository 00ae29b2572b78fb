"""Scans that fail or do not start, and obstacles to a scan."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gapless_api.v1alpha1.reasons import Reason
from gapless_api.wire.result_lines import result_lines
from gapless_operator.shell.refusal import refusal_status
from gapless_spark.output.result_log import short_report

Make = Callable[..., Any]
Gaps = dict[tuple[str, int], list[tuple[int, int]]]
NIGHTLY = {"cron": "30 2 * * *", "timeZone": "Europe/Stockholm"}
MINUTELY = {"cron": "* * * * *"}


def test_an_unreachable_broker_is_reported_and_retried_with_growing_pauses(cluster: Make, gaps: Gaps) -> None:
    night = cluster()
    night.step()
    pauses = []
    for _ in range(4):
        night.run()
        night.step()
        night.end('{"event":"other"}\ngapless: Kafka cannot be reached; check it.', exit_code=3)
        night.settle()
        assert night.condition("Ready") == ("False", "SourceUnreachable")
        assert night.condition("Reconciling") == ("True", "SourceUnreachable")
        assert night.condition("Stalled") == ("False", "NotStalled")
        wait = night.plan().requeue_after_seconds
        pauses.append(round(wait))
        night.later(seconds=wait)
        night.step()
    assert pauses == [30, 60, 120, 240]
    assert night.begun[-1] == "night-scan-uid-g1-5"
    night.answer(gaps)
    assert night.condition("Ready") == ("True", "GapsFound")


@pytest.mark.parametrize(
    ("waiting", "reason"),
    [
        ("ErrImagePull", "ImagePullFailed"),
        ("ImagePullBackOff", "ImagePullFailed"),
        ("InvalidImageName", "ImagePullFailed"),
        ("CreateContainerConfigError", "MountFailed"),
    ],
)
@pytest.mark.parametrize("spark_operator", [False, True])
def test_a_driver_that_cannot_start_ends_the_attempt(
    cluster: Make, waiting: str, reason: str, *, spark_operator: bool
) -> None:
    night = cluster(spark_operator=spark_operator)
    night.step()
    night.wait_for(waiting, "no such thing")
    night.later(seconds=5)
    night.settle()
    assert len(night.begun) == 1, "it may still mend"
    assert night.plan().requeue_after_seconds == pytest.approx(25, abs=1)
    night.later(seconds=25)
    night.settle()
    assert night.status["lastAttempt"]["outcome"] == reason
    assert waiting in night.message("Ready")
    assert "no such thing" in night.message("Ready")
    assert night.condition("Stalled") == ("True", reason)
    kind = "SparkApplication" if spark_operator else "Job"
    assert night.names(kind) == [], "what was given up is deleted"
    night.later(seconds=31)
    night.step()
    assert night.begun == ["night-scan-uid-g1-1", "night-scan-uid-g1-2"], "the image may be there by now"


def test_a_rejected_pod_is_reported_until_the_deadline(cluster: Make, gaps: Gaps) -> None:
    night = cluster()
    night.step()
    night.later(seconds=20)
    night.settle()
    assert night.condition("Stalled") == ("False", "NotStalled"), "the Job's controller may only be late"
    night.later(seconds=20)
    night.settle()
    assert night.condition("Stalled") == ("True", "PodRejected")
    assert night.names("Job") == ["night-scan-uid-g1-1"]
    night.answer(gaps)
    assert night.condition("Stalled") == ("False", "NotStalled")
    assert night.begun == ["night-scan-uid-g1-1"]


def test_a_large_image_may_take_its_time(cluster: Make) -> None:
    night = cluster()
    night.step()
    night.wait_for("ContainerCreating")
    night.later(seconds=400)
    night.settle()
    assert night.status["lastAttempt"].get("outcome") is None
    night.later(seconds=200)
    night.settle()
    assert night.status["lastAttempt"]["outcome"] == "StartDeadlineExceeded"


def test_a_scan_that_runs_too_long_is_ended(cluster: Make) -> None:
    night = cluster(engine={"runDeadlineSeconds": 60})
    night.step()
    night.later(seconds=100)
    night.run()
    night.settle()
    night.later(seconds=59)
    night.settle()
    assert night.names("Job") == ["night-scan-uid-g1-1"]
    night.later(seconds=1)
    night.settle()
    assert night.names("Job") == []
    assert night.condition("Stalled") == ("True", "RunDeadlineExceeded")
    night.later(days=1)
    night.settle()
    assert len(night.begun) == 1


def failure(outcome: str, exit_code: int) -> str:
    """What the pod of a scan prints that did not finish."""
    head = {"command": "scan", "created": "2026-11-20T10:00:00Z", "topics": ["gaps"], "seconds": 1.5}
    report = {**head, "outcome": outcome, "exit_code": exit_code, "message": "M"}
    (line,) = result_lines(short_report(report, omits_bundle=True), None)
    return line


@pytest.mark.parametrize("version", [2, 4, "3", None])
def test_a_result_of_another_version_is_no_finding(cluster: Make, gaps: Gaps, version: Any) -> None:
    night = cluster()
    night.step()
    night.run()
    lines = []
    for line in night.log_of(gaps).splitlines():
        entry = json.loads(line) if line.startswith("{") else None
        if entry is not None:
            entry["report"]["gapless_scan_result"] = version
            entry["report"] = {name: value for name, value in entry["report"].items() if value is not None}
        lines.append(line if entry is None else json.dumps(entry))
    night.end("\n".join(lines))
    night.settle()
    assert night.condition("Ready") == ("False", "ResultUnreadable")
    found = "no version (gapless_scan_result)" if version is None else f"version {json.dumps(version)}"
    assert f"the result of a scan has {found}, and this program reads version 3" in night.message("Ready")
    assert "missingEvents" not in night.status
    assert night.names("ConfigMap") == ["night-scan-uid-g1-1-settings"]


@pytest.mark.parametrize(
    ("log", "exit_code", "why", "reason", "stalled"),
    [
        ("gapless: The setting limit is 'x'; it must be all or first.", 2, "Error", "BadConfiguration", "True"),
        (failure("topic-missing", 2), 2, "Error", "TopicMissing", "True"),
        (failure("unreachable", 3), 3, "", "SourceUnreachable", "False"),
        (failure("unreachable", 3).replace('scan_result":3', 'scan_result":4'), 0, "", "ResultUnreadable", "True"),
        (failure("unheard-of", 0), 0, "", "ResultUnreadable", "True"),
        (failure("gaps-found", 0), 0, "", "ResultUnreadable", "True"),
        ("Traceback", 1, "Error", "ScanFailed", "False"),
        ("", 137, "OOMKilled", "ScanFailed", "False"),
        ("gapless: Stopped by SIGTERM; nothing was written.", 143, "Error", "Stopped", "False"),
        ("no result", 0, "", "ResultUnreadable", "True"),
    ],
)
def test_every_way_to_fail_has_a_reason_and_says_who_must_act(
    cluster: Make, *, log: str, exit_code: int, why: str, reason: str, stalled: str
) -> None:
    night = cluster()
    night.step()
    night.run()
    night.end(log, exit_code, why)
    night.settle()
    assert night.condition("Ready") == ("False", reason)
    assert night.condition("Stalled")[0] == stalled
    assert night.message("Ready").endswith(("M", "."))
    next_one = ["Normal"] if reason == "Stopped" else []  # it starts at once, because this was no failure
    types = [event.type for event in night.events if event.reason != "NoSparkOperator"]
    assert types == ["Normal", "Warning", *next_one]
    assert "missingEvents" not in night.status


def test_records_that_cannot_be_read_do_not_hide_what_the_others_say(cluster: Make, gaps: Gaps) -> None:
    night = cluster()
    night.step()
    night.run()
    night.end(night.log_of(gaps, outcome="unreadable-records", message="2 records cannot be read."), exit_code=4)
    night.settle()
    assert night.condition("Ready") == ("True", "UnreadableRecords")
    assert night.status["missingEvents"] == 7
    assert night.events[-1].type == "Warning"


def test_what_expired_before_an_audit_read_it_is_counted_apart_and_closes_nothing(cluster: Make, gaps: Gaps) -> None:
    night = cluster()
    night.step()
    night.run()
    night.end(night.log_of(gaps))
    night.settle()
    since = night.status["oldestGapSince"]
    night.later(minutes=5)
    night.change(source={"events": {"topics": ["t"]}})
    night.step()
    night.run()
    row = {"topic": "t", "partition": 9, "missing": 0, "unknown": 41, "ranges": 0}
    nothing = {"first_missing": None, "last_missing": None}
    said = {"outcome": "unknown-events", "message": "41 events are unknown.", "missing": 0, "unknown": 41}
    night.end(night.log_of({}, partitions=[{**row, **nothing}], **said), exit_code=4)
    night.settle()
    assert night.condition("Ready") == ("True", "UnknownEvents")
    assert (night.status["missingEvents"], night.status["unknownEvents"]) == (0, 41)
    assert night.status["partitions"] == [{"topic": "t", "partition": 9, "missing": 0, "unknown": 41, "ranges": 0}]
    assert night.status["oldestGapSince"] == since, "nobody knows that it has closed"
    assert [event.type for event in night.events if event.reason == "UnknownEvents"] == ["Warning"]


def test_gap_records_that_could_not_be_read_yet_are_unknown_events_of_the_scan(cluster: Make) -> None:
    night = cluster()
    night.step()
    night.run()
    said = {"outcome": "unknown-events", "message": "It is unknown whether anything is missing: 7 records."}
    night.end(night.log_of({}, **said, unread_behind_transactions=7), exit_code=4)
    night.settle()
    assert night.condition("Ready") == ("True", "UnknownEvents")
    assert night.message("Ready") == said["message"]
    assert [event.type for event in night.events if event.reason == "UnknownEvents"] == ["Warning"]


def test_a_deleted_attempt_is_started_again(cluster: Make) -> None:
    night = cluster()
    night.step()
    night.objects.clear()
    night.step()
    assert night.status["lastAttempt"]["outcome"] == "Stopped"
    night.step()
    assert night.begun == ["night-scan-uid-g1-1", "night-scan-uid-g1-2"], "it is no failure of the scan"


def test_a_pod_deleted_before_its_log_was_read_is_reported(cluster: Make) -> None:
    night = cluster()
    night.step()
    night.run()
    night.end("x")
    night.pods.clear()
    night.settle()
    assert night.status["lastAttempt"].get("outcome") is None, "the pod may only be late"
    night.later(seconds=31)
    night.settle()
    assert night.condition("Ready") == ("False", "ResultUnreadable")


NO_SCAN_YET, FOUND = ("Unknown", "NeverScanned"), ("True", "GapsFound")
AWAY = ("False", "SourceUnreachable")


@pytest.mark.parametrize(
    ("before", "obstacle", "ready"),
    [
        ("nothing", "EngineUnavailable", NO_SCAN_YET),
        ("answer", "EngineUnavailable", FOUND),
        ("failure", "EngineUnavailable", AWAY),
        ("nothing", "WriteRefused", NO_SCAN_YET),
        ("answer", "WriteRefused", FOUND),
        ("failure", "WriteRefused", AWAY),
        ("answer", "BadConfiguration", FOUND),
        ("failure", "BadConfiguration", AWAY),
    ],
)
@pytest.mark.parametrize("crash", [False, True])
def test_what_kept_a_scan_from_beginning_is_over_when_it_begins(
    cluster: Make, gaps: Gaps, before: str, obstacle: str, ready: tuple[str, str], *, crash: bool
) -> None:
    night = cluster(schedule=MINUTELY)
    if before != "nothing":
        night.later(minutes=1)
        night.step()
        if before == "answer":
            night.answer(gaps)
        else:
            night.run()
            night.end("gapless: Kafka cannot be reached; check it.", exit_code=3)
        night.settle()
    obstruct(night, obstacle)
    assert night.condition("Ready") == ("False", obstacle)
    night.later(minutes=1)
    night.step(writes=2 if crash else None)
    night.settle()
    assert len(night.begun) == (1 if before == "nothing" else 2)
    for _ in range(2):
        assert night.condition("Ready") == ready
        assert night.condition("Reconciling") == ("True", "Scanning")
        assert night.condition("Stalled") == ("False", "NotStalled")
        night.run()
        night.settle()


@pytest.mark.parametrize(
    ("before", "obstacle", "ready"),
    [
        ("nothing", "WriteRefused", NO_SCAN_YET),
        ("answer", "WriteRefused", FOUND),
        ("answer", "BadConfiguration", FOUND),
        ("none missing", "WriteRefused", ("True", "NothingMissing")),
    ],
)
def test_an_obstacle_during_a_scan_is_cleared_when_it_continues(
    cluster: Make, gaps: Gaps, before: str, obstacle: str, ready: tuple[str, str]
) -> None:
    night = cluster(schedule=MINUTELY)
    night.later(minutes=1)
    night.step()
    if before != "nothing":
        night.answer(gaps if before == "answer" else {("transfer", 0): []})
        night.later(minutes=1)
        night.step()
    night.run()
    night.settle()
    obstruct(night, obstacle)
    night.settle()
    assert night.condition("Ready") == ready
    assert night.condition("Stalled") == ("False", "NotStalled")


def test_a_scan_of_which_the_status_does_not_know_yet_has_not_ended(cluster: Make) -> None:
    night = cluster()
    night.step(writes=2)  # Settings and Job; the status was never written.
    night.run()
    night.step()
    assert night.begun == ["night-scan-uid-g1-1"]
    assert night.condition("Ready") == NO_SCAN_YET
    assert night.message("Ready") == "The first scan has not ended yet."


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ([], "0 events are missing according to the scan of 2026-11-20 10:01 UTC."),
        ([(5, 5)], "1 event is missing according to the scan of 2026-11-20 10:01 UTC."),
        ([(5, 6)], "2 events are missing according to the scan of 2026-11-20 10:01 UTC."),
    ],
)
def test_what_the_scan_before_found_is_said_again_when_the_obstacle_is_gone(
    cluster: Make, found: list[tuple[int, int]], sentence: str
) -> None:
    night = cluster(schedule=MINUTELY)
    night.later(minutes=1)
    night.step()
    night.answer({("transfer", 0): found})
    night.later(minutes=1)
    night.step()
    night.run()
    night.settle()
    obstruct(night, "WriteRefused")
    night.settle()
    assert night.message("Ready") == sentence


def obstruct(night: Any, reason: str) -> None:
    """Have the shell, or a schedule without an engine, say why nothing goes on."""
    if reason == "EngineUnavailable":
        night.change(engine={"type": "SparkApplication"})
        night.later(minutes=1)
        night.settle()
        night.change(engine={"type": "Job"})
        return
    if reason == "BadConfiguration":
        night.change(limit="First")
    status, _ = refusal_status(
        night.body, Reason(reason), "It cannot be.", now=night.now, final=reason == Reason.BAD_CONFIGURATION
    )
    night.body["status"] = status
    if reason == "BadConfiguration":
        night.change(limit="All")
