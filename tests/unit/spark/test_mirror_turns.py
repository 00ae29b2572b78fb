"""The checks of when lanes are held by Spark's tasks, and of what is told of them."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from gapless_kafka.access.connection import KafkaConnection
from gapless_mirror.lanes.identity import MirrorIdentity
from gapless_mirror.lanes.limits import Limits, Rates
from gapless_mirror.lanes.observations import (
    LaneObservation,
    LanePhase,
    PartitionObservation,
    SeenError,
    Stop,
)
from gapless_mirror.lanes.setup import LaneSetup
from gapless_mirror.lanes.sources import SourceTopic, SourceView
from gapless_spark.mirror.due import Due
from gapless_spark.mirror.engine import SparkMirror
from gapless_spark.mirror.turns import SlotResult, divide_lanes, to_local_clock
from gapless_spark.runtime.session import Engine

PLACE = ("orders", 3)
VIEW = SourceView(number=1)


def partition(
    position: int,
    end_seen: int | None = None,
    *,
    error: SeenError | None = None,
    stop: Stop | None = None,
    lost: tuple[int, int] = (0, 0),
    returned: int = 0,
) -> PartitionObservation:
    return PartitionObservation(
        topic=PLACE[0],
        partition=PLACE[1],
        target="orders",
        source_id="id",
        position=position,
        end_seen=end_seen,
        progressed_at=100.0,
        records=1,
        bytes=1,
        lost=lost[0],
        lost_now=lost[1],
        returned=returned,
        error=error,
        stop=stop,
    )


def lane(*partitions: PartitionObservation, error: SeenError | None = None) -> LaneObservation:
    return LaneObservation(
        lane=2,
        phase=LanePhase.CLOSED,
        tick_at=101.0,
        transaction_since=None,
        committed_at=99.0,
        records=1,
        bytes=1,
        error=error,
        partitions=partitions,
    )


def test_lanes_are_held_once_at_the_beginning_and_then_when_a_partition_has_grown() -> None:
    due = Due(60.0)
    assert due.is_behind({PLACE: 0})
    due.after_turn([lane(partition(7))], VIEW, 0.0)
    assert not due.is_behind({PLACE: 7})
    assert due.is_behind({PLACE: 8})
    assert due.is_behind({("new", 0): 0})


def test_the_marker_of_a_transaction_at_the_end_is_nothing_to_copy() -> None:
    due = Due(60.0)
    due.after_turn([lane(partition(7, end_seen=8))], VIEW, 0.0)
    assert not due.is_behind({PLACE: 8})


@pytest.mark.parametrize("where", ["lane", "partition"])
def test_lanes_are_held_again_some_seconds_after_an_error(where: str) -> None:
    seen = SeenError(message="no leader", name="LEADER_NOT_AVAILABLE", seen_at=0.0)
    due = Due(60.0)
    due.after_turn([lane(partition(7), error=seen) if where == "lane" else lane(partition(7, error=seen))], VIEW, 100.0)
    assert not due.is_behind({PLACE: 7})
    assert not due.is_look_due(VIEW, 104.0)
    assert due.is_look_due(VIEW, 105.0)


def test_a_partition_that_has_stopped_is_tried_again_after_half_a_minute_however_much_it_grows() -> None:
    due = Due(60.0)
    due.after_turn([lane(partition(7, stop=Stop(reason="TargetRefuses", message="too large")))], VIEW, 100.0)
    assert not due.is_behind({PLACE: 500})
    assert not due.is_look_due(VIEW, 129.0)
    assert due.is_look_due(VIEW, 130.0)


def test_a_turn_follows_a_refresh_of_the_topics_even_if_nothing_is_new() -> None:
    due = Due(60.0)
    due.after_turn([lane(partition(7))], VIEW, 100.0)
    refreshed = replace(VIEW, number=VIEW.number + 1)
    assert not due.is_look_due(VIEW, 1000.0), "nothing is known that the last turn did not know"
    assert not due.is_look_due(refreshed, 159.0), "lanes ask for refreshes, too, which must not make turns without end"
    assert due.is_look_due(refreshed, 160.0)


def test_a_turn_that_failed_is_followed_by_another_one() -> None:
    due = Due(60.0)
    due.after_turn([lane(partition(7))], VIEW, 0.0)
    due.after_failure(100.0)
    assert not due.is_behind({PLACE: 7})
    assert not due.is_look_due(VIEW, 104.0)
    assert due.is_look_due(VIEW, 105.0)


@pytest.mark.parametrize(("slots", "expected"), [(1, ((0, 1, 2, 3, 4),)), (2, ((0, 2, 4), (1, 3))), (9, 5)])
def test_lanes_are_divided_evenly(slots: int, expected: object) -> None:
    found = divide_lanes(range(5), slots)
    assert sorted(number for some in found for number in some) == [0, 1, 2, 3, 4]
    assert found == expected or len(found) == expected


def test_times_of_another_machine_become_those_of_this_one() -> None:
    seen = SeenError(message="x", name="", seen_at=98.0)
    (moved,) = to_local_clock(SlotResult((lane(partition(1, error=seen), error=seen),), observed_at=102.0), 5002.0)
    assert (moved.tick_at, moved.committed_at, moved.transaction_since) == (5001.0, 4999.0, None)
    assert moved.error is not None
    assert moved.error.seen_at == 4998.0
    (one,) = moved.partitions
    assert one.progressed_at == 5000.0
    assert one.error is not None
    assert one.error.seen_at == 4998.0


def test_limits_travel_without_their_account_and_can_be_divided() -> None:
    limits = Limits(Rates(bytes_per_second=1000.0), now=lambda: 0.0)
    limits.spend(1, 5000)
    assert limits.delay_seconds() == 5.0
    travelled = pickle.loads(pickle.dumps(limits))  # noqa: S301 -- our own
    assert (travelled.rates, travelled.delay_seconds()) == (Rates(1000.0), 0.0)
    assert travelled.divide(4).rates == Rates(250.0, None)


class TwoTurns:
    """In both turns something is left out; an earlier run has skipped 7 offsets."""

    shows_errors = True

    def __init__(self) -> None:
        self._seen = [
            partition(5, lost=(10, 3), returned=2),
            partition(9, lost=(11, 1), returned=4),
        ]

    def run(self, *_: object) -> list[SlotResult]:
        return [SlotResult((lane(self._seen.pop(0)),), 0.0)]


def test_an_account_counts_what_was_lost_and_came_back_in_this_run_only() -> None:
    kafka = KafkaConnection(bootstrap_servers="kafka:9092")
    setup = LaneSetup(
        identity=MirrorIdentity("m"), lanes=1, source=kafka, target=kafka, engine="spark", epoch=1, once=True
    )
    topics = {"orders": SourceTopic("orders", "id", "orders", (0,) * 4, (0, 0, 0, 9))}
    sources: Any = SimpleNamespace(
        view=SourceView({"orders": topics["orders"]}, number=1), error=None, refresh_seconds=60.0
    )
    spark: Any = None
    mirror = SparkMirror(Engine("test", "local[1]"), setup, sources, TwoTurns())
    mirror._due._reached = {("orders", number): 0 for number in range(3)}
    with ThreadPoolExecutor(1) as thread:
        mirror._run(spark, thread, lambda: False)
    account = mirror.totals()
    assert (account.records, account.lost, account.returned) == (2, 4, 6)
