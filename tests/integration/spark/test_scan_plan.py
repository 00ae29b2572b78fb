"""What Spark makes of the plan of a scan: what the optimizer drops shows in no result, only in the time it takes."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession

from gapless_spark.scan.latest_records import latest_of

pytestmark = pytest.mark.integration


@pytest.mark.usefixtures("spark")
def test_records_of_a_window_meet_in_a_hash_table_and_are_not_sorted(capsys: pytest.CaptureFixture[str]) -> None:
    session = SparkSession.getActiveSession()
    assert session is not None
    schema = "partition int, offset long, timestamp timestamp, key binary, value binary"
    latest_of(session.createDataFrame([(0, 0, datetime.now(UTC), b"t:0:0", b"")], schema)).explain()
    plan = capsys.readouterr().out
    assert re.findall(r"(\w+)\(keys?=\[key#", plan) == ["ObjectHashAggregate", "ObjectHashAggregate"]
    assert "Sort [key#" not in plan
