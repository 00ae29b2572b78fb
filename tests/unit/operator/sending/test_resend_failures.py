"""Failing or pending pods: retries, messages, and turns for other Resends meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from gapless_api.v1alpha1.conditions import ConditionType as Type

SenderCluster = Any


def test_tries_again_for_ever_while_kafka_is_away_and_lets_others_have_the_link_meanwhile(ready: SenderCluster) -> None:
    ready.begin(backoffLimit=1)
    for attempt in range(1, 9):
        ready.start_pods()
        away = "Kafka at kafka-up:9092 is away."
        problem = ready.report(0, planned=0, reason="SourceUnreachable", message=away)
        ready.end(f"repeat-00000001-send-{attempt}-0-0", 3, problem)
        ready.settle()
        assert ready.summary() == ("SourceUnreachable", "False", "True", "False", "Unknown")
        assert "Kafka at kafka-up:9092 is away. The next attempt begins at" in ready.condition(Type.READY).message
        assert ready.a_diode().status.active == ()
        ready.advance(seconds=min(10 * 2 ** (attempt - 1), 300))
        ready.settle()
        assert ready.a_resend().status.attempt == attempt + 1
    assert len([name for name in ready.names("Job") if "send" in name]) <= 2
    ready.start_pods()
    ready.end("repeat-00000001-send-9-0-0", 0, ready.report(1000))
    ready.settle()
    assert ready.summary() == ("Sent", "True", "False", "False", "True")


def test_stops_at_once_when_the_configuration_is_wrong(ready: SenderCluster) -> None:
    job = ready.begin(parallelism=2)
    ready.end(f"{job}-0-0", 2, "gapless: The file /etc/gapless/secrets/kafka-ca.crt is no certificate; replace it.")
    ready.settle()
    assert ready.summary() == ("BadConfiguration", "False", "False", "True", "False")
    assert ready.condition(Type.STALLED).message == (
        "The file /etc/gapless/secrets/kafka-ca.crt is no certificate; replace it. Remove the cause, then set "
        "spec.retry to a new value; the Resend continues where it stopped."
    )
    ready.advance(hours=1)
    ready.settle()
    assert ready.summary()[0] == "BadConfiguration"


def test_a_failed_resend_is_retried_when_the_spec_changes(ready: SenderCluster) -> None:
    job = ready.begin()
    ready.end(f"{job}-0-0", 2, "gapless: The certificate is wrong; replace it.")
    ready.settle()
    ready.resend(priority=1)
    ready.settle()
    assert ready.summary()[0] == "Starting"
    assert ready.a_resend().status.job == "repeat-00000001-send-2"


@pytest.mark.parametrize(
    ("code", "reason"), [(5, "LinkFailed"), (1, "BackoffLimitExceeded"), (137, "BackoffLimitExceeded")]
)
def test_gives_up_after_backoff_limit(ready: SenderCluster, code: int, reason: str) -> None:
    job = ready.begin(backoffLimit=2)
    for attempt in range(3):
        assert ready.summary()[0] != reason
        ready.run(f"{job}-0-{attempt}", ready.progress(100 * attempt))
        ready.settle()
        ready.end(f"{job}-0-{attempt}", code, "gapless: The link took no datagrams; look at it.")
        ready.start_pods()
        ready.settle()
    assert ready.summary() == (reason, "False", "False", "True", "False")
    assert "All 3 attempts failed" in ready.condition(Type.STALLED).message


def test_gives_up_after_its_deadline(ready: SenderCluster) -> None:
    job = ready.begin(activeDeadlineSeconds=60)
    assert ready.bodies["Job", job]["spec"]["activeDeadlineSeconds"] == 60
    ready.end_job(job, "DeadlineExceeded", "Job was active longer than specified deadline")
    ready.settle()
    assert ready.summary() == ("DeadlineExceeded", "False", "False", "True", "False")


def test_its_deadline_includes_pauses_between_attempts(ready: SenderCluster) -> None:
    job = ready.begin(activeDeadlineSeconds=60)
    ready.advance(seconds=55)
    ready.end(f"{job}-0-0", 3, "gapless: Kafka is away; wait.")
    ready.settle()
    ready.advance(seconds=10)
    ready.settle()
    assert ready.summary() == ("DeadlineExceeded", "False", "False", "True", "False")


@pytest.mark.parametrize("backoff_limit", [0, 2])
def test_retries_an_unexplained_failure(ready: SenderCluster, backoff_limit: int) -> None:
    ready.begin(backoffLimit=backoff_limit)
    for attempt in range(1, backoff_limit + 2):
        ready.end_job(f"repeat-00000001-send-{attempt}", "BackoffLimitExceeded")
        ready.settle()
        ready.advance(minutes=10)
        ready.settle()
    assert ready.summary() == ("BackoffLimitExceeded", "False", "False", "True", "False")


@pytest.mark.parametrize(
    ("why", "reason"),
    [
        ("ImagePullBackOff", "ImagePullFailed"),
        ("CreateContainerConfigError", "MountFailed"),
    ],
)
def test_reports_why_pods_do_not_start_and_gives_up_its_turn_after_a_while(
    ready: SenderCluster, why: str, reason: str
) -> None:
    job = ready.begin()
    ready.wait_for(f"{job}-0-0", why)
    ready.advance(seconds=61)
    ready.settle()
    assert ready.summary() == (reason, "False", "True", "False", "Unknown")
    assert f"{job}-0-0" in ready.condition(Type.READY).message
    assert len(ready.a_diode().status.active) == 1
    ready.advance(minutes=5)
    ready.settle()
    assert ready.summary()[0] == reason
    assert ready.a_diode().status.active == ()
    ready.advance(seconds=10)
    ready.settle()
    assert ready.a_resend().status.attempt == 2


def test_a_large_image_may_take_its_time_and_is_then_said_and_waited_for(ready: SenderCluster) -> None:
    job = ready.begin()
    ready.wait_for(f"{job}-0-0", "ContainerCreating")
    ready.advance(minutes=5, seconds=-1)
    ready.settle()
    assert ready.summary()[0] == "Starting"
    for _ in range(24):
        ready.advance(minutes=1)
        ready.settle()
        assert ready.summary() == ("PodSlow", "False", "True", "False", "Unknown")
        assert len(ready.a_diode().status.active) == 1, "it keeps its turn"
    message = ready.condition(Type.READY).message
    assert f"{job}-0-0" in message
    assert "image" in message
    assert "Secret, ConfigMap or volume" in message
    assert ready.created_jobs.count(job) == 1
    ready.run(f"{job}-0-0", ready.progress(400))
    ready.settle()
    assert ready.summary()[0] == "Sending"
    ready.end(f"{job}-0-0", 0, ready.report(1000))
    ready.settle()
    assert ready.summary()[0] == "Sent"


def test_a_pod_that_does_not_start_for_half_an_hour_lets_others_have_the_link_and_comes_back(
    ready: SenderCluster,
) -> None:
    job = ready.begin(backoffLimit=0)
    for attempt in range(1, 12):
        ready.wait_for(f"repeat-00000001-send-{attempt}-0-0", "ContainerCreating")
        ready.advance(minutes=30)
        ready.settle()
        assert ready.summary() == ("PodSlow", "False", "True", "False", "Unknown")
        assert ready.a_diode().status.active == ()
        assert job not in ready.names("Job")
        ready.advance(minutes=5)
        ready.settle()
        assert ready.a_resend().status.attempt == attempt + 1
        ready.start_pods()
    ready.end("repeat-00000001-send-12-0-0", 0, ready.report(1000))
    ready.settle()
    assert ready.summary()[0] == "Sent"


def test_reports_that_pods_are_rejected(ready: SenderCluster) -> None:
    ready.resend()
    ready.settle()
    ready.advance(seconds=31)
    ready.settle()
    assert ready.summary()[0] == "PodRejected"
    assert "kubectl describe job repeat-00000001-send-1" in ready.condition(Type.READY).message


def test_recreates_a_deleted_job(ready: SenderCluster) -> None:
    ready.begin()
    ready.delete("Job", "repeat-00000001-send-1")
    ready.settle()
    assert ready.created_jobs[-2:] == ["repeat-00000001-send-1", "repeat-00000001-send-1"]


def test_recreates_deleted_settings(ready: SenderCluster) -> None:
    ready.begin()
    ready.delete("ConfigMap", "repeat-00000001-send-1")
    ready.settle()
    assert "repeat-00000001-send-1" in ready.names("ConfigMap")


def test_waits_for_the_end_of_a_log_that_is_late(ready: SenderCluster) -> None:
    job = ready.begin()
    ready.end(f"{job}-0-0", 0)
    ready.settle()
    assert ready.summary()[0] == "Sending"
    ready.advance(seconds=5)
    ready.append_log(f"{job}-0-0", ready.report(1000))
    ready.settle()
    assert ready.summary()[0] == "Sent"
    assert ready.a_resend().status.progress.sent == 1000


def test_ends_without_counts_when_the_log_never_comes(ready: SenderCluster) -> None:
    job = ready.begin()
    ready.end(f"{job}-0-0", 0)
    ready.advance(minutes=1)
    ready.settle()
    assert ready.summary()[0] == "Sent"
    assert "can no longer be read" in ready.condition(Type.SUCCEEDED).message
