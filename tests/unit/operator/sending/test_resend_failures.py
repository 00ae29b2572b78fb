"""What becomes of a Resend whose pods fail or do not start: tried again, or said, and nobody else waits."""

from __future__ import annotations

from typing import Any

import pytest

from gapless_api.v1alpha1.conditions import ConditionType as Type

World = Any


def test_tries_again_for_ever_while_kafka_is_away_and_lets_others_have_the_link_meanwhile(ready: World) -> None:
    ready.begin(backoffLimit=1)
    for attempt in range(1, 9):
        ready.start_pods()
        away = "Kafka at kafka-up:9092 is away."
        problem = ready.report(0, planned=0, reason="SourceUnreachable", message=away)
        ready.end(f"repeat-00000001-send-{attempt}-0-0", 3, problem)
        ready.settle()
        assert ready.standing() == ("SourceUnreachable", "False", "True", "False", "Unknown")
        assert "Kafka at kafka-up:9092 is away. The next attempt begins at" in ready.said(Type.READY).message
        assert ready.a_diode().status.active == ()
        ready.later(seconds=min(10 * 2 ** (attempt - 1), 300))
        ready.settle()
        assert ready.a_resend().status.attempt == attempt + 1
    assert len([name for name in ready.names("Job") if "send" in name]) <= 2
    ready.start_pods()
    ready.end("repeat-00000001-send-9-0-0", 0, ready.report(1000))
    ready.settle()
    assert ready.standing() == ("Sent", "True", "False", "False", "True")


def test_stops_at_once_when_the_configuration_is_wrong(ready: World) -> None:
    job = ready.begin(parallelism=2)
    ready.end(f"{job}-0-0", 2, "gapless: The file /etc/gapless/secrets/kafka-ca.crt is no certificate; replace it.")
    ready.settle()
    assert ready.standing() == ("BadConfiguration", "False", "False", "True", "False")
    assert ready.said(Type.STALLED).message == (
        "The file /etc/gapless/secrets/kafka-ca.crt is no certificate; replace it. Remove the cause, then set "
        "spec.retry to a new value; the Resend continues where it stopped."
    )
    ready.later(hours=1)
    ready.settle()
    assert ready.standing()[0] == "BadConfiguration"


def test_what_failed_is_tried_again_when_the_spec_changes(ready: World) -> None:
    job = ready.begin()
    ready.end(f"{job}-0-0", 2, "gapless: The certificate is wrong; replace it.")
    ready.settle()
    ready.resend(priority=1)
    ready.settle()
    assert ready.standing()[0] == "Starting"
    assert ready.a_resend().status.job == "repeat-00000001-send-2"


@pytest.mark.parametrize(
    ("code", "reason"), [(5, "LinkFailed"), (1, "BackoffLimitExceeded"), (137, "BackoffLimitExceeded")]
)
def test_gives_up_after_backoff_limit(ready: World, code: int, reason: str) -> None:
    job = ready.begin(backoffLimit=2)
    for attempt in range(3):
        assert ready.standing()[0] != reason
        ready.run(f"{job}-0-{attempt}", ready.progress(100 * attempt))
        ready.settle()
        ready.end(f"{job}-0-{attempt}", code, "gapless: The link took no datagrams; look at it.")
        ready.start_pods()
        ready.settle()
    assert ready.standing() == (reason, "False", "False", "True", "False")
    assert "All 3 attempts failed" in ready.said(Type.STALLED).message


def test_gives_up_when_its_time_is_over(ready: World) -> None:
    job = ready.begin(activeDeadlineSeconds=60)
    assert ready.bodies["Job", job]["spec"]["activeDeadlineSeconds"] == 60
    ready.end_job(job, "DeadlineExceeded", "Job was active longer than specified deadline")
    ready.settle()
    assert ready.standing() == ("DeadlineExceeded", "False", "False", "True", "False")


def test_its_time_runs_on_between_attempts(ready: World) -> None:
    job = ready.begin(activeDeadlineSeconds=60)
    ready.later(seconds=55)
    ready.end(f"{job}-0-0", 3, "gapless: Kafka is away; wait.")
    ready.settle()
    ready.later(seconds=10)
    ready.settle()
    assert ready.standing() == ("DeadlineExceeded", "False", "False", "True", "False")


@pytest.mark.parametrize("backoff_limit", [0, 2])
def test_tries_again_what_nobody_can_explain(ready: World, backoff_limit: int) -> None:
    ready.begin(backoffLimit=backoff_limit)
    for attempt in range(1, backoff_limit + 2):
        ready.end_job(f"repeat-00000001-send-{attempt}", "BackoffLimitExceeded")
        ready.settle()
        ready.later(minutes=10)
        ready.settle()
    assert ready.standing() == ("BackoffLimitExceeded", "False", "False", "True", "False")


@pytest.mark.parametrize(
    ("why", "reason"),
    [
        ("ImagePullBackOff", "ImagePullFailed"),
        ("CreateContainerConfigError", "MountFailed"),
    ],
)
def test_says_why_pods_do_not_start_and_lets_the_next_one_go_after_a_while(ready: World, why: str, reason: str) -> None:
    job = ready.begin()
    ready.wait_for(f"{job}-0-0", why)
    ready.later(seconds=61)
    ready.settle()
    assert ready.standing() == (reason, "False", "True", "False", "Unknown")
    assert f"{job}-0-0" in ready.said(Type.READY).message
    assert len(ready.a_diode().status.active) == 1
    ready.later(minutes=5)
    ready.settle()
    assert ready.standing()[0] == reason
    assert ready.a_diode().status.active == ()
    ready.later(seconds=10)
    ready.settle()
    assert ready.a_resend().status.attempt == 2


def test_a_large_image_may_take_its_time_and_is_then_said_and_waited_for(ready: World) -> None:
    job = ready.begin()
    ready.wait_for(f"{job}-0-0", "ContainerCreating")
    ready.later(minutes=5, seconds=-1)
    ready.settle()
    assert ready.standing()[0] == "Starting"
    for _ in range(24):
        ready.later(minutes=1)
        ready.settle()
        assert ready.standing() == ("PodSlow", "False", "True", "False", "Unknown")
        assert len(ready.a_diode().status.active) == 1, "it keeps its turn"
    message = ready.said(Type.READY).message
    assert f"{job}-0-0" in message
    assert "image" in message
    assert "Secret, ConfigMap or volume" in message
    assert ready.jobs_made.count(job) == 1
    ready.run(f"{job}-0-0", ready.progress(400))
    ready.settle()
    assert ready.standing()[0] == "Sending"
    ready.end(f"{job}-0-0", 0, ready.report(1000))
    ready.settle()
    assert ready.standing()[0] == "Sent"


def test_a_pod_that_does_not_start_for_half_an_hour_lets_others_have_the_link_and_comes_back(ready: World) -> None:
    job = ready.begin(backoffLimit=0)
    for attempt in range(1, 12):
        ready.wait_for(f"repeat-00000001-send-{attempt}-0-0", "ContainerCreating")
        ready.later(minutes=30)
        ready.settle()
        assert ready.standing() == ("PodSlow", "False", "True", "False", "Unknown")
        assert ready.a_diode().status.active == ()
        assert job not in ready.names("Job")
        ready.later(minutes=5)
        ready.settle()
        assert ready.a_resend().status.attempt == attempt + 1
        ready.start_pods()
    ready.end("repeat-00000001-send-12-0-0", 0, ready.report(1000))
    ready.settle()
    assert ready.standing()[0] == "Sent"


def test_says_that_no_pod_is_let_in(ready: World) -> None:
    ready.resend()
    ready.settle()
    ready.later(seconds=31)
    ready.settle()
    assert ready.standing()[0] == "PodRejected"
    assert "kubectl describe job repeat-00000001-send-1" in ready.said(Type.READY).message


def test_makes_the_job_again_that_somebody_deleted(ready: World) -> None:
    ready.begin()
    ready.delete("Job", "repeat-00000001-send-1")
    ready.settle()
    assert ready.jobs_made[-2:] == ["repeat-00000001-send-1", "repeat-00000001-send-1"]


def test_makes_settings_again_that_somebody_deleted(ready: World) -> None:
    ready.begin()
    ready.delete("ConfigMap", "repeat-00000001-send-1")
    ready.settle()
    assert "repeat-00000001-send-1" in ready.names("ConfigMap")


def test_waits_for_the_end_of_a_log_that_is_late(ready: World) -> None:
    job = ready.begin()
    ready.end(f"{job}-0-0", 0)
    ready.settle()
    assert ready.standing()[0] == "Sending"
    ready.later(seconds=5)
    ready.run_log_line(f"{job}-0-0", ready.report(1000))
    ready.settle()
    assert ready.standing()[0] == "Sent"
    assert ready.a_resend().status.progress.sent == 1000


def test_ends_without_figures_when_the_log_never_comes(ready: World) -> None:
    job = ready.begin()
    ready.end(f"{job}-0-0", 0)
    ready.later(minutes=1)
    ready.settle()
    assert ready.standing()[0] == "Sent"
    assert "can no longer be read" in ready.said(Type.SUCCEEDED).message
