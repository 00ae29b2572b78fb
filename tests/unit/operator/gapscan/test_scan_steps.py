"""What a GapScan writes, deletes and reports at each step, and when it is reconciled again: to the second."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gapless_operator.common.plan import EventType, Ref
from kit.story.plans import is_empty

Make = Callable[..., Any]
Gaps = dict[tuple[str, int], list[tuple[int, int]]]
MINUTELY = {"cron": "* * * * *"}
HOURLY = {"cron": "0 * * * *"}


def asks_again_after(night: Any) -> float | None:
    """In how many seconds a GapScan without news is reconciled again."""
    plan = night.plan()
    assert is_empty(plan)
    seconds: float | None = plan.requeue_after_seconds
    return seconds


def job(night: Any, name: str) -> Ref:
    return Ref("batch/v1", "Job", name, night.objects["Job", name]["metadata"]["uid"])


def settings(night: Any, name: str) -> Ref:
    return Ref("v1", "ConfigMap", name, night.objects["ConfigMap", name]["metadata"]["uid"])


# -------------------------------------------------------------------------------------------------------- beginning


def test_an_attempt_is_written_after_its_settings_and_looked_at_when_it_had_its_time_to_start(cluster: Make) -> None:
    night = cluster(engine={"startDeadlineSeconds": 120})
    plan = night.step()
    assert [manifest["kind"] for manifest in plan.apply] == ["ConfigMap", "Job"]
    assert plan.requeue_after_seconds == pytest.approx(120.1)
    said = plan.events[0]
    assert (said.type, said.reason, said.message) == (
        EventType.NORMAL,
        "Scanning",
        "The Job night-scan-uid-g1-1 is being started.",
    )
    last = night.status["lastAttempt"]
    assert (last["engine"], last["generation"], last["started"]) == ("Job", 1, "2026-11-20T10:00:00Z")
    assert "lastScheduleTime" not in night.status


def test_the_progress_of_an_attempt_is_reported(cluster: Make) -> None:
    night = cluster(engine={"type": "Job"})
    night.step()
    night.settle()
    assert night.message("Reconciling") == "The Job night-scan-uid-g1-1 is being started."
    night.wait_for("ErrImagePull")
    night.settle()
    assert night.message("Reconciling").startswith(
        "The Job night-scan-uid-g1-1 is being started. The node cannot pull the image"
    )
    night.run()
    night.settle()
    assert night.message("Reconciling") == "The Job night-scan-uid-g1-1 is running."
    night.end("no result yet")
    night.pods.clear()
    plan = night.step()
    assert night.message("Reconciling") == "The Job night-scan-uid-g1-1 has ended; its log is being read."
    assert plan.requeue_after_seconds == 1
    assert asks_again_after(night) == 1


def test_leftovers_of_a_result_are_deleted_after_a_second(cluster: Make, gaps: Gaps) -> None:
    night = cluster()
    night.step()
    night.run()
    night.step()
    night.later(seconds=40)
    night.end(night.log_of(gaps))
    plan = night.step()
    assert plan.requeue_after_seconds == 1
    assert plan.delete == ()
    last = night.status["lastAttempt"]
    assert (last["finished"], last["message"]) == ("2026-11-20T10:00:40Z", "7 events are missing.")
    assert (plan.events[0].type, plan.events[0].reason) == (EventType.NORMAL, "GapsFound")


# ----------------------------------------------------------------------------------- what nobody wants any more


def test_an_attempt_that_is_being_deleted_is_given_up_unless_it_has_ended(cluster: Make, gaps: Gaps) -> None:
    for ended in (False, True):
        night = cluster()
        night.step()
        night.run()
        if ended:
            night.end(night.log_of(gaps))
        night.attempt()["metadata"]["deletionTimestamp"] = "2026-11-20T10:00:00Z"
        night.step()
        assert night.status["lastAttempt"]["outcome"] == ("GapsFound" if ended else "Stopped")
        if not ended:
            assert night.status["lastAttempt"]["message"] == "The Job night-scan-uid-g1-1 was deleted before it ended."


def test_an_irrelevant_change_lets_an_attempt_continue(cluster: Make) -> None:
    night = cluster()
    night.step()
    night.run()
    night.step()
    night.change(historyLimits={"successful": 1})
    night.settle()
    assert night.names("Job") == ["night-scan-uid-g1-1"]
    assert night.status["lastAttempt"].get("outcome") is None


def test_a_scheduled_attempt_continues_when_the_spec_changes(cluster: Make) -> None:
    night = cluster(schedule=HOURLY)
    night.later(hours=1)
    night.step()
    night.run()
    night.step()
    night.change(source={"gapTopic": {"topic": "other"}})
    night.settle()
    assert night.status["lastAttempt"].get("outcome") is None


@pytest.mark.parametrize(("policy", "ends"), [("Forbid", False), ("Replace", True)])
def test_only_replace_ends_an_attempt_when_the_next_is_due(cluster: Make, policy: str, *, ends: bool) -> None:
    night = cluster(schedule=MINUTELY | {"concurrencyPolicy": policy})
    night.later(minutes=1)
    night.step()
    night.run()
    night.settle()
    assert night.status["lastAttempt"].get("outcome") is None
    night.later(minutes=1)
    night.step()
    assert night.status["lastAttempt"].get("outcome") == ("Stopped" if ends else None)
    if ends:
        assert "because the next scan is due (Replace)" in night.status["lastAttempt"]["message"]


def test_replace_does_not_end_what_began_for_that_very_time_before_a_crash(cluster: Make, gaps: Gaps) -> None:
    night = cluster(schedule=MINUTELY | {"concurrencyPolicy": "Replace"})
    night.later(minutes=1)
    night.step()
    night.answer(gaps)
    night.later(minutes=1)
    night.step(writes=2)  # settings and Job; the status was never written
    night.run()
    night.settle()
    assert len(night.begun) == 2
    assert night.status["lastAttempt"].get("outcome") is None
    assert night.status["lastScheduleTime"] == "2026-11-20T10:02:00Z"


def test_an_unavailable_engine_is_reported(cluster: Make) -> None:
    night = cluster(engine={"type": "SparkApplication"})
    night.step()
    assert night.message("Stalled").startswith("engine.type is SparkApplication, but SparkApplications are not")


def test_a_scan_without_the_spark_operator_says_why_it_has_no_executors(cluster: Make) -> None:
    night = cluster()
    night.step()
    assert night.events[-1].message == (
        "engine.type is Auto and this cluster has no Spark operator, so the scan runs as a Job, without executors."
    )


# ---------------------------------------------------------------------------------------------------------- at rest


def test_a_scheduled_scan_that_failed_waits_for_its_next_time(cluster: Make) -> None:
    night = cluster(schedule=HOURLY)
    night.later(hours=1)
    night.step()
    night.run()
    night.end("gapless: Kafka cannot be reached; check it.", exit_code=3)
    night.settle()
    assert night.condition("Reconciling") == ("False", "Scheduled")
    assert night.condition("Stalled") == ("False", "NotStalled")
    assert asks_again_after(night) == pytest.approx(3600.1)


def test_a_skipped_scan_is_reported_with_its_time(cluster: Make) -> None:
    night = cluster(schedule=HOURLY | {"startingDeadlineSeconds": 600})
    night.step()
    night.later(hours=1, seconds=600)
    assert night.plan().apply, "it may begin until the last second"
    night.later(seconds=1)
    plan = night.step()
    assert [(event.type, event.reason, event.message) for event in plan.events] == [
        (
            EventType.WARNING,
            "ScanMissed",
            "The scan of 2026-11-20 11:00 UTC was skipped: startingDeadlineSeconds has passed.",
        )
    ]
    assert night.status["lastScheduleTime"] == "2026-11-20T11:00:00Z"
    assert plan.requeue_after_seconds == pytest.approx(3600 - 601 + 0.1)


def test_a_suspended_scan_misses_nothing_and_has_no_next_time(cluster: Make) -> None:
    night = cluster(schedule=HOURLY | {"startingDeadlineSeconds": 600}, suspend=True)
    night.step()
    night.later(hours=5, seconds=1200)
    night.settle()
    assert night.events == []
    assert night.condition("Reconciling") == ("False", "Suspended")
    assert night.message("Reconciling") == "spec.suspend is true: no scans begin until it is false."
    assert "nextScheduleTime" not in night.status
    assert asks_again_after(night) is None


def test_an_invalid_schedule_is_reported_in_all_conditions_with_one_event(cluster: Make) -> None:
    night = cluster(schedule={"cron": "0 0 * * *", "timeZone": "Mars/Base"})
    plan = night.step()
    assert [(event.type, event.reason) for event in plan.events] == [(EventType.WARNING, "BadConfiguration")]
    for kind, status in (("Ready", "False"), ("Reconciling", "False"), ("Stalled", "True")):
        assert night.condition(kind) == (status, "BadConfiguration")
        assert night.message(kind) == plan.events[0].message
    night.settle()
    assert len(night.events) == 1
    assert asks_again_after(night) is None


def test_no_scan_yet_waits_for_its_time(cluster: Make) -> None:
    night = cluster(schedule=HOURLY)
    night.step()
    assert night.message("Ready") == "No scan has run yet."
    assert night.message("Reconciling") == "The first scan waits for its scheduled time."
    assert night.condition("Stalled") == ("False", "NotStalled")
    assert asks_again_after(night) == pytest.approx(3600.1)


def test_after_a_result_the_next_time_is_reported(cluster: Make, gaps: Gaps) -> None:
    night = cluster(schedule=HOURLY)
    night.later(hours=1)
    night.step()
    night.answer(gaps)
    assert night.message("Reconciling") == "The next scan is due at 2026-11-20 12:00 UTC."
    assert night.message("Ready") == "7 events are missing."


def test_what_is_in_the_way_of_an_attempt_stalls_it_after_half_a_minute(cluster: Make) -> None:
    night = cluster()
    night.step()
    night.later(seconds=29)
    night.settle()
    assert night.condition("Stalled") == ("False", "NotStalled")
    night.later(seconds=1)
    night.settle()
    assert night.condition("Stalled") == ("True", "PodRejected")


def test_what_ended_is_kept_within_its_limits_and_goes_with_its_settings(cluster: Make) -> None:
    night = cluster(schedule=MINUTELY, historyLimits={"successful": 1, "failed": 1})
    for number in range(2):
        night.later(minutes=1)
        night.step()
        night.run()
        night.end(night.log_of({("transfer", 0): [(number, number)]}))
        night.step()
    second = night.begun[1]
    night.settle()
    assert night.names("Job") == [second]
    assert night.names("ConfigMap") == [f"{second}-bundle", f"{second}-settings"]


def test_what_ended_stays_while_the_next_runs(cluster: Make, gaps: Gaps) -> None:
    night = cluster(schedule=MINUTELY)
    night.later(minutes=1)
    night.step()
    night.answer(gaps)
    night.later(minutes=1)
    night.step()
    night.run()
    night.settle()
    assert night.names("Job") == night.begun
    assert len(night.begun) == 2


def test_an_abandoned_attempt_is_deleted_at_once_and_its_settings_while_the_next_runs(cluster: Make) -> None:
    night = cluster()
    night.step()
    night.run()
    night.step()
    night.change(source={"gapTopic": {"topic": "other"}})
    left = settings(night, "night-scan-uid-g1-1-settings")
    abandoned = job(night, "night-scan-uid-g1-1")
    assert night.step().stop == (abandoned,)
    night.step()
    assert night.begun == ["night-scan-uid-g1-1", "night-scan-uid-g2-1"]
    assert night.step().delete == (left,)


# ---------------------------------------------------------------------------------------------------------- retries


def test_a_scan_is_tried_again_on_the_second_and_at_the_latest_every_half_hour(cluster: Make) -> None:
    night = cluster()
    for number in range(1, 9):
        night.step()
        night.run()
        night.end("gapless: Kafka cannot be reached; check it.", exit_code=3)
        night.settle()
        pause = min(30 * 2 ** (number - 1), 1800)
        again = night.now + timedelta(seconds=pause)
        assert night.message("Reconciling") == f"The next attempt begins at {again:%H:%M:%S} UTC."
        assert asks_again_after(night) == pytest.approx(pause + 0.1)
        night.later(seconds=pause - 1)
        assert asks_again_after(night) == pytest.approx(1.1)
        night.later(seconds=1)
    night.step()
    assert night.begun[-1] == "night-scan-uid-g1-9"


def failed(name: str, *, outcome: str = "SourceUnreachable", generation: int = 1) -> dict[str, Any]:
    at = "2026-11-20T10:00:00Z"
    return {
        "name": name,
        "engine": "Job",
        "generation": generation,
        "started": at,
        "finished": at,
        "outcome": outcome,
        "message": "M",
    }


def test_the_pause_stays_half_an_hour_however_often_it_failed(cluster: Make) -> None:
    night = cluster()
    night.body["status"] = {"lastAttempt": failed("night-scan-uid-g1-99999")}
    night.settle()
    assert asks_again_after(night) == pytest.approx(1800.1)


def test_an_attempt_with_a_name_of_another_kind_was_the_first(cluster: Make) -> None:
    night = cluster()
    night.body["status"] = {"lastAttempt": failed("night-scan-uid-29000000")}
    night.settle()
    assert asks_again_after(night) == pytest.approx(30.1)
    night.later(seconds=30)
    night.step()
    assert night.begun == ["night-scan-uid-g1-2"]


def test_an_outcome_of_a_newer_version_is_a_failure(cluster: Make) -> None:
    night = cluster()
    night.body["status"] = {"lastAttempt": failed("night-scan-uid-g1-1", outcome="SomethingNew")}
    night.settle()
    assert night.condition("Ready") == ("False", "ScanFailed")
    assert night.condition("Reconciling") == ("True", "ScanFailed")


def test_what_the_same_attempt_would_only_repeat_waits_for_another_spec(cluster: Make) -> None:
    night = cluster()
    night.body["status"] = {"lastAttempt": failed("night-scan-uid-g1-1", outcome="BadConfiguration")}
    night.settle()
    assert asks_again_after(night) is None
    assert night.condition("Stalled") == ("True", "BadConfiguration")
    assert night.message("Stalled") == "M"
    assert night.condition("Reconciling") == ("False", "Settled")
    night.change(limit="First")
    night.step()
    assert night.begun == ["night-scan-uid-g2-1"]


@pytest.mark.parametrize(("outcome", "kind"), [("SourceUnreachable", "Ready"), ("BadConfiguration", "Stalled")])
def test_an_attempt_that_was_recorded_without_a_sentence_is_said_without_one(
    cluster: Make, outcome: str, kind: str
) -> None:
    night = cluster()
    recorded = failed("night-scan-uid-g1-1", outcome=outcome)
    del recorded["message"]
    night.body["status"] = {"lastAttempt": recorded}
    night.settle()
    assert night.condition(kind)[1] == outcome
    assert night.message(kind) == ""


# ---------------------------------------------------------------------------------------------------------- schedules


def test_a_schedule_that_comes_later_does_not_make_up_for_times_before_the_first_scan(
    cluster: Make, gaps: Gaps
) -> None:
    night = cluster()
    night.later(minutes=90)
    night.step()
    night.answer(gaps)
    night.change(schedule=HOURLY)
    night.settle()
    assert len(night.begun) == 1, "11:00 was before the scan of 11:30"
    night.later(minutes=30)
    night.step()
    assert len(night.begun) == 2


def test_schedule_times_before_the_creation_are_ignored(cluster: Make) -> None:
    night = cluster(schedule=MINUTELY)
    night.settle()
    assert night.begun == []
    night.later(seconds=59)
    assert asks_again_after(night) == pytest.approx(1.1)
    night.later(seconds=1)
    night.step()
    minute = int(datetime(2026, 11, 20, 10, 1, tzinfo=UTC).timestamp()) // 60
    assert night.begun == [f"night-scan-uid-{minute}"]


def test_an_attempt_waits_ten_seconds_at_a_time_for_the_state_that_another_uses(cluster: Make) -> None:
    state = {"storageRef": {"name": "audits"}, "folder": "night"}
    night = cluster(source={"events": {"topics": ["transfer"], "state": state}})
    night.step()
    night.run()
    night.step()
    night.change(source={"events": {"topics": ["transfer", "alarm"], "state": state}})
    with night.slow_to_delete():
        night.step()
        assert night.status["lastAttempt"]["outcome"] == "Stopped"
        plan = night.step()
    assert plan.requeue_after_seconds == pytest.approx(10.1)
    assert [ref.name for ref in plan.delete] == ["night-scan-uid-g1-1-settings"]
    assert night.condition("Reconciling") == ("True", "Scanning")
    assert night.condition("Stalled") == ("False", "NotStalled")
    assert night.message("Reconciling").startswith(
        "The next scan begins when the Job night-scan-uid-g1-1 has ended, because two"
    )
    night.step()
    assert night.begun == ["night-scan-uid-g1-1", "night-scan-uid-g2-1"]
