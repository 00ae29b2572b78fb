"""Owns the SQL that a mirror applies to each record: which statements are allowed, and which columns they return.

A statement sees one record at a time. It can leave a record out, change key, value and headers, and name another target
topic; columns that it does not select are not changed. It cannot change order, partition, timestamp and position.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = (
    "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>, at bigint"
)
"""The columns of records before the statement; `at` is the timestamp in milliseconds, null for none."""
RESULT = (
    "topic string, partition int, offset bigint, at bigint, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>, target string"
)
"""The columns after the statement; `target` is null for the target topic of the partition."""
_OWN = ("topic", "partition", "offset", "at")
_TYPES = {
    "key": ("binary", "string", "void"),
    "value": ("binary", "string", "void"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "topic": ("string",),
}
"""The columns that a statement may select, and their types; a string is encoded as UTF-8."""
_NODES = frozenset({"Project", "Filter", "SubqueryAlias", "View", "LogicalRDD", "LocalRelation", "MapInArrow"})
"""The nodes of a plan that returns at most one row for each input row, in order."""
_REFLECTION = re.compile(r"\b(?:try_)?(?:reflect|java_method)\s*\(", re.IGNORECASE)
_SELECT = re.compile(r"\s*select\b", re.IGNORECASE)
_WHERE = re.compile(r"\s*where\b", re.IGNORECASE)
_HIDDEN = "_gapless_"
_FORM = "Write SELECT … FROM records [WHERE …], or WHERE … alone."


class Transform:
    """One statement, checked."""

    def __init__(self, spark: SparkSession, statement: str) -> None:
        """Check `statement`: ``SELECT … FROM records [WHERE …]``, or ``WHERE …`` alone.

        Raises:
            ConfigurationError: it is invalid, or does not process each record on its own.
        """
        if _WHERE.match(statement):
            self._head, self._tail = "", f"FROM records {statement}"
        elif _SELECT.match(statement):
            self._head, self._tail = _SELECT.sub("", statement, count=1), ""
        else:
            raise _refused("it begins neither with SELECT nor with WHERE")
        if _REFLECTION.search(statement):
            raise _refused("it calls Java")
        self._selected: tuple[str, ...] = ()
        empty = spark.createDataFrame([], ROWS)
        probe = self._apply_statement(empty)
        self._selected = tuple(name for name in probe.columns if not name.startswith(_HIDDEN))
        self._check(probe)
        self._check_plan(probe)
        self.routes = "topic" in self._selected
        """Whether records may go to other topics."""

    def apply(self, rows: DataFrame) -> DataFrame:
        """Apply the statement to rows of `ROWS`; the result has the columns of `RESULT`."""
        from pyspark.sql import functions as f  # noqa: PLC0415 -- slow to import

        applied = self._apply_statement(rows)
        columns = [f.col(_HIDDEN + name).alias(name) for name in _OWN]
        for name in ("key", "value", "headers"):
            column = f.col(name) if name in self._selected else f.col(_HIDDEN + name)
            columns.append(column.cast("binary").alias(name) if name != "headers" else column.alias(name))
        target = f.col("topic") if self.routes else f.lit(None).cast("string")
        return applied.select(*columns, target.alias("target"))

    def _apply_statement(self, rows: DataFrame) -> DataFrame:
        """Return the selected columns, and hidden ones for the columns of the record that are not selected."""
        from pyspark.errors import PySparkException  # noqa: PLC0415 -- slow to import

        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)  # it repeats the error
        kept = [*_OWN, *(name for name in ("key", "value", "headers") if name not in self._selected)]
        hidden = ", ".join(f"{_HIDDEN}{name}" for name in kept)
        every = {name: rows[name] for name in rows.columns if name != "at"}
        view = rows.select(
            *every.values(),
            *(rows[name].alias(_HIDDEN + name) for name in kept),
        )
        statement = f"SELECT {hidden}, {self._head}" if self._head else f"SELECT {hidden} {self._tail}"
        view.createOrReplaceTempView("records")
        try:
            return rows.sparkSession.sql(statement)
        except PySparkException as error:
            raise _refused(_first_sentence(str(error))) from None

    def _check(self, probe: DataFrame) -> None:
        seen: set[str] = set()
        for field in probe.schema.fields:
            if field.name.startswith(_HIDDEN):
                continue
            if field.name not in _TYPES:
                raise _refused(
                    f"it selects {field.name}; select key, value, headers and topic, each under its name (… AS value)"
                )
            if field.name in seen:
                raise _refused(f"it selects {field.name} twice")
            seen.add(field.name)
            kind = field.dataType.simpleString()
            if kind not in _TYPES[field.name]:
                raise _refused(f"its {field.name} is of type {kind}; make it {_TYPES[field.name][0]}")

    @staticmethod
    def _check_plan(probe: DataFrame) -> None:
        jdf: Any = probe._jdf  # noqa: SLF001 -- PySpark shows plans as text only
        nodes = [jdf.queryExecution().analyzed()]
        if not nodes[0].subqueriesAll().isEmpty():
            raise _refused("it has a subquery")
        while nodes:
            node = nodes.pop()
            name = str(node.nodeName())
            if name not in _NODES:
                raise _refused(f"it does not process each record on its own ({name})")
            children = node.children()
            nodes += [children.apply(number) for number in range(children.size())]


def _first_sentence(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0].split(" SQLSTATE")[0].removesuffix(".") if lines else "Spark gives no reason"


def _refused(reason: str) -> ConfigurationError:
    return ConfigurationError(f"The transform cannot be applied: {reason}. {_FORM}")
