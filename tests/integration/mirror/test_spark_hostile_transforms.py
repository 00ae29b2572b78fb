"""The checks that no SQL of a mirror reaches a file, a socket, the environment or another record.

The machine is watched from outside of Spark: who opens a file, who connects to a port, and where a secret appears.
"""

from __future__ import annotations

import ctypes
import os
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from gapless_api.base.errors import ConfigurationError
from gapless_mirror.sql.exchange import records_schema
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
CORPUS = Path(__file__).with_name("hostile_transforms.txt")
SECRET = "canary-5c1f7e"  # noqa: S105 -- it protects nothing
_IN_OPEN = 0x20
_REFUSED = "The transform cannot be applied: "
_SPARK_TEXT = re.compile(r"SQLSTATE|org\.apache|java\.|== SQL ==|Did you mean|\[[A-Z_]+\]")
_TIME = datetime(2024, 1, 1, tzinfo=UTC)
_HEADERS = [{"key": b"h", "value": b"x"}, {"key": b"g", "value": None}]
_RECORDS = [(b"k", b"secret %d" % n, _HEADERS, "a", 0, n, _TIME) for n in range(5)]
_ENGINE = Engine("gapless test", "local[1]")


@dataclass
class Watch:
    """What is watched: a file and a port."""

    file: Path
    port: int
    events: int
    listener: socket.socket

    def seen(self) -> list[str]:
        """Return what happened since the last call."""
        seen = []
        try:
            os.read(self.events, 4096)
            seen.append("file opened")
        except BlockingIOError:
            pass
        try:
            self.listener.accept()[0].close()
            seen.append("port connected")
        except BlockingIOError:
            pass
        return seen


@pytest.fixture(scope="module")
def watch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    file = tmp_path_factory.mktemp("secrets") / "password"
    file.write_text(SECRET, encoding="utf-8")
    libc = ctypes.CDLL(None, use_errno=True)
    events = libc.inotify_init1(os.O_NONBLOCK)
    assert events >= 0
    assert libc.inotify_add_watch(events, os.fsencode(file), _IN_OPEN) >= 0
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield Watch(file, listener.getsockname()[1], events, listener)
    os.close(events)


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CANARY", SECRET)
        with session(_ENGINE) as started:
            yield started


def statements() -> list[str]:
    lines = CORPUS.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("# ")]


def test_the_watch_sees_a_file_that_is_opened_and_a_port_that_is_connected(watch: Watch) -> None:
    assert watch.seen() == []
    assert watch.file.read_text(encoding="utf-8") == SECRET
    with socket.create_connection(("127.0.0.1", watch.port)):
        assert watch.seen() == ["file opened", "port connected"]


def test_hostile_statements_are_refused_and_touch_nothing(spark: SparkSession, watch: Watch) -> None:
    hostile = statements()
    assert len(hostile) > 200
    accepted = []
    for statement in hostile:
        text = statement.replace("FILE", str(watch.file)).replace("PORT", str(watch.port))
        try:
            Transform(spark, text)
        except ConfigurationError as error:
            message = str(error)
            assert message.startswith(_REFUSED), statement
            assert SECRET not in message, statement
            assert _SPARK_TEXT.search(message) is None, message
            assert "secrets" not in message, message
        else:
            accepted.append(statement)
        assert watch.seen() == [], statement
    assert accepted == []


def test_a_message_names_the_position(spark: SparkSession) -> None:
    for statement, position in {
        "SELECT value,\n  `reflect`('a') AS key FROM records": "line 2, column 3",
        "WHERE value IS NULL\n AND rand() < 1": "line 2, column 6",
        "WHERE rand() < 1": "line 1, column 7",
        "SELECT value FROM records WHERE x ((": "line 1, column",
    }.items():
        with pytest.raises(ConfigurationError, match=position):
            Transform(spark, statement)


def test_a_statement_is_bounded_before_it_is_parsed(spark: SparkSession) -> None:
    for text in (
        "WHERE " + "(" * 2_000 + "value" + ")" * 2_000,
        "WHERE " + "NOT " * 2_000 + "value",
        "WHERE " + "- " * 2_000 + "1 = 1",
        "WHERE " + "~" * 2_000 + "1 = 1",
        "WHERE " + "CASE WHEN true THEN " * 500 + "true" + " END" * 500,
        "WHERE " + " AND ".join(["value IS NULL"] * 1_000),
        "WHERE value = '" + "x" * 16_384 + "'",
        "WHERE value = '\x00'",
        "WHERE value = '\ud800'",
    ):
        with pytest.raises(ConfigurationError, match=_REFUSED):
            Transform(spark, text)


def test_statements_that_people_write_are_accepted(spark: SparkSession) -> None:
    for statement in (
        "SELECT sha2(CAST(value AS STRING), 256) AS value FROM records",
        "SELECT r.value, upper(r.topic) AS topic FROM records AS r WHERE r.offset % 2 = 0",
        "SELECT regexp_extract(CAST(value AS STRING), 'id=([0-9]+)', 1) AS key FROM records",
        "SELECT regexp_replace(CAST(value AS STRING), '\\\\[[0-9]{4}\\\\]', '[****]') AS value FROM records",
        "SELECT CAST(value AS STRING) || '!' AS value FROM records WHERE CAST(value AS STRING) LIKE '%secret%'",
        "SELECT get_json_object(CAST(value AS STRING), '$.user') AS key FROM records",
        "SELECT transform(headers, h -> named_struct('key', lower(h.key), 'value', h.value)) AS headers FROM records",
        "SELECT concat_ws('-', topic, date_format(timestamp, 'yyyy-MM')) AS topic FROM records",
        "SELECT array_append(headers, named_struct('key', 'a', 'value', binary(topic))) AS headers FROM records",
        "SELECT if(value IS NULL, 'tombstones', NULL) AS topic FROM records WHERE topic IN ('a', 'b')",
        "SELECT lpad(substring(CAST(key AS STRING), 1, 4), 8, '*') AS key FROM records WHERE offset BETWEEN 0 AND 10",
        "WHERE timestamp >= '2020-01-01'",
        "WHERE CAST(value AS STRING) <> 'IDENTIFIER (' -- no identifier('value')",
        "WHERE CAST(key AS STRING) RLIKE '^user-[0-9]+$' AND exists(headers, h -> h.key = topic)",
        "WHERE NOT coalesce(headers[0].key = 'debug', false)",
        "WHERE hour(timestamp) < 5 AND try_cast(CAST(value AS STRING) AS INT) IS NOT NULL",
        "WHERE trim(BOTH 'x' FROM CAST(key AS STRING)) <> '' OR position('a' IN topic) = 1",
    ):
        evaluated(spark, Transform(spark, statement))


_LEAVES = st.sampled_from(
    [
        *("value", "key", "headers", "topic", "offset", "timestamp", "NULL", "1", "'a'", "'(a+)+$'", "'.'", "x'00'"),
        *("true", "row", "_gapless_row", "*", "h.key", "records.value", "'${env:CANARY}'", ":p", "current_user"),
        *("CAST(value AS STRING)", "CAST(key AS STRING)"),
    ]
)
_NAMES = st.sampled_from(
    [
        *("upper", "concat", "substring", "sha2", "regexp_replace", "coalesce", "filter", "transform", "lpad", "hex"),
        *("reflect", "`reflect`", "java_method", "try_reflect", "system.builtin.reflect", "IDENTIFIER('reflect')"),
        *("repeat", "sequence", "explode", "rand", "count", "input_file_name"),
    ]
)
_SIGNS = st.sampled_from(["=", "||", "AND", "->", "LIKE", "+"])


def _nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    calls = st.builds(lambda name, each: f"{name}({', '.join(each)})", _NAMES, st.lists(inner, max_size=3))
    java = st.builds(lambda name: f"{name}('java.lang.System', 'getenv', 'CANARY')", _NAMES)
    operators = st.builds(
        lambda one, sign, two: f"{one} {sign} {two}",
        inner,
        st.sampled_from(["=", "||", "AND", "->", "LIKE", "+"]),
        inner,
    )
    casts = st.builds(lambda each: f"CAST({each} AS STRING)", inner)
    queries = st.builds(lambda each: f"(SELECT {each} FROM text.`FILE`)", inner)  # noqa: S608 -- hostile on purpose
    return st.one_of(calls, java, operators, casts, queries)


_EXPRESSIONS = st.recursive(_LEAVES, _nested, max_leaves=6)
_SELECTED = st.builds(
    lambda each, name: f"{each} AS {name}",
    _EXPRESSIONS,
    st.sampled_from(["value", "key", "topic", "headers", "offset", "_gapless_row"]),
)
_TABLES = st.sampled_from(
    ["records"] * 6 + ["records r", "text.`FILE`", "records, records", "records |> WHERE true", "IDENTIFIER('records')"]
)
_TAILS = st.one_of(
    st.just(""), st.builds(lambda each: f" WHERE {each}", _EXPRESSIONS), st.sampled_from([" LIMIT 1", ";"])
)
_STATEMENTS = st.one_of(
    st.builds(
        lambda columns, table, tail: f"SELECT {', '.join(columns)} FROM {table}{tail}",  # noqa: S608 -- hostile on purpose
        st.lists(_SELECTED, min_size=1, max_size=2),
        _TABLES,
        _TAILS,
    ),
    st.builds(lambda each: f"WHERE {each}", _EXPRESSIONS),
)


@given(statement=_STATEMENTS)
@settings(
    max_examples=max(40, int(400 * float(os.environ.get("GAPLESS_EXAMPLES", "0.2")))),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_whatever_a_statement_says_it_touches_nothing_and_keeps_positions(
    spark: SparkSession, watch: Watch, statement: str
) -> None:
    try:
        applied = Transform(spark, statement.replace("FILE", str(watch.file)))
    except ConfigurationError as error:
        shown = str(error)
        event(shown.split(" at line", maxsplit=1)[0])
    else:
        event("accepted")
        shown = _shown(spark, applied)
    assert SECRET not in shown
    assert watch.seen() == []


def _shown(spark: SparkSession, applied: Transform) -> str:
    """Return everything that a statement returns, or says when it fails on a record."""
    from pyspark.errors import PySparkException  # noqa: PLC0415 -- slow to import

    try:
        rows = evaluated(spark, applied)
    except PySparkException as error:
        return str(error)
    left = [row["row"] for row in rows]
    assert left == sorted(set(left))
    assert set(left) <= set(range(len(_RECORDS)))
    return repr(rows)


def evaluated(spark: SparkSession, transform: Transform) -> list[dict[str, Any]]:
    """Return what a statement returns for the records."""
    schema = records_schema()
    columns = [pa.array(values, field.type) for values, field in zip(zip(*_RECORDS, strict=True), schema, strict=True)]
    records = pa.RecordBatch.from_arrays(columns, schema=schema).select(list(transform.reads))
    results: list[dict[str, Any]] = Evaluator(spark, _ENGINE).apply(transform, records).to_pylist()
    return results
