"""Owns the Spark plan that leaves the latest record of each window, before any of them is decoded in Python.

Must not know how a bitmap is read or what becomes of the result. Everything here runs in Java. What Python gets is as
large as what is missing: the windows without gaps, which are most of them, arrive as one row for each partition.

Latest means: of one key in one partition of the gaps topic, the highest offset. Between partitions (the topic was given
more of them) and between the two forms of a key, which hash differently, the latest timestamp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gapless_spark.gap_windows import LISTED_UNREADABLE, CompleteWindows, LatestRecord, WindowFindings, read_windows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = ("partition", "offset", "timestamp", "key", "value")
"""What `find_windows` needs of Spark's Kafka source."""

_WINDOW = "(?s)^.+:[0-9]+:[0-9]+$"
_OLD_WINDOW = r"^([^:]+)_([0-9]+):([0-9]+)$"
_PLAIN_WINDOW = "^[A-Za-z0-9._-]+:(0|[1-9][0-9]{0,8}):(0|[1-9][0-9]{0,17})$"
"""A window whose numbers need no check beyond this; the others are left to Python."""

_COMPLETE = """
    key_text RLIKE '{plain}' AND length(value) = 25
    AND hex(substring(value, 18, 8)) = '3A30000000000000'
    AND hex(substring(value, 1, 9))
        = concat('01', lpad(hex(cast(substring_index(key_text, ':', -1) AS bigint)), 16, '0'))
    AND hex(substring(value, 10, 8)) >= hex(substring(value, 2, 8))
    AND hex(substring(value, 10, 1)) < '80'
"""
"""Header and bitmap of a window without gaps; hexadecimal text of equal length sorts like the numbers it stands for."""


def find_windows(records: DataFrame) -> WindowFindings:
    """Find out what the records of a gaps topic say together."""
    latest = _classified(_latest(records))
    rows = _rows(_condensed(latest))
    by_kind: dict[str, list[dict[str, Any]]] = {"complete": [], "tombstone": [], "foreign": [], "window": []}
    for row in rows:
        by_kind[row["kind"]].append(row)
    foreign = sum(row["n"] for row in by_kind["foreign"])
    listed = _rows(_first_foreign(latest)) if foreign else []
    return read_windows(
        [_record(row) for row in (*by_kind["window"], *listed)],
        [_complete(row) for row in by_kind["complete"]],
        tombstones=sum(row["n"] for row in by_kind["tombstone"]),
        further_unreadable=foreign - len(listed),
    )


def _latest(records: DataFrame) -> DataFrame:
    """The latest record of each window and of each foreign key; records without a key are counted and become one row.

    Keys are compared as they are first, which leaves few of them to be looked into. A value is only carried along under
    a key that can be a window's: other values could be large, and nobody reads them.
    """
    by_key = (
        records.selectExpr(
            "key",
            "partition",
            "offset",
            "struct(partition, offset, timestamp, "
            "CASE WHEN value IS NULL OR locate(':', cast(key AS string)) > 0 THEN value ELSE x'' END AS value) "
            "AS record",
        )
        .groupBy("key", "partition")
        .agg(_sql("max_by(record, offset) AS record"), _sql("count(*) AS n"))
    )
    return (
        by_key.selectExpr("*", "cast(key AS string) AS key_text")
        .selectExpr(
            rf"regexp_replace(key_text, r'{_OLD_WINDOW}', '$1:$2:$3') AS identity",
            "struct(record.*, key, key_text) AS record",
            "struct(record.timestamp, partition, record.offset) AS age",
            "n",
        )
        .groupBy("identity")
        .agg(_sql("max_by(record, age) AS record"), _sql("sum(n) AS n"))
        .selectExpr("*", f"identity RLIKE '{_WINDOW}' AS known")
    )


def _classified(latest: DataFrame) -> DataFrame:
    return latest.selectExpr("identity", "record.*", "n", "known").selectExpr(
        "*",
        "CASE WHEN key IS NULL THEN 'foreign' "
        "WHEN value IS NULL THEN 'tombstone' "
        "WHEN NOT known THEN 'foreign' "
        f"WHEN {_COMPLETE.format(plain=_PLAIN_WINDOW)} THEN 'complete' "
        "ELSE 'window' END AS kind",
    )


def _condensed(latest: DataFrame) -> DataFrame:
    """One row for each window with gaps; the rest counted, complete windows by the partition of the events."""
    return (
        latest.selectExpr(
            "kind",
            "CASE kind WHEN 'window' THEN identity WHEN 'complete' THEN substring_index(identity, ':', 2) END AS place",
            "CASE WHEN key IS NULL THEN n ELSE 1 END AS n",
            "CASE kind WHEN 'complete' THEN cast(conv(hex(substring(value, 10, 8)), 16, 10) AS bigint) END AS last",
            "CASE kind WHEN 'window' THEN struct(partition, offset, key, value) END AS record",
        )
        .groupBy("kind", "place")
        .agg(_sql("sum(n) AS n"), _sql("max(last) AS last"), _sql("first(record) AS record"))
        .selectExpr("kind", "place", "n", "last", "record.*")
    )


def _first_foreign(latest: DataFrame) -> DataFrame:
    """The first foreign records; reads everything once more, which is the price of a topic that is not in order."""
    return (
        latest.where("kind = 'foreign'")
        .orderBy("partition", "offset")
        .limit(LISTED_UNREADABLE)
        .select("partition", "offset", "key", "value")
    )


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return rows


def _record(row: dict[str, Any]) -> LatestRecord:
    return LatestRecord(row["key"], row["value"], row["partition"], row["offset"])


def _complete(row: dict[str, Any]) -> CompleteWindows:
    topic, _, partition = row["place"].rpartition(":")
    return CompleteWindows(topic, int(partition), row["last"], row["n"])


def _sql(expression: str) -> Any:
    from pyspark.sql.functions import expr  # noqa: PLC0415 -- pure parts of this package are tested without Spark

    return expr(expression)
