"""Owns how the SQL of a mirror is applied to records, and which columns the result has.

A statement sees one record at a time. It can leave a record out, change key, value and headers, and name another target
topic; columns that it does not select are not changed. It cannot change order, partition, timestamp and position.
"""

from __future__ import annotations

import logging
import re
import secrets
from typing import TYPE_CHECKING, Any

from gapless_mirror.sql.exchange import ROW
from gapless_spark.mirror.transform_sizes import refused
from gapless_spark.mirror.transform_syntax import COLUMNS, parse_statement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from gapless_api.base.errors import ConfigurationError

ROWS = (
    "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>, row int"
)
"""The columns of records before the statement; `row`, which it does not see, is the index of a record in its batch."""
_TYPES = {
    "key": ("binary", "string", "void"),
    "value": ("binary", "string", "void"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "topic": ("string",),
}
"""The columns that a statement may select, and their types; a string is encoded as UTF-8."""


class Transform:
    """One statement, checked."""

    def __init__(self, spark: SparkSession, statement: str) -> None:
        """Check `statement`: ``SELECT … FROM records [WHERE …]``, or ``WHERE …`` alone.

        Raises:
            ConfigurationError: it is not accepted, or does not fit the types of the columns.
        """
        _restrict(spark)
        self._statement = parse_statement(spark, statement)
        self._selected = self._statement.selected
        self._hidden = f"_gapless_{secrets.token_hex(16)}_"
        """Begins the names of columns that the statement does not see; new for each run."""
        self._check(self._apply_statement(spark.createDataFrame([], ROWS)))

    @property
    def selected(self) -> tuple[str, ...]:
        """The columns that the statement selects, in its order."""
        return self._selected

    def apply(self, rows: DataFrame) -> DataFrame:
        """Apply the statement to rows of `ROWS`; the result has the row of each record that is left, and `selected`.

        All but the headers are bytes, also the name of a topic.
        """
        from pyspark.sql import functions as f  # noqa: PLC0415 -- slow to import

        columns = [f.col(name) if name == "headers" else f.col(name).cast("binary") for name in self._selected]
        named = [column.alias(name) for column, name in zip(columns, self._selected, strict=True)]
        return self._apply_statement(rows).select(f.col(self._hidden + ROW).alias(ROW), *named)

    def _apply_statement(self, rows: DataFrame) -> DataFrame:
        """Return the selected columns, and a hidden one for the row.

        The expressions that were checked are placed into a plan over `rows`: no text is parsed a second time, and no
        table is looked up.
        """
        from py4j.protocol import Py4JError  # noqa: PLC0415 -- slow to import
        from pyspark.errors import PySparkException  # noqa: PLC0415
        from pyspark.sql import DataFrame  # noqa: PLC0415

        row = self._hidden + ROW
        view = rows.select(*(rows[name] for name in COLUMNS), rows[ROW].alias(row)).alias(self._statement.alias)
        session: Any = rows.sparkSession
        jvm, java_session = session._jvm, session._jsparkSession  # noqa: SLF001 -- PySpark builds no plans
        logical = jvm.org.apache.spark.sql.catalyst.plans.logical
        hidden = f"SELECT {row} FROM records"  # noqa: S608 -- our own name
        projections = java_session.sessionState().sqlParser().parsePlan(hidden).projectList()
        if self._statement.projections is not None:
            projections = projections.appendedAll(self._statement.projections)
        try:
            plan = view._jdf.logicalPlan()  # noqa: SLF001
            if self._statement.condition is not None:
                plan = logical.Filter(self._statement.condition, plan)
            plan = logical.Project(projections, plan)
            return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(java_session, plan), session)
        except PySparkException as error:
            raise _unfit(error.getCondition()) from None
        except Py4JError:
            raise _unfit(None) from None

    def _check(self, probe: DataFrame) -> None:
        """Check the columns of the result: those that were selected, with types that a record can have."""
        fields = [field for field in probe.schema.fields if not field.name.startswith(self._hidden)]
        if tuple(field.name.lower() for field in fields) != self._selected:
            raise refused("its result has other columns than it selects")
        for name, field in zip(self._selected, fields, strict=True):
            kind = field.dataType.simpleString()
            if kind not in _TYPES[name]:
                raise refused(f"its {name} is of type {kind[:100]}; make it {_TYPES[name][0]}")


def _restrict(spark: SparkSession) -> None:
    """Keep the session from changing a statement before it is checked, and Spark's logs free of records."""
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)  # it repeats the error
    spark.conf.set("spark.sql.variable.substitute", "false")
    spark.sparkContext.setLogLevel("OFF")  # an exception of a task contains the values that it fails on


def _unfit(condition: str | None) -> ConfigurationError:
    named = f" ({condition})" if condition is not None and re.fullmatch(r"[A-Z0-9_.]{1,100}", condition) else ""
    return refused(f"its expressions do not fit the types of the columns{named}")
