"""What failed goes on where it stopped: by another word in retry, by editing, or by another object for the work."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from gapless_api.v1alpha1.conditions import ConditionType as Type

if TYPE_CHECKING:
    from conftest import World

WRONG = "gapless: The certificate is wrong; replace it."


def fail(world: World, name: str = "repeat") -> str:
    """Let the Job of a Resend fail for good after 400 events; the line of its settings with the checkpoint."""
    world.start_pods()
    job = str(world.a_resend(name).status.job)
    world.run(f"{job}-0-0", world.progress(400))
    checkpoint = world.property_of(job, "checkpoint")
    world.end(f"{job}-0-0", 2, WRONG)
    world.settle()
    assert world.standing(name)[0] == "BadConfiguration"
    return checkpoint


def sends(world: World) -> list[str]:
    return [name for name in world.jobs_made if "send" in name]


@pytest.mark.parametrize("change", [{"retry": "certificate replaced"}, {"eps": 5.0}, {"activeDeadlineSeconds": 900}])
def test_after_a_failure_it_goes_on_where_it_stopped(ready: World, change: dict[str, object]) -> None:
    ready.resend()
    ready.settle()
    checkpoint = fail(ready)
    ready.resend(**change)
    ready.settle()
    status = ready.a_resend().status
    assert (ready.standing()[0], status.job) == ("Starting", "repeat-00000001-send-2")
    assert ready.property_of("repeat-00000001-send-2", "checkpoint") == checkpoint
    assert status.progress is not None
    assert status.progress.sent == 400


def test_the_same_word_tries_nothing_again(ready: World) -> None:
    ready.resend(retry="once")
    ready.settle()
    fail(ready)
    made = sends(ready)
    ready.resend(retry="once")
    ready.later(hours=1)
    ready.settle()
    assert sends(ready) == made


def test_another_word_ends_the_pause_before_the_next_attempt(ready: World) -> None:
    job = ready.begin()
    ready.end(f"{job}-0-0", 3, "gapless: Kafka is away; wait.")
    ready.settle()
    assert ready.a_resend().status.retry_at is not None
    ready.resend(retry="Kafka is back")
    ready.settle()
    assert ready.a_resend().status.job == "repeat-00000001-send-2"


def test_another_word_counts_the_attempts_anew(ready: World) -> None:
    job = ready.begin(backoffLimit=1)
    for number in (1, 2):
        job = f"repeat-00000001-send-{number}"
        ready.end_job(job, "BackoffLimitExceeded")
        ready.settle()
        ready.later(minutes=10)
        ready.settle()
    assert ready.standing()[0] == "BackoffLimitExceeded"
    ready.resend(backoffLimit=1, retry="again")
    ready.settle()
    ready.end_job("repeat-00000001-send-3", "BackoffLimitExceeded")
    ready.settle()
    assert ready.standing()[0] == "Retrying"


def test_another_word_does_not_send_again_what_was_sent(ready: World) -> None:
    ready.finished()
    made = sends(ready)
    ready.resend(retry="again")
    ready.later(minutes=1)
    ready.settle()
    assert sends(ready) == made
    assert ready.standing()[0] == "Sent"


def test_another_object_for_the_same_work_goes_on_where_the_last_one_stopped(ready: World) -> None:
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


@pytest.mark.parametrize("state", ["running", "failed"])
def test_what_a_version_before_began_under_its_uid_goes_on_there(ready: World, state: str) -> None:
    ready.resend()
    ready.settle()
    if state == "failed":
        fail(ready)
    body = ready.bodies["Resend", "repeat"]
    status = {name: value for name, value in body["status"].items() if name != "checkpoint"}
    ready.bodies["Resend", "repeat"] = {**body, "status": status}
    ready.resend(eps=9.0)
    ready.settle()
    uid = ready.a_resend().metadata.uid
    assert ready.property_of(str(ready.a_resend().status.job), "checkpoint").endswith(f"/{uid}/")


@pytest.mark.parametrize("crash_at", range(1, 6))
def test_a_death_while_it_begins_does_not_change_its_checkpoint(ready: World, crash_at: int) -> None:
    ready.resend()
    ready.crash_at = ready.writes + crash_at
    ready.settle_in_spite_of_crashes()
    status = ready.a_resend().status
    assert ready.jobs_made.count("repeat-00000001-send-1") == 1
    folder = f"checkpoint=/var/lib/gapless/{str(status.identity)[:32]}/"
    assert ready.property_of("repeat-00000001-send-1", "checkpoint") == folder


def test_a_deadline_says_what_to_do_and_more_time_goes_on(ready: World) -> None:
    job = ready.begin(activeDeadlineSeconds=60)
    ready.end_job(job, "DeadlineExceeded")
    ready.settle()
    assert re.search(r"Raise spec\.activeDeadlineSeconds, or set spec\.retry", ready.said(Type.STALLED).message)
    ready.resend(activeDeadlineSeconds=600)
    ready.settle()
    assert ready.standing()[0] == "Starting"
