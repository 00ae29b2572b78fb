"""Owns the checks of how records that went through SQL come to a lane, and which of them are read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from gapless_api.base.allowed_topics import AllowedTopics
from gapless_api.base.errors import ConfigurationError, SourceStalledError
from gapless_kafka.access.connection import KafkaConnection
from gapless_kafka.reading.cuts import Slice
from gapless_mirror.lanes.identity import HEARTBEAT_TOPIC
from gapless_mirror.lanes.records import LanePosition
from gapless_mirror.lanes.sources import SourceTopic, SourceView
from gapless_spark.mirror.plugin import ENGINE
from gapless_spark.mirror.sql_cuts import lane_slices, max_partitions, split_heartbeats, view_until
from gapless_spark.mirror.sql_reader import SqlReader

if TYPE_CHECKING:
    from gapless_mirror.lanes.reader import Reading

NOWHERE = KafkaConnection(bootstrap_servers="127.0.0.1:1")
TOPIC = SourceTopic("t", "id", "t", (0, 10, 0), (100, 100, 0))


def rows(*offsets: int, partition: int = 0, target: str | None = None) -> pa.RecordBatch:
    count = len(offsets)
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    return pa.record_batch(
        [
            ["t"] * count,
            pa.array([partition] * count, pa.int32()),
            pa.array(offsets, pa.int64()),
            pa.array([None, *[7] * (count - 1)], pa.int64()),
            pa.array([None, *[b""] * (count - 1)], pa.binary()),
            pa.array([b"v"] * count, pa.binary()),
            pa.array([[{"key": "a", "value": None}], *[[]] * (count - 1)], headers),
            pa.array([target] * count, pa.string()),
        ],
        names=["topic", "partition", "offset", "at", "key", "value", "headers", "target"],
    )


def reader(*batches: pa.RecordBatch, first: int = 0) -> SqlReader:
    slices = [Slice("t", partition, first, 10, may_skip_expired=False) for partition in (0, 1)]
    return SqlReader(iter(batches), slices, {"other"}, NOWHERE)


def offsets(reading: Reading) -> list[tuple[Any, ...]]:
    return [
        (batch.topic_partition, [message.offset() for message in batch.messages], batch.target)
        for batch in reading.batches
    ]


def position(next_offset: int, source_id: str = "id") -> LanePosition:
    return LanePosition(target="t", source_id=source_id, epoch=1, start=0, next_offset=next_offset)


def test_a_lane_gets_the_rows_behind_its_positions_and_at_last_the_ends() -> None:
    made = reader(rows(0, 2, 4), rows(1, 5, partition=1))
    made.add({("t", 0): 2, ("t", 1): 0})
    assert offsets(made.read(1, 0)) == [(("t", 0), [2, 4], None)]
    assert offsets(made.read(1, 0)) == [(("t", 1), [1, 5], None)]
    assert made.read(1, 0).ends == {("t", 0): 10, ("t", 1): 10}


def test_the_leader_epochs_come_with_the_last_rows_which_may_be_the_last_that_is_read() -> None:
    slices = [Slice("t", 0, 0, 6, may_skip_expired=False)]
    asked: list[Any] = []

    def epochs_at(ends: Any) -> Any:
        asked.append(dict(ends))
        return {each: (7, end) for each, end in ends.items()}

    made = SqlReader(iter([rows(0, 2), rows(4, 5)]), slices, (), NOWHERE, epochs_at)
    made.add({("t", 0): 0})
    assert (made.read(1, 0).epochs, asked) == ({}, [])
    last = made.read(1, 0)
    assert (offsets(last), last.ends, last.epochs) == ([(("t", 0), [4, 5], None)], {}, {("t", 0): (7, 6)})
    last = made.read(1, 0)
    assert (last.ends, last.epochs) == ({("t", 0): 6}, {("t", 0): (7, 6)})


def test_a_message_keeps_null_empty_headers_and_time_apart() -> None:
    made = reader(rows(0, 1))
    made.add({("t", 0): 0})
    one, two = made.read(1, 0).batches[0].messages
    assert (one.key(), one.timestamp(), one.headers()) == (None, (0, -1), [(b"a", None)])
    assert (two.key(), two.timestamp(), two.headers()) == (b"", (1, 7), None)


def test_records_for_other_topics_are_told_apart_and_only_those_are_taken_that_are_allowed() -> None:
    made = reader(rows(0), rows(1, target="other"), rows(2, target="third"))
    made.add({("t", 0): 0})
    assert offsets(made.read(1, 0)) == [(("t", 0), [0], None)]
    assert offsets(made.read(1, 0)) == [(("t", 0), [1], "other")]
    with pytest.raises(ConfigurationError, match="record t/0/2 to a topic that is not in transformT") as raised:
        made.read(1, 0)
    assert "third" not in str(raised.value), "a topic may be made from the content of a record"


def test_a_position_before_the_log_is_reported_as_kafka_reports_it_before_any_row() -> None:
    made = reader(rows(5), first=5)
    made.add({("t", 0): 3})
    ((place, error),) = made.read(1, 0).errors
    assert (place, error.name()) == (("t", 0), "_AUTO_OFFSET_RESET")
    made.add({("t", 0): 5})
    assert offsets(made.read(1, 0)) == [(("t", 0), [5], None)]


@pytest.mark.parametrize("reads", [1, 2])
def test_rows_that_are_gone_cannot_be_read_again(reads: int) -> None:
    made = reader(rows(0, 1))
    made.add({("t", 0): 0})
    for _ in range(reads):
        made.read(1, 0)
    with pytest.raises(SourceStalledError, match="the next turn"):
        made.add({("t", 0): 0})


def test_a_cut_reads_on_from_the_positions_and_divides_what_it_may_read() -> None:
    ends = {("t", 0): 120, ("t", 1): 100, ("t", 2): 0}
    places = [(TOPIC, partition) for partition in range(3)]
    found = lane_slices(ends, {("t", 0): position(50)}, places, max_offsets=100)
    assert [(one.partition, one.first_offset, one.end_offset) for one in found] == [(0, 50, 100), (1, 10, 60)]
    assert not any(one.may_skip_expired for one in found), "what expires meanwhile must be noticed"
    done = {("t", 0): position(120), ("t", 1): position(100)}
    assert lane_slices(ends, done, places) == ()


def test_a_partition_without_a_position_begins_where_the_former_program_stood() -> None:
    topic = replace(TOPIC, group_offsets={0: 30, 1: 5})
    found = lane_slices({}, {("t", 1): position(60)}, [(topic, 0), (topic, 1)])
    assert [(one.partition, one.first_offset) for one in found] == [(0, 30), (1, 60)]
    (expired,) = lane_slices({}, {}, [(topic, 1)])
    assert expired.first_offset == 10  # the lane finds out that offsets 5 to 9 are lost


@pytest.mark.parametrize("known", [position(4), position(50, source_id="recreated")])
def test_what_expired_or_was_recreated_is_read_from_the_start_of_the_log(known: LanePosition) -> None:
    (found,) = lane_slices({}, {("t", 1): known}, [(TOPIC, 1)])
    assert (found.first_offset, found.end_offset) == (10, 100)


def test_heartbeats_go_past_the_statement_and_ask_nothing_of_the_topics_that_it_names() -> None:
    slices = [Slice(name, 0, 0, 10, may_skip_expired=False) for name in ("a", HEARTBEAT_TOPIC, "t")]
    assert split_heartbeats(slices) == ((slices[0], slices[2]), (slices[1],))
    beats = SourceTopic(HEARTBEAT_TOPIC, "id", f"{HEARTBEAT_TOPIC}.m", (0,) * 8, (5,) * 8)
    assert max_partitions(SourceView({"t": TOPIC, HEARTBEAT_TOPIC: beats})) == 3


def test_a_lane_ends_where_its_slices_end() -> None:
    view = view_until(SourceView({"t": TOPIC}, (), 7), (Slice("t", 1, 10, 60, may_skip_expired=False),), 8, {})
    assert (view.topics["t"].end_offsets, view.number) == ((0, 60, 0), 8)


def test_a_transform_sends_records_only_to_topics_that_the_target_allows() -> None:
    values = {
        "transform": "SELECT 'secrets' AS topic FROM records",
        "transformTopics": ("errors", "secrets"),
        "targetAllowedTopics": AllowedTopics.parse("errors,orders*"),
        "master": "local[1]",
        "driverMemory": "1g",
        "parallelism": None,
    }
    nothing: Any = None
    with pytest.raises(ConfigurationError, match="transform requests the topic secrets, and only errors"):
        ENGINE.run(values, nothing, nothing, lambda: True)
