from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from gapless_api.cli.main import _arguments
from gapless_operator.cli.cluster_page import line_of, page

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)


def body(kind: str, status: dict[str, Any], *, name: str = "hall", **spec: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name, "namespace": "senders"}, "spec": spec, "status": status}


def condition(name: str, status: str, reason: str, message: str = "") -> dict[str, Any]:
    return {
        "type": name, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-11-27T09:30:00Z",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "status", "words"),
    [
        (
            "GapScan",
            {"missingEvents": 1518, "oldestGapSince": "2026-11-26T00:00:00Z", "lastScanTime": "2026-11-27T03:00:00Z"},
            "1,518 events are missing, the oldest since 2026-11-26T00:00:00Z, last scan 2026-11-27T03:00:00Z",
        ),
        (
            "GapScan",
            {"missingEvents": 7, "lost": {"after": "a", "before": "b"}, "lastScanTime": "x"},
            "7 events are missing, lost between a and b, last scan x",
        ),
        (
            "GapScan",
            {"missingEvents": 7, "lost": {"after": "a"}, "lastScanTime": "x"},
            "7 events are missing, last scan x",
        ),
        ("GapScan", {"missingEvents": 0, "lastScanTime": "x"}, "0 events are missing, last scan x"),
        ("GapScan", {}, "not scanned yet"),
        (
            "Resend",
            {"progress": {"sent": 3, "planned": 7, "unavailable": 1, "eventsPerSecond": 1000.0, "etaSeconds": 4.4}},
            "3 of 7 events sent, 1 unavailable, 1,000/s, ready in 4 s, over north",
        ),
        ("Diode", {"active": [{"name": "a"}, {"name": "b"}], "queued": 2}, "sending a, b, 2 Resends wait"),
        ("Diode", {}, "nothing is being sent"),
        (
            "Mirror",
            {"lagRecords": 0, "lagSeconds": 0.0, "lostRecords": 5, "observedAt": "t"},
            "0 records behind, 5 offsets lost or left out, as of t",
        ),
        ("Archive", {}, ""),
        ("Restore", {"progress": {"planned": 40, "restored": 10}}, "10 of 40 records restored"),
        ("KafkaConnection", {"doctor": {"errors": 2, "checkedAt": "t"}}, "2 errors, checked t"),
        ("KafkaConnection", {}, "not checked"),
        ("FromTheFuture", {"anything": 1}, ""),
    ],
)
def test_each_kind_says_its_figures(kind: str, status: dict[str, Any], words: str) -> None:
    assert line_of(body(kind, status, diodeRef={"name": "north"})).what == words


def test_the_page_says_what_needs_a_person_and_which_namespaces_are_stopped() -> None:
    lines = [
        line_of(body("Diode", {"conditions": [condition("Ready", "True", "LinkReady", "The link is ready.")]})),
        line_of(
            body(
                "Mirror",
                {
                    "conditions": [
                        condition("Ready", "False", "Stalled", "x"),
                        condition("Stalled", "True", "TargetRecreated", "The target was recreated; decide."),
                    ]
                },
                name="copy",
            )
        ),
        line_of(body("Resend", {}, name="new", mode="Plan")),
    ]
    assert page(lines, {"senders": "true"}, NOW) == (
        "Namespace senders is stopped: gapless.dev/suspend=true.\n"
        "NAMESPACE  OBJECT       STATE             SINCE  WHAT\n"
        "senders    Diode/hall   LinkReady         2h     nothing is being sent; The link is ready.\n"
        "senders    Mirror/copy  !TargetRecreated  2h\n"
        "senders    Resend/new   new                      over ?, a plan: approve it to send\n"
        "\n"
        "Mirror/copy in senders: The target was recreated; decide.\n"
        "3 objects, 1 of them need a change by a person.\n"
    )
    assert lines[1].to_json()["stalled"] is True


def test_a_plan_says_when_it_may_be_too_late() -> None:
    times = {"expiresFrom": "2026-11-28T04:00:00Z", "oldestEvent": "2026-11-20T10:00:00Z"}
    planned = body("Resend", {"plan": {"events": 5, **times}}, name="new", mode="Plan")
    oldest = "its oldest event is of 2026-11-20T10:00:00Z"
    said = (
        f"over ?, a plan: approve it to send, {oldest}, Kafka may delete its first event from 2026-11-28T04:00:00Z on"
    )
    assert line_of(planned).what == said


def test_a_namespace_that_may_not_be_read_is_not_called_running() -> None:
    said = "Whether the namespace senders is stopped is unknown: this account may not read it.\n"
    assert page([], {"senders": None}, NOW) == f"{said}There are no objects of Gapless.\n"


def test_without_objects_it_says_so() -> None:
    assert page([], {}, NOW) == "There are no objects of Gapless.\n"


@pytest.mark.parametrize("moment", [None, "", "yesterday", "2026-11-27T09:30:00"])
def test_a_strange_time_has_no_age(moment: str | None) -> None:
    line = line_of(body("Diode", {"conditions": [{**condition("Ready", "True", "R"), "lastTransitionTime": moment}]}))
    assert "R             nothing" in page([line], {}, NOW)


def test_kubectl_calls_the_same_program_under_its_own_name() -> None:
    assert _arguments(["/usr/bin/kubectl-gapless", "status"]) == ["cluster", "status"]
    assert _arguments(["/usr/bin/gapless", "cluster", "status"]) == ["cluster", "status"]
