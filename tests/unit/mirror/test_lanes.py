"""The proof of the pure rules of a mirror's lanes."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaException
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.base.errors import ConfigurationError
from gapless_kafka.reading.cuts import TopicCut
from gapless_kafka.writing.faults import TakenOverError, is_purged
from gapless_kafka.writing.offset_map import Run
from gapless_mirror.lanes.claims import LogNow
from gapless_mirror.lanes.control import LaneState, lane_state
from gapless_mirror.lanes.identity import MirrorIdentity, lane_of, mirror_name
from gapless_mirror.lanes.layout import lanes_of
from gapless_mirror.lanes.limits import Limits, Rates
from gapless_mirror.lanes.losses import Loss, recreation_loss, source_loss
from gapless_mirror.lanes.progress import PartitionProgress
from gapless_mirror.lanes.records import (
    MAP,
    MAX_RUNS,
    POSITION,
    RUN,
    RUN_KEY,
    LanePosition,
    LayoutRecord,
    LostRange,
    MapTail,
    RunRecord,
    content,
    map_key,
    position_key,
)
from gapless_mirror.lanes.runs import check_run, run_to_join
from gapless_mirror.lanes.sources import Routes, SourceView, build_view
from gapless_mirror.lanes.stored import StoredRecord
from gapless_mirror.lanes.writer import InterleavedError, Written


def test_the_names_and_lanes_of_a_mirror_never_change() -> None:
    mirror = MirrorIdentity("eu-1")
    assert mirror.control_topic == "_gapless_mirror_eu-1"
    assert mirror.group == "gapless-mirror-eu-1"
    assert mirror.transactional_id(7) == "gapless-mirror-eu-1-7"
    assert [lane_of("orders", partition, 8) for partition in range(3)] == [6, 7, 0]
    assert lane_of("Größe", 0, 5) == 3


@pytest.mark.parametrize("bad", ["", "A", "a_b", "-a", "a.", "x" * 64, "a b"])
def test_a_name_that_kafka_could_not_carry_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="lower-case letters"):
        mirror_name(bad)


def test_workers_join_the_run_of_workers_and_take_over_from_another_engine() -> None:
    own, other = RunRecord(engine="workers", epoch=3), RunRecord(engine="spark", epoch=4)
    assert run_to_join([None, None], "workers", shares=True) == RunRecord(engine="workers", epoch=1)
    assert run_to_join([None, own], "workers", shares=True) == own
    # A takeover that was interrupted has reached some of the lanes only.
    assert run_to_join([own, other], "workers", shares=True) == RunRecord(engine="workers", epoch=5)
    assert run_to_join([other], "spark", shares=False) == RunRecord(engine="spark", epoch=5)


def test_a_lane_of_an_older_run_is_taken_and_one_of_a_later_run_is_left() -> None:
    own = RunRecord(engine="workers", epoch=3)
    assert check_run(None, own)
    assert check_run(RunRecord(engine="spark", epoch=2), own)
    assert not check_run(own, own)
    for later in (RunRecord(engine="workers", epoch=4), RunRecord(engine="spark", epoch=3)):
        with pytest.raises(TakenOverError, match=f"engine {later.engine}, run {later.epoch}"):
            check_run(later, own)


def test_a_log_that_begins_behind_the_position_is_a_loss_of_an_exact_range() -> None:
    def loss_at(offset: int, start: int, end: int) -> Loss | None:
        position = LanePosition(target="t", source_id="A", epoch=1, start=0, next_offset=offset)
        return source_loss("t/0", position, LogNow(start=start, end=end))

    assert loss_at(5, 5, 9) is None
    assert loss_at(9, 5, 9) is None
    loss = loss_at(5, 8, 9)
    assert loss is not None
    assert (loss.first, loss.end, loss.next_offset, loss.stop.reason) == (5, 8, 8, "RetentionOvertook")
    assert "offsets 5-7 of t/0" in loss.stop.message
    shorter = loss_at(10, 0, 9)
    assert shorter is not None
    assert (shorter.first, shorter.end, shorter.next_offset, shorter.stop.reason) == (9, 10, 9, "SourceTruncated")


@pytest.mark.parametrize(
    ("source", "known_end", "expected"),
    [
        (LogNow(start=0, end=100), 300, (100, 300, 100)),
        (LogNow(start=0, end=120), 300, (120, 300, 100)),
        (LogNow(start=0, end=40), 300, (40, 300, 40)),
        (LogNow(start=0, end=150, diverged_at=20), 150, (20, 100, 20)),
        (LogNow(start=30, end=150, diverged_at=20), 0, (30, 100, 30)),
    ],
)
def test_a_truncated_log_has_lost_what_it_had_from_its_new_end_on(
    source: LogNow, known_end: int, expected: tuple[int, int, int]
) -> None:
    position = LanePosition(target="t", source_id="A", epoch=1, start=0, next_offset=100)
    loss = source_loss("t/0", position, source, known_end)
    assert loss is not None
    assert (loss.first, loss.end, loss.next_offset, loss.stop.reason) == (*expected, "SourceTruncated")


def test_a_log_that_ends_where_it_ended_before_has_lost_nothing() -> None:
    position = LanePosition(target="t", source_id="A", epoch=1, start=0, next_offset=100)
    assert source_loss("t/0", position, LogNow(start=0, end=300), 300) is None


def test_a_recreated_topic_loses_what_was_seen_and_not_copied() -> None:
    loss = recreation_loss("t/0", 5, 9, ("A", "B"))
    assert (loss.first, loss.end, loss.next_offset) == (5, 9, 0)
    assert "topic ID A -> B" in loss.stop.message
    assert recreation_loss("t/0", 5, 0, ("A", "B")).end == 5


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_limits_are_paid_afterwards_and_follow_a_change() -> None:
    clock = Clock()
    limits = Limits(Rates(bytes_per_second=1000, records_per_second=10), now=clock)
    assert limits.delay_seconds() == 0
    limits.spend(5, 100)
    assert limits.delay_seconds() == pytest.approx(0.5)
    clock.now += 0.25
    limits.spend(0, 500)
    assert limits.delay_seconds() == pytest.approx(0.75)
    limits.change(Rates(bytes_per_second=1000, records_per_second=10))
    assert limits.delay_seconds() == pytest.approx(0.75)
    limits.change(Rates())
    assert limits.delay_seconds() == 0
    limits.spend(10**9, 10**12)
    assert limits.delay_seconds() == 0


def test_a_limit_bounds_what_is_read_at_once() -> None:
    assert Limits(Rates()).max_records() == 5000
    assert Limits(Rates(records_per_second=100)).max_records() == 25
    assert Limits(Rates(records_per_second=1)).max_records() == 1
    limits = Limits(Rates(bytes_per_second=1024 * 1024))
    assert limits.max_records() == 256
    for _ in range(100):
        limits.spend(10, 10 * 100)
    assert limits.max_records() > 2000


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=40))
def test_the_parts_of_a_map_hold_every_run_once(steps: list[tuple[int, int, int]]) -> None:
    tail, first, target, expected = MapTail("t", "S"), 0, 0, {}
    parts: dict[int, MapTail] = {}
    for count, skipped, moved in steps:
        first, target = first + skipped, target + moved
        expected |= {first + number: target + number for number in range(count)}
        for part in tail.extended([Run(first, count, target)]):
            parts[part.runs[0].first] = tail = part
        first, target = first + count, target + count
    found = {
        run.first + number: run.target + number
        for part in parts.values()
        for run in MapTail.of(part.record()).runs
        for number in range(run.length)
    }
    assert found == expected


def test_a_full_part_of_a_map_begins_another_and_stays_as_it_is() -> None:
    full = MapTail("t", "S", [Run(10 * number, 1, 11 * number) for number in range(MAX_RUNS)])
    before = list(full.runs)
    extended = full.extended([Run(10**6, 1, 10**6)])
    assert [len(part.runs) for part in extended] == [MAX_RUNS, 1]
    assert full.runs == before


def test_a_lane_continues_from_the_last_record_of_each_key() -> None:
    lost = LostRange(first=3, last=4, reason="RetentionOvertook", source_id="S", time="2026-11-22T00:00:00Z")
    older = LanePosition(target="t", source_id="S", epoch=1, start=0, next_offset=3)
    position = LanePosition(target="t", source_id="S", epoch=1, start=0, next_offset=9, records=7, lost=(lost,))
    parts = [MapTail("t", "S", [Run(first, 5, first)]) for first in (0, 5)]
    state = state_of(
        [
            (RUN_KEY, content(RUN, RunRecord(engine="workers", epoch=1))),
            (position_key("s", 2), content(POSITION, older)),
            *((map_key("s", 2, part.first_offset), content(MAP, part.record())) for part in parts),
            (map_key("s", 2, 77), content(MAP, parts[1].record())),
            (position_key("s", 2), content(POSITION, position)),
            (map_key("s", 2, 77), None),
        ]
    )
    assert state.run == RunRecord(engine="workers", epoch=1)
    assert state.positions == {("s", 2): position}
    assert state.tails == {("s", 2): parts[1]}
    assert state.map_parts == {("s", 2): [0, 5]}


def state_of(records: list[tuple[bytes, bytes | None]]) -> LaneState:
    return lane_state([StoredRecord(*record, 10 + at) for at, record in enumerate(records)], "control", 3)


def test_a_record_that_cannot_be_read_stops_the_partition_that_it_is_about_only() -> None:
    position = content(POSITION, LanePosition(target="t", source_id="S", epoch=1, start=0, next_offset=3))
    part = content(MAP, MapTail("t", "S", [Run(0, 3, 0)]).record())
    newer = position_key("newer", 0).replace(b'"gaplessMirror":1', b'"gaplessMirror":9')
    state = state_of(
        [
            (position_key("whole", 0), position),
            (position_key("damaged", 1), b"{"),
            (position_key("mapless", 2), position),
            (map_key("mapless", 2, 0), part),
            (map_key("mapless", 2, 7), part.replace(b'"runs":"', b'"runs":"?')),
            (newer, position),
            (b"x", b"y"),
            (b'{"event":1}', position),
        ]
    )
    assert state.positions.keys() == {("whole", 0)}
    assert {each: record.map_part for each, (record,) in state.unreadable.items()} == {
        ("damaged", 1): None,
        ("mapless", 2): 7,
        ("newer", 0): None,
    }
    assert state.superseded_parts["mapless", 2] == [0, 7]
    sentence = state.unreadable["damaged", 1][0].sentence
    assert sentence.startswith("The record at offset 11 of control/3 is about damaged/1 and cannot be read (")
    assert [sentence[:35] for sentence in state.foreign] == [
        "The record at offset 16 of control/",
        "The record at offset 17 of control/",
    ]


def test_a_record_that_cannot_be_read_and_concerns_the_lane_is_named() -> None:
    with pytest.raises(ConfigurationError, match="The record at offset 10 of control/3 cannot be read"):
        state_of([(RUN_KEY, b"{}")])


def placed(lanes: int, count: int, partitions: int) -> dict[int, LaneState]:
    states = {lane: LaneState() for lane in range(partitions)}
    position = LanePosition(target="t", source_id="S", epoch=1, start=0, next_offset=3)
    for partition in range(count):
        states[lane_of("t", partition, lanes)].positions["t", partition] = position
    return states


def test_the_number_of_lanes_is_that_of_the_first_run_whatever_is_added() -> None:
    states = placed(4, 2, 12)
    states[0].layout = LayoutRecord(lanes=4)
    assert lanes_of("control", 12, states) == 4
    with pytest.raises(ConfigurationError, match="has 3 partitions, and the mirror has 4 lanes"):
        lanes_of("control", 3, states)


@given(st.integers(1, 12), st.integers(0, 12))
def test_the_number_of_lanes_of_an_earlier_release_is_found_by_its_positions(lanes: int, added: int) -> None:
    """Heartbeats have a position in each lane."""
    assert lanes_of("control", lanes + added, placed(lanes, max(lanes + added, 2 * lanes), lanes + added)) == lanes
    assert lanes_of("control", lanes, placed(lanes, 0, lanes)) == lanes


def test_positions_that_were_written_with_different_numbers_of_lanes_are_refused() -> None:
    states = placed(8, 12, 12)
    for lane, state in placed(12, 12, 12).items():
        states[lane].positions |= state.positions
    with pytest.raises(ConfigurationError, match="--start-at-target"):
        lanes_of("control", 12, states)


def test_each_source_partition_belongs_to_exactly_one_lane() -> None:
    cuts = [TopicCut(name, (0,) * count, (9,) * count, 0, "S") for name, count in (("a", 5), ("b", 1), ("c", 3))]
    view = build_view(cuts, Routes({"a": "x-a", "b": "x-b"}), number=1)
    topic_partitions = [
        (topic.target, partition) for lane in range(4) for topic, partition in view.lane_partitions(lane, 4)
    ]
    assert sorted(topic_partitions) == [*(("x-a", number) for number in range(5)), ("x-b", 0)]
    assert list(SourceView().lane_partitions(0, 4)) == []


class Message:
    def __init__(self, offset: int | None) -> None:
        self._offset = offset

    def offset(self) -> int | None:
        return self._offset


def written(offsets: list[int], targets: list[int], reported: int) -> Written:
    messages: Any = [Message(offset) for offset in offsets]
    batch = Written(("t", 0), messages)
    batch.reported = reported
    for target in targets:
        batch.on_delivery(None, Message(target))
    return batch


def test_the_first_and_the_last_report_prove_where_the_others_went() -> None:
    assert list(written([5, 6, 7], [20, 22], 2).runs()) == [Run(5, 3, 20)]
    assert list(written([5, 6, 9], [20, 22], 2).runs()) == [Run(5, 2, 20), Run(9, 1, 22)]
    assert list(written([5], [20], 1).runs()) == [Run(5, 1, 20)]


def test_records_of_another_program_in_between_need_a_report_for_each() -> None:
    with pytest.raises(InterleavedError):
        written([5, 6, 7], [20, 23], 2).runs()
    assert list(written([5, 6, 7], [20, 21, 23], 3).runs()) == [Run(5, 2, 20), Run(7, 1, 23)]


def test_a_record_that_has_no_offset_in_the_target_is_not_written() -> None:
    # The client took it for accepted: see `not_written`.
    batch = written([5, 6, 7], [], 2)
    batch.on_delivery(None, Message(None))
    batch.on_delivery(None, Message(20))
    with pytest.raises(KafkaException, match="acknowledged without an offset") as error:
        batch.runs()
    assert is_purged(error.value.args[0])  # so the transaction is written again


def test_a_report_that_is_missing_is_a_defect() -> None:
    with pytest.raises(RuntimeError, match="2 reports were expected and 1 came"):
        written([5, 6, 7], [20], 2).runs()


def progress(**more: Any) -> PartitionProgress:
    position = LanePosition(target="t", source_id="S", epoch=1, start=0, next_offset=40)
    return PartitionProgress(("s", 0), position, 40, 0.0, **more)


def test_parts_of_a_map_are_removed_when_the_source_has_deleted_all_that_they_are_about() -> None:
    partition = progress(map_parts=[0, 10, 20, 30], tail=MapTail("t", "S", [Run(30, 10, 33)]))
    partition.expire_map(9)
    assert partition.expired_parts == []
    partition.expire_map(20)
    assert (partition.expired_parts, partition.map_parts) == ([0, 10], [20, 30])
    partition.expire_map(10**9)
    assert partition.map_parts == [30]  # which is continued
    partition.clear_map()
    assert (partition.expired_parts, partition.map_parts, partition.tail) == ([0, 10, 20, 30], [], None)


def test_a_loss_that_was_decided_is_part_of_the_next_position() -> None:
    partition = progress()
    assert not partition.has_moved
    lost = LostRange(first=40, last=49, reason="RetentionOvertook", source_id="S", time="2026-11-22T00:00:00Z")
    partition.skip_to(50, [lost])
    assert partition.has_moved
    assert partition.position_after(0, 0, 2).lost == (lost,)
    assert partition.position_after(0, 0, 2).next_offset == 50
    assert partition.observation().lost == 10
