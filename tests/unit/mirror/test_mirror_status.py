"""The progress line and the metrics tell what a look has found."""

from __future__ import annotations

import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_api.wire.mirror_progress import MIRROR_LINE, StallReason
from gapless_kafka.reading.lag import Observations
from gapless_mirror.watch.facts import KafkaFault, MirrorFacts, PartitionEnds, PartitionFacts, ended_before
from gapless_mirror.watch.metrics import MirrorMetrics
from gapless_mirror.watch.stall import is_idle
from gapless_mirror.watch.status import MirrorStatus, PartitionStatus, line_of, partition_statuses
from gapless_mirror.watch.tracker import Stall
from unit.mirror.observed import facts, lane, partition, source

WALL = 1_700_000_000.0


def one_partition(topic: str = "orders", number: int = 0, **changes: Any) -> PartitionStatus:
    given: dict[str, Any] = {
        "target": f"copy-{topic}",
        "lag_records": 0,
        "lag_seconds": 0.0,
        "seconds_left": None,
        "lost": 0,
    }
    return PartitionStatus(topic=topic, partition=number, **(given | changes))


def status(*partitions: PartitionStatus, stalls: tuple[Stall, ...] = (), **changes: Any) -> MirrorStatus:
    given: dict[str, Any] = {
        "name": "m",
        "engine": "workers",
        "worker": "host/1",
        "now": WALL,
        "lanes": 8,
        "lanes_owned": 3,
        "records": 10,
        "bytes": 1000,
        "committed_at": WALL - 2,
        "is_idle": False,
        "heartbeat_ages": {1: 2.04, 2: 1.0},
    }
    return MirrorStatus(partitions=partitions, stalls=stalls, **(given | changes))


def stall(reason: StallReason = StallReason.TRANSACTION_OPEN, topic: str = "orders", *partitions: int) -> Stall:
    return Stall(reason, topic, partitions or (4,), (1,), WALL - 60, "It stands.")


def at(found: MirrorFacts, observations: Observations, now: float) -> PartitionStatus:
    (one,) = partition_statuses(found, observations, now)
    return one


def test_lag_grows_while_nothing_moves() -> None:
    seen = Observations()
    assert at(facts(), seen, WALL).lag_seconds == 0
    behind = facts(of_source=source(PartitionEnds(0, 150, 150)))
    assert [(one.lag_records, one.lag_seconds) for one in (at(behind, seen, WALL + s) for s in (5, 65))] == [
        (50, 5.0),
        (50, 65.0),
    ]


def test_lag_in_seconds_is_counted_from_the_last_record_that_was_copied() -> None:
    newest = int((WALL - 30) * 1000)
    found = facts(lane(partition(newest_ms=newest)), of_source=source(PartitionEnds(0, 150, 150)))
    assert at(found, Observations(), WALL).lag_seconds == 30.0


def test_records_behind_an_open_transaction_are_lag() -> None:
    seen = Observations()
    at(facts(), seen, WALL)
    held = at(facts(of_source=source(PartitionEnds(0, 100, 130))), seen, WALL + 7)
    assert (held.lag_records, held.lag_seconds) == (30, 7.0)


def test_lag_in_seconds_is_unknown_before_nothing_waited_once() -> None:
    behind = at(facts(of_source=source(PartitionEnds(0, 150, 150))), Observations(), WALL)
    assert (behind.lag_records, behind.lag_seconds) == (50, None)


def test_heartbeats_count_neither_as_lag_nor_as_copied() -> None:
    beats = partition(topic="gapless_heartbeats", position=5, records=60, bytes=900)
    found = facts(lane(partition(), beats, records=160, bytes=1900))
    assert at(found, Observations(), WALL).topic == "orders"
    assert is_idle(found)
    assert found.lanes[0].copied == (100, 1000)


def test_a_marker_at_the_end_is_no_lag() -> None:
    found = facts(lane(partition(position=98, end_seen=100)))
    assert at(found, Observations(), WALL).lag_records == 0


def test_the_time_until_loss_is_retention_without_lag() -> None:
    seen = Observations()
    at(facts(), seen, WALL)
    behind = facts(of_source=source(PartitionEnds(0, 150, 150), retention_seconds=600.0))
    assert at(behind, seen, WALL + 100).seconds_left == 500.0
    assert at(facts(of_source=source(retention_seconds=600.0)), seen, WALL + 200).seconds_left is None


def test_the_lag_of_a_partition_without_answer_is_what_was_seen_last() -> None:
    found = at(facts(lane(partition(position=90, end_seen=100)), of_source=source(ends=None)), Observations(), WALL)
    assert (found.lag_records, found.lag_seconds, found.seconds_left) == (10, None, None)


def test_the_lag_of_a_log_that_ends_before_what_was_copied_is_unknown() -> None:
    """What was copied after the snapshot is behind its end too, and is no lag."""
    now = source(PartitionEnds(0, 90, 90))
    copied = lane(partition(position=100))
    after = at(facts(copied, of_source=now), Observations(), WALL)
    assert (after.lag_records, after.lag_seconds) == (0, 0.0)
    assert ended_before(now, {("orders", 0): 90}) == frozenset()
    shorter = replace(facts(copied, of_source=now), beyond_end=ended_before(now, {("orders", 0): 100}))
    found = at(shorter, Observations(), WALL)
    assert (found.lag_records, found.lag_seconds, found.seconds_left) == (None, None, None)
    assert not is_idle(shorter)
    (waiting,) = {PartitionFacts.of(one, copied, shorter).waiting for one in copied.partitions}
    assert waiting is None
    line = line_of(status(found, one_partition("b", 0, lag_records=5)))
    assert (line.lag_records, line.partitions_with_lag, line.lag_seconds) == (None, 2, None)
    assert [(one.topic, one.lag_records) for one in line.topics] == [("orders", None), ("b", 5)]
    assert MIRROR_LINE.from_json(MIRROR_LINE.to_json(line)) == line


def test_a_snapshot_of_before_a_fault_says_nothing_about_what_was_copied_since() -> None:
    old = replace(source(PartitionEnds(0, 90, 90)), fault=KafkaFault("source", "_TRANSPORT", "gone"))
    assert ended_before(old, {("orders", 0): 100}) == frozenset()


def test_the_line_adds_up_what_partitions_show() -> None:
    line = line_of(
        status(
            one_partition("a", 0, lag_records=5, lag_seconds=3.0, seconds_left=40.0, lost=2),
            one_partition("a", 1, lag_records=6, lag_seconds=9.0, seconds_left=30.06, lost=1),
            one_partition("b", 0),
        )
    )
    assert (line.partitions, line.partitions_with_lag, line.lag_records, line.lag_seconds) == (3, 2, 11, 9.0)
    assert (line.retention_seconds, line.lost_records, line.heartbeat_age_seconds) == (30.1, 3, 2.0)
    assert [(one.topic, one.target, one.partitions, one.lag_records) for one in line.topics] == [
        ("a", "copy-a", 2, 11),
        ("b", "copy-b", 1, 0),
    ]
    assert (line.state, line.last_commit, line.time) == (
        "copying",
        "2023-11-14T22:13:18.000+00:00",
        "2023-11-14T22:13:20.000+00:00",
    )
    assert MIRROR_LINE.from_json(MIRROR_LINE.to_json(line)) == line


def test_the_line_tells_idle_from_stalled() -> None:
    assert line_of(status(is_idle=True)).state == "idle"
    line = line_of(status(is_idle=True, stalls=(stall(), stall(StallReason.LEADER_MISSING, "orders", 1, 2))))
    assert line.state == "stalled"
    assert [(one.reason, one.topic, one.partition, one.since, one.message) for one in line.problems] == [
        (StallReason.TRANSACTION_OPEN, "orders", 4, "2023-11-14T22:12:20.000+00:00", "It stands."),
        (StallReason.LEADER_MISSING, "orders", None, "2023-11-14T22:12:20.000+00:00", "It stands."),
    ]


def test_the_line_has_bounds_and_counts_what_it_omits() -> None:
    line = line_of(
        status(
            *(one_partition(f"t{number:03}", lag_records=number) for number in range(103)),
            stalls=tuple(stall(topic=f"t{number}") for number in range(25)),
        )
    )
    assert (len(line.topics), line.topics_omitted, line.topics[0].topic) == (100, 3, "t102")
    assert (len(line.problems), line.problems_omitted) == (20, 5)


def test_unknown_figures_are_null() -> None:
    line = line_of(
        status(one_partition(lag_seconds=None), one_partition(number=1), heartbeat_ages={}, committed_at=None)
    )
    assert (line.lag_seconds, line.retention_seconds, line.heartbeat_age_seconds, line.last_commit) == (None,) * 4


def scraped(metrics: MirrorMetrics) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics.port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}


def test_metrics_show_every_reason_and_grow_between_looks() -> None:
    metrics = MirrorMetrics(0, now=lambda: WALL + 10)
    try:
        assert scraped(metrics) == {}
        metrics.show(
            status(
                one_partition(lag_records=5, lag_seconds=3.0, seconds_left=40.0, lost=2),
                one_partition(number=1, lag_seconds=None),
                stalls=(stall(StallReason.TRANSACTION_OPEN, "orders", 1, 2), stall(topic="bills")),
                is_idle=True,
            )
        )
        found = scraped(metrics)
    finally:
        metrics.close()
    of = 'mirror="m"'
    assert found == {
        f"gapless_mirror_look_timestamp_seconds{{{of}}}": WALL,
        f"gapless_mirror_lanes{{{of}}}": 8,
        f"gapless_mirror_lanes_owned{{{of}}}": 3,
        f"gapless_mirror_last_commit_timestamp_seconds{{{of}}}": WALL - 2,
        f"gapless_mirror_idle{{{of}}}": 1,
        f"gapless_mirror_records_total{{{of}}}": 10,
        f"gapless_mirror_bytes_total{{{of}}}": 1000,
        **{
            f'gapless_mirror_stalled{{{of},reason="{reason}"}}': 3 if reason is StallReason.TRANSACTION_OPEN else 0
            for reason in StallReason
            if reason is not StallReason.SOURCE_IDLE
        },
        f'gapless_mirror_stalled_since_timestamp_seconds{{{of},reason="TransactionOpen"}}': WALL - 60,
        f'gapless_mirror_lag_records{{{of},partition="0",topic="orders"}}': 5,
        f'gapless_mirror_lag_records{{{of},partition="1",topic="orders"}}': 0,
        f'gapless_mirror_lag_seconds{{{of},partition="0",topic="orders"}}': 13,
        f'gapless_mirror_seconds_until_loss{{{of},partition="0",topic="orders"}}': 30,
        f'gapless_mirror_lost_records{{{of},topic="orders"}}': 2,
        f'gapless_mirror_heartbeat_age_seconds{{lane="1",{of}}}': 12.04,
        f'gapless_mirror_heartbeat_age_seconds{{lane="2",{of}}}': 11,
    }


def test_a_port_that_is_taken_is_refused() -> None:
    metrics = MirrorMetrics(0)
    try:
        with pytest.raises(ConfigurationError, match=f"port {metrics.port} .*; use another metricsPort"):
            MirrorMetrics(metrics.port)
    finally:
        metrics.close()


def test_the_page_about_monitoring_lists_every_metric() -> None:
    page = (Path(__file__).parents[3] / "docs/procedures/mirror-monitoring.md").read_text(encoding="utf-8")
    metrics = MirrorMetrics(0)
    try:
        metrics.show(status(one_partition(seconds_left=1.0), stalls=(stall(),)))
        names = {name.partition("{")[0] for name in scraped(metrics)}
    finally:
        metrics.close()
    assert {name for name in names if f"| `{name}` |" not in page} == set()
    assert {reason for reason in StallReason if f"| `{reason}` |" not in page} == set()
