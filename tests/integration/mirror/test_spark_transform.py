"""The checks of which statements are applied to records: one record at a time, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
import yaml

from gapless_api.base.errors import ConfigurationError
from gapless_mirror.sql.exchange import decode_answer, records_schema
from gapless_mirror.sql.messages import Answer
from gapless_spark.mirror.evaluator import Evaluator
from gapless_spark.mirror.transform import Transform
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
_HEADERS = [{"key": b"h", "value": b"x"}, {"key": b"\xff", "value": None}]
_RECORDS = [
    (b"k", b"secret 1", _HEADERS, "a", 0, 5, _TIME),
    (None, None, [], "a", 0, 6, None),
    (b"k", b"", [], "a", 0, 7, _TIME),
]
_ENGINE = Engine("gapless test", "local[1]")
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
    with session(_ENGINE) as started:
        yield started


def records() -> pa.RecordBatch:
    schema = records_schema()
    columns = [pa.array(values, field.type) for values, field in zip(zip(*_RECORDS, strict=True), schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def results(spark: SparkSession, statement: str) -> list[tuple[object, ...]]:
    """The row and the selected columns of what is left of three records."""
    transform = Transform(spark, statement)
    applied = Evaluator(spark, _ENGINE).apply(transform, records().select(list(transform.reads)))
    return [tuple(row.values()) for row in applied.to_pylist()]


def test_the_statements_of_the_examples_are_taken(spark: SparkSession) -> None:
    documents = [each for file in EXAMPLES.glob("*.yaml") for each in yaml.safe_load_all(file.read_text())]
    mirrors = [each["spec"] for each in documents if each["kind"] == "Mirror" and "transform" in each["spec"]]
    assert mirrors
    for spec in mirrors:
        assert ("topic" in Transform(spark, spec["transform"]).selected) == bool(spec.get("transformTopics"))


def test_the_selected_columns_come_back_with_the_rows_that_are_left(spark: SparkSession) -> None:
    assert results(spark, "where value IS NOT NULL") == [(0,), (2,)]
    assert results(spark, "WHERE false") == []
    assert results(spark, "SELECT 'm' AS value FROM records WHERE offset = 5") == [(0, b"m")]
    assert results(spark, "SELECT NULL AS key, 'b' AS topic FROM records WHERE timestamp IS NULL") == [(1, None, b"b")]
    kept = "SELECT filter(headers, h -> h.value IS NOT NULL) AS headers, value FROM records WHERE key = 'k'"
    assert results(spark, kept) == [(0, _HEADERS[:1], b"secret 1"), (2, [], b"")]
    assert results(spark, "SELECT headers FROM records WHERE offset = 5") == [(0, _HEADERS)]


def test_a_statement_gets_the_columns_that_it_reads_and_no_others(spark: SparkSession) -> None:
    for statement, reads in {
        "WHERE true": ("offset",),
        "WHERE KEY = 'k' AND r.offset > 1".replace("r.", "records."): ("key", "offset"),
        "SELECT value FROM records": ("value",),
        "SELECT 'x' AS value FROM records AS r WHERE r.timestamp IS NULL": ("timestamp",),
        "SELECT filter(headers, h -> h.key = topic) AS headers FROM records": ("headers", "topic"),
        "SELECT if(partition = 1, topic, NULL) AS topic FROM records": ("topic", "partition"),
    }.items():
        assert Transform(spark, statement).reads == reads, statement


def test_a_statement_that_sees_more_than_one_record_is_refused(spark: SparkSession) -> None:
    for statement, reason in _REFUSED.items():
        with pytest.raises(ConfigurationError, match=r"The transform cannot be applied: ..") as raised:
            Transform(spark, statement)
        assert reason in str(raised.value), statement


def test_a_statement_that_fails_on_a_record_names_it_and_not_its_content(spark: SparkSession) -> None:
    number = "CAST(CAST(CAST(value AS STRING) AS INT) AS STRING) AS value"
    answers = Evaluator(spark, _ENGINE)
    for condition, row in {"true": 0, "offset > 5": 2}.items():
        transform = Transform(spark, f"SELECT {number} FROM records WHERE {condition}")  # noqa: S608 -- of this test
        answer = decode_answer(answers.answer(transform, records().select(list(transform.reads))), None)
        assert isinstance(answer, Answer)
        assert (answer.row, answer.is_temporary) == (row, False)
        assert answer.refused.startswith("CAST_INVALID_INPUT; use a function that returns null")
        assert "secret" not in answer.refused
