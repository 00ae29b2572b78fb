"""A GapScan goes from its spec to its bundle, whatever happens on the way: state and observation give the plan."""

from __future__ import annotations

import base64
import gzip
import random
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from gapless_api.bundle import read_bundle_text
from gapless_api.result_lines import result_lines
from gapless_api.v1alpha1.reasons import Reason
from gapless_api.v1alpha1.resend import Resend
from gapless_operator.shell.refusal import refused

Make = Callable[..., Any]
Gaps = dict[tuple[str, int], list[tuple[int, int]]]
NIGHTLY = {"cron": "30 2 * * *", "timeZone": "Europe/Stockholm"}
MINUTELY = {"cron": "* * * * *"}


# ------------------------------------------------------------------------------------------- without a schedule


def test_a_scan_without_a_schedule_begins_at_once_and_says_so(cluster: Make) -> None:
    night = cluster()
    night.step()
    assert night.names("Job") == ["night-g1-1"]
    assert night.names("ConfigMap") == ["night-g1-1-settings"]
    assert night.status["observedGeneration"] == 1
    assert night.status["lastAttempt"]["name"] == "night-g1-1"
    assert night.condition("Ready") == ("Unknown", "NeverScanned")
    assert night.condition("Reconciling") == ("True", "Scanning")
    assert night.condition("Stalled") == ("False", "NotStalled")
    assert [event.reason for event in night.events] == ["Scanning"]


def test_an_attempt_that_runs_is_waited_for_until_its_deadline(cluster: Make) -> None:
    night = cluster()
    night.step()
    night.run()
    plan = night.step()
    night.settle()
    assert night.begun == ["night-g1-1"]
    assert plan.requeue_after_seconds == pytest.approx(3600, abs=1)
    assert "is running" in night.message("Reconciling")


def test_what_was_found_is_in_the_status_and_in_a_config_map(cluster: Make, gaps: Gaps) -> None:
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
    assert (bundle["type"], bundle["location"], bundle["key"]) == ("ConfigMap", "night-g1-1-bundle", "bundle.json.gz")
    kept = night.objects["ConfigMap", "night-g1-1-bundle"]
    content = gzip.decompress(base64.b64decode(kept["binaryData"]["bundle.json.gz"]))
    read = read_bundle_text(content, name="kept")
    assert read.mark is not None
    assert (read.missing, read.mark.sha256, read.mark.id) == (7, bundle["sha256"], bundle["id"])
    assert kept["data"]["resend.yaml"] == status["resendManifest"]
    assert kept["metadata"]["ownerReferences"][0]["uid"] == "scan-uid"


def test_nothing_happens_after_an_answer_until_the_spec_changes(cluster: Make, gaps: Gaps) -> None:
    night = cluster()
    night.step()
    night.answer(gaps)
    night.later(days=30)
    assert night.plan().is_empty
    assert night.plan().requeue_after_seconds is None
    night.change(limit="First")
    night.step()
    assert night.begun == ["night-g1-1", "night-g2-1"]
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


def test_a_spec_that_asks_for_something_else_ends_the_attempt_that_runs(cluster: Make) -> None:
    night = cluster()
    night.step()
    night.run()
    night.step()
    night.change(source={"gapTopic": {"topic": "other"}})
    night.step()
    assert night.status["lastAttempt"]["outcome"] == "Stopped"
    night.settle()
    assert night.begun == ["night-g1-1", "night-g2-1"]
    assert night.names("Job") == ["night-g2-1"]


def test_suspend_lets_a_running_attempt_go_on_and_begins_none(cluster: Make, gaps: Gaps) -> None:
    night = cluster()
    night.step()
    night.run()
    night.change(suspend=True)
    night.settle()
    assert night.names("Job") == ["night-g1-1"]
    night.answer(gaps)
    assert night.condition("Ready") == ("True", "GapsFound")
    assert night.condition("Reconciling") == ("False", "Suspended")
    night.later(days=1)
    night.settle()
    assert night.begun == ["night-g1-1"]
    night.change(suspend=False)
    night.step()
    assert night.begun == ["night-g1-1", "night-g3-1"]


# ---------------------------------------------------------------------------------------------- with a schedule


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
    assert night.begun == [f"night-{minute}"]
    assert night.status["lastScheduleTime"] == "2026-11-21T01:30:00Z"
    assert night.status["nextScheduleTime"] == "2026-11-22T01:30:00Z"


def test_of_the_scans_missed_while_the_operator_was_away_one_is_made_up_for(cluster: Make, gaps: Gaps) -> None:
    night = cluster(schedule=NIGHTLY)
    night.step()
    night.later(days=5)
    night.step()
    night.answer(gaps)
    night.settle()
    assert len(night.begun) == 1
    assert night.status["lastScheduleTime"] == "2026-11-25T01:30:00Z"


def test_a_scan_that_is_too_late_is_left_out_and_told_once(cluster: Make) -> None:
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


def test_replace_ends_the_scan_that_runs(cluster: Make) -> None:
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


def test_a_time_zone_that_nobody_knows_stalls_with_a_sentence(cluster: Make) -> None:
    night = cluster(schedule={"cron": "0 0 * * *", "timeZone": "Mars/Base"})
    night.settle()
    night.settle()
    assert night.condition("Stalled") == ("True", "BadConfiguration")
    assert "Mars/Base" in night.message("Stalled")
    assert len(night.events) == 1


# ------------------------------------------------------------------------------------------------ what goes wrong


def test_a_broker_that_is_away_is_said_and_tried_again_with_growing_pauses(cluster: Make, gaps: Gaps) -> None:
    night = cluster()
    night.step()
    pauses = []
    for _ in range(4):
        night.run()
        night.step()
        night.end('{"event":"other"}\ngapless: Kafka cannot be reached; check it.', exit_code=3)
        night.settle()
        assert night.condition("Ready") == ("False", "SourceUnreachable")
        assert night.condition("Reconciling") == ("True", "SourceUnreachable")
        assert night.condition("Stalled") == ("False", "NotStalled")
        wait = night.plan().requeue_after_seconds
        pauses.append(round(wait))
        night.later(seconds=wait)
        night.step()
    assert pauses == [30, 60, 120, 240]
    assert night.begun[-1] == "night-g1-5"
    night.answer(gaps)
    assert night.condition("Ready") == ("True", "GapsFound")


@pytest.mark.parametrize(
    ("waiting", "reason"),
    [
        ("ErrImagePull", "ImagePullFailed"),
        ("ImagePullBackOff", "ImagePullFailed"),
        ("InvalidImageName", "ImagePullFailed"),
        ("CreateContainerConfigError", "MountFailed"),
    ],
)
@pytest.mark.parametrize("spark_operator", [False, True])
def test_what_keeps_a_driver_from_starting_ends_the_attempt(
    cluster: Make, waiting: str, reason: str, *, spark_operator: bool
) -> None:
    night = cluster(spark_operator=spark_operator)
    night.step()
    night.wait_for(waiting, "no such thing")
    night.later(seconds=5)
    night.settle()
    assert len(night.begun) == 1, "it may still mend"
    assert night.plan().requeue_after_seconds == pytest.approx(25, abs=1)
    night.later(seconds=25)
    night.settle()
    assert night.status["lastAttempt"]["outcome"] == reason
    assert waiting in night.message("Ready")
    assert "no such thing" in night.message("Ready")
    assert night.condition("Stalled") == ("True", reason)
    kind = "SparkApplication" if spark_operator else "Job"
    assert night.names(kind) == [], "what was given up is deleted"
    night.later(seconds=31)
    night.step()
    assert night.begun == ["night-g1-1", "night-g1-2"], "the image may be there by now"


def test_a_pod_that_is_not_let_in_is_said_and_waited_for_until_the_deadline(cluster: Make, gaps: Gaps) -> None:
    night = cluster()
    night.step()
    night.later(seconds=20)
    night.settle()
    assert night.condition("Stalled") == ("False", "NotStalled"), "the Job's controller may only be late"
    night.later(seconds=20)
    night.settle()
    assert night.condition("Stalled") == ("True", "PodRejected")
    assert night.names("Job") == ["night-g1-1"]
    night.answer(gaps)
    assert night.condition("Stalled") == ("False", "NotStalled")
    assert night.begun == ["night-g1-1"]


def test_a_large_image_may_take_its_time(cluster: Make) -> None:
    night = cluster()
    night.step()
    night.wait_for("ContainerCreating")
    night.later(seconds=400)
    night.settle()
    assert night.status["lastAttempt"].get("outcome") is None
    night.later(seconds=200)
    night.settle()
    assert night.status["lastAttempt"]["outcome"] == "StartDeadlineExceeded"


def test_a_scan_that_runs_too_long_is_ended(cluster: Make) -> None:
    night = cluster(engine={"runDeadlineSeconds": 60})
    night.step()
    night.later(seconds=100)
    night.run()
    night.settle()
    night.later(seconds=59)
    night.settle()
    assert night.names("Job") == ["night-g1-1"]
    night.later(seconds=1)
    night.settle()
    assert night.names("Job") == []
    assert night.condition("Stalled") == ("True", "RunDeadlineExceeded")
    night.later(days=1)
    night.settle()
    assert len(night.begun) == 1


@pytest.mark.parametrize(
    ("log", "exit_code", "why", "reason", "stalled"),
    [
        ("gapless: The setting limit is 'x'; it must be all or first.", 2, "Error", "BadConfiguration", "True"),
        ('{"event":"result","report":{"outcome":"topic-missing","message":"M"}}', 2, "Error", "TopicMissing", "True"),
        ('{"event":"result","report":{"outcome":"unreachable","message":"M"}}', 3, "", "SourceUnreachable", "False"),
        ("Traceback", 1, "Error", "ScanFailed", "False"),
        ("", 137, "OOMKilled", "ScanFailed", "False"),
        ("gapless: Stopped by SIGTERM; nothing was written.", 143, "Error", "Stopped", "False"),
        ("no result", 0, "", "ResultUnreadable", "True"),
    ],
)
def test_every_way_to_fail_has_a_reason_and_says_who_must_act(
    cluster: Make, *, log: str, exit_code: int, why: str, reason: str, stalled: str
) -> None:
    night = cluster()
    night.step()
    night.run()
    night.end(log, exit_code, why)
    night.settle()
    assert night.condition("Ready") == ("False", reason)
    assert night.condition("Stalled")[0] == stalled
    assert night.message("Ready").endswith(("M", "."))
    assert [event.type for event in night.events] == ["Normal", "Warning"]
    assert "missingEvents" not in night.status


def test_records_that_cannot_be_read_do_not_hide_what_the_others_say(cluster: Make, gaps: Gaps) -> None:
    night = cluster()
    night.step()
    night.run()
    night.end(night.log_of(gaps, outcome="unreadable-records", message="2 records cannot be read."), exit_code=4)
    night.settle()
    assert night.condition("Ready") == ("True", "UnreadableRecords")
    assert night.status["missingEvents"] == 7
    assert night.events[-1].type == "Warning"


def test_an_attempt_that_somebody_deletes_is_begun_again(cluster: Make) -> None:
    night = cluster()
    night.step()
    night.objects.clear()
    night.settle()
    assert night.status["lastAttempt"]["outcome"] == "Stopped"
    night.later(seconds=31)
    night.step()
    assert night.begun == ["night-g1-1", "night-g1-2"]


def test_a_pod_that_is_gone_before_its_log_was_read_is_said(cluster: Make) -> None:
    night = cluster()
    night.step()
    night.run()
    night.end("x")
    night.pods.clear()
    night.settle()
    assert night.status["lastAttempt"].get("outcome") is None, "the pod may only be late"
    night.later(seconds=31)
    night.settle()
    assert night.condition("Ready") == ("False", "ResultUnreadable")


# ------------------------------------------------------------------------------------------------------- engines


def test_auto_takes_the_spark_operator_where_it_is(cluster: Make, gaps: Gaps) -> None:
    night = cluster(spark_operator=True)
    night.step()
    assert night.names("SparkApplication") == ["night-g1-1"]
    night.answer(gaps)
    assert night.status["lastAttempt"]["engine"] == "SparkApplication"
    assert night.status["missingEvents"] == 7


def test_a_driver_that_ended_well_counts_although_the_spark_operator_says_failed(cluster: Make, gaps: Gaps) -> None:
    night = cluster(spark_operator=True)
    night.step()
    night.run()
    night.end(night.log_of(gaps))
    night.attempt()["status"]["applicationState"] = {"state": "FAILED", "errorMessage": "driver pod not found"}
    night.settle()
    assert night.condition("Ready") == ("True", "GapsFound")


def test_what_spark_submit_complains_of_in_pages_is_cut(cluster: Make) -> None:
    night = cluster(spark_operator=True)
    night.step()
    night.attempt()["status"] = {
        "applicationState": {
            "state": "FAILED",
            "errorMessage": "failed to run spark-submit: " + "at org.apache " * 1000,
        }
    }
    night.later(minutes=10)
    night.settle()
    message = night.status["lastAttempt"]["message"]
    assert message.startswith("The SparkApplication night-g1-1 failed: failed to run spark-submit: at org.apache at")
    assert len(message) < 600
    assert night.condition("Ready") == ("False", "ScanFailed")


def test_without_the_spark_operator_its_engine_stalls_until_it_comes(cluster: Make) -> None:
    night = cluster(engine={"type": "SparkApplication"})
    night.settle()
    night.settle()
    assert night.condition("Stalled") == ("True", "EngineUnavailable")
    assert len(night.events) == 1
    night.spark_operator = True
    night.step()
    assert night.names("SparkApplication") == ["night-g1-1"]
    assert night.condition("Stalled") == ("False", "NotStalled")
    assert night.condition("Ready") == ("Unknown", "NeverScanned")
    night.settle()
    assert night.condition("Ready") == ("Unknown", "NeverScanned")


NO_SCAN_YET, FOUND = ("Unknown", "NeverScanned"), ("True", "GapsFound")
AWAY = ("False", "SourceUnreachable")


@pytest.mark.parametrize(
    ("before", "obstacle", "ready"),
    [
        ("nothing", "EngineUnavailable", NO_SCAN_YET),
        ("answer", "EngineUnavailable", FOUND),
        ("failure", "EngineUnavailable", AWAY),
        ("nothing", "WriteRefused", NO_SCAN_YET),
        ("answer", "WriteRefused", FOUND),
        ("failure", "WriteRefused", AWAY),
        ("answer", "BadConfiguration", FOUND),
        ("failure", "BadConfiguration", AWAY),
    ],
)
@pytest.mark.parametrize("crash", [False, True])
def test_what_kept_a_scan_from_beginning_is_over_when_it_begins(
    cluster: Make, gaps: Gaps, before: str, obstacle: str, ready: tuple[str, str], *, crash: bool
) -> None:
    night = cluster(schedule=MINUTELY)
    if before != "nothing":
        night.later(minutes=1)
        night.step()
        if before == "answer":
            night.answer(gaps)
        else:
            night.run()
            night.end("gapless: Kafka cannot be reached; check it.", exit_code=3)
        night.settle()
    obstruct(night, obstacle)
    assert night.condition("Ready") == ("False", obstacle)
    night.later(minutes=1)
    night.step(writes=2 if crash else None)
    night.settle()
    assert len(night.begun) == (1 if before == "nothing" else 2)
    for _ in range(2):
        assert night.condition("Ready") == ready
        assert night.condition("Reconciling") == ("True", "Scanning")
        assert night.condition("Stalled") == ("False", "NotStalled")
        night.run()
        night.settle()


@pytest.mark.parametrize(
    ("before", "obstacle", "ready"),
    [
        ("nothing", "WriteRefused", NO_SCAN_YET),
        ("answer", "WriteRefused", FOUND),
        ("answer", "BadConfiguration", FOUND),
        ("none missing", "WriteRefused", ("True", "NothingMissing")),
    ],
)
def test_what_was_in_the_way_while_a_scan_ran_is_over_when_it_goes_on(
    cluster: Make, gaps: Gaps, before: str, obstacle: str, ready: tuple[str, str]
) -> None:
    night = cluster(schedule=MINUTELY)
    night.later(minutes=1)
    night.step()
    if before != "nothing":
        night.answer(gaps if before == "answer" else {("transfer", 0): []})
        night.later(minutes=1)
        night.step()
    night.run()
    night.settle()
    obstruct(night, obstacle)
    night.settle()
    assert night.condition("Ready") == ready
    assert night.condition("Stalled") == ("False", "NotStalled")


def obstruct(night: Any, reason: str) -> None:
    """Have the shell, or a schedule without an engine, say why nothing goes on."""
    if reason == "EngineUnavailable":
        night.change(engine={"type": "SparkApplication"})
        night.later(minutes=1)
        night.settle()
        night.change(engine={"type": "Job"})
        return
    if reason == "BadConfiguration":
        night.change(limit="First")
    status, _ = refused(
        night.body, Reason(reason), "It cannot be.", now=night.now, final=reason == Reason.BAD_CONFIGURATION
    )
    night.body["status"] = status
    if reason == "BadConfiguration":
        night.change(limit="All")


# ------------------------------------------------------------------------------------------------------- history


def test_old_attempts_go_and_the_bundle_that_is_spoken_of_stays(cluster: Make, gaps: Gaps) -> None:
    night = cluster(schedule=MINUTELY, historyLimits={"successful": 2, "failed": 1})
    for round_ in range(8):
        night.later(minutes=1)
        night.step()
        if round_ % 2:
            night.answer(gaps)
        else:
            night.run()
            night.end("gapless: No.", exit_code=3)
            night.settle()
    succeeded, failed = night.begun[1::2], night.begun[0::2]
    assert night.names("Job") == sorted([*succeeded[-2:], failed[-1]])
    assert night.names("ConfigMap") == sorted(
        [
            *(f"{name}-settings" for name in (*succeeded[-2:], failed[-1])),
            *(f"{name}-bundle" for name in succeeded[-2:]),
        ]
    )


def test_with_no_history_the_last_bundle_is_kept_all_the_same(cluster: Make, gaps: Gaps) -> None:
    night = cluster(historyLimits={"successful": 0, "failed": 0})
    night.step()
    night.answer(gaps)
    assert night.names("Job") == []
    assert night.names("ConfigMap") == ["night-g1-1-bundle"]
    night.later(days=1)
    assert night.plan().is_empty


# ------------------------------------------------------------------------------------------------------- results


def test_the_rendered_resend_is_valid_and_carries_the_bundle(cluster: Make, gaps: Gaps) -> None:
    template = {
        "diodeRef": {"name": "north"},
        "namespace": "senders",
        "kafka": {"bootstrapServers": "up:9092"},
        "mode": "Plan",
        "eps": 100.5,
    }
    night = cluster(resend=template)
    night.step()
    night.answer(gaps)
    body = yaml.safe_load(night.status["resendManifest"])
    body["metadata"] |= {"uid": "u", "generation": 1}
    resend = Resend.from_resource(body)
    assert resend.metadata.namespace == "senders"
    assert resend.spec.mode == "Plan"
    assert resend.spec.eps == 100.5
    assert resend.spec.bundle is not None
    inline = read_bundle_text((resend.spec.bundle.inline or "").encode(), name="inline")
    assert inline.missing == 7
    assert resend.spec.bundle.sha256 == night.status["bundle"]["sha256"]
    assert night.status["bundle"]["id"] in resend.metadata.name


def test_without_the_other_sides_brokers_the_file_must_be_filled_in(cluster: Make, gaps: Gaps) -> None:
    night = cluster(resend={"diodeRef": {"name": "north"}})
    night.step()
    night.answer(gaps)
    text = night.status["resendManifest"]
    assert "# Write the brokers of the sending side below" in text
    assert yaml.safe_load(text)["spec"]["kafka"]["bootstrapServers"] == "FILL-IN"


def test_a_large_bundle_stands_beside_its_resend(cluster: Make) -> None:
    many = {("transfer", p): [(n * 3, n * 3) for n in range(6000)] for p in range(3)}
    night = cluster()
    night.step()
    night.answer(many)
    body = yaml.safe_load(night.status["resendManifest"])
    assert body["spec"]["bundle"]["configMap"] == {"name": body["metadata"]["name"], "key": "bundle.json.gz"}
    assert "kubectl create configmap" in night.status["resendManifest"]
    assert night.status["missingEvents"] == 18000


def test_a_bundle_that_no_config_map_takes_is_refused_with_advice(cluster: Make) -> None:
    dice = random.Random(5)
    many = {("transfer", p): sorted({(n, n) for n in dice.sample(range(10**12), 60_000)}) for p in range(3)}
    night = cluster()
    night.step()
    night.answer(many)
    assert night.condition("Stalled") == ("True", "ResultTooLarge")
    assert "PersistentVolumeClaim or S3" in night.message("Stalled")
    assert night.names("ConfigMap") == ["night-g1-1-settings"]
    assert "missingEvents" not in night.status


def test_a_bundle_that_is_not_the_reports_is_refused(cluster: Make, gaps: Gaps) -> None:
    night = cluster()
    night.step()
    night.answer(gaps, bundle={"id": "20261120-100000-00000000", "sha256": "0" * 64, "file": None})
    assert night.condition("Ready") == ("False", "ResultUnreadable")
    assert "sha256" in night.message("Ready")


def test_only_the_hundred_worst_partitions_are_in_the_status(cluster: Make) -> None:
    night = cluster()
    night.step()
    night.answer({("transfer", p): [(0, p % 150)] for p in range(300)})
    partitions = night.status["partitions"]
    assert len(partitions) == 100
    assert partitions[0]["missing"] == 150
    assert night.status["missingEvents"] == sum(p % 150 + 1 for p in range(300))


@pytest.mark.parametrize(
    ("output", "location"),
    [
        (
            {"type": "PersistentVolumeClaim", "persistentVolumeClaim": {"claimName": "carry", "folder": "out/gaps"}},
            "out/gaps/night-g1-1.json",
        ),
        (
            {"type": "S3", "s3": {"endpoint": "https://s3:9000", "bucket": "gaps", "prefix": "north"}},
            "s3://gaps/north/night-g1-1.json",
        ),
    ],
)
def test_a_bundle_that_the_pod_stored_is_named_and_not_copied(
    cluster: Make, gaps: Gaps, output: dict[str, Any], location: str
) -> None:
    night = cluster(output=output)
    night.step()
    night.run()
    _, named = night.bundle_of(gaps)
    night.end("\n".join(result_lines(night.report_of(gaps, named), None)))
    night.settle()
    assert night.status["bundle"]["location"] == location
    assert night.names("ConfigMap") == ["night-g1-1-settings"]
    body = yaml.safe_load(night.status["resendManifest"])
    assert "configMap" in body["spec"]["bundle"]


# ------------------------------------------------------------------------------------------------------- crashes


def test_dying_after_any_write_leads_to_the_same_end(cluster: Make, gaps: Gaps) -> None:
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
                if plan.is_empty:
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


def test_what_is_being_deleted_is_left_alone(cluster: Make) -> None:
    night = cluster()
    night.body["metadata"]["deletionTimestamp"] = "2026-11-20T10:00:00Z"
    assert night.plan().is_empty


def test_a_plan_made_twice_is_the_same(cluster: Make, gaps: Gaps) -> None:
    night = cluster()
    for happening in (night.step, night.run, lambda: night.answer(gaps), lambda: night.later(days=1)):
        assert night.plan() == night.plan()
        happening()
