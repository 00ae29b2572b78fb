"""A GapScan from its spec to its bundle, with and without failures: plans follow from state and observation."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable
from typing import Any

import pytest

from gapless_api.bundle.reader import read_bundle_text
from kit.story.plans import is_empty

Make = Callable[..., Any]
Gaps = dict[tuple[str, int], list[tuple[int, int]]]
NIGHTLY = {"cron": "30 2 * * *", "timeZone": "Europe/Stockholm"}
MINUTELY = {"cron": "* * * * *"}


def test_a_scan_without_a_schedule_begins_at_once_and_says_so(cluster: Make) -> None:
    night = cluster()
    night.step()
    assert night.names("Job") == ["night-scan-uid-g1-1"]
    assert night.names("ConfigMap") == ["night-scan-uid-g1-1-settings"]
    assert night.status["observedGeneration"] == 1
    assert night.status["lastAttempt"]["name"] == "night-scan-uid-g1-1"
    assert night.condition("Ready") == ("Unknown", "NeverScanned")
    assert night.condition("Reconciling") == ("True", "Scanning")
    assert night.condition("Stalled") == ("False", "NotStalled")
    assert [event.reason for event in night.events] == ["Scanning", "NoSparkOperator"]


def test_a_running_attempt_is_requeued_for_its_progress(cluster: Make) -> None:
    night = cluster()
    night.step()
    night.run()
    plan = night.step()
    night.settle()
    assert night.begun == ["night-scan-uid-g1-1"]
    assert plan.requeue_after_seconds == pytest.approx(5, abs=1)
    night.later(seconds=3598)
    assert night.plan().requeue_after_seconds == pytest.approx(2, abs=1), "its deadline"
    assert "is running" in night.message("Reconciling")


def test_findings_are_in_the_status_and_in_a_config_map(cluster: Make, gaps: Gaps) -> None:
    night = cluster()
    night.step()
    night.later(seconds=40)
    night.answer(gaps)
    status = night.status
    assert (status["missingEvents"], status["missingRanges"]) == (7, 3)
    assert [(p["partition"], p["missing"], p["ranges"]) for p in status["partitions"]] == [(0, 5, 2), (1, 2, 1)]
    assert status["lastScanTime"] == "2026-11-20T10:00:40Z"
    assert status["lastAttempt"]["outcome"] == "GapsFound"
    assert "change" not in status
    assert night.condition("Ready") == ("True", "GapsFound")
    assert night.condition("Reconciling") == ("False", "Settled")
    assert night.condition("Stalled") == ("False", "NotStalled")
    bundle = status["bundle"]
    assert (bundle["type"], bundle["location"], bundle["key"]) == (
        "ConfigMap",
        "night-scan-uid-g1-1-bundle",
        "bundle.json.gz",
    )
    kept = night.objects["ConfigMap", "night-scan-uid-g1-1-bundle"]
    content = gzip.decompress(base64.b64decode(kept["binaryData"]["bundle.json.gz"]))
    read = read_bundle_text(content, name="kept")
    assert read.metadata is not None
    assert (read.missing, read.metadata.sha256, read.metadata.id) == (7, bundle["sha256"], bundle["id"])
    assert kept["data"]["resend.yaml"] == status["resendManifest"]
    assert kept["metadata"]["ownerReferences"][0]["uid"] == "scan-uid"


def test_nothing_happens_after_a_result_until_the_spec_changes(cluster: Make, gaps: Gaps) -> None:
    night = cluster()
    night.step()
    night.answer(gaps)
    night.later(days=30)
    assert is_empty(night.plan())
    assert night.plan().requeue_after_seconds is None
    night.change(limit="First")
    night.step()
    assert night.begun == ["night-scan-uid-g1-1", "night-scan-uid-g2-1"]
    assert night.condition("Ready") == ("True", "GapsFound")
    night.answer({("transfer", 0): [(5, 5)]})
    assert night.status["change"] == {"events": -6, "ranges": -2}


def test_nothing_missing_clears_the_manifest(cluster: Make, gaps: Gaps) -> None:
    night = cluster()
    night.step()
    night.answer(gaps)
    assert "resendManifest" in night.status
    night.change(limit="First")
    night.step()
    night.answer({("transfer", 0): []})
    assert night.condition("Ready") == ("True", "NothingMissing")
    assert "resendManifest" not in night.status
    assert night.status["partitions"] == []


def test_another_spec_stops_the_running_attempt(cluster: Make) -> None:
    night = cluster()
    night.step()
    night.run()
    night.step()
    night.change(source={"gapTopic": {"topic": "other"}})
    night.step()
    assert night.status["lastAttempt"]["outcome"] == "Stopped"
    night.settle()
    assert night.begun == ["night-scan-uid-g1-1", "night-scan-uid-g2-1"]
    assert night.names("Job") == ["night-scan-uid-g2-1"]


def test_suspend_stops_a_running_attempt_and_starts_none(cluster: Make) -> None:
    night = cluster()
    night.step()
    night.run()
    night.change(suspend=True)
    night.settle()
    assert night.names("Job") == []
    assert night.condition("Ready") == ("False", "Suspended")
    assert night.condition("Reconciling") == ("False", "Suspended")
    assert night.condition("Stalled")[0] == "False"
    night.later(days=1)
    night.settle()
    assert night.begun == ["night-scan-uid-g1-1"]
    night.change(suspend=False)
    night.step()
    assert night.begun == ["night-scan-uid-g1-1", "night-scan-uid-g3-1"]


def test_a_suspended_scan_that_has_ended_keeps_its_result(cluster: Make, gaps: Gaps) -> None:
    night = cluster()
    night.step()
    night.run()
    night.answer(gaps)
    night.change(suspend=True)
    night.settle()
    assert night.condition("Ready") == ("True", "GapsFound")
    assert night.condition("Reconciling") == ("False", "Suspended")


def test_a_scheduled_scan_waits_for_its_time_and_is_named_after_it(cluster: Make) -> None:
    night = cluster(schedule=NIGHTLY)
    plan = night.step()
    assert night.begun == []
    assert night.status["nextScheduleTime"] == "2026-11-21T01:30:00Z"
    assert plan.requeue_after_seconds == pytest.approx(15.5 * 3600, abs=1)
    assert night.condition("Ready") == ("Unknown", "NeverScanned")
    assert night.condition("Reconciling") == ("False", "Scheduled")
    night.later(hours=15.5)
    night.step()
    minute = int(night.now.timestamp()) // 60
    assert night.begun == [f"night-scan-uid-{minute}"]
    assert night.status["lastScheduleTime"] == "2026-11-21T01:30:00Z"
    assert night.status["nextScheduleTime"] == "2026-11-22T01:30:00Z"


def test_one_missed_scan_is_caught_up_after_a_downtime_of_the_operator(cluster: Make, gaps: Gaps) -> None:
    night = cluster(schedule=NIGHTLY)
    night.step()
    night.later(days=5)
    night.step()
    night.answer(gaps)
    night.settle()
    assert len(night.begun) == 1
    assert night.status["lastScheduleTime"] == "2026-11-25T01:30:00Z"


def test_a_scan_that_is_too_late_is_skipped_with_one_event(cluster: Make) -> None:
    night = cluster(schedule=NIGHTLY | {"startingDeadlineSeconds": 600})
    night.step()
    night.later(days=1)
    night.settle()
    night.later(seconds=10)
    night.settle()
    assert night.begun == []
    assert [event.reason for event in night.events] == ["ScanMissed"]
    assert night.status["lastScheduleTime"] == "2026-11-21T01:30:00Z"


def test_forbid_leaves_out_what_is_due_while_a_scan_runs_and_makes_up_for_it_after(cluster: Make, gaps: Gaps) -> None:
    night = cluster(schedule=MINUTELY)
    night.later(minutes=1)
    night.step()
    night.run()
    night.later(minutes=5)
    night.settle()
    assert len(night.begun) == 1
    night.answer(gaps)
    night.settle()
    assert len(night.begun) == 2
    assert night.status["lastScheduleTime"] == "2026-11-20T10:06:00Z"


def test_replace_stops_the_running_scan(cluster: Make) -> None:
    night = cluster(schedule=MINUTELY | {"concurrencyPolicy": "Replace"})
    night.later(minutes=1)
    night.step()
    night.run()
    night.settle()
    first = night.begun[0]
    night.later(minutes=1)
    night.step()
    assert night.status["lastAttempt"]["outcome"] == "Stopped"
    night.settle()
    assert len(night.begun) == 2
    assert night.names("Job") == [night.begun[1]]
    assert first != night.begun[1]


def test_a_failed_scheduled_scan_is_not_tried_again_before_its_next_time(cluster: Make) -> None:
    night = cluster(schedule=NIGHTLY)
    night.later(hours=16)
    night.step()
    night.run()
    night.end("gapless: Kafka at kafka:9092 cannot be reached; check it.", exit_code=3)
    night.settle()
    night.later(hours=1)
    night.settle()
    assert len(night.begun) == 1
    assert night.condition("Ready") == ("False", "SourceUnreachable")
    assert night.message("Ready") == "Kafka at kafka:9092 cannot be reached; check it."
    assert night.condition("Stalled") == ("False", "NotStalled")


def test_an_unknown_time_zone_stalls_with_a_message(cluster: Make) -> None:
    night = cluster(schedule={"cron": "0 0 * * *", "timeZone": "Mars/Base"})
    night.settle()
    night.settle()
    assert night.condition("Stalled") == ("True", "BadConfiguration")
    assert "Mars/Base" in night.message("Stalled")
    assert len(night.events) == 1


def test_a_crash_after_any_write_leads_to_the_same_end(cluster: Make, gaps: Gaps) -> None:
    def story(die_at: int | None) -> tuple[Any, int]:
        """Live through two nightly scans; die after write number `die_at`."""
        night = cluster(schedule=NIGHTLY, historyLimits={"successful": 1, "failed": 1})
        written = 0

        def settle() -> None:
            nonlocal written
            for _ in range(12):
                plan = night.plan()
                writes = len(plan.apply) + len(plan.delete) + (plan.status is not None) + len(plan.events)
                left = None if die_at is None or not written < die_at <= written + writes else die_at - written
                night.step(writes=left)
                written += writes if left is None else left
                if is_empty(plan):
                    return
            raise AssertionError("never settles")

        for found in (gaps, {("transfer", 0): [(5, 5)]}):
            night.later(hours=16)
            settle()
            night.run()
            night.later(minutes=5)
            settle()
            night.end(night.log_of(found))
            settle()
            night.later(hours=8)
            settle()
        status = dict(night.status)
        # When a transition was noticed may differ by the restart; what it was may not.
        status["conditions"] = [{k: v for k, v in c.items() if k != "lastTransitionTime"} for c in status["conditions"]]
        return (status, night.begun, sorted(night.objects)), written

    expected, writes = story(None)
    assert writes > 12
    for die_at in range(1, writes + 1):
        assert story(die_at)[0] == expected, f"died after write {die_at}"


def test_an_attempt_that_began_before_a_crash_is_found_again_at_another_time(cluster: Make, gaps: Gaps) -> None:
    night = cluster(schedule=MINUTELY)
    night.later(minutes=1)
    night.step(writes=2)  # settings and Job; the status was never written
    assert night.status == {}
    night.run()
    night.later(minutes=10)
    night.settle()
    assert len(night.begun) == 1
    assert night.status["lastAttempt"]["name"] == night.begun[0]
    assert night.status["lastScheduleTime"] == "2026-11-20T10:01:00Z"
    night.answer(gaps)
    assert len(night.begun) == 2


def test_the_same_input_gives_the_same_plan(cluster: Make, gaps: Gaps) -> None:
    night = cluster()
    for happening in (night.step, night.run, lambda: night.answer(gaps), lambda: night.later(days=1)):
        assert night.plan() == night.plan()
        happening()
