"""Conditions while Jobs are stopped or wait, and the deletion of Jobs of earlier attempts."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from gapless_api.codec.canonical import moment_text
from gapless_api.v1alpha1.conditions import ConditionType as Type
from gapless_operator.common.plan import Ref
from kit.story.messages import read_bundle

SenderCluster = Any


def ends_for_now(cluster: SenderCluster, job: str) -> None:
    """Kafka is away, so another attempt follows."""
    cluster.end(f"{job}-0-0", 3, "gapless: Kafka is away; wait.")
    cluster.settle()


def test_a_stopped_resend_reports_why_and_that_progress_is_saved(ready: SenderCluster) -> None:
    job = ready.begin()
    ready.run(f"{job}-0-0", ready.progress(400))
    ready.settle()
    ready.resend(parallelism=2)
    plan = ready.reconcile("Resend", "repeat")
    assert plan.requeue_after_seconds == 2
    assert ready.condition(Type.READY).message == f"The settings have changed; the Job {job} is being replaced."
    ready.settle()
    ready.resend(suspend=True)
    ready.reconcile("Resend", "repeat")
    assert ready.condition(Type.READY).message == "spec.suspend is true. Progress is saved."


def test_an_outdated_job_is_reported_while_it_is_stopped(ready: SenderCluster) -> None:
    job = ready.begin()
    ready.run(f"{job}-0-0", ready.progress(400))
    ready.settle()
    ready.resend(force="all over")
    ready.reconcile("Resend", "repeat")
    message = f"Job {job} no longer matches the spec; it is being stopped, and progress is saved."
    assert ready.condition(Type.READY).message == message


def test_job_and_settings_of_an_attempt_are_deleted_once_the_next_exists(ready: SenderCluster) -> None:
    job = ready.begin()
    ends_for_now(ready, job)
    earlier = [
        Ref("batch/v1", "Job", job, ready.bodies["Job", job]["metadata"]["uid"]),
        Ref("v1", "ConfigMap", job, ready.bodies["ConfigMap", job]["metadata"]["uid"]),
    ]
    ready.advance(seconds=10)
    for name in ("hall", "repeat", "hall", "repeat"):
        ready.reconcile("Diode" if name == "hall" else "Resend", name)
    assert ready.names("Job")[-2:] == [job, "repeat-00000001-send-2"]
    assert list(ready.next_plan("Resend", "repeat").delete) == earlier
    ready.begin_deletion("ConfigMap", job)
    assert list(ready.next_plan("Resend", "repeat").delete) == earlier[:1]
    ready.begin_deletion("Job", job)
    assert list(ready.next_plan("Resend", "repeat").delete) == []


def test_a_pause_after_a_suspension_reports_only_its_end(ready: SenderCluster) -> None:
    job = ready.begin()
    ends_for_now(ready, job)
    assert ready.summary()[0] == "SourceUnreachable"
    ready.resend(suspend=True)
    ready.settle()
    ready.resend(suspend=False)
    ready.settle()
    assert ready.summary()[0] == "Retrying"
    assert ready.condition(Type.READY).message == "The next attempt begins at 2026-11-20T10:00:10Z."


def test_an_attempt_that_would_begin_when_the_time_is_just_over_does_not(ready: SenderCluster) -> None:
    job = ready.begin(activeDeadlineSeconds=60)
    ready.advance(seconds=50)
    ends_for_now(ready, job)
    ready.advance(seconds=9)
    ready.settle()
    assert ready.summary()[0] == "SourceUnreachable"
    ready.advance(seconds=1)
    ready.settle()
    assert ready.summary()[0] == "DeadlineExceeded"
    assert "within 60 seconds (spec.activeDeadlineSeconds)" in ready.condition(Type.STALLED).message
    assert ready.a_resend().status.retry_at is None


def test_a_started_attempt_is_recorded_at_once(ready: SenderCluster) -> None:
    ready.resend()
    for kind, name in (("Resend", "repeat"), ("Diode", "hall"), ("Resend", "repeat")):
        ready.reconcile(kind, name)
    assert ready.created_jobs[-1] == "repeat-00000001-send-1"
    status = ready.a_resend().status
    assert (status.attempt, status.job, status.started_at) == (1, "repeat-00000001-send-1", ready.now)


def test_a_started_plan_is_reported(ready: SenderCluster) -> None:
    ready.resend(mode="Plan")
    for kind, name in (("Resend", "repeat"), ("Diode", "hall"), ("Resend", "repeat")):
        ready.reconcile(kind, name)
    assert ready.created_jobs[-1] == "repeat-00000001-plan-1"
    assert ready.condition(Type.READY).message == "A pod on the Diode's node is counting what would be sent."
    assert ready.a_resend().status.started_at is None
    ready.settle()
    assert ready.condition(Type.READY).message == "A pod on the Diode's node is counting what would be sent."


def test_waits_for_a_diode_without_conditions(cluster: SenderCluster) -> None:
    cluster.diode()
    cluster.resend()
    cluster.reconcile("Resend", "repeat")
    assert cluster.summary()[0] == "DiodeNotReady"
    assert cluster.condition(Type.READY).message == "Diode hall is not ready yet."


@pytest.mark.parametrize(("most", "at_once"), [(1, "one resend"), (2, "2 resends")])
def test_waiting_for_a_turn_reports_the_limit(ready: SenderCluster, most: int, at_once: str) -> None:
    ready.diode(maxConcurrentResends=most)
    ready.settle()
    ready.resend()
    ready.reconcile("Resend", "repeat")
    assert ready.summary()[0] == "Queued"
    message = f"Waiting for its turn on Diode hall, which runs {at_once} at a time, by priority, then by age."
    assert ready.condition(Type.READY).message == message


def test_an_attempt_that_began_before_a_crash_is_recorded_when_it_is_found(ready: SenderCluster) -> None:
    job = ready.begin()
    ends_for_now(ready, job)
    before = ready.bodies["Resend", "repeat"]
    ready.advance(seconds=10)
    ready.settle()
    assert ready.created_jobs[-1] == "repeat-00000001-send-2"
    ready.bodies["Resend", "repeat"] = before
    ready.reconcile("Resend", "repeat")
    status = ready.a_resend().status
    assert (status.attempt, status.job, status.retry_at) == (2, "repeat-00000001-send-2", None)
    assert ready.created_jobs[-1] == "repeat-00000001-send-2"


def test_a_pod_that_sends_is_not_stopped_because_another_does_not_start(ready: SenderCluster) -> None:
    job = ready.begin(parallelism=2)
    ready.run(f"{job}-0-0", ready.progress(400))
    ready.wait_for(f"{job}-1-0", "ImagePullBackOff")
    ready.advance(minutes=31)
    ready.settle()
    assert ready.summary()[0] == "ImagePullFailed"
    assert ready.names("Job")[-1] == job
    assert ready.a_resend().status.retry_at is None


def test_pods_that_do_not_start_are_tried_again_after_longer_and_longer_pauses(ready: SenderCluster) -> None:
    ready.begin()
    for attempt, pause in ((1, 10), (2, 20), (3, 40)):
        ready.start_pods()
        ready.wait_for(f"repeat-00000001-send-{attempt}-0-0", "ImagePullBackOff")
        ready.advance(minutes=5)
        plan = ready.reconcile("Resend", "repeat")
        assert plan.requeue_after_seconds == pause
        assert ready.a_resend().status.retry_at == ready.now + timedelta(seconds=pause)
        ready.settle()
        ready.advance(seconds=pause)
        ready.settle()


@pytest.mark.parametrize("mode", ["Send", "Plan"])
def test_an_attempt_that_ended_before_its_beginning_was_recorded_is_over(ready: SenderCluster, mode: str) -> None:
    job = ready.begin(mode=mode)
    ends_for_now(ready, job)
    before = ready.bodies["Resend", "repeat"]
    assert ready.a_resend().status.retry_at is not None
    ready.advance(seconds=10)
    ready.settle()
    ready.start_pods()
    ready.bodies["Resend", "repeat"] = before
    second = f"{job.removesuffix('1')}2"
    ready.end(f"{second}-0-0", 0, ready.report(1000) if mode == "Send" else ready.plan(990))
    ready.reconcile("Resend", "repeat")
    status = ready.a_resend().status
    assert (status.attempt, status.job, status.retry_at) == (2, second, None)


@pytest.mark.parametrize("seconds", [None, 2])
def test_work_that_began_before_a_crash_has_its_time_from_its_first_job(
    ready: SenderCluster, seconds: int | None
) -> None:
    ready.resend()
    for kind, name in (("Resend", "repeat"), ("Diode", "hall")):
        ready.reconcile(kind, name)
    before, began = ready.bodies["Resend", "repeat"], ready.now
    ready.reconcile("Resend", "repeat")
    ready.bodies["Resend", "repeat"] = before
    if seconds is not None:
        began += timedelta(seconds=seconds)
        job = ready.bodies["Job", "repeat-00000001-send-1"]
        ready.bodies["Job", "repeat-00000001-send-1"] = {**job, "status": {"startTime": moment_text(began)}}
    ready.advance(seconds=5)
    ready.reconcile("Resend", "repeat")
    assert ready.a_resend().status.started_at == began
    ready.advance(seconds=5)
    ready.settle()
    assert ready.a_resend().status.started_at == began


def test_a_deleted_bundle_is_written_again_while_it_is_sent(ready: SenderCluster) -> None:
    entry = {"topic": "transfer", "partition": 3, "window_min": 0, "window_max": 9, "gaps": [[5]]}
    ready.begin(without=("offsets",), bundle={"inline": json.dumps({"type": "all", "results": [entry]})})
    maps = ready.names("ConfigMap")
    ready.delete("ConfigMap", "repeat-00000001-bundle")
    ready.settle()
    assert ready.names("ConfigMap") == maps


def test_the_log_of_what_has_ended_is_waited_for_half_a_minute(ready: SenderCluster) -> None:
    job = ready.begin()
    ready.end(f"{job}-0-0", 0)
    ready.advance(seconds=29)
    ready.settle()
    assert ready.summary()[0] == "Sending"
    assert ready.condition(Type.READY).message == "The pods have ended; their reports are being read."
    ready.advance(seconds=1)
    ready.settle()
    assert ready.summary()[0] == "Sent"


def test_a_shard_whose_end_was_not_observed_yet_is_waited_for_although_its_job_is_complete(
    ready: SenderCluster,
) -> None:
    """Its count of a moment before would be the last one that the status shows."""
    job = ready.begin(parallelism=2)
    ready.run(f"{job}-1-0", ready.progress(28, planned=500))
    ready.settle()
    still_runs = ready.bodies["Pod", f"{job}-1-0"]
    ready.end(f"{job}-0-0", 0, ready.report(500, planned=500))
    ready.end(f"{job}-1-0", 0, ready.report(500, planned=500))
    ended, ready.bodies["Pod", f"{job}-1-0"] = ready.bodies["Pod", f"{job}-1-0"], still_runs
    ready.settle()
    assert ready.summary()[0] == "Sending"
    assert ready.condition(Type.READY).message == "The pods have ended; their reports are being read."
    ready.bodies["Pod", f"{job}-1-0"] = ended
    ready.settle()
    assert ready.summary()[0] == "Sent"
    assert ready.condition(Type.SUCCEEDED).message == "Sent 1,000 of 1,000 events."


def test_a_shard_whose_end_is_never_observed_is_waited_for_half_a_minute(ready: SenderCluster) -> None:
    job = ready.begin(parallelism=2)
    ready.run(f"{job}-1-0", ready.progress(28, planned=500))
    ready.settle()
    still_runs = ready.bodies["Pod", f"{job}-1-0"]
    ready.end(f"{job}-0-0", 0, ready.report(500, planned=500))
    ready.end(f"{job}-1-0", 0)
    ready.bodies["Pod", f"{job}-1-0"] = still_runs
    ready.advance(seconds=29)
    ready.settle()
    assert ready.summary()[0] == "Sending"
    ready.advance(seconds=1)
    ready.settle()
    assert ready.summary()[0] == "Sent"
    assert "counts can no longer be read" in ready.condition(Type.SUCCEEDED).message


def test_the_last_of_the_shards_counts_as_much_as_the_first(ready: SenderCluster) -> None:
    job = ready.begin(parallelism=2)
    ready.end(f"{job}-0-0", 0, ready.report(500, planned=500))
    ready.end(f"{job}-1-0", 2, "gapless: The certificate is wrong; replace it.")
    ready.settle()
    assert ready.summary() == ("BadConfiguration", "False", "False", "True", "False")


def test_waits_until_a_job_that_is_being_deleted_is_gone(ready: SenderCluster) -> None:
    job = ready.begin()
    ready.begin_deletion("Job", job)
    plan = ready.reconcile("Resend", "repeat")
    assert ready.condition(Type.READY).message == f"The Job {job} is being stopped; progress is saved."
    assert (ready.summary()[0], plan.delete, plan.requeue_after_seconds) == ("Stopped", (), 2)


def test_what_an_attempt_sent_before_it_failed_is_said_however_shortly_before_something_was_said(
    ready: SenderCluster,
) -> None:
    job = ready.begin()
    ready.run(f"{job}-0-0", ready.progress(100))
    ready.settle()
    ready.run(f"{job}-0-0", ready.progress(400))
    ready.end(f"{job}-0-0", 3, "gapless: Kafka is away; wait.")
    ready.reconcile("Resend", "repeat")
    assert ready.a_resend().status.progress.sent == 400


def test_unavailable_ranges_are_listed_although_another_shard_gave_up(ready: SenderCluster) -> None:
    job = ready.begin(parallelism=2)
    ready.end(f"{job}-0-0", 4, ready.report(490, planned=500, unavailable=10))
    ready.end(f"{job}-1-0", 2, "gapless: The certificate is wrong; replace it.")
    ready.settle()
    assert ready.summary()[0] == "BadConfiguration"
    assert ready.a_resend().status.unavailable


def test_attempts_follow_each_other_after_longer_and_longer_pauses(ready: SenderCluster) -> None:
    ready.begin()
    for attempt, pause in ((1, 10), (2, 20), (3, 40)):
        ready.start_pods()
        ready.advance(seconds=1)
        ends_for_now(ready, f"repeat-00000001-send-{attempt}")
        assert ready.a_resend().status.retry_at == ready.now + timedelta(seconds=pause)
        ready.advance(seconds=pause)
        ready.settle()


@pytest.mark.parametrize(
    ("code", "found", "sentence"),
    [
        (0, {}, "Would send 990 events; nothing was sent."),
        (0, {"seconds": 1234.4}, "Would send 990 events in about 1,234 s; nothing was sent."),
        (4, {"unavailable": 10}, "Would send 990 events; 10 cannot be sent (10 Expired); nothing was sent."),
        (
            0,
            {"unavailable": {"Expired": 2, "NotYetWritten": 1_008}},
            "Would send 990 events; 1,010 cannot be sent (2 Expired, 1,008 NotYetWritten); nothing was sent.",
        ),
    ],
)
def test_a_plan_is_reported_in_a_sentence(
    ready: SenderCluster, code: int, found: dict[str, Any], sentence: str
) -> None:
    job = ready.begin(mode="Plan")
    ready.end(f"{job}-0-0", code, ready.plan(990, **found))
    ready.settle()
    assert ready.summary()[0] == "Planned"
    assert ready.condition(Type.READY).message == (
        f"{sentence} Kafka's retention deletes none of those that Kafka has. Set spec.mode: Send to send them."
    )


def test_a_plan_without_a_log_is_retried(ready: SenderCluster) -> None:
    job = ready.begin(mode="Plan")
    ready.end(f"{job}-0-0", 0)
    ready.advance(minutes=1)
    ready.reconcile("Resend", "repeat")
    assert ready.summary()[0] == "Retrying"
    message = f"The log of Job {job} with the plan can no longer be read. The next attempt begins at "
    assert ready.condition(Type.READY).message.startswith(message)
    ready.advance(minutes=1)
    ready.settle()
    assert ready.created_jobs[-1] == "repeat-00000001-plan-2"


def test_a_bundle_is_known_as_soon_as_it_was_looked_into_by_as_much_of_its_id_as_a_status_holds(
    ready: SenderCluster,
) -> None:
    where = {"storageRef": {"name": "bundles"}, "path": "a.json"}
    job = ready.begin(without=("offsets",), bundle=where)
    ready.end(f"{job}-0-0", 0, ready.plan(1, bundle=read_bundle("a" * 64, "b" * 129)))
    ready.reconcile("Resend", "repeat")
    status = ready.a_resend().status
    assert (status.bundle_sha256, status.bundle_id) == ("a" * 64, "b" * 128)
    identity = status.identity
    assert identity is not None
    ready.settle()
    assert ready.a_resend().status.identity == identity


def test_final_progress_has_the_end_time_and_no_rate(ready: SenderCluster) -> None:
    job = ready.begin()
    ready.run(f"{job}-0-0", ready.progress(400))
    ready.settle()
    ended = ready.now
    ready.end(f"{job}-0-0", 0, ready.report(1000))
    ready.advance(seconds=5)
    ready.settle()
    found = ready.a_resend().status.progress
    assert (found.sent, found.percent, found.updated_at) == (1000, 100, ended)
    assert (found.events_per_second, found.eta_seconds) == (None, None)
