"""What is said while a Resend's Jobs are stopped and wait, and what is left of the Jobs of earlier attempts."""

from __future__ import annotations

from typing import Any

from gapless_api.v1alpha1.conditions import ConditionType as Type
from gapless_operator.plan import Ref

World = Any


def ends_for_now(world: World, job: str) -> None:
    """Kafka is away, so another attempt follows."""
    world.end(f"{job}-0-0", 3, "gapless: Kafka is away; wait.")
    world.settle()


def test_what_is_stopped_says_why_and_that_nothing_is_lost(ready: World) -> None:
    job = ready.begin()
    ready.run(f"{job}-0-0", ready.progress(400))
    ready.settle()
    ready.resend(parallelism=2)
    ready.reconcile("Resend", "repeat")
    assert ready.said(Type.READY).message == "The settings have changed; it goes on with the new ones."
    ready.settle()
    ready.resend(suspend=True)
    ready.reconcile("Resend", "repeat")
    assert ready.said(Type.READY).message == "spec.suspend is true; progress is saved."


def test_what_runs_and_is_not_wanted_any_more_says_so(ready: World) -> None:
    job = ready.begin()
    ready.run(f"{job}-0-0", ready.progress(400))
    ready.settle()
    ready.resend(force="all over")
    ready.reconcile("Resend", "repeat")
    message = "What runs is not what the spec says any more; it is being stopped, and progress is saved."
    assert ready.said(Type.READY).message == message


def test_the_job_and_settings_of_an_earlier_attempt_go_once_there_is_another(ready: World) -> None:
    job = ready.begin()
    ends_for_now(ready, job)
    earlier = [
        Ref("batch/v1", "Job", job, ready.bodies["Job", job]["metadata"]["uid"]),
        Ref("v1", "ConfigMap", job, ready.bodies["ConfigMap", job]["metadata"]["uid"]),
    ]
    ready.later(seconds=10)
    for name in ("hall", "repeat", "hall", "repeat"):
        ready.reconcile("Diode" if name == "hall" else "Resend", name)
    assert ready.names("Job")[-2:] == [job, "repeat-send-2"]
    assert list(ready.planned("Resend", "repeat").delete) == earlier
    ready.begin_deletion("ConfigMap", job)
    assert list(ready.planned("Resend", "repeat").delete) == earlier[:1]
    ready.begin_deletion("Job", job)
    assert list(ready.planned("Resend", "repeat").delete) == []


def test_a_pause_that_was_suspended_says_when_it_ends_and_no_more(ready: World) -> None:
    job = ready.begin()
    ends_for_now(ready, job)
    assert ready.standing()[0] == "SourceUnreachable"
    ready.resend(suspend=True)
    ready.settle()
    ready.resend(suspend=False)
    ready.settle()
    assert ready.standing()[0] == "Retrying"
    assert ready.said(Type.READY).message == "The next attempt begins at 2026-11-20T10:00:10Z."


def test_an_attempt_that_would_begin_when_the_time_is_just_over_does_not(ready: World) -> None:
    job = ready.begin(activeDeadlineSeconds=60)
    ready.later(seconds=50)
    ends_for_now(ready, job)
    ready.later(seconds=9)
    ready.settle()
    assert ready.standing()[0] == "SourceUnreachable"
    ready.later(seconds=1)
    ready.settle()
    assert ready.standing()[0] == "DeadlineExceeded"
    assert "within 60 seconds (spec.activeDeadlineSeconds)" in ready.said(Type.STALLED).message
