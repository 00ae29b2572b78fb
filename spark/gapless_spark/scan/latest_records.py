"""Owns the Spark plan that leaves the latest record of each window, before any of them is decoded in Python.

Must not know how a bitmap is read or what becomes of the result. Everything here runs in Java. What Python gets is as
large as what is missing: the windows without gaps, which are most of them, arrive as one bit each, in rows of 32768.

Latest means: of one key in one partition of the gaps topic, the highest offset. Between partitions (the topic was given
more of them) and between the two forms of a key, which hash differently, the latest timestamp. Which keys are about one
window is `gapless_api.gaps.keys`'s to say: its patterns are applied to the bytes of a key, each as the character of its
number (ISO-8859-1). As UTF-8, all that is none would become U+FFFD, and keys the same that are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gapless_api.gaps.keys import OLD_KEY, PLAIN_KEY, WINDOW_KEY
from gapless_spark.model.gap_windows import (
    AS_REPORTED,
    LISTED_UNREADABLE,
    Age,
    Choices,
    CompleteWindows,
    LatestRecord,
    WindowFindings,
    read_windows,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

COLUMNS = ("partition", "offset", "timestamp", "key", "value")
"""What `find_windows` needs of Spark's Kafka source."""

_ENCODING = "ISO-8859-1"
"""Has one character for each byte, and none is refused."""
_COLON = "X'3A'"
_COMPLETE = rf"""
    key_text RLIKE r'{PLAIN_KEY}' AND length(value) = 25
    AND hex(substring(value, 18, 8)) = '3A30000000000000'
    AND hex(substring(value, 1, 9))
        = concat('01', lpad(hex(try_cast(substring_index(key_text, ':', -1) AS bigint)), 16, '0'))
    AND hex(substring(value, 10, 8)) >= hex(substring(value, 2, 8))
    AND hex(substring(value, 10, 1)) < '80'
"""
"""Header and bitmap of a window without gaps; hexadecimal text of equal length sorts like the numbers it stands for.

All others with a key of a window are left to Python, whether it can be read or not."""


_COUNTED_IN_HASH_TABLE = "count(*) + size(collect_list(CASE WHEN offset < 0 THEN offset END))"
"""Collects nothing. Beside an aggregate of this kind Spark keeps the groups in a hash table, and sorts otherwise.

It has to be part of a column that is used: the optimizer drops what nobody reads, and the hash table with it."""
_MOST_GROUPS = 50_000
"""So many groups all tasks together keep in hash tables; from there on they sort, which needs disk and no memory.

At most 400 MiB for windows of up to 65,536 offsets, whose bitmaps have 8 KiB."""
_NUMBER = "cast(conv(hex(substring(value, {}, 8)), 16, 10) AS bigint)"
_LARGEST_WINDOW = 2**31
"""In offsets; the detector takes no larger one. A larger window is left to Python, and so is one at an odd place."""
_WINDOWS_A_ROW = 32768
"""So many bits has a bitmap of Spark's ``bitmap_construct_agg``."""


def find_windows(records: DataFrame, choices: Choices = AS_REPORTED) -> WindowFindings:
    """Find out what the records of a gaps topic say together."""
    spark = records.sparkSession
    most = max(1, _MOST_GROUPS // spark.sparkContext.defaultParallelism)
    spark.conf.set("spark.sql.objectHashAggregate.sortBased.fallbackThreshold", str(most))
    latest = _classified(latest_of(records))
    rows = _rows(_condensed(latest, with_tombstones=choices.infer))
    by_kind: dict[str, list[dict[str, Any]]] = {"complete": [], "tombstone": [], "foreign": [], "window": []}
    for row in rows:
        by_kind[row["kind"]].append(row)
    foreign = sum(row["n"] for row in by_kind["foreign"])
    listed = _rows(_first_foreign(latest)) if foreign else []
    return read_windows(
        [_record(row) for row in (*by_kind["window"], *listed)],
        [run for row in by_kind["complete"] for run in _complete(row)],
        tombstones=sum(row["n"] for row in by_kind["tombstone"]),
        taken_back=[row["place"].encode(_ENCODING) for row in by_kind["tombstone"] if row["place"] is not None],
        further_unreadable=foreign - len(listed),
        choices=choices,
    )


def latest_of(records: DataFrame) -> DataFrame:
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
            f"CASE WHEN value IS NULL OR contains(key, {_COLON}) THEN value ELSE x'' END AS value) "
            "AS record",
        )
        .groupBy("key", "partition")
        .agg(_sql("max_by(record, offset) AS record"), _sql(f"{_COUNTED_IN_HASH_TABLE} AS n"))
    )
    return (
        by_key.selectExpr("*", f"decode(key, '{_ENCODING}') AS key_text")
        .selectExpr(
            rf"regexp_replace(key_text, r'{OLD_KEY}', '$1:$2:$3') AS identity",
            "struct(record.*, key, key_text) AS record",
            f"struct({', '.join(f'record.{name}' for name in Age._fields)}) AS age",
            "n",
        )
        .groupBy("identity")
        .agg(_sql("max_by(record, age) AS record"), _sql("sum(n) AS n"))
        .selectExpr("*", rf"identity RLIKE r'{WINDOW_KEY}' AS known")
    )


def _classified(latest: DataFrame) -> DataFrame:
    """Say of each what it is; of a window that may be complete, say how large it is and which one of that size."""
    whole = f"value IS NOT NULL AND known AND {_COMPLETE}"
    return (
        latest.selectExpr("identity", "record.*", "n", "known")
        .selectExpr("*", f"CASE WHEN {whole} THEN {_NUMBER.format(2)} END AS first")
        .selectExpr("*", f"CASE WHEN first IS NOT NULL THEN {_NUMBER.format(10)} END AS last")
        .selectExpr("*", f"least(last - first, {_LARGEST_WINDOW} - 1) + 1 AS size")
        .selectExpr(
            "*",
            "CASE WHEN key IS NULL THEN 'foreign' "
            "WHEN value IS NULL THEN 'tombstone' "
            "WHEN NOT known THEN 'foreign' "
            "WHEN first % size = 0 AND last - first = size - 1 THEN 'complete' "
            "ELSE 'window' END AS kind",
        )
    )


def _condensed(latest: DataFrame, *, with_tombstones: bool) -> DataFrame:
    """One row for each window with gaps; the rest counted, complete windows as a bitmap of their numbers."""
    taken_back = " WHEN 'tombstone' THEN identity" if with_tombstones else ""
    return (
        latest.selectExpr(
            "kind",
            f"CASE kind WHEN 'window' THEN identity WHEN 'complete' THEN substring_index(identity, ':', 2){taken_back} "
            "END AS place",
            "CASE kind WHEN 'complete' THEN size END AS size",
            f"CASE kind WHEN 'complete' THEN first div size div {_WINDOWS_A_ROW} END AS bucket",
            f"CASE kind WHEN 'complete' THEN first div size % {_WINDOWS_A_ROW} END AS bit",
            "CASE WHEN key IS NULL THEN n ELSE 1 END AS n",
            "CASE kind WHEN 'window' THEN struct(partition, offset, key, value) END AS record",
        )
        .groupBy("kind", "place", "size", "bucket")
        .agg(_sql("sum(n) AS n"), _sql("bitmap_construct_agg(bit) AS bits"), _sql("first(record) AS record"))
        .selectExpr(
            "kind", "place", "size", "bucket", "n", "CASE kind WHEN 'complete' THEN bits END AS bits", "record.*"
        )
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


def _complete(row: dict[str, Any]) -> Iterator[CompleteWindows]:
    """Yield the runs of the windows of `row`, in which one bit stands for one window."""
    topic, _, partition = row["place"].rpartition(":")
    size: int = row["size"]
    first_offset = row["bucket"] * _WINDOWS_A_ROW * size
    for first, last in _runs(int.from_bytes(row["bits"], "little")):
        yield CompleteWindows(
            topic, int(partition), first_offset + first * size, first_offset + (last + 1) * size - 1, last - first + 1
        )


def _runs(bits: int) -> Iterator[tuple[int, int]]:
    """Yield the runs of set bits as the numbers of their first and last bit."""
    passed = 0
    while bits:
        unset = (bits & -bits).bit_length() - 1
        bits >>= unset
        length = (~bits & (bits + 1)).bit_length() - 1
        yield passed + unset, passed + unset + length - 1
        bits >>= length
        passed += unset + length


def _sql(expression: str) -> Any:
    from pyspark.sql.functions import expr  # noqa: PLC0415 -- pure parts of this package are tested without Spark

    return expr(expression)
