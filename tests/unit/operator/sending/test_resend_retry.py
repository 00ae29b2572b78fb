"""Failed work continues where it stopped: after a new value of retry, an edit, or with another Resend for it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from gapless_api.v1alpha1.conditions import ConditionType as Type

if TYPE_CHECKING:
    from conftest import SenderCluster

WRONG = "gapless: The certificate is wrong; replace it."


def fail(cluster: SenderCluster, name: str = "repeat") -> str:
    """Let the Job of a Resend fail for good after 400 events; the line of its settings with the checkpoint."""
    cluster.start_pods()
    job = str(cluster.a_resend(name).status.job)
    cluster.run(f"{job}-0-0", cluster.progress(400))
    checkpoint = cluster.property_of(job, "checkpoint")
    cluster.end(f"{job}-0-0", 2, WRONG)
    cluster.settle()
    assert cluster.summary(name)[0] == "BadConfiguration"
    return checkpoint


def sends(cluster: SenderCluster) -> list[str]:
    return [name for name in cluster.created_jobs if "send" in name]


@pytest.mark.parametrize("change", [{"retry": "certificate replaced"}, {"eps": 5.0}, {"activeDeadlineSeconds": 900}])
def test_after_a_failure_it_continues_where_it_stopped(ready: SenderCluster, change: dict[str, object]) -> None:
    ready.resend()
    ready.settle()
    checkpoint = fail(ready)
    ready.resend(**change)
    ready.settle()
    status = ready.a_resend().status
    assert (ready.summary()[0], status.job) == ("Starting", "repeat-00000001-send-2")
    assert ready.property_of("repeat-00000001-send-2", "checkpoint") == checkpoint
    assert status.progress is not None
    assert status.progress.sent == 400


def test_the_same_value_of_retry_does_nothing(ready: SenderCluster) -> None:
    ready.resend(retry="once")
    ready.settle()
    fail(ready)
    made = sends(ready)
    ready.resend(retry="once")
    ready.advance(hours=1)
    ready.settle()
    assert sends(ready) == made


def test_another_value_of_retry_ends_the_pause(ready: SenderCluster) -> None:
    job = ready.begin()
    ready.end(f"{job}-0-0", 3, "gapless: Kafka is away; wait.")
    ready.settle()
    assert ready.a_resend().status.retry_at is not None
    ready.resend(retry="Kafka is back")
    ready.settle()
    assert ready.a_resend().status.job == "repeat-00000001-send-2"


def test_another_value_of_retry_restarts_the_count_of_attempts(ready: SenderCluster) -> None:
    job = ready.begin(backoffLimit=1)
    for number in (1, 2):
        job = f"repeat-00000001-send-{number}"
        ready.end_job(job, "BackoffLimitExceeded")
        ready.settle()
        ready.advance(minutes=10)
        ready.settle()
    assert ready.summary()[0] == "BackoffLimitExceeded"
    ready.resend(backoffLimit=1, retry="again")
    ready.settle()
    ready.end_job("repeat-00000001-send-3", "BackoffLimitExceeded")
    ready.settle()
    assert ready.summary()[0] == "Retrying"


def test_another_value_of_retry_does_not_send_twice(ready: SenderCluster) -> None:
    ready.finished()
    made = sends(ready)
    ready.resend(retry="again")
    ready.advance(minutes=1)
    ready.settle()
    assert sends(ready) == made
    assert ready.summary()[0] == "Sent"


def test_another_resend_for_the_same_work_continues_where_the_last_one_stopped(ready: SenderCluster) -> None:
    ready.resend()
    ready.settle()
    checkpoint = fail(ready)
    ready.delete("Resend", "repeat")
    ready.resend("other")
    ready.settle()
    assert ready.property_of("other-00000001-send-1", "checkpoint") == checkpoint
    ready.resend("third", offsets={"topic": "transfer", "partition": 0, "from": 0, "to": 998})
    ready.delete("Resend", "other")
    ready.settle()
    assert ready.property_of("third-00000001-send-1", "checkpoint") != checkpoint


@pytest.mark.parametrize("crash_at", range(1, 6))
def test_a_crash_at_the_start_does_not_change_the_checkpoint(ready: SenderCluster, crash_at: int) -> None:
    ready.resend()
    ready.crash_at = ready.writes + crash_at
    ready.settle_despite_crashes()
    status = ready.a_resend().status
    assert ready.created_jobs.count("repeat-00000001-send-1") == 1
    folder = f"checkpoint=/var/lib/gapless/{str(status.identity)[:32]}/"
    assert ready.property_of("repeat-00000001-send-1", "checkpoint") == folder


def test_an_exceeded_deadline_advises_and_a_longer_one_continues(ready: SenderCluster) -> None:
    job = ready.begin(activeDeadlineSeconds=60)
    ready.end_job(job, "DeadlineExceeded")
    ready.settle()
    assert re.search(r"Raise spec\.activeDeadlineSeconds, or set spec\.retry", ready.condition(Type.STALLED).message)
    ready.resend(activeDeadlineSeconds=600)
    ready.settle()
    assert ready.summary()[0] == "Starting"
