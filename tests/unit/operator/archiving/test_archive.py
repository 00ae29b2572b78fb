"""An Archive runs for ever or by the clock, says how far it is, and is replaced when its pod or its spec changes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from gapless_api.wire.archive_progress import ArchiveProblem
from gapless_operator.common.settings import Program
from kit.story.memory_cluster import START, stamp
from kit.story.plans import is_empty

Make = Callable[..., Any]
Line = Callable[..., str]
FIRST = "site-owner-ui-g1-1"


def test_a_continuous_archive_begins_at_once_as_a_job_that_no_deadline_ends(archive: Make) -> None:
    site = archive()
    site.step()
    assert site.begun == [FIRST]
    assert site.names("ConfigMap") == [f"{FIRST}-settings"]
    spec = site.attempt()["spec"]
    assert "activeDeadlineSeconds" not in spec
    assert spec["backoffLimit"] == 0
    runner = spec["template"]["spec"]["containers"][0]
    assert runner["args"] == ["archive", "/etc/gapless/archive.properties", "--allowed-topics=transfer*,alarm"]
    assert site.settings() == {
        "bootstrapServers": "kafka:9092",
        "topics": "transfer",
        "once": "false",
        "maxSegmentRecords": "1000000",
        "maxSegmentBytes": "104857600",
        "maxSegmentAge": "300s",
        "archive": "s3://archive/north",
        "region": "site-a",
        "s3Endpoint": "https://s3.storage:9000",
        "s3AccessKeyIdFile": "/etc/gapless/secrets/s3-access-key-id",
        "s3SecretAccessKeyFile": "/etc/gapless/secrets/s3-secret-access-key",
        "s3SessionTokenFile": "/etc/gapless/secrets/s3-session-token",
        "s3StorageClass": "STANDARD_IA",
        "s3Tags": "owner=us",
        "engine": "spark",
        "master": "local[1]",
        "driverMemory": "1024m",
    }
    assert site.condition("Ready") == ("Unknown", "NeverArchived")
    assert site.condition("Reconciling") == ("True", "Archiving")
    assert site.condition("Stalled") == ("False", "NotStalled")


def test_how_far_it_is_stands_in_the_status_and_is_written_every_ten_seconds(archive: Make, line: Line) -> None:
    site = archive()
    site.step()
    site.run(line(lag_records=1200, lag_seconds=40.0))
    site.settle()
    status = site.status
    assert (status["segments"], status["bytes"], status["records"], status["lagRecords"]) == (7, 7000, 700, 1200)
    assert status["topics"][0]["coveredUpTo"] == "2026-11-20T10:00:00Z"
    assert (status["lastCommitTime"], status["readBy"]) == ("2026-11-20T10:00:00Z", "spark")
    assert site.condition("Ready") == ("True", "Archiving")
    assert site.condition("Progressing") == ("True", "Archiving")
    assert site.condition("Reconciling") == ("False", "Settled"), "steady, or a Kustomization would wait for ever"
    site.later(seconds=5)
    site.log_more(line(lag_records=0))
    assert is_empty(site.plan()), "too soon"
    site.later(seconds=5)
    site.step()
    assert site.status["lagRecords"] == 0


def test_a_pod_that_dies_is_replaced_with_growing_pauses_until_something_is_committed(
    archive: Make, line: Line
) -> None:
    site = archive()
    site.step()
    waited = []
    for number in (1, 2, 3):
        site.run()
        site.step()
        site.end("gapless: Kafka does not answer.\n", exit_code=3)
        site.step()
        assert site.status["lastAttempt"]["outcome"] == "SourceUnreachable"
        assert site.status["failures"] == number
        assert site.condition("Ready") == ("False", "SourceUnreachable")
        assert site.condition("Reconciling") == ("True", "Retrying")
        began = site.now
        while len(site.begun) == number:
            site.later(seconds=1)
            site.step()
        waited.append(round((site.now - began).total_seconds()))
    assert waited == [10, 20, 40]
    assert site.begun[-1] == "site-owner-ui-g1-4"
    site.later(seconds=30)
    site.run()
    site.log_more(line(site.now))
    site.step()
    assert site.condition("Ready") == ("True", "Archiving")
    site.end(line(site.now) + "gapless: Kafka does not answer.\n", exit_code=3)
    site.step()
    assert site.status["failures"] == 1, "it has committed meanwhile"
    assert site.condition("Progressing") == ("False", "SourceUnreachable")


def test_a_deleted_pod_is_replaced_at_once(archive: Make) -> None:
    site = archive()
    site.step()
    site.run()
    site.step()
    site.objects.pop(("Job", FIRST))
    site.pods.clear()
    site.settle()
    assert site.begun == [FIRST, "site-owner-ui-g1-2"]
    assert "was deleted before it ended" in " ".join(event.message for event in site.events)


def test_another_spec_or_image_replaces_what_runs(archive: Make, line: Line) -> None:
    site = archive()
    site.step()
    site.run(line())
    site.settle()
    site.change(topics=["transfer", "transfer-2"])
    site.settle()
    assert site.begun == [FIRST, "site-owner-ui-g2-1"]
    assert site.names("Job") == ["site-owner-ui-g2-1"], "the old one is gone"
    assert site.names("ConfigMap") == ["site-owner-ui-g2-1-settings"]
    site.run(line())
    site.settle()
    site.programs["program"] = type(site.programs["program"])(image="gapless/spark:2")
    site.settle()
    assert site.attempt()["spec"]["template"]["spec"]["containers"][0]["image"] == "gapless/spark:2"
    assert len(site.begun) == 3


def test_what_does_not_concern_the_pod_leaves_it_alone(archive: Make, line: Line) -> None:
    site = archive()
    site.step()
    site.run(line())
    site.settle()
    site.change(compaction={"schedule": {"cron": "0 3 * * *"}})
    site.settle()
    assert site.begun == [FIRST]
    assert site.status["nextCompactionTime"] == "2026-11-21T03:00:00Z"
    assert site.status["observedGeneration"] == 2


def test_suspend_stops_it_and_it_continues_afterwards(archive: Make, line: Line) -> None:
    site = archive()
    site.step()
    site.run(line())
    site.settle()
    assert site.status["lagRecords"] == 0
    site.change(suspend=True)
    site.settle()
    assert site.names("Job") == []
    assert not site.status.keys() & {"lagRecords", "lagSeconds", "retentionSeconds"}, "nobody looks at it"
    assert [topic.get("lagRecords") for topic in site.status["topics"]] == [None]
    for kind in ("Ready", "Reconciling"):
        assert site.condition(kind) == ("False", "Suspended")
    site.change(suspend=False)
    site.settle()
    assert site.begun == [FIRST, "site-owner-ui-g3-1"]


@pytest.mark.parametrize(
    "reason", ["RetentionOvertaking", "RecordsLost", "TopicRecreated", "LogTruncated", "NoProgress"]
)
def test_a_problem_that_the_pod_names_is_the_reason_of_stalled(archive: Make, line: Line, reason: Any) -> None:
    site = archive()
    site.step()
    site.run(line(lag_records=5, problems=(ArchiveProblem(reason=reason, topic="transfer", message="It is bad."),)))
    site.settle()
    assert site.condition("Stalled") == ("True", reason)
    assert site.message("Stalled") == "It is bad."
    assert [(event.type, event.reason) for event in site.events][1:] == [("Warning", reason)]
    assert site.condition("Ready") == ("True", "Archiving")
    is_slow = reason in {"RetentionOvertaking", "NoProgress"}
    assert site.condition("Progressing") == (("False", reason) if is_slow else ("True", "Archiving"))
    site.later(seconds=10)
    site.log_more(line())
    site.step()
    assert site.condition("Stalled") == ("False", "NotStalled")


def test_the_worst_problem_is_shown(archive: Make, line: Line) -> None:
    site = archive()
    site.step()
    problems = [
        ArchiveProblem(reason=reason, topic="transfer", message=f"{reason}.")
        for reason in ("TopicRecreated", "RecordsLost", "RetentionOvertaking")
    ]
    site.run(line(problems=tuple(problems)))
    site.settle()
    assert site.condition("Stalled") == ("True", "RetentionOvertaking")


def test_nothing_committed_for_a_quarter_of_an_hour_is_no_progress_if_there_is_something_to_archive(
    archive: Make, line: Line
) -> None:
    site = archive()
    site.step()
    site.run(line())
    committed = site.now
    site.settle()
    site.later(hours=3)
    site.log_more(line(committed, time=stamp(site.now), lag_records=0))
    site.settle()
    assert site.condition("Stalled") == ("False", "NotStalled"), "there is nothing to do"
    site.later(seconds=10)
    site.log_more(line(committed, time=stamp(site.now), lag_records=5))
    site.settle()
    assert site.condition("Stalled") == ("True", "NoProgress")
    assert site.condition("Progressing") == ("False", "NoProgress")
    site.later(seconds=10)
    site.log_more(line(site.now - timedelta(minutes=14), time=stamp(site.now), lag_records=5))
    site.settle()
    assert site.condition("Stalled") == ("False", "NotStalled")


def test_a_pod_that_logs_nothing_is_no_progress(archive: Make) -> None:
    site = archive()
    site.step()
    site.run()
    site.step()
    site.later(minutes=14)
    site.step()
    assert site.condition("Stalled") == ("False", "NotStalled")
    site.later(minutes=1)
    site.step()
    assert site.condition("Stalled") == ("True", "NoProgress")


def test_what_it_said_last_is_not_believed_for_ever(archive: Make, line: Line) -> None:
    """While Kafka is away the program tries again and logs no progress; its last line said that all is archived."""
    site = archive()
    site.step()
    site.run(line())
    site.settle()
    site.later(minutes=14)
    site.settle()
    assert site.condition("Stalled") == ("False", "NotStalled")
    site.later(minutes=1)
    site.settle()
    assert site.condition("Stalled") == ("True", "NoProgress")
    assert site.condition("Progressing") == ("False", "NoProgress")
    assert "has logged no progress since 2026-11-20 10:00 UTC" in site.message("Stalled")
    site.log_more(line(site.now))
    site.later(seconds=4)
    site.settle()
    assert site.condition("Stalled") == ("False", "NotStalled")


def test_with_the_spark_operator_it_is_an_application_whose_executors_write_segments(archive: Make) -> None:
    site = archive(spark_operator=True, storageRef={"name": "volume"}, engine={"executor": {"instances": 3}})
    site.step()
    body = site.attempt()
    assert body["kind"] == "SparkApplication"
    assert body["spec"]["executor"]["instances"] == 3
    for part in ("driver", "executor"):
        template = body["spec"][part]["template"]["spec"]
        assert {"name": "archive", "persistentVolumeClaim": {"claimName": "archive"}} in template["volumes"]
        mounts = template["containers"][0]["volumeMounts"]
        assert {"name": "archive", "mountPath": "/archive", "subPath": "kept"} in mounts
    assert site.settings()["archive"] == "/archive"


def test_where_only_jobs_may_run_it_is_a_job_or_refused(archive: Make) -> None:
    site = archive(spark_operator=True)
    site.jobs_only = ("archives",)
    site.step()
    assert site.attempt()["kind"] == "Job"
    other = archive(spark_operator=True, engine={"type": "SparkApplication"})
    other.jobs_only = ("archives",)
    other.settle()
    assert other.condition("Stalled") == ("True", "EngineUnavailable")


def test_the_layout_is_that_of_the_spec(archive: Make) -> None:
    for spec, expected in (({}, None), ({"layout": "KafkaReplicator"}, "kafka-replicator")):
        site = archive(**spec)
        site.step()
        assert site.settings().get("layout") == expected


def test_a_hold_reaches_what_archives_by_another_attempt(archive: Make, line: Line) -> None:
    site = archive()
    site.step()
    assert "hold" not in site.settings()
    for number, hold in enumerate((True, False), 2):
        site.run(line())
        site.settle()
        site.change(hold=hold)
        site.settle()
        assert len(site.begun) == number
        assert site.settings()["hold"] == ("true" if hold else "false")


def test_limits_of_single_topics_are_a_file(archive: Make) -> None:
    site = archive(segments={"perTopic": [{"topic": "transfer-urgent*", "maxAgeSeconds": 5}]})
    site.step()
    data = site.objects["ConfigMap", f"{FIRST}-settings"]["data"]
    assert '"transfer-urgent*"' in data["thresholds.json"]
    assert site.settings()["topicThresholds"] == "/etc/gapless/thresholds.json"


@pytest.mark.parametrize(
    ("change", "reason", "said"),
    [
        ({"kafkas": {}}, "KafkaConnectionNotFound", "KafkaConnection kafka does not exist"),
        ({"locations": {}}, "StorageLocationNotFound", "StorageLocation store does not exist"),
    ],
)
def test_what_it_names_and_is_not_there_stops_it_and_is_waited_for(
    archive: Make, line: Line, change: dict[str, Any], reason: str, said: str
) -> None:
    site = archive()
    site.step()
    site.run(line())
    site.settle()
    kept = {name: getattr(site, name) for name in change}
    for name, value in change.items():
        setattr(site, name, value)
    site.settle()
    assert site.names("Job") == []
    assert site.condition("Stalled") == ("True", reason)
    assert site.condition("Progressing") == ("False", reason)
    assert said in site.message("Ready")
    assert site.plan().requeue_after_seconds == pytest.approx(10, abs=1)
    for name, value in kept.items():
        setattr(site, name, value)
    site.later(seconds=15)
    site.settle()
    assert len(site.begun) == 2


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"topics": ["secret"]}, "spec requests the topic secret"),
        ({"engine": {"image": "other"}}, "spec.engine.image names other"),
        ({"engine": {"serviceAccountName": "other"}}, "spec.engine.serviceAccountName names other"),
        ({"schedule": {"cron": "0 0 30 2 *"}}, "is not a cron expression"),
        ({"compaction": {"schedule": {"cron": "0 3 * * *", "timeZone": "Mars/One"}}}, "time zone"),
    ],
)
def test_what_is_not_allowed_does_not_begin(archive: Make, spec: dict[str, Any], said: str) -> None:
    site = archive(**spec)
    site.settle()
    assert site.begun == []
    assert site.condition("Stalled") == ("True", "BadConfiguration")
    assert said in site.message("Stalled")
    assert [event.reason for event in site.events] == ["BadConfiguration"], "said once"


@pytest.mark.parametrize(
    ("location", "spec", "said"),
    [
        ({"allowedRegions": ["site-b", "site-a-*"]}, {}, "spec requests the region site-a, and only site-b, site-a-* "),
        (
            {"allowedTopics": ["transfer-*"]},
            {},
            "spec requests the archived topic transfer, and only transfer-* ",
        ),
        (
            {"allowedTopics": ["transfer-*", "alarm"]},
            {"topics": None, "topicPrefixes": ["transfer-1", "alarm"]},
            "spec requests the archived topics with the prefix alarm, and only transfer-* may be used",
        ),
        ({"access": ["Read", "Delete"]}, {}, "The StorageLocation store may not be used for writing; ask the platform"),
    ],
)
def test_what_the_location_does_not_allow_is_not_archived_and_does_not_keep_running(
    archive: Make, line: Line, location: dict[str, Any], spec: dict[str, Any], said: str
) -> None:
    site = archive(**spec)
    site.locations["store"] |= location
    site.settle()
    assert site.begun == []
    assert site.condition("Stalled") == ("True", "BadConfiguration")
    assert said in site.message("Stalled")
    running = archive(**spec)
    running.step()
    running.run(line())
    running.locations["store"] |= location
    running.settle()
    assert running.names("Job") == []
    assert said in running.status["lastAttempt"]["message"]
    for name in location:
        del running.locations["store"][name]
    running.later(minutes=1)
    running.settle()
    assert len(running.names("Job")) == 1


def test_what_the_location_allows_is_an_argument_and_a_change_replaces_the_pod(archive: Make, line: Line) -> None:
    def arguments() -> list[str]:
        args = site.attempt(site.begun[-1])["spec"]["template"]["spec"]["containers"][0]["args"]
        return [one for one in args if "archive-allowed" in one]

    site = archive()
    site.step()
    assert arguments() == []
    site.run(line())
    site.locations["store"]["access"] = ["Write"]
    site.settle()
    assert len(site.begun) == 1, "no pod is told what else may be done"
    site.locations["store"] |= {"allowedTopics": ["transfer", "orders-*"], "allowedRegions": ["site-*"]}
    site.settle()
    assert len(site.begun) == 2
    assert arguments() == ["--archive-allowed-topics=transfer,orders-*", "--archive-allowed-regions=site-*"]


def test_a_connection_that_may_only_be_written_is_refused(archive: Make) -> None:
    site = archive()
    site.kafkas["kafka"]["access"] = ["Write"]
    site.settle()
    assert site.begun == []
    assert "may not be used for reading" in site.message("Stalled")


def test_applications_where_there_are_none_are_refused(archive: Make) -> None:
    site = archive(engine={"type": "SparkApplication"})
    site.settle()
    assert site.condition("Stalled") == ("True", "EngineUnavailable")


def test_a_driver_that_cannot_start_is_given_up_and_tried_again(archive: Make) -> None:
    site = archive()
    site.step()
    site.pod(
        phase="Pending",
        containerStatuses=[{"name": "archive", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no"}}}],
    )
    site.later(seconds=31)
    site.step()
    assert site.status["lastAttempt"]["outcome"] == "ImagePullFailed"
    assert site.condition("Stalled") == ("True", "ImagePullFailed")
    assert site.names("Job") == []
    site.later(seconds=11)
    site.step()
    assert len(site.begun) == 2


NIGHTLY = {"cron": "0 2 * * *"}


def test_a_scheduled_archive_runs_once_at_each_time(archive: Make, line: Line) -> None:
    site = archive(schedule=NIGHTLY)
    site.settle()
    assert site.begun == []
    assert site.status["nextScheduleTime"] == "2026-11-21T02:00:00Z"
    assert site.condition("Ready") == ("Unknown", "NeverArchived")
    site.later(hours=16)
    site.step()
    assert len(site.begun) == 1
    assert site.settings()["once"] == "true"
    assert site.attempt()["spec"]["activeDeadlineSeconds"] == 600 + 21600
    site.run(line(site.now))
    site.step()
    assert site.condition("Reconciling") == ("True", "Archiving")
    site.later(seconds=2)
    site.end(line(site.now))
    site.settle()
    assert site.condition("Ready") == ("True", "Archived")
    assert site.condition("Reconciling") == ("False", "Scheduled")
    assert (site.status["lastScheduleTime"], site.status["segments"]) == ("2026-11-21T02:00:00Z", 7)
    assert site.status["nextScheduleTime"] == "2026-11-22T02:00:00Z"
    site.later(hours=24)
    site.step()
    assert len(site.begun) == 2


def test_a_scheduled_run_that_lost_records_says_so(archive: Make, line: Line) -> None:
    site = archive(schedule=NIGHTLY)
    site.later(hours=16)
    site.step()
    site.end(f"{line(site.now, lost_records=3)}gapless: Kafka had deleted 3 offsets.\n", exit_code=4)
    site.settle()
    assert site.condition("Ready") == ("False", "RecordsLost")
    assert site.message("Ready") == "Kafka had deleted 3 offsets."
    assert site.status["lostRecords"] == 3


def test_a_scheduled_run_ends_at_its_deadline(archive: Make) -> None:
    site = archive(schedule=NIGHTLY, runDeadlineSeconds=60)
    site.later(hours=16)
    site.step()
    site.run()
    site.step()
    site.later(seconds=60)
    site.step()
    assert site.status["lastAttempt"]["outcome"] == "RunDeadlineExceeded"
    assert site.names("Job") == []


def test_an_operator_that_dies_after_any_write_repeats_nothing(archive: Make, line: Line) -> None:
    for writes in range(4):
        site = archive()
        site.step(writes=writes)
        site.settle()
        assert site.begun == [FIRST], writes
        assert site.names("ConfigMap") == [f"{FIRST}-settings"], writes
        site.run(line())
        site.settle()
        site.change(topics=["alarm"])
        site.step(writes=writes)
        site.settle()
        assert site.begun == [FIRST, "site-owner-ui-g2-1"], writes
        assert site.names("Job") == ["site-owner-ui-g2-1"], writes


def test_a_lag_that_cannot_be_read_any_more_is_removed_and_whether_it_archives_is_unknown(
    archive: Make, line: Line
) -> None:
    site = archive()
    site.step()
    site.run(line(lag_records=5))
    site.settle()
    assert site.status["observedAt"] == stamp(START)
    site.unreadable = {f"{FIRST}-pod": "i/o timeout"}
    site.later(minutes=14)
    site.settle()
    assert (site.condition("Ready"), site.status["lagRecords"]) == (("True", "Archiving"), 5)
    site.later(minutes=2)
    site.settle()
    for kind in ("Ready", "Progressing"):
        assert site.condition(kind) == ("Unknown", "ProgressUnknown")
    assert not site.status.keys() & {"lagRecords", "lagSeconds", "retentionSeconds"}
    site.later(hours=1)
    assert is_empty(site.plan()), "it is said once"
    site.unreadable = {}
    site.log_more(line(site.now, lag_records=1))
    for _ in range(50):  # The log is tried again after a pause.
        site.step()
    assert (site.condition("Ready"), site.status["lagRecords"]) == (("True", "Archiving"), 1)
    assert site.status["observedAt"] == stamp(site.now)


def test_between_two_runs_the_lag_is_shown_for_a_quarter_of_an_hour(archive: Make, line: Line) -> None:
    site = archive(schedule={"cron": "30 10 * * *"})
    site.settle()
    site.later(minutes=30)
    site.settle()
    site.run(line(site.now, lag_records=5))
    site.step()
    site.end(line(site.now, lag_records=5))
    site.settle()
    assert site.status["lagRecords"] == 5
    site.later(seconds=site.plan().requeue_after_seconds or 0)
    site.settle()
    assert "lagRecords" not in site.status


@pytest.mark.parametrize("schedule", [None, {"cron": "30 10 * * *"}])
def test_what_is_removed_from_the_lists_does_not_keep_running(
    archive: Make, line: Line, schedule: dict[str, Any] | None
) -> None:
    listed = Program(image="gapless/spark:1", allowed_images=frozenset({"own:2"}))
    compaction = {"schedule": {"cron": "30 10 * * *"}}
    site = archive(engine={"image": "own:2"}, schedule=schedule, compaction=compaction)
    site.programs["program"] = listed
    site.settle()
    if schedule is None:
        site.run(line())
        site.settle()
    site.later(minutes=30)
    site.settle()
    assert len(site.names("Job")) == 2, "it archives and compacts"
    for name in site.begun:
        site.run(line(site.now), name=name)
    site.settle()
    site.programs["program"] = Program(image="gapless/spark:1")
    site.settle()
    assert site.names("Job") == []
    for attempt in (site.status["lastAttempt"], site.status["compaction"]["lastAttempt"]):
        assert "was stopped, because it would be refused now. spec.engine.image names own:2" in attempt["message"]
    assert site.condition("Stalled") == ("True", "BadConfiguration")
    site.programs["program"] = listed
    site.settle()
    assert len(site.names("Job")) == (1 if schedule is None else 0), "continuous archiving resumes"
