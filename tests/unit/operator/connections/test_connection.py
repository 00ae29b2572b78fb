"""A KafkaConnection is checked once for each spec and value of its annotation; its status contains the findings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gapless_api.v1alpha1.reasons import Reason
from gapless_api.wire.doctor_report import DOCTOR_REPORT, DoctorFinding, DoctorReport, Severity
from gapless_operator.common.pod_template import PodTemplate, PodTemplates
from gapless_operator.common.settings import Program
from gapless_operator.connections.reconcile import reconcile_connection
from gapless_operator.shell.refusal import refusal_status
from kit.story.memory_cluster import START, MemoryCluster, new_resource, stamp
from kit.story.plans import is_empty

SPEC = {
    "bootstrapServers": "kafka:9093",
    "tls": {"caSecret": {"name": "kafka-ca"}},
    "allowedTopics": ["orders*"],
}
PROGRAM = Program(image="gapless/sender:1", service_account="gapless-spark")
FIRST = "kafka-owner-ui-doctor-1"


def a_connection(request: str | None = None) -> MemoryCluster:
    body = new_resource("KafkaConnection", "kafka", "mirrors", dict(SPEC))
    found = MemoryCluster(body, reconcile_connection, {"program": PROGRAM})
    if request is not None:
        annotate(found, request)
    return found


def annotate(connection: MemoryCluster, value: str) -> None:
    connection.body["metadata"]["annotations"] = {"gapless.dev/doctor": value}


def check(connection: MemoryCluster) -> None:
    """Let a check start, run and find nothing."""
    connection.step()
    connection.run()
    connection.end(report())
    connection.settle()
    assert connection.condition("Healthy") == ("True", "NothingFound")


def report(*severities: Severity, exit_code: int = 0, omitted: int = 0) -> str:
    findings = tuple(
        DoctorFinding(
            id=f"check-{number}",
            severity=severity,
            side="source",
            where=f"orders-{number}",
            message=f"Finding {number}.",
            action="Do something.",
            danger="",
        )
        for number, severity in enumerate(severities)
    )
    counts = [severities.count(severity) for severity in ("error", "warning", "note")]
    found = DoctorReport(
        time=stamp(START),
        product="1",
        exit_code=exit_code,
        errors=counts[0],
        warnings=counts[1],
        notes=counts[2],
        source=None,
        target=None,
        findings=findings,
        findings_omitted=omitted,
    )
    return DOCTOR_REPORT.to_line(found) + "\n"


@pytest.mark.parametrize("request_", [None, "", "  "])
def test_a_connection_without_the_annotation_is_not_checked(request_: str | None) -> None:
    kafka = a_connection(request_)
    kafka.settle()
    assert kafka.begun == []
    assert kafka.condition("Healthy") == ("Unknown", "NotChecked")
    assert kafka.condition("Reconciling") == ("False", "Settled")


def test_a_refusal_ends_when_the_annotation_is_removed() -> None:
    """Tools that wait for the connection would wait forever."""
    kafka = a_connection("today")
    said = "The API server answered POST with 403: exceeded quota."
    kafka.body["status"], events = refusal_status(kafka.body, Reason.WRITE_REFUSED, said, now=START, final=False)
    assert [event.message for event in events] == [said]
    assert {each["type"] for each in kafka.status["conditions"]} == {"Reconciling", "Stalled"}
    annotate(kafka, "")
    kafka.settle()
    assert kafka.condition("Stalled") == ("False", "NotStalled")
    assert kafka.condition("Reconciling") == ("False", "Settled")
    assert kafka.begun == []


def test_a_check_is_one_pod_with_the_connections_settings_and_secrets() -> None:
    kafka = a_connection("today")
    kafka.step()
    assert kafka.begun == [FIRST]
    assert kafka.settings() == {
        "bootstrapServers": "kafka:9093",
        "tls": "true",
        "caFile": "/etc/gapless/secrets/kafka-ca.crt",
    }
    spec = kafka.attempt()["spec"]
    (runner,) = spec["template"]["spec"]["containers"]
    assert runner["args"] == ["doctor", "/etc/gapless/doctor.properties", "--report-line", "--allowed-topics=orders*"]
    assert runner["image"] == "gapless/sender:1"
    assert spec["template"]["spec"]["automountServiceAccountToken"] is False
    assert spec["activeDeadlineSeconds"] == 900
    assert kafka.condition("Healthy") == ("Unknown", "Checking")
    assert kafka.condition("Reconciling") == ("True", "Checking")


def test_the_findings_of_a_check_are_in_the_status_and_it_is_not_repeated() -> None:
    kafka = a_connection("today")
    kafka.step()
    kafka.run()
    kafka.step()
    kafka.end(report("error", "warning", "warning", "note", exit_code=4, omitted=3), exit_code=4)
    kafka.settle()
    doctor = kafka.status["doctor"]
    assert (doctor["request"], doctor["checkedAt"], doctor["worst"]) == ("today", "2026-11-20T10:00:00Z", "Error")
    assert (doctor["errors"], doctor["warnings"], doctor["notes"], doctor["findingsOmitted"]) == (1, 2, 1, 3)
    assert doctor["findings"][0] == {
        "id": "check-0",
        "severity": "Error",
        "where": "orders-0",
        "message": "Finding 0.",
        "action": "Do something.",
        "danger": "",
    }
    assert kafka.condition("Healthy") == ("False", "ProblemsFound")
    assert kafka.message("Healthy") == "The check found 1 errors, 2 warnings and 1 notes. Finding 0."
    assert kafka.condition("Reconciling") == ("False", "Settled")
    (event,) = [event for event in kafka.events if event.reason == "ProblemsFound"]
    assert event.type == "Warning"
    kafka.later(days=3)
    assert is_empty(kafka.plan())
    assert kafka.begun == [FIRST]


def test_each_change_of_the_value_starts_a_check() -> None:
    kafka = a_connection("today")
    for number, value in enumerate(("today", "tomorrow", "today"), start=1):
        annotate(kafka, value)
        kafka.step()
        kafka.run()
        kafka.step()
        kafka.end(report("warning"))
        kafka.settle()
        assert len(kafka.begun) == number
        assert kafka.condition("Healthy") == ("True", "NothingFound")
        assert (kafka.status["doctor"]["request"], kafka.status["doctor"]["worst"]) == (value, "Warning")
    assert len(kafka.names("Job")) == 2, "the logs of two are kept"


def test_only_the_first_twenty_findings_are_listed() -> None:
    kafka = a_connection("today")
    kafka.step()
    kafka.run()
    kafka.end(report(*["note"] * 25, omitted=4))
    kafka.settle()
    doctor = kafka.status["doctor"]
    assert (len(doctor["findings"]), doctor["findingsOmitted"], doctor["notes"]) == (20, 9, 25)


def test_a_new_request_stops_the_running_check() -> None:
    kafka = a_connection("today")
    kafka.step()
    kafka.run()
    kafka.step()
    annotate(kafka, "now")
    kafka.settle()
    assert kafka.begun == [FIRST, "kafka-owner-ui-doctor-2"]
    assert kafka.names("Job") == ["kafka-owner-ui-doctor-2"]


def test_a_changed_spec_is_checked_while_the_annotation_has_a_value() -> None:
    kafka = a_connection("today")
    check(kafka)
    kafka.change(allowedTopics=["payments*"])
    kafka.step()
    assert len(kafka.begun) == 2
    assert kafka.condition("Healthy") == ("Unknown", "Checking"), "what was found in the former spec is not claimed"
    assert kafka.condition("Reconciling") == ("True", "Checking")
    kafka.run()
    kafka.end(report("error"))
    kafka.settle()
    assert kafka.condition("Healthy") == ("False", "ProblemsFound")
    assert kafka.status["observedGeneration"] == kafka.status["lastAttempt"]["generation"] == 2
    assert is_empty(kafka.plan())


@pytest.mark.parametrize("ending", ["stopped", "ended by itself"])
def test_a_spec_that_changes_during_a_check_is_checked_before_anything_is_claimed(ending: str) -> None:
    kafka = a_connection("today")
    check(kafka)
    annotate(kafka, "again")
    kafka.step()
    kafka.run()
    kafka.step()
    if ending == "ended by itself":
        kafka.end(report())
    kafka.change(allowedTopics=["payments*"])
    for _ in range(5):
        kafka.step()
        assert kafka.condition("Healthy")[0] == "Unknown"
        assert kafka.condition("Reconciling") == ("True", "Checking")
    assert len(kafka.begun) == 3
    kafka.run()
    kafka.end(report())
    kafka.settle()
    assert kafka.condition("Healthy") == ("True", "NothingFound")


def test_a_changed_spec_without_the_annotation_is_not_checked_and_nothing_is_claimed() -> None:
    kafka = a_connection("today")
    check(kafka)
    annotate(kafka, "")
    kafka.change(allowedTopics=["payments*"])
    kafka.settle()
    assert len(kafka.begun) == 1
    assert kafka.condition("Healthy") == ("Unknown", "NotChecked")
    assert kafka.condition("Reconciling") == ("False", "Settled")
    assert kafka.status["observedGeneration"] == 2, "tools that wait for the connection would wait forever"


def test_a_first_check_that_is_no_longer_requested_leaves_no_claim() -> None:
    kafka = a_connection("today")
    kafka.step()
    kafka.run()
    annotate(kafka, "")
    kafka.settle()
    assert kafka.names("Job") == []
    assert kafka.condition("Healthy") == ("Unknown", "NotChecked")
    assert kafka.condition("Reconciling") == ("False", "Settled")


@pytest.mark.parametrize(
    ("exit_code", "log", "reason"),
    [
        (2, "gapless: The file is wrong.\n", "BadConfiguration"),
        (3, "gapless: Kafka does not answer.\n", "SourceUnreachable"),
        (4, "gapless: It broke.\n", "DoctorFailed"),
        (1, "Traceback\n", "DoctorFailed"),
        (0, "nothing\n", "DoctorFailed"),
    ],
)
def test_a_check_without_a_result_reports_the_cause_and_keeps_earlier_findings(
    exit_code: int, log: str, reason: str
) -> None:
    kafka = a_connection("today")
    kafka.step()
    kafka.run()
    kafka.end(report("warning"))
    kafka.settle()
    annotate(kafka, "again")
    kafka.step()
    kafka.run()
    kafka.end(log, exit_code=exit_code)
    kafka.settle()
    assert kafka.condition("Healthy") == ("Unknown", reason)
    assert (kafka.status["doctor"]["request"], kafka.status["doctor"]["warnings"]) == ("again", 1)
    kafka.later(hours=1)
    assert is_empty(kafka.plan()), "a person asks again"


def test_a_check_that_does_not_start_or_end_is_stopped() -> None:
    kafka = a_connection("today")
    kafka.step()
    kafka.later(seconds=301)
    kafka.settle()
    assert kafka.condition("Healthy") == ("Unknown", "StartDeadlineExceeded")
    annotate(kafka, "again")
    kafka.step()
    kafka.run()
    kafka.later(seconds=601)
    kafka.settle()
    assert kafka.condition("Healthy") == ("Unknown", "RunDeadlineExceeded")
    assert len(kafka.begun) == 2


def test_a_crash_at_any_point_repeats_no_check() -> None:
    for writes in range(5):
        kafka = a_connection("today")
        kafka.step(writes=writes)
        kafka.run() if kafka.begun else None
        kafka.settle()
        assert kafka.begun == [FIRST]
        assert kafka.condition("Healthy") == ("Unknown", "Checking")
        assert kafka.condition("Reconciling") == ("True", "Checking")


def test_a_check_that_was_interrupted_is_repeated_at_once() -> None:
    """By the switch of the namespace, which deletes its Job, or with its node."""
    kafka = a_connection("today")
    kafka.step()
    kafka.run()
    kafka.step()
    (name,) = kafka.names("Job")
    del kafka.objects["Job", name]
    kafka.pods.clear()
    kafka.step()
    assert kafka.condition("Reconciling") == ("True", "Checking")
    kafka.settle()
    assert kafka.begun == [FIRST, "kafka-owner-ui-doctor-2"]
    kafka.run()
    kafka.end(report("warning"))
    kafka.settle()
    assert (kafka.condition("Healthy"), kafka.status["doctor"]["warnings"]) == (("True", "NothingFound"), 1)
    assert is_empty(kafka.plan())


def test_a_value_that_is_set_while_the_operator_is_down_is_checked() -> None:
    kafka = a_connection("today")
    kafka.step(writes=2)
    assert kafka.begun == [FIRST]
    annotate(kafka, "now")
    kafka.settle()
    kafka.run()
    kafka.end(report("warning"))
    kafka.settle()
    assert kafka.begun == [FIRST, "kafka-owner-ui-doctor-2"]
    assert (kafka.status["doctor"]["request"], kafka.status["doctor"]["warnings"]) == ("now", 1)


def test_a_check_has_the_template_that_the_connection_names_or_does_not_run() -> None:
    kafka = a_connection("today")
    templates = PodTemplates(named={"night": PodTemplate(labels={"pool": "night"})})
    kafka.programs = {"program": replace(PROGRAM, pod_templates=templates)}
    kafka.body["spec"]["podTemplate"] = "day"
    kafka.settle()
    assert kafka.begun == []
    assert kafka.condition("Healthy") == ("Unknown", "BadConfiguration")
    assert "spec.podTemplate names day, which the platform team has not listed" in kafka.message("Stalled")
    kafka.change(podTemplate="night")
    kafka.step()
    assert kafka.objects["Job", FIRST]["spec"]["template"]["metadata"]["labels"]["pool"] == "night"
    kafka.run()
    kafka.programs = {"program": PROGRAM}
    kafka.step()
    assert FIRST not in kafka.names("Job")
    kafka.settle()
    assert kafka.begun == [FIRST]
    assert kafka.condition("Stalled") == ("True", "BadConfiguration")
