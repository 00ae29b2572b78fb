"""A Mirror is started, says how far it is and why not further, and is replaced when what it does has changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gapless_operator.common.settings import PodLimits
from gapless_operator.mirroring.properties import mirror_name
from kit.story.memory_cluster import START, stamp
from kit.story.plans import is_empty

Make = Callable[..., Any]
Line = Callable[..., str]
FIRST = "orders-owner-ui-g1-1"


@pytest.mark.parametrize(("workers", "must_stay"), [(3, 2), (1, 0)])
def test_a_drain_may_evict_one_worker_at_a_time(mirror: Make, workers: int, must_stay: int) -> None:
    orders = mirror(workers={"count": 2})
    orders.step()
    orders.change(workers={"count": workers})
    orders.settle()
    (name,) = orders.names("PodDisruptionBudget")
    budget = orders.objects["PodDisruptionBudget", name]
    assert budget["spec"]["minAvailable"] == must_stay
    chosen = budget["spec"]["selector"]["matchLabels"]
    assert chosen.items() <= orders.attempt()["spec"]["template"]["metadata"]["labels"].items()


def test_drivers_of_spark_have_no_budget_that_would_hold_up_a_drain(mirror: Make) -> None:
    orders = mirror(engine="Spark", workers=None, spark={"type": "Job"})
    orders.step()
    assert orders.begun
    assert orders.names("PodDisruptionBudget") == []


def test_workers_are_one_job_that_kubernetes_keeps_running(mirror: Make) -> None:
    orders = mirror(workers={"count": 3, "cpu": "250m", "memory": "1Gi"}, limits={"maxBytesPerSecond": 5000})
    orders.step()
    assert orders.begun == [FIRST]
    assert orders.names("ConfigMap") == [f"{FIRST}-settings", "orders-owner-ui-limits"]
    spec = orders.attempt()["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 3, 3)
    assert "activeDeadlineSeconds" not in spec
    pod = spec["template"]["spec"]
    assert pod["restartPolicy"] == "OnFailure"
    assert pod["automountServiceAccountToken"] is False
    (runner,) = pod["containers"]
    assert runner["image"] == "gapless/sender:1"
    assert runner["resources"] == {"requests": {"cpu": "250m", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}
    assert runner["args"] == [
        *("mirror", "/etc/gapless/mirror.properties"),
        *("--source-allowed-topics=orders*,alarm", "--target-allowed-topics=orders*,north.*"),
    ]
    assert orders.settings() == {
        "sourceBootstrapServers": "north:9092",
        "targetBootstrapServers": "hall:9093",
        "targetTls": "true",
        "targetCaFile": "/etc/gapless/secrets/target/kafka-ca.crt",
        "targetSaslMechanism": "SCRAM-SHA-512",
        "targetSaslUsername": "mirror",
        "targetSaslPasswordFile": "/etc/gapless/secrets/target/kafka-password",
        "name": "mirrors.orders",
        "topics": "orders",
        "rename": "{topic}",
        "lanes": "8",
        "delivery": "exactly-once",
        "onDataLoss": "fail",
        "onBadRecord": "fail",
        "onTargetLoss": "fail",
        "provenance": "auto",
        "createTopics": "true",
        "limitsFile": "/etc/gapless/limits.properties",
        "heartbeat": "false",
        "engine": "workers",
        "metricsPort": "9464",
    }
    assert orders.condition("Ready") == ("Unknown", "NeverMirrored")
    assert orders.condition("Reconciling") == ("True", "Mirroring")
    assert (orders.status["mirrorName"], orders.status["engine"]) == ("mirrors.orders", "Workers")


def test_a_heartbeat_needs_a_source_that_may_be_written(mirror: Make) -> None:
    orders = mirror()
    orders.kafkas["north"]["access"] = ["Read", "Write"]
    orders.step()
    assert orders.settings()["heartbeat"] == "true"


def test_secrets_of_both_clusters_are_in_folders_of_their_own(mirror: Make) -> None:
    orders = mirror()
    orders.kafkas["north"]["tls"] = {"caSecret": {"name": "north-ca"}}
    orders.step()
    (volume,) = [one for one in orders.attempt()["spec"]["template"]["spec"]["volumes"] if one["name"] != "tmp"]
    paths = [
        item["path"] for one in volume["projected"]["sources"] if "secret" in one for item in one["secret"]["items"]
    ]
    assert paths == ["secrets/source/kafka-ca.crt", "secrets/target/kafka-ca.crt", "secrets/target/kafka-password"]


def test_what_the_workers_say_adds_up(mirror: Make, line: Line) -> None:
    orders = mirror(workers={"count": 2})
    orders.step()
    late = {"lag_records": 30, "lag_seconds": 7.5, "lanes_owned": 5, "partitions_with_lag": 1}
    orders.worker(0, line(**late, heartbeat_age_seconds=4.0, retention_seconds=3600.0))
    orders.worker(1, line(lag_records=12, lag_seconds=2.0, lanes_owned=3, last_commit="2026-11-20T09:59:00Z"))
    orders.settle()
    status = orders.status
    assert (status["workers"], status["lanes"], status["lanesOwned"]) == (2, 8, 8)
    assert (status["records"], status["lagRecords"], status["lagSeconds"]) == (1400, 42, 7.5)
    assert (status["heartbeatAgeSeconds"], status["retentionSeconds"]) == (4.0, 3600.0)
    assert (status["partitions"], status["partitionsWithLag"]) == (6, 1)
    assert status["lastCommitTime"] == "2026-11-20T10:00:00Z"
    assert status["topics"] == [
        {"topic": "orders", "target": "orders", "partitions": 6, "lagRecords": 42, "lagSeconds": 7.5}
    ]
    assert orders.condition("Ready") == ("True", "Mirroring")
    assert orders.condition("Progressing") == ("True", "Mirroring")
    assert orders.condition("Reconciling") == ("False", "Settled"), "steady, or a Kustomization would wait for ever"
    assert orders.condition("Stalled") == ("False", "NotStalled")


def test_a_lag_of_which_one_worker_knows_nothing_is_unknown(mirror: Make, line: Line) -> None:
    orders = mirror(workers={"count": 2})
    orders.step()
    orders.worker(0, line(lag_seconds=7.5))
    orders.worker(1, line(lag_seconds=None, lag_records=None))
    orders.settle()
    assert "lagSeconds" not in orders.status
    assert "lagRecords" not in orders.status
    assert [one.keys() & {"lagRecords", "lagSeconds"} for one in orders.status["topics"]] == [set()]


def test_figures_are_written_every_ten_seconds_and_a_beat_alone_every_minute(mirror: Make, line: Line) -> None:
    orders = mirror()
    orders.step()
    orders.worker(0, line(lag_records=5))
    orders.settle()
    orders.later(seconds=5)
    orders.worker(0, line(orders.now, lag_records=0))
    assert is_empty(orders.plan()), "too soon"
    orders.later(seconds=5)
    orders.step()
    assert orders.status["lagRecords"] == 0
    known = orders.status["lastCommitTime"]
    for _ in range(5):
        orders.later(seconds=10)
        orders.worker(0, line(orders.now, heartbeat_age_seconds=2.0, last_commit=known))
        assert is_empty(orders.plan()), "only the age of the heartbeat is another one"
    orders.later(seconds=10)
    orders.worker(0, line(orders.now, heartbeat_age_seconds=2.0, last_commit=known))
    orders.step()
    assert orders.status["heartbeatAgeSeconds"] == 2.0


def test_an_idle_mirror_is_ready_and_says_so(mirror: Make, line: Line) -> None:
    orders = mirror()
    orders.step()
    orders.worker(0, line(state="idle"))
    orders.settle()
    assert orders.condition("Ready") == ("True", "Mirroring")
    assert orders.condition("Progressing") == ("True", "SourceIdle")


@pytest.mark.parametrize(
    "reason",
    [
        *("CoordinatorUnavailable", "LeaderMissing", "AuthorizationFailed", "TargetRefuses", "RetentionOvertook"),
        *("TopicRecreated", "TransactionOpen", "WorkerStuck", "SourceTruncated"),
        *("TargetDeleted", "TargetRecreated", "TargetTruncated", "CopyFailed", "SourceDamaged"),
    ],
)
def test_a_stall_has_its_name_in_every_condition_and_goes_with_its_cause(
    mirror: Make, line: Line, problem: Make, reason: str
) -> None:
    orders = mirror()
    orders.step()
    orders.worker(0, line(state="stalled", problems=(problem(reason, message="Nothing moves."),)))
    orders.settle()
    assert orders.condition("Ready") == ("False", reason)
    assert orders.condition("Progressing") == ("False", reason)
    assert orders.condition("Stalled") == ("True", reason)
    assert orders.message("Stalled") == "Nothing moves."
    assert orders.status["problems"][0]["reason"] == reason
    (told,) = [event for event in orders.events if event.reason == reason]
    assert (told.type, told.message) == ("Warning", "Nothing moves.")
    orders.later(seconds=10)
    orders.worker(0, line(orders.now))
    orders.settle()
    assert orders.condition("Stalled") == ("False", "NotStalled")
    assert "problems" not in orders.status or not orders.status["problems"]


def test_the_gravest_of_several_stalls_is_named_and_all_are_listed(mirror: Make, line: Line, problem: Make) -> None:
    orders = mirror(workers={"count": 2})
    orders.step()
    orders.worker(0, line(problems=(problem("TransactionOpen"), problem("SourceIdle"))))
    orders.worker(1, line(problems=(problem("TopicRecreated", "alarm"), problem("TransactionOpen"))))
    orders.settle()
    assert orders.condition("Stalled") == ("True", "TopicRecreated")
    listed = [(one["reason"], one["topic"]) for one in orders.status["problems"]]
    assert listed == [("TopicRecreated", "alarm"), ("TransactionOpen", "orders")]


def test_a_worker_that_logs_nothing_for_a_minute_is_stuck(mirror: Make, line: Line) -> None:
    orders = mirror()
    orders.step()
    orders.worker(0, line())
    orders.settle()
    orders.later(seconds=59)
    orders.step()
    assert orders.condition("Ready") == ("True", "Mirroring")
    orders.later(seconds=1)
    orders.step()
    assert orders.condition("Stalled") == ("True", "WorkerStuck")
    assert f"Pod {FIRST}-0-0 has logged nothing since 2026-11-20 10:00:00 UTC" in orders.message("Stalled")


@pytest.mark.parametrize("minutes", [-30, 30])
def test_a_node_whose_clock_is_wrong_makes_no_worker_stuck_and_hides_none(
    mirror: Make, line: Line, minutes: int
) -> None:
    orders = mirror()
    orders.step()
    for _ in range(3):
        orders.worker(0, line(orders.now + timedelta(minutes=minutes)))
        orders.settle()
        orders.later(seconds=59)
        orders.settle()
        assert orders.condition("Ready") == ("True", "Mirroring")
    orders.later(seconds=1)
    orders.settle()
    assert orders.condition("Stalled") == ("True", "WorkerStuck")


def test_while_one_worker_is_replaced_the_mirror_is_ready_and_says_who_is_missing(mirror: Make, line: Line) -> None:
    orders = mirror(workers={"count": 2})
    orders.step()
    orders.worker(0, line(lanes_owned=4))
    orders.worker(1, line(lanes_owned=4))
    orders.settle()
    del orders.pods[f"{FIRST}-1-0"]
    orders.later(seconds=10)
    orders.worker(0, line(orders.now))
    orders.worker(1, again=1, phase="Pending", containerStatuses=[])
    orders.step()
    assert orders.condition("Ready") == ("True", "Mirroring")
    assert orders.condition("Reconciling") == ("True", "Mirroring")
    assert "1 of 2 workers run" in orders.message("Reconciling")
    assert orders.status["workers"] == 1
    orders.worker(1, line(orders.now), again=1, phase="Running", containerStatuses=_running(orders))
    orders.later(seconds=10)
    orders.settle()
    assert orders.condition("Reconciling") == ("False", "Settled")
    assert orders.begun == [FIRST], "the Job has replaced it"


@pytest.mark.parametrize("leaves_a_pod", [False, True])
def test_the_only_worker_is_replaced_by_its_job_and_until_then_nothing_is_said_to_be_copied(
    mirror: Make, line: Line, *, leaves_a_pod: bool
) -> None:
    """A drained node takes the pod away, an evicted one stays as Failed."""
    orders = mirror()
    orders.step()
    orders.worker(0, line())
    orders.settle()
    orders.later(days=6)
    if leaves_a_pod:
        ended = {"terminated": {"exitCode": 137, "startedAt": stamp(START), "finishedAt": stamp(orders.now)}}
        orders.worker(phase="Failed", reason="Evicted", containerStatuses=[{"name": "main", "state": ended}])
    else:
        orders.pods.clear()
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes."}
    orders.worker(again=1, phase="Pending", containerStatuses=[], conditions=[unschedulable])
    for seconds in (1, 58):
        orders.later(seconds=seconds)
        orders.settle()
        assert orders.condition("Ready") == ("True", "Mirroring"), "a moment is no news"
    orders.later(seconds=1)
    orders.settle()
    for condition in ("Ready", "Progressing"):
        assert orders.condition(condition) == ("False", "PodUnschedulable")
    assert orders.condition("Stalled") == ("True", "PodUnschedulable")
    assert orders.message("Ready").startswith(f"No worker of the Job {FIRST} runs. Pod {FIRST}-0-1 cannot be scheduled")
    assert orders.message("Reconciling").startswith("0 of 1 workers run.")
    orders.worker(0, line(orders.now), again=1, phase="Running", containerStatuses=_running(orders), conditions=[])
    orders.settle()
    assert orders.condition("Ready") == ("True", "Mirroring")
    assert orders.begun == [FIRST]


def test_a_worker_on_a_lost_node_is_kubernetes_to_replace(mirror: Make, line: Line) -> None:
    orders = mirror(workers={"count": 2})
    orders.step()
    orders.worker(0, line())
    orders.worker(1, line())
    orders.settle()
    orders.later(seconds=600)
    orders.pods[f"{FIRST}-1-0"]["metadata"]["deletionTimestamp"] = "2026-11-20T10:05:00Z"
    orders.worker(0, line(orders.now))
    orders.settle()
    assert orders.begun == [FIRST]


@pytest.mark.parametrize(
    ("exit_code", "reason", "stalled"),
    [(2, "BadConfiguration", True), (3, "SourceUnreachable", False), (1, "MirrorFailed", True)],
)
def test_workers_that_end_again_and_again_say_why(mirror: Make, exit_code: int, reason: str, *, stalled: bool) -> None:
    orders = mirror()
    orders.step()
    orders.crash(exit_code, "starting\ngapless: The target north:9092 says no.\n")
    orders.settle()
    assert orders.condition("Ready") == ("False", reason)
    assert orders.message("Ready") == "The target north:9092 says no."
    assert orders.condition("Stalled")[0] == str(stalled)
    assert orders.begun == [FIRST], "the kubelet starts it again"


def test_one_worker_that_fails_beside_one_that_runs_is_no_failure(mirror: Make, line: Line) -> None:
    orders = mirror(workers={"count": 2})
    orders.step()
    orders.worker(0, line())
    orders.crash(3, "gapless: Kafka does not answer.\n", index=1)
    orders.settle()
    assert orders.condition("Ready") == ("True", "Mirroring")
    assert "1 of 2 workers run" in orders.message("Reconciling")


def test_other_limits_are_written_and_replace_no_pod(mirror: Make, line: Line) -> None:
    orders = mirror(limits={"maxRecordsPerSecond": 100})
    orders.step()
    orders.worker(0, line())
    orders.settle()
    orders.change(limits={"maxBytesPerSecond": 70_000, "maxRecordsPerSecond": 900})
    orders.settle()
    assert orders.begun == [FIRST]
    told = orders.objects["ConfigMap", "orders-owner-ui-limits"]["data"]["limits.properties"]
    assert told == "maxBytesPerSecond=70000\nmaxRecordsPerSecond=900\n"
    orders.change(limits={})
    orders.settle()
    told = orders.objects["ConfigMap", "orders-owner-ui-limits"]["data"]["limits.properties"]
    assert not told, "no limit"
    assert orders.begun == [FIRST]


@pytest.mark.parametrize(("spec", "told"), [({"workers": {"count": 4}}, "250"), ({"engine": "Spark"}, "1000")])
def test_each_worker_has_its_part_of_the_limits(mirror: Make, spec: dict[str, Any], told: str) -> None:
    orders = mirror(limits={"maxRecordsPerSecond": 1000}, **spec)
    orders.step()
    limits = orders.objects["ConfigMap", "orders-owner-ui-limits"]["data"]["limits.properties"]
    assert limits == f"maxRecordsPerSecond={told}\n"


@pytest.mark.parametrize(
    "change",
    [
        {"topics": ["orders", "alarm"], "rename": "{topic}", "exclude": ["orders-test*"]},
        {"workers": {"count": 2}},
        {"delivery": "AtLeastOnce"},
        {"engine": "Spark"},
    ],
)
def test_another_spec_replaces_what_runs(mirror: Make, line: Line, change: dict[str, Any]) -> None:
    orders = mirror()
    orders.kafkas["hall"]["allowedTopics"] = ["*"]
    orders.step()
    orders.worker(0, line())
    orders.settle()
    orders.change(**change)
    orders.settle()
    assert orders.begun == [FIRST, "orders-owner-ui-g2-1"]
    assert orders.names("Job") == ["orders-owner-ui-g2-1"]
    assert f"{FIRST}-settings" not in orders.names("ConfigMap")


def test_options_of_the_other_engine_replace_nothing(mirror: Make, line: Line) -> None:
    orders = mirror()
    orders.step()
    orders.worker(0, line())
    orders.settle()
    orders.change(spark={"driver": {"memory": "4Gi"}})
    orders.settle()
    assert orders.begun == [FIRST]


def test_another_image_replaces_the_workers(mirror: Make, line: Line) -> None:
    orders = mirror()
    orders.step()
    orders.worker(0, line())
    orders.settle()
    orders.programs["workers"] = type(orders.programs["workers"])(image="gapless/sender:2")
    orders.settle()
    assert orders.begun == [FIRST, "orders-owner-ui-g1-2"]
    (runner,) = orders.attempt()["spec"]["template"]["spec"]["containers"]
    assert runner["image"] == "gapless/sender:2"


def test_a_suspended_mirror_stops_and_continues(mirror: Make, line: Line) -> None:
    orders = mirror()
    orders.step()
    orders.worker(0, line())
    orders.settle()
    assert (orders.status["lagRecords"], orders.status["topics"][0]["lagRecords"]) == (0, 0)
    orders.change(suspend=True)
    orders.settle()
    assert orders.names("Job") == []
    assert not orders.status.keys() & {"lagRecords", "lagSeconds", "heartbeatAgeSeconds"}, "nobody looks at it"
    assert [topic.get("lagRecords") for topic in orders.status["topics"]] == [None]
    assert orders.condition("Ready") == ("False", "Suspended")
    assert orders.condition("Stalled") == ("False", "NotStalled")
    assert orders.status["workers"] == 0
    orders.change(suspend=False)
    orders.step()
    assert orders.begun == [FIRST, "orders-owner-ui-g3-1"]


@pytest.mark.parametrize("missing", ["north", "hall"])
def test_a_connection_that_goes_stops_it_and_one_that_comes_starts_it(mirror: Make, line: Line, missing: str) -> None:
    orders = mirror()
    orders.step()
    orders.worker(0, line())
    orders.settle()
    kept = orders.kafkas.pop(missing)
    orders.settle()
    assert orders.names("Job") == []
    assert orders.condition("Stalled") == ("True", "KafkaConnectionNotFound")
    field = "sourceRef" if missing == "north" else "targetRef"
    assert f"KafkaConnection {missing} does not exist" in orders.message("Ready")
    assert f"spec.{field}" in orders.message("Ready")
    orders.kafkas[missing] = kept
    orders.later(minutes=6)
    orders.settle()
    assert len(orders.begun) == 2


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"topics": ["secret"]}, "secret"),
        ({"rename": "copy.{topic}"}, "copy.orders"),
        ({"sourceRef": {"name": "hall"}, "targetRef": {"name": "north"}}, "may not be used for writing"),
    ],
)
def test_what_a_connection_does_not_open_is_refused(mirror: Make, spec: dict[str, Any], words: str) -> None:
    orders = mirror(**spec)
    orders.step()
    assert orders.begun == []
    assert orders.condition("Stalled") == ("True", "BadConfiguration")
    assert words in orders.message("Stalled")


@pytest.mark.parametrize("name", ["team-a.orders", "mirrors-too.orders", "mirrors", "orders-of-old"])
def test_a_name_that_another_namespace_may_have_is_refused_unless_the_connection_lists_it(
    mirror: Make, name: str
) -> None:
    orders = mirror()
    orders.body["spec"]["name"] = name
    orders.step()
    assert orders.begun == []
    assert orders.condition("Stalled") == ("True", "BadConfiguration")
    assert f"spec.name is {name}, which another namespace may have; begin it with mirrors." in orders.message("Stalled")
    orders.kafkas["hall"]["allowedMirrorNames"] = [name]
    orders.settle()
    assert orders.settings()["name"] == name
    del orders.kafkas["hall"]["allowedMirrorNames"]
    orders.settle()
    assert orders.names("Job") == []
    assert name in orders.message("Stalled")


def test_a_name_that_another_mirror_may_have_replaces_no_pod(mirror: Make, line: Line) -> None:
    orders = mirror()
    orders.step()
    orders.worker(0, line())
    orders.kafkas["hall"]["allowedMirrorNames"] = ["orders-of-old"]
    orders.settle()
    assert orders.begun == [FIRST]


@pytest.mark.parametrize(
    ("groups", "listed", "is_refused"),
    [
        ({"names": ["billing", "*"]}, [], False),
        ({"prefixes": ["billing-"]}, [], True),
        ({"prefixes": ["billing-", "b"]}, ["billing-*"], True),
        ({"prefixes": ["billing-"]}, ["billing-1"], True),
        ({"prefixes": ["billing-"]}, ["bill*"], False),
        ({"pattern": ".*"}, [], True),
        ({"pattern": ".*"}, ["billing-*"], False),
        ({"names": ["billing"], "pattern": "billing"}, [], True),
    ],
)
def test_groups_that_others_may_have_are_not_committed_unless_the_connection_lists_them(
    mirror: Make, groups: dict[str, Any], listed: list[str], *, is_refused: bool
) -> None:
    orders = mirror(groups=groups)
    orders.kafkas["hall"]["allowedGroups"] = listed
    orders.step()
    if is_refused:
        assert orders.begun == []
        assert orders.condition("Stalled") == ("True", "BadConfiguration")
        assert "to allowedGroups of the KafkaConnection hall." in orders.message("Stalled")
    else:
        args = orders.attempt()["spec"]["template"]["spec"]["containers"][0]["args"]
        assert [one for one in args if "groups" in one] == (
            [] if groups.keys() == {"names"} else [f"--allowed-groups={','.join(listed)}"]
        )


def test_groups_that_are_no_longer_listed_replace_or_stop_the_mirror(mirror: Make, line: Line) -> None:
    orders = mirror(groups={"prefixes": ["billing-"], "pattern": ".*"})
    orders.kafkas["hall"]["allowedGroups"] = ["billing-*", "x"]
    orders.step()
    orders.worker(0, line())
    orders.kafkas["hall"]["allowedGroups"] = ["billing-*"]
    orders.settle()
    assert orders.begun == [FIRST, "orders-owner-ui-g1-2"]
    orders.kafkas["hall"]["allowedGroups"] = ["x"]
    orders.settle()
    assert orders.names("Job") == []
    assert "the prefix billing-" in orders.message("Stalled")


def test_a_name_that_begins_with_the_namespace_is_taken(mirror: Make) -> None:
    orders = mirror()
    orders.body["spec"]["name"] = "mirrors.renamed"
    orders.step()
    assert orders.settings()["name"] == "mirrors.renamed"


SQL = {"transform": "SELECT value\nFROM records WHERE topic = 'two  spaces'", "transformTopics": ["errors", "late"]}


@pytest.mark.parametrize("engine", ["Auto", "Workers", "Spark"])
def test_sql_runs_beside_each_worker_in_a_container_that_has_nothing_of_it(
    mirror: Make, line: Line, engine: str
) -> None:
    orders = mirror(engine=engine, spark={"driver": {"cores": 2, "memory": "2Gi"}}, **SQL)
    orders.kafkas["hall"]["allowedTopics"] = ["orders*", "errors", "late"]
    orders.step()
    attempt = orders.attempt()
    assert (attempt["kind"], orders.status["engine"]) == ("Job", "Workers")
    settings = orders.settings()
    assert settings["transform"] == "SELECT value FROM records WHERE topic = 'two  spaces'"
    assert (settings["engine"], settings["transformTopics"]) == ("workers", "errors,late")
    pod = attempt["spec"]["template"]["spec"]
    (sql,), (worker,) = pod["initContainers"], pod["containers"]
    assert (sql["restartPolicy"], sql["image"], worker["image"]) == ("Always", "gapless/spark:1", "gapless/sender:1")
    assert sql["args"][2:] == [
        f"--transform-socket={settings['transformSocket']}",
        "--master=local[2]",
        "--driver-memory=2048m",
    ]
    sources = {volume["name"]: set(volume) - {"name"} for volume in pod["volumes"]}
    assert {each["name"] for each in worker["volumeMounts"]} == {"tmp", "configuration", "sql-socket"}
    assert [sources[each["name"]] for each in sql["volumeMounts"]] == [{"emptyDir"}, {"emptyDir"}]
    shared = {each["name"] for each in sql["volumeMounts"]} & {each["name"] for each in worker["volumeMounts"]}
    assert shared == {"sql-socket"}
    assert [each["name"] for each in sql["env"]] == ["HOME"]
    assert "envFrom" not in sql
    assert pod["automountServiceAccountToken"] is False
    orders.worker(0, line())
    orders.settle()
    assert (orders.status["workers"], orders.condition("Ready")) == (1, ("True", "Mirroring"))


def test_a_mirror_without_sql_has_no_container_for_it(mirror: Make) -> None:
    orders = mirror()
    orders.step()
    assert "initContainers" not in orders.attempt()["spec"]["template"]["spec"]
    assert "transformSocket" not in orders.settings()


def test_the_container_of_sql_is_bounded_like_a_driver_and_another_image_of_it_replaces_the_pods(mirror: Make) -> None:
    orders = mirror(spark={"image": "stranger/spark:1"}, transform="WHERE value IS NOT NULL")
    orders.settle()
    assert orders.begun == []
    assert "spec.spark.image names stranger/spark:1" in orders.message("Stalled")
    orders.body["spec"]["spark"] = {}
    orders.settle()
    (first,) = orders.names("Job")
    orders.body["spec"]["spark"] = {"driver": {"memory": "2Gi"}}
    orders.body["metadata"]["generation"] += 1
    orders.settle()
    (second,) = orders.names("Job")
    assert first != second


def test_the_end_of_the_container_of_sql_is_not_the_end_of_its_worker(mirror: Make, line: Line) -> None:
    orders = mirror(transform="WHERE value IS NOT NULL")
    orders.step()
    killed = {"exitCode": 143, "finishedAt": stamp(orders.now)}
    orders.worker(0, line(), initContainerStatuses=[{"name": "sql", "state": {"terminated": killed}}])
    pod = next(iter(orders.pods.values()))
    pod["spec"]["initContainers"] = [{"name": "sql", "restartPolicy": "Always"}]
    orders.settle()
    assert orders.condition("Ready") == ("True", "Mirroring")
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 10s"}
    ended = {"exitCode": 2, "message": "gapless: Spark needs Java 17 or 21.\n", "finishedAt": stamp(orders.now)}
    crashed = {"name": "sql", "state": {"waiting": waiting}, "lastState": {"terminated": ended}}
    pod["status"]["initContainerStatuses"] = [crashed]
    orders.settle()
    assert orders.condition("Ready") == ("False", "BadConfiguration")
    assert "Spark needs Java" in orders.message("Ready")


def test_a_spark_driver_that_ends_is_replaced_with_growing_pauses_until_it_copies(mirror: Make, line: Line) -> None:
    orders = mirror(engine="Spark")
    orders.step()
    waited = []
    for number in (1, 2):
        orders.run()
        orders.step()
        orders.end("gapless: Kafka does not answer.\n", exit_code=3)
        orders.step()
        assert orders.status["failures"] == number
        assert orders.condition("Ready") == ("False", "SourceUnreachable")
        began = orders.now
        while len(orders.begun) == number:
            orders.later(seconds=1)
            orders.step()
        waited.append(round((orders.now - began).total_seconds()))
    assert waited == [5, 10]
    orders.later(seconds=30)
    orders.run(line(orders.now))
    orders.step()
    assert orders.status["failures"] == 0


def test_a_crash_anywhere_starts_nothing_twice(mirror: Make, line: Line) -> None:
    for writes in range(5):
        orders = mirror()
        orders.step(writes=writes)
        orders.settle()
        assert orders.begun == [FIRST]
        orders.worker(0, line())
        orders.settle()
        orders.change(workers={"count": 2})
        orders.step(writes=writes)
        orders.settle()
        assert orders.names("Job") == ["orders-owner-ui-g2-1"]


def test_names_in_the_target_are_lasting_and_of_one_mirror_only(mirror: Make) -> None:
    names = [mirror(name=name).owner for name in ("a", "a.b", "x" * 200, "x" * 201)]
    found = [mirror_name(owner) for owner in names]
    assert found[:2] == ["mirrors.a", "mirrors.a.b"]
    assert len(set(found)) == 4
    assert max(map(len, found)) == 63
    assert mirror_name(mirror(name="a").owner) == "mirrors.a"


def _running(orders: Any) -> list[dict[str, Any]]:
    return [{"name": "main", "state": {"running": {"startedAt": f"{orders.now:%Y-%m-%dT%H:%M:%SZ}"}}}]


def test_a_lag_that_cannot_be_read_any_more_is_removed_and_whether_it_copies_is_unknown(
    mirror: Make, line: Line
) -> None:
    orders = mirror(workers={"count": 2})
    orders.step()
    for index in range(2):
        orders.worker(index, line(lag_records=5))
    orders.settle()
    assert orders.status["observedAt"] == stamp(START)
    orders.unreadable = dict.fromkeys(orders.pods, "Get https://10.1.1.1:10250: i/o timeout.")
    orders.later(seconds=90)
    orders.settle()
    assert (orders.condition("Ready"), orders.status["lagRecords"]) == (("True", "Mirroring"), 10)
    orders.later(seconds=31)
    orders.settle()
    for kind in ("Ready", "Progressing"):
        assert orders.condition(kind) == ("Unknown", "ProgressUnknown")
    assert orders.condition("Stalled") == ("False", "NotStalled")
    assert orders.message("Ready") == (
        f"The log of pod {FIRST}-0-0 has been unreadable since 2026-11-20T10:01:30Z (Get https://10.1.1.1:10250: i/o "
        f"timeout), so it is unknown whether it makes progress."
    )
    assert not orders.status.keys() & {"lagRecords", "lagSeconds", "heartbeatAgeSeconds"}
    assert orders.status["observedAt"] == stamp(START), "nothing was read since"
    orders.later(minutes=30)
    assert is_empty(orders.plan()), "it is said once"
    orders.unreadable = {}
    for index in range(2):
        orders.worker(index, line(orders.now, lag_records=1))
    for _ in range(50):  # The log is tried again after a pause.
        orders.step()
    assert (orders.condition("Ready"), orders.status["lagRecords"]) == (("True", "Mirroring"), 2)
    assert orders.status["observedAt"] == stamp(orders.now)


def test_the_lag_is_that_of_the_workers_that_can_be_read(mirror: Make, line: Line) -> None:
    orders = mirror(workers={"count": 2})
    orders.step()
    for index in range(2):
        orders.worker(index, line(lag_records=5))
    orders.settle()
    orders.unreadable = {f"{FIRST}-1-0": "i/o timeout"}
    orders.later(minutes=3)
    orders.worker(0, line(orders.now, lag_records=7))
    orders.settle()
    assert orders.condition("Ready") == ("True", "Mirroring")
    assert (orders.status["lagRecords"], orders.status["workers"]) == (7, 1)


def test_looking_again_writes_nothing_while_nothing_changes(mirror: Make, line: Line) -> None:
    orders = mirror()
    orders.step()
    orders.worker(0, line())
    orders.settle()
    for _ in range(20):
        orders.later(minutes=1)
        orders.worker(0, line(START, time=stamp(orders.now)))
        assert is_empty(orders.plan()), orders.plan()
    assert orders.status["observedAt"] == stamp(START)
    orders.worker(0, line(START, time=stamp(orders.now), lag_records=1))
    orders.settle()
    assert orders.status["observedAt"] == stamp(orders.now)


@pytest.mark.parametrize(
    "named",
    [{"transform": "WHERE key = 1", "transformTopics": ["errors"]}, {"onBadRecord": "Park", "parkingTopic": "p"}],
)
def test_every_topic_of_the_target_that_the_spec_names_must_be_allowed(mirror: Make, named: dict[str, Any]) -> None:
    orders = mirror(**named)
    orders.settle()
    assert orders.begun == []
    assert "ask the platform team to add it to allowedTopics" in orders.message("Stalled")
    orders.kafkas["hall"]["allowedTopics"] = ["*"]
    orders.settle()
    assert len(orders.begun) == 1
    orders.kafkas["hall"]["allowedTopics"] = ["orders*"]
    orders.settle()
    assert orders.names("Job") == []


def test_nobody_looks_at_the_lag_of_a_mirror_that_may_not_start(mirror: Make, line: Line) -> None:
    orders = mirror()
    orders.step()
    orders.worker(0, line(lag_records=5))
    orders.settle()
    orders.kafkas["north"]["allowedTopics"] = ["alarm"]
    orders.change(lanes=4)
    orders.settle()
    assert orders.condition("Ready")[0] == "False"
    assert "lagRecords" not in orders.status


@pytest.mark.parametrize(
    ("workers", "limits", "sentence"),
    [
        (
            {"count": 3},
            PodLimits(pods=2),
            "spec.workers.count is 3, and the platform team allows at most 2; lower it",
        ),
        ({"cpu": "1500m"}, PodLimits(cores=1), "spec.workers.cpu is 1500m, and the platform team allows at most 1;"),
        ({"memory": "1Gi"}, PodLimits(memory="1023Mi"), "ask them to raise the chart's value podLimits.memory."),
    ],
)
def test_workers_that_are_larger_or_more_than_what_is_allowed_now_do_not_keep_running(
    mirror: Make, line: Line, workers: dict[str, Any], limits: PodLimits, sentence: str
) -> None:
    orders = mirror(workers=workers)
    orders.step()
    orders.worker(0, line())
    orders.settle()
    orders.programs["workers"] = replace(orders.programs["workers"], pod_limits=limits)
    orders.settle()
    assert orders.names("Job") == []
    assert sentence in orders.status["lastAttempt"]["message"]
    assert orders.condition("Stalled") == ("True", "BadConfiguration")
