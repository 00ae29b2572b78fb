"""A Resend without failures, from its creation to its deletion."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gapless_api.v1alpha1.conditions import ConditionType as Type
from kit.story.plans import is_empty

SenderCluster = Any


def test_goes_from_its_application_to_its_end(ready: SenderCluster) -> None:
    job = ready.begin()
    assert job == "repeat-00000001-send-1"
    assert ready.summary() == ("Starting", "False", "True", "False", "Unknown")
    ready.run(f"{job}-0-0", ready.progress(400))
    ready.settle()
    assert ready.summary() == ("Sending", "False", "True", "False", "Unknown")
    seen = ready.a_resend().status.progress
    assert (seen.planned, seen.sent, seen.percent, seen.events_per_second, seen.eta_seconds) == (1000, 400, 40, 100, 6)
    ready.advance(seconds=6)
    ready.end(f"{job}-0-0", 0, ready.report(1000))
    ready.settle()
    assert ready.summary() == ("Sent", "True", "False", "False", "True")
    status = ready.a_resend().status
    assert (status.progress.sent, status.progress.percent, status.phase) == (1000, 100, "Sent")
    assert json.loads(ready.bodies["ConfigMap", status.report]["data"]["report.json"])["ledger"]["sent"] == 1000
    assert [(entry.resend, entry.sent, entry.identity) for entry in ready.ledger()] == [
        ("repeat", 1000, status.identity)
    ]
    assert [event.reason for name, event in ready.events if name == "repeat"] == [
        "Queued",
        "Starting",
        "Sending",
        "Sent",
    ]


def test_succeeds_only_after_the_ledger_knows_it(ready: SenderCluster) -> None:
    job = ready.begin()
    ready.end(f"{job}-0-0", 0, ready.report(1000))
    ready.reconcile("Resend", "repeat")
    assert ready.condition(Type.SUCCEEDED).status == "Unknown"
    assert ready.ledger() == ()
    ready.crash_at = ready.writes + 1
    with pytest.raises(RuntimeError, match="the operator crashed"):
        ready.reconcile("Resend", "repeat")
    assert [entry.resend for entry in ready.ledger()] == ["repeat"]
    assert ready.condition(Type.SUCCEEDED).status == "Unknown", "the operator crashed between the two writes"
    ready.reconcile("Resend", "repeat")
    assert ready.condition(Type.SUCCEEDED).status == "True"
    assert len(ready.ledger()) == 1


def test_succeeds_when_the_diode_was_deleted(ready: SenderCluster) -> None:
    job = ready.begin()
    ready.end(f"{job}-0-0", 0, ready.report(1000))
    ready.reconcile("Resend", "repeat")
    ready.delete("Diode", "hall")
    ready.settle()
    assert ready.summary() == ("Sent", "True", "False", "False", "True")


def test_says_that_it_is_incomplete_and_lists_what_is_missing(ready: SenderCluster) -> None:
    job = ready.begin()
    ready.end(f"{job}-0-0", 4, ready.report(990, unavailable=10))
    ready.settle()
    assert ready.summary() == ("Incomplete", "False", "False", "True", "False")
    assert "10 could not be sent (10 Expired)" in ready.condition(Type.SUCCEEDED).message
    (only,) = ready.a_resend().status.unavailable
    assert (only.topic, only.partition, only.first, only.last, only.reason) == ("transfer", 0, 0, 9, "Expired")
    assert ready.ledger()[0].unavailable == 10


def test_says_that_there_was_nothing_to_send(ready: SenderCluster) -> None:
    job = ready.begin()
    ready.end(f"{job}-0-0", 0, ready.report(0, planned=0))
    ready.settle()
    assert ready.summary() == ("NothingToSend", "True", "False", "False", "True")


def test_sums_up_its_shards(ready: SenderCluster) -> None:
    job = ready.begin(parallelism=3)
    ready.run(f"{job}-0-0", ready.progress(100))
    ready.run(f"{job}-1-0", ready.progress(200, events_per_second=50.0))
    ready.end(f"{job}-2-0", 4, ready.report(990, unavailable=10))
    ready.settle()
    seen = ready.a_resend().status.progress
    assert (seen.planned, seen.sent, seen.unavailable, seen.percent) == (3000, 1290, 10, 43)
    ready.end(f"{job}-0-0", 0, ready.report(1000))
    ready.end(f"{job}-1-0", 0, ready.report(1000))
    ready.settle()
    assert ready.summary()[0] == "Incomplete"
    merged = json.loads(ready.bodies["ConfigMap", "repeat-00000001-report"]["data"]["report.json"])
    assert (merged["ledger"]["sent"], merged["unavailable"], merged["shards"]) == (2990, {"Expired": 10}, 3)


def test_writes_progress_at_most_every_five_seconds_and_only_when_it_changes(ready: SenderCluster) -> None:
    job = ready.begin()
    ready.run(f"{job}-0-0", ready.progress(1))
    ready.settle()
    before = ready.status_writes["repeat"]
    for second in range(20):
        ready.advance(seconds=1)
        ready.run(f"{job}-0-0", ready.progress(2 + second))
        ready.settle()
    assert ready.status_writes["repeat"] - before == 4
    for _ in range(20):
        ready.advance(seconds=1)
        ready.settle()
    assert ready.status_writes["repeat"] - before <= 5


def test_progress_never_decreases_when_a_pod_is_replaced(ready: SenderCluster) -> None:
    job = ready.begin(parallelism=2)
    ready.run(f"{job}-0-0", ready.progress(500))
    ready.run(f"{job}-1-0", ready.progress(500))
    ready.settle()
    ready.advance(seconds=10)
    ready.delete("Pod", f"{job}-0-0")
    ready.start_pods()
    ready.settle()
    assert ready.a_resend().status.progress.sent == 1000


def test_cleans_up_and_deletes_itself_in_time(ready: SenderCluster) -> None:
    ready.finished(ttlSecondsAfterFinished=7200)
    assert "repeat-00000001-send-1" in ready.names("Job")
    ready.advance(minutes=61)
    ready.settle()
    assert [name for name in ready.names("Job") if "send" in name] == []
    assert ready.names("ConfigMap") == ["gapless-ledger-hall-2026-11", "repeat-00000001-report"]
    ready.advance(hours=1)
    ready.settle()
    assert ready.names("Resend") == []
    assert [entry.resend for entry in ready.ledger()] == ["repeat"]


def test_keeps_failed_jobs_for_inspection(ready: SenderCluster) -> None:
    job = ready.begin(ttlSecondsAfterFinished=0)
    ready.end(f"{job}-0-0", 2, "gapless: Wrong; correct it.")
    ready.advance(days=1)
    ready.settle()
    assert ready.names("Resend") == ["repeat"]


def test_does_not_change_a_resend_that_is_being_deleted(ready: SenderCluster) -> None:
    ready.resend()
    body = ready.bodies["Resend", "repeat"]
    body["metadata"]["deletionTimestamp"] = "2026-11-20T10:00:00Z"
    assert is_empty(ready.next_plan("Resend", "repeat"))
