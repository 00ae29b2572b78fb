"""How the SQL of a mirror is applied to records, and which columns the result has.

A statement sees one record at a time. It can leave a record out, change key, value and headers, and name another target
topic; columns that it does not select are not changed. It cannot change order, partition, timestamp and position.

The checked expressions are analyzed and optimized once. A batch of records then passes through one projection in Java,
without the planning and the tasks of a query, which took ten times as long.
"""

from __future__ import annotations

import logging
import re
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gapless_mirror.sql.exchange import ROW
from gapless_mirror.sql.messages import COLUMNS
from gapless_spark.mirror.transform_sizes import refused, sequence
from gapless_spark.mirror.transform_syntax import parse_statement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from gapless_api.base.errors import ConfigurationError

_ROWS = {
    "key": "binary",
    "value": "binary",
    "headers": "array<struct<key: string, value: binary>>",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
}
"""The columns of records and their types in Spark, whose strings may hold any bytes."""
_TYPES = {
    "key": ("binary", "string", "void"),
    "value": ("binary", "string", "void"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "topic": ("string",),
}
"""The columns that a statement may select, and their types; a string is encoded as UTF-8."""
_ALL_RECORDS = 2**31
"""In one batch of results."""


class Transform:
    """One statement, checked. Not thread-safe."""

    def __init__(self, spark: SparkSession, statement: str) -> None:
        """Check `statement`: ``SELECT … FROM records [WHERE …]``, or ``WHERE …`` alone.

        Raises:
            ConfigurationError: it is not accepted, or does not fit the types of the columns.
        """
        from py4j.protocol import Py4JError  # noqa: PLC0415 -- slow to import
        from pyspark.errors import PySparkException  # noqa: PLC0415

        _restrict(spark)
        session: Any = spark
        self._java = session._jvm  # noqa: SLF001 -- PySpark has no expressions without a query
        self._statement = parse_statement(spark, statement)
        self.selected = tuple(name for name, _ in self._statement.selected)
        """The columns that the statement selects, in its order."""
        records = spark.createDataFrame(spark.sparkContext.emptyRDD(), ", ".join(map(" ".join, _ROWS.items())))
        try:
            self._check(records)
            self._plan(records)
        except PySparkException as error:
            raise _unfit(error.getCondition()) from None
        except Py4JError:
            raise _unfit(None) from None

    def apply(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Apply the statement to records.

        Args:
            rows: with the columns `reads`; header keys are strings.

        Returns:
            The `ROW` of each record that is left, and the columns `selected`. All but the headers are bytes, also the
            name of a topic; header keys are strings.

        Raises:
            PySparkException: it fails on a record.
            Py4JError: Java fails.
            OSError: there is no space for temporary files.
        """
        converters = _converters(self._java)
        utilities = self._java.org.apache.spark.sql.api.python.PythonSQLUtils
        with tempfile.NamedTemporaryFile(prefix="gapless-sql-") as file:
            with pa.ipc.new_stream(file, rows.schema) as stream:
                stream.write_batch(rows)
            file.flush()
            encoded = utilities.readArrowStreamFromFile(file.name)
        given = converters.fromBatchIterator(encoded, self._given, "UTC", True, False, None)
        results = converters.toBatchIterator(
            given.map(self._projection), self._returned, _ALL_RECORDS, "UTC", True, False, None
        )
        try:
            batches = results.toList()
        finally:
            with suppress(Exception):
                given.size()  # reads what is left, with which its memory is freed
            with suppress(Exception):
                results.close()
        columns = pa.ipc.read_record_batch(pa.py_buffer(self._fetched(batches)), self._schema)
        kept = columns.column(0).fill_null(False)
        numbers = pa.array(range(rows.num_rows), pa.int32())
        left = pa.RecordBatch.from_arrays([numbers, *columns.columns[1:]], names=[ROW, *self.selected])
        return left.filter(kept)

    def _fetched(self, batches: Any) -> bytes:
        """Return the only element of a list of byte arrays in Java, through a socket; Py4J would encode it as text."""
        from pyspark.util import _create_local_socket  # noqa: PLC0415 -- slow to import

        served = self._java.org.apache.spark.api.python.PythonRDD.serveIterator(batches.iterator(), "results")
        stream, connection = _create_local_socket(served)
        with connection, stream:
            content: bytes = stream.read(int.from_bytes(stream.read(4), "big"))
        return content

    def _check(self, records: DataFrame) -> None:
        """Check the types of the condition, and of the columns of the result. Raises PySparkException, too."""
        view = records.alias(self._statement.alias)
        if self._statement.condition is not None:
            view = view.filter(self._column(self._statement.condition))
        columns = [self._column(value).alias(name) for name, value in self._statement.selected]
        for field in view.select(*columns).schema.fields:
            kind = field.dataType.simpleString()
            if kind not in _TYPES[field.name]:
                raise refused(f"its {field.name} is of type {kind[:100]}; make it {_TYPES[field.name][0]}")

    def _plan(self, records: DataFrame) -> None:
        """Optimize the expressions, and compile them to a projection. Raises PySparkException and Py4JError."""
        from pyspark.sql import functions as f  # noqa: PLC0415 -- slow to import

        condition = self._statement.condition
        kept = self._column(condition) if condition is not None else f.lit(True)
        columns = [kept.alias("kept")]
        for name, value in self._statement.selected:
            column = f.when(kept, self._column(value))  # a statement may fail on what it leaves out
            columns.append((column if name == "headers" else column.cast("binary")).alias(name))
        plan: Any = records.alias(self._statement.alias).select(*columns)
        java_plan = plan._jdf  # noqa: SLF001
        optimized = java_plan.queryExecution().optimizedPlan()
        source = optimized.child()
        if not source.children().isEmpty():
            raise _unfit(None)
        # A reference has the name as it is written, such as KEY.
        read = {column.exprId().id() for column in sequence(optimized.references().toSeq())}
        by_name = {str(column.name()): column for column in sequence(source.output())}
        self.reads = tuple(name for name in COLUMNS if by_name[name].exprId().id() in read) or ("offset",)
        """The columns of `COLUMNS` that the statement reads; at least one, so that a batch has rows."""
        attributes = source.output().take(0)
        for name in self.reads:
            attributes = attributes.appended(by_name[name])
        expressions = self._java.org.apache.spark.sql.catalyst.expressions
        self._projection = expressions.UnsafeProjection.create(optimized.projectList(), attributes)
        given: Any = records.select(*self.reads)
        self._given, self._returned = given._jdf.schema(), java_plan.schema()  # noqa: SLF001
        headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
        kinds = [(name, headers if name == "headers" else pa.binary()) for name in self.selected]
        self._schema = pa.schema([("kept", pa.bool_()), *kinds])

    def _column(self, expression: Any) -> Any:
        """Return a checked expression of the parser as a column; its text is not parsed again."""
        from pyspark.sql.classic.column import Column  # noqa: PLC0415 -- slow to import

        return Column(self._java.org.apache.spark.sql.classic.ExpressionUtils.column(expression))


def _converters(java: Any) -> Any:
    """Return Spark's object that converts between rows and Arrow."""
    package = java.org.apache.spark.sql.execution.arrow
    return getattr(getattr(package, "ArrowConverters$"), "MODULE$")


def _restrict(spark: SparkSession) -> None:
    """Keep the session from changing a statement before it is checked, and Spark's logs free of records."""
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)  # it repeats the error
    spark.conf.set("spark.sql.variable.substitute", "false")
    spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")  # many records pass through one projection
    spark.sparkContext.setLogLevel("OFF")  # an exception of a task contains the values that it fails on


def _unfit(condition: str | None) -> ConfigurationError:
    named = f" ({condition})" if condition is not None and re.fullmatch(r"[A-Z0-9_.]{1,100}", condition) else ""
    return refused(f"its expressions do not fit the types of the columns{named}")
