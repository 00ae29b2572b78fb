"""Owns the checks of which statements a mirror applies to its records: one record at a time, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from gapless_api.base.errors import ConfigurationError
from gapless_spark.mirror.sql_turns import statement_failure
from gapless_spark.mirror.transform import ROWS, Transform
from gapless_spark.runtime.session import Engine, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.integration,
    # Py4J leaves the sockets of its finished answers to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
EXAMPLES = Path(__file__).parents[3] / "examples"
_TIME = datetime(2024, 1, 1, tzinfo=UTC)
_AT = 1_704_067_200_000
_HEADERS = [("h", b"x"), ("h", None)]
_RECORDS = [
    ("a", 0, 5, _TIME, b"k", b"secret 1", _HEADERS, _AT),
    ("a", 0, 6, None, None, None, [], None),
    ("a", 0, 7, _TIME, b"k", b"", [], _AT),
]
_REFUSED = {
    "DELETE FROM records": "begins neither",
    "SELECT * FROM records": "selects another column",
    "SELECT 1 AS partition FROM records": "selects partition",
    "SELECT value, value FROM records": "selects value twice",
    "SELECT partition AS value FROM records": "of type int",
    "SELECT valu AS value FROM records": "reads a column other than",
    "SELECT count(*) AS value FROM records": "calls a function that is not in",
    "SELECT CAST(max(offset) AS STRING) AS value FROM records GROUP BY ALL": "does not process each record",
    "SELECT DISTINCT value FROM records": "",
    "SELECT value FROM records ORDER BY offset": "does not process each record",
    "SELECT value FROM records LIMIT 5": "does not process each record",
    "SELECT explode(headers).value AS value FROM records": "",
    "SELECT explode(array(value)) AS value FROM records": "calls a function that is not in",
    "SELECT (SELECT max(value) FROM records) AS value FROM records": "an expression that is not in",
    "SELECT CAST(row_number() OVER (ORDER BY offset) AS STRING) AS value FROM records": "an expression that is not in",
    "SELECT value FROM records UNION ALL SELECT value FROM records": "",
    "SELECT a.value FROM records a JOIN records b ON a.key = b.key": "",
    "SELECT reflect('java.lang.System', 'getenv', 'X') AS value FROM records": "calls a function that is not in",
    "SELECT value FROM parquet.`/tmp/x`": "",
    "SELECT value FROM records; DROP TABLE x": "",
    "WHERE x ((": "",
}


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with session(Engine("gapless test", "local[1]")) as started:
        yield started


def results(spark: SparkSession, statement: str) -> list[tuple[object, ...]]:
    """Offset, timestamp, key, value, headers and target of what is left of three records."""
    applied = Transform(spark, statement).apply(spark.createDataFrame(_RECORDS, ROWS))
    return [
        (row.offset, row.at, row.key, row.value, [tuple(pair) for pair in row.headers], row.target)
        for row in applied.collect()
    ]


def test_the_statements_of_the_examples_are_taken(spark: SparkSession) -> None:
    documents = [each for file in EXAMPLES.glob("*.yaml") for each in yaml.safe_load_all(file.read_text())]
    mirrors = [each["spec"] for each in documents if each["kind"] == "Mirror" and "transform" in each["spec"]]
    assert mirrors
    for spec in mirrors:
        assert Transform(spark, spec["transform"]).routes == bool(spec.get("transformTopics"))


def test_what_is_not_selected_stays_as_it_is(spark: SparkSession) -> None:
    first, second, third = (
        (5, _AT, b"k", b"secret 1", _HEADERS, None),
        (6, None, None, None, [], None),
        (7, _AT, b"k", b"", [], None),
    )
    assert results(spark, "where value IS NOT NULL") == [first, third]
    assert results(spark, "SELECT 'm' AS value FROM records WHERE offset = 5") == [(*first[:3], b"m", _HEADERS, None)]
    assert results(spark, "SELECT NULL AS key, 'b' AS topic FROM records WHERE timestamp IS NULL") == [
        (*second[:5], "b")
    ]
    kept = "SELECT filter(headers, h -> h.value IS NOT NULL) AS headers FROM records WHERE key = 'k'"
    assert results(spark, kept) == [(*first[:4], [("h", b"x")], None), third]


def test_a_statement_that_sees_more_than_one_record_is_refused(spark: SparkSession) -> None:
    for statement, reason in _REFUSED.items():
        with pytest.raises(ConfigurationError, match=r"The transform cannot be applied: ..") as raised:
            Transform(spark, statement)
        assert reason in str(raised.value), statement


def test_a_statement_that_fails_on_a_record_is_named_without_the_record(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="secret 1") as raised:
        results(
            spark, "SELECT CAST(CAST(CAST(value AS STRING) AS INT) AS STRING) AS value FROM records WHERE offset = 5"
        )
    error = statement_failure(str(raised.value))
    assert isinstance(error, ConfigurationError)
    assert "CAST_INVALID_INPUT" in str(error)
    assert "secret" not in str(error)
