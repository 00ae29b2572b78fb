"""Which engine a scan takes, and what becomes of it where the engine is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Make = Callable[..., Any]
Gaps = dict[tuple[str, int], list[tuple[int, int]]]
NIGHTLY = {"cron": "30 2 * * *", "timeZone": "Europe/Stockholm"}
MINUTELY = {"cron": "* * * * *"}


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
