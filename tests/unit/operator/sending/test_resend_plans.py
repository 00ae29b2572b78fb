"""Plans before sending, and work that was already sent: nothing is sent by accident."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from gapless_api.bundle.form import BundleKind, PartitionGaps, canonical_sha256
from gapless_api.offsets.ranges import OffsetRanges
from gapless_api.v1alpha1.conditions import ConditionType as Type
from gapless_api.wire.resend_plan import Estimate, Retention
from kit.machine.examples import examples
from kit.story.messages import read_bundle

SenderCluster = Any

ENTRY = {"topic": "transfer", "partition": 3, "window_min": 0, "window_max": 9, "gaps": [[5]]}
BUNDLE = json.dumps({"type": "all", "results": [ENTRY]})
SHA256 = canonical_sha256(BundleKind.ALL, [PartitionGaps("transfer", 3, 0, 9, OffsetRanges([(5, 5)]))])


def test_plans_without_sending_and_sends_when_the_mode_changes(ready: SenderCluster) -> None:
    job = ready.begin(mode="Plan")
    assert job == "repeat-00000001-plan-1"
    assert ready.summary() == ("Planning", "False", "True", "False", "Unknown")
    assert [entry.mode for entry in ready.a_diode().status.active] == ["Plan"]
    estimate = Estimate(mean_event_bytes=100.0, datagrams=2000, payload_bytes=123456, seconds=12.5)
    kept = {"retention": Retention.BY_TIME, "expires_from_ms": 86_400_000, "first_event_ms": 3_600_000}
    plan = ready.plan(990, unavailable=10, estimate=estimate, **kept)
    ready.end(f"{job}-0-0", 0, plan)
    ready.settle()
    assert ready.summary() == ("Planned", "True", "False", "False", "Unknown")
    assert ready.a_diode().status.active == ()
    found = ready.a_resend().status.plan
    assert (found.events, found.bytes, found.datagrams, found.unavailable) == (990, 123456, 2000, 10)
    assert found.estimated_seconds == 12.5
    assert found.expires_from == datetime(1970, 1, 2, tzinfo=UTC)
    assert found.oldest_event == datetime(1970, 1, 1, 1, tzinfo=UTC)
    assert ready.condition(Type.READY).message == (
        "Would send 990 events in about 12 s; 10 cannot be sent (10 Expired); nothing was sent. The oldest of them in "
        "Kafka is of 1970-01-01T01:00:00Z. Kafka's retention may delete the first of them from 1970-01-02T00:00:00Z "
        "on. Set spec.mode: Send to send them."
    )
    ready.resend(mode="Send")
    ready.settle()
    assert ready.summary()[0] == "Starting"
    assert ready.a_resend().status.job == "repeat-00000001-send-2"
    assert ready.a_resend().status.plan == found


def test_sixty_plans_make_no_more_pods_than_the_diode_lets_run(ready: SenderCluster) -> None:
    plans = examples(60)
    ready.diode(maxConcurrentResends=2)
    ready.settle()
    for number in range(plans):
        ready.resend(f"plan-{number:02}", mode="Plan")
    most = 0
    for done in range(0, plans, 2):
        ready.settle(rounds=20)
        running = [name for name in ready.running_jobs() if "-plan-" in name]
        most = max(most, len(running))
        assert running, f"nothing goes on after {done} plans"
        ready.start_pods()
        for name in running:
            ready.end(f"{name}-0-0", 0, ready.plan(10))
    ready.settle(rounds=20)
    assert most == 2
    assert {ready.summary(f"plan-{number:02}")[0] for number in range(plans)} == {"Planned"}


def test_plans_again_for_another_rate(ready: SenderCluster) -> None:
    job = ready.begin(mode="Plan")
    ready.end(f"{job}-0-0", 0, ready.plan(990, seconds=10.0))
    ready.settle()
    ready.resend(mode="Plan", eps=5)
    ready.settle()
    ready.start_pods()
    ready.end("repeat-00000001-plan-2-0-0", 0, ready.plan(990, seconds=198.0))
    ready.settle()
    assert ready.a_resend().status.plan.estimated_seconds == 198


def test_a_bundle_that_only_pods_can_read_is_inspected_before_it_is_sent(ready: SenderCluster) -> None:
    where = {"storageRef": {"name": "bundles"}, "path": "a.json", "sha256": SHA256}
    job = ready.begin(without=("offsets",), bundle=where)
    assert job == "repeat-00000001-plan-1"
    ready.end(f"{job}-0-0", 0, ready.plan(1, bundle=read_bundle(SHA256, "b-1")))
    ready.settle()
    status = ready.a_resend().status
    assert (status.job, status.bundle_sha256, status.bundle_id) == ("repeat-00000001-send-2", SHA256, "b-1")


@pytest.mark.parametrize("kind", ["volume", "ConfigMap"])
def test_sends_only_the_bundle_that_was_inspected(ready: SenderCluster, kind: str) -> None:
    where: dict[str, Any] = {"storageRef": {"name": "bundles"}, "path": "a.json"}
    if kind == "ConfigMap":
        where = {"configMap": {"name": "gaps", "key": "bundle.json"}}
        ready.bodies["ConfigMap", "gaps"] = {
            "kind": "ConfigMap",
            "metadata": {"name": "gaps", "namespace": "gapless-sender", "uid": "theirs"},
            "data": {"bundle.json": BUNDLE},
        }
    job = ready.begin(without=("offsets",), bundle=where)
    if kind == "volume":
        ready.end(f"{job}-0-0", 0, ready.plan(1, bundle=read_bundle(SHA256, "b-1")))
        ready.settle()
    status = ready.a_resend().status
    assert status.job.startswith("repeat-00000001-send-")
    assert ready.property_of(status.job, "bundleSha256") == f"bundleSha256={status.bundle_sha256}"
    ready.start_pods()
    found = f"The bundle is another one: its digest is {'f' * 64} and {status.bundle_sha256} is required."
    problem = ready.report(0, planned=0, reason="BadBundle", message=found)
    ready.end(f"{status.job}-0-0", 2, problem)
    ready.settle()
    assert ready.summary() == ("BadBundle", "False", "False", "True", "False")
    assert ready.condition(Type.STALLED).message.startswith(found)
    assert ready.a_resend().status.bundle_sha256 == status.bundle_sha256
    assert len([name for name in ready.created_jobs if "send" in name]) == 1


def test_refuses_a_bundle_in_a_volume_with_another_digest(ready: SenderCluster) -> None:
    where = {"storageRef": {"name": "bundles"}, "path": "a.json", "sha256": "0" * 64}
    job = ready.begin(without=("offsets",), bundle=where)
    ready.end(f"{job}-0-0", 0, ready.plan(1, bundle=read_bundle(SHA256, None)))
    ready.settle()
    assert ready.summary() == ("BadBundle", "False", "False", "True", "False")
    assert [name for name in ready.created_jobs if name.startswith("repeat")] == ["repeat-00000001-plan-1"]


def test_is_not_sent_again_when_it_is_deleted_and_created_again(ready: SenderCluster) -> None:
    ready.finished()
    ready.delete("Resend", "repeat")
    ready.settle()
    ready.resend()
    ready.settle()
    assert ready.summary() == ("AlreadySent", "True", "False", "False", "True")
    assert "set spec.force" in ready.condition(Type.SUCCEEDED).message
    assert "Events written later" not in ready.condition(Type.SUCCEEDED).message
    assert ready.created_jobs.count("repeat-00000001-send-1") == 1


@pytest.mark.parametrize(
    ("chosen", "is_open"),
    [
        ({"offsets": {"topic": "transfer", "partition": 0, "from": 5}}, True),
        ({"timeRange": {"topic": "transfer", "from": "2026-11-20T09:00:00Z"}}, True),
        ({"timeRange": {"topic": "transfer", "from": "2026-11-20T09:00:00Z", "to": "2036-11-20T09:00:00Z"}}, True),
        ({"timeRange": {"topic": "transfer", "from": "2026-11-20T09:00:00Z", "to": "2026-11-20T09:30:00Z"}}, False),
    ],
)
def test_work_with_an_open_end_that_was_sent_before_does_not_pass_for_what_was_written_later(
    ready: SenderCluster, chosen: dict[str, Any], *, is_open: bool
) -> None:
    for _ in range(2):
        ready.resend(without=() if "offsets" in chosen else ("offsets",), **chosen)
        ready.settle()
        if ready.summary()[0] == "Starting":
            ready.start_pods()
            ready.end("repeat-00000001-send-1-0-0", 0, ready.report(1000))
            ready.settle()
            assert ready.summary()[0] == "Sent"
            ready.delete("Resend", "repeat")
            ready.settle()
    assert ready.summary()[0] == "AlreadySent"
    assert ("Events written later are not included." in ready.condition(Type.SUCCEEDED).message) is is_open


def test_incomplete_work_is_neither_sent_again_nor_a_success(ready: SenderCluster) -> None:
    job = ready.begin()
    ready.end(f"{job}-0-0", 4, ready.report(990, unavailable=10))
    ready.settle()
    ready.delete("Resend", "repeat")
    ready.resend()
    ready.settle()
    assert ready.summary() == ("AlreadySent", "False", "False", "True", "False")


def test_is_sent_again_when_force_changes_and_then_not_again(ready: SenderCluster) -> None:
    ready.finished()
    ready.advance(seconds=30)
    ready.resend(force="once more")
    ready.settle()
    assert ready.summary()[0] == "Starting"
    ready.start_pods()
    ready.end("repeat-00000001-send-2-0-0", 0, ready.report(1000))
    ready.settle()
    assert ready.summary()[0] == "Sent"
    assert [entry.force for entry in ready.ledger()] == [None, "once more"]
    ready.resend(force="once more", priority=7)
    ready.settle()
    for force in ({}, {"force": "once more"}):
        ready.delete("Resend", "repeat")
        ready.resend(**force)
        ready.settle()
        assert ready.summary()[0] == "AlreadySent"


def test_a_finished_one_is_not_sent_again_by_a_change_of_its_pace(ready: SenderCluster) -> None:
    ready.finished()
    ready.resend(eps=5, suspend=True)
    ready.settle()
    ready.resend(eps=6)
    ready.settle()
    assert ready.summary() == ("Sent", "True", "False", "False", "True")
    assert len([name for name in ready.created_jobs if "send" in name]) == 1


def test_is_recorded_again_by_a_diode_that_was_created_again(ready: SenderCluster) -> None:
    ready.finished()
    ready.delete("Diode", "hall")
    ready.diode()
    ready.settle()
    assert [entry.resend for entry in ready.ledger()] == ["repeat"]
