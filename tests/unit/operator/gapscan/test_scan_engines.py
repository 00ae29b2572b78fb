"""Which engine runs a scan, and what happens where that engine is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_operator.common.settings import PodLimits, Program

Make = Callable[..., Any]
Gaps = dict[tuple[str, int], list[tuple[int, int]]]
NIGHTLY = {"cron": "30 2 * * *", "timeZone": "Europe/Stockholm"}
MINUTELY = {"cron": "* * * * *"}


def test_auto_uses_the_spark_operator_if_it_is_installed(cluster: Make, gaps: Gaps) -> None:
    night = cluster(spark_operator=True)
    night.step()
    assert night.names("SparkApplication") == ["night-scan-uid-g1-1"]
    night.answer(gaps)
    assert night.status["lastAttempt"]["engine"] == "SparkApplication"
    assert night.status["missingEvents"] == 7


def test_auto_without_the_spark_operator_takes_a_job_and_says_so_once(cluster: Make, gaps: Gaps) -> None:
    night = cluster(schedule=MINUTELY)
    for _ in range(2):
        night.later(minutes=1)
        night.step()
        assert night.names("Job")
        assert "this cluster has no Spark operator" in night.message("Reconciling")
        night.run()
        night.step()
        assert "this cluster has no Spark operator" in night.message("Reconciling"), "as long as the scan runs"
        night.end(night.log_of(gaps))
        night.settle()
    told = [event for event in night.events if event.reason == "NoSparkOperator"]
    assert [event.type for event in told] == ["Normal"]
    night.spark_operator = True
    night.later(minutes=1)
    night.step()
    assert night.status["lastAttempt"]["engine"] == "SparkApplication"
    assert "no Spark operator" not in night.message("Reconciling")


def test_a_requested_job_is_not_a_fallback(cluster: Make) -> None:
    for engine in ({"type": "Job"}, {"reader": "Local"}):
        night = cluster(engine=engine)
        night.step()
        assert [event.reason for event in night.events] == ["Scanning"]


def settings_of(night: Any) -> list[str]:
    body: dict[str, Any] = night.objects["ConfigMap", "night-scan-uid-g1-1-settings"]
    return list(body["data"]["scan.properties"].splitlines())


def test_spark_reads_unless_the_spec_says_local(cluster: Make) -> None:
    for spec, reader in (
        ({}, "spark"),
        ({"engine": {"type": "Job"}}, "spark"),
        ({"engine": {"reader": "Local"}}, "local"),
    ):
        night = cluster(**spec)
        night.step()
        assert f"engine={reader}" in settings_of(night)


def test_auto_takes_a_job_for_what_is_read_locally_although_the_spark_operator_is_there(cluster: Make) -> None:
    night = cluster(spark_operator=True, engine={"reader": "Local"})
    night.step()
    assert night.names("Job") == ["night-scan-uid-g1-1"]
    assert night.names("SparkApplication") == []


def test_a_spark_application_that_reads_locally_is_refused(cluster: Make) -> None:
    with pytest.raises(ConfigurationError, match="reader Local does not use Spark and cannot run as a SparkAppl"):
        cluster(spark_operator=True, engine={"type": "SparkApplication", "reader": "Local"}).step()


def test_the_status_says_what_read(cluster: Make, gaps: Gaps) -> None:
    night = cluster(schedule=MINUTELY)
    for said, expected in (("spark", "spark"), ("local", "local"), (None, None)):
        night.later(minutes=1)
        night.step()
        night.answer(gaps, read_by=said)
        assert night.status.get("readBy") == expected


def test_a_driver_that_ended_well_counts_although_the_spark_operator_says_failed(cluster: Make, gaps: Gaps) -> None:
    night = cluster(spark_operator=True)
    night.step()
    night.run()
    night.end(night.log_of(gaps))
    night.attempt()["status"]["applicationState"] = {"state": "FAILED", "errorMessage": "driver pod not found"}
    night.settle()
    assert night.condition("Ready") == ("True", "GapsFound")


def test_long_errors_of_spark_submit_are_shortened(cluster: Make) -> None:
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
    assert message.startswith(
        "The SparkApplication night-scan-uid-g1-1 failed: failed to run spark-submit: at org.apache at"
    )
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
    assert night.names("SparkApplication") == ["night-scan-uid-g1-1"]
    assert night.condition("Stalled") == ("False", "NotStalled")
    assert night.condition("Ready") == ("Unknown", "NeverScanned")
    night.settle()
    assert night.condition("Ready") == ("Unknown", "NeverScanned")


SPARK = {"image": "gapless/spark:1", "service_account": "gapless-spark"}


@pytest.mark.parametrize(
    ("spec", "field", "name", "value"),
    [
        ({"engine": {"image": "evil/spark:2"}}, "engine.image", "evil/spark:2", "scan.allowedImages"),
        (
            {"engine": {"serviceAccountName": "cluster-admin"}},
            "engine.serviceAccountName",
            "cluster-admin",
            "scan.allowedServiceAccounts",
        ),
        ({"signingKeySecret": {"name": "tls"}}, "signingKeySecret", "tls", "scan.signingKeySecrets"),
    ],
)
def test_what_the_platform_team_has_not_listed_is_refused_and_nothing_begins(
    cluster: Make, spec: dict[str, Any], field: str, name: str, value: str
) -> None:
    night = cluster(**spec)
    night.programs["program"] = Program(**SPARK)
    night.settle()
    assert night.condition("Stalled") == ("True", "BadConfiguration")
    assert night.message("Stalled") == (
        f"spec.{field} names {name}, which the platform team has not listed; delete it, or ask them to add it to the "
        f"chart's value {value}."
    )
    assert [event.type for event in night.events] == ["Warning"]
    assert not night.begun


def test_what_is_listed_and_what_the_operator_would_take_itself_is_allowed(cluster: Make) -> None:
    listed = Program(
        **SPARK,
        allowed_images=frozenset({"registry/spark:2"}),
        allowed_service_accounts=frozenset({"own"}),
        signing_key_secrets=frozenset({"signing"}),
    )
    for engine in (
        {"image": "registry/spark:2", "serviceAccountName": "own"},
        {"image": SPARK["image"], "serviceAccountName": SPARK["service_account"]},
    ):
        night = cluster(engine=engine, signingKeySecret={"name": "signing"})
        night.programs["program"] = listed
        night.step()
        assert night.begun


@pytest.mark.parametrize(
    ("engine", "sentence"),
    [
        (
            {"driver": {"cores": 3}},
            "spec.engine.driver.cores is 3, and the platform team allows at most 2; lower it,",
        ),
        ({"driver": {"cpu": "2001m"}}, "spec.engine.driver.cpu is 2001m, and the platform team allows at most 2;"),
        ({"driver": {"memory": "4097Mi"}}, "spec.engine.driver.memory is 4097Mi, and the platform team allows at most"),
        ({"executor": {"cores": 3}}, "spec.engine.executor.cores is 3, and the platform team allows at most 2;"),
        (
            {"executor": {"memory": "5Gi"}},
            "spec.engine.executor.memory is 5Gi, and the platform team allows at most 4Gi",
        ),
        ({"executor": {"instances": 9}}, "ask them to raise the chart's value podLimits.pods."),
        ({"driver": {"cores": 2, "cpu": "2", "memory": "4Gi"}, "executor": {"instances": 8, "memory": "4096Mi"}}, ""),
    ],
)
def test_pods_are_no_larger_and_no_more_than_the_platform_team_allows(
    cluster: Make, engine: dict[str, Any], sentence: str
) -> None:
    night = cluster(engine=engine)
    night.programs["program"] = Program(**SPARK, pod_limits=PodLimits(cores=2, memory="4Gi", pods=8))
    night.step()
    assert bool(night.begun) == (not sentence)
    if sentence:
        assert night.condition("Stalled") == ("True", "BadConfiguration")
        assert sentence in night.message("Stalled")


def test_a_scan_that_runs_ends_when_its_pods_are_larger_than_what_is_allowed_now(cluster: Make) -> None:
    night = cluster(engine={"driver": {"cores": 4}})
    night.step()
    night.run()
    night.programs["program"] = Program(**SPARK, pod_limits=PodLimits(cores=2))
    night.settle()
    assert night.names("Job") == []
    assert "would be refused now. spec.engine.driver.cores is 4" in night.status["lastAttempt"]["message"]


def test_a_scan_that_runs_ends_when_its_spec_names_what_is_not_listed(cluster: Make) -> None:
    night = cluster(engine={"type": "Job"})
    night.step()
    night.run()
    night.change(engine={"type": "Job", "image": "evil/spark:2"})
    night.settle()
    assert night.names("Job") == []
    assert night.condition("Stalled") == ("True", "BadConfiguration")
    assert night.begun == ["night-scan-uid-g1-1"]


@pytest.mark.parametrize("schedule", [None, {"cron": "0 3 * * *"}])
def test_a_scan_that_runs_ends_when_what_it_names_is_removed_from_the_lists(
    cluster: Make, schedule: dict[str, Any] | None
) -> None:
    listed = Program(**SPARK, allowed_images=frozenset({"registry/spark:2"}))
    night = cluster(engine={"image": "registry/spark:2"}, **({} if schedule is None else {"schedule": schedule}))
    night.programs["program"] = listed
    night.later(hours=17)
    night.settle()
    night.run()
    night.settle()
    assert night.names("Job") == [night.begun[-1]]
    night.programs["program"] = Program(**SPARK)
    night.settle()
    assert night.names("Job") == []
    assert "would be refused now. spec.engine.image names registry/spark:2" in night.status["lastAttempt"]["message"]
    assert len(night.begun) == 1
    if schedule is None:
        assert night.condition("Stalled") == ("True", "BadConfiguration")
