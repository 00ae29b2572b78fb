"""Both readers of a gaps topic, with Spark and in one process, find the same in hostile records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from fuzz.latest_records import (
    EDGE_CASES,
    SCAN_OPTIONS,
    Record,
    binary,
    difference,
    findings_in_process,
    findings_of_spark,
    hostile_records,
    minimize,
)
from gapless_spark.model.gap_windows import ScanOptions

if TYPE_CHECKING:
    from conftest import TopicFactory
    from integration.spark.conftest import Gapless
    from kit.kafka.broker import KafkaBroker

pytestmark = [
    pytest.mark.integration,
    # Py4J leaves the sockets of its finished answers to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
FEW = 4000


@pytest.fixture
def session(spark: None) -> SparkSession:  # noqa: ARG001 -- it starts what is found here
    found = SparkSession.getActiveSession()
    assert found is not None
    return found


@pytest.mark.parametrize("options", SCAN_OPTIONS, ids=["as reported", "with every tail", "without stale records"])
def test_both_readers_agree_on_fuzzed_keys_and_values(session: SparkSession, options: ScanOptions) -> None:
    records = hostile_records(FEW, seed=20261122 + SCAN_OPTIONS.index(options))
    told = difference(session, records, options)
    if told is not None:
        few = minimize(records, lambda less: difference(session, less, options) is not None)
        told = f"{few}\n{difference(session, few, options)}"
    assert told is None, told
    found = findings_in_process(records, options)
    assert found.windows > found.complete_windows > 0, "a batch in which nothing is a window compares little"
    assert found.tombstones
    assert found.unreadable


def test_a_key_that_ends_in_a_newline_is_no_window_and_closes_none(session: SparkSession) -> None:
    records = [Record(0, 0, 0, b"t:0:0", binary(0, 9, [3])), Record(0, 1, 1, b"t:0:0\n", binary(0, 9))]
    for found in (findings_in_process(records, ScanOptions()), findings_of_spark(session, records, ScanOptions())):
        assert (found.missing, found.windows, found.unreadable) == (1, 1, 1)


def test_a_key_that_is_no_text_replaces_no_window(session: SparkSession) -> None:
    gap, other = "t\ufffd:0:0".encode(), b"t\xff:0:0"
    records = [Record(0, 0, 0, gap, binary(0, 9, [3])), Record(0, 1, 1, other, binary(0, 9))]
    for found in (findings_in_process(records, ScanOptions()), findings_of_spark(session, records, ScanOptions())):
        assert (found.missing, found.windows, found.unreadable) == (1, 1, 1)


def test_hostile_records_of_a_real_topic_are_read_alike(
    kafka: KafkaBroker, topic: TopicFactory, gapless: Gapless
) -> None:
    name = topic(2)
    for number, (key, value) in enumerate(EDGE_CASES):
        kafka.produce(name, [value], partition=number % 2, keys=[key], timestamps=[1_700_000_000_000 + number // 4])
    ended = gapless("scan", f"--bootstrap-servers={kafka.bootstrap}", f"--topic={name}")
    assert ended.code == 4
    assert ended.report is not None
    assert ended.report["unreadable"] > 20
    assert ended.gaps["u\ufffd", 0] == [[3]]
