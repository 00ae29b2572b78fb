"""A worker that hangs is a stall like others: in the line, in the metrics, and under one name whoever sees it."""

from __future__ import annotations

import multiprocessing

from gapless_api.wire.mirror_progress import StallReason
from gapless_mirror.watch.metrics import MirrorMetrics
from gapless_mirror.watch.stall import causes
from gapless_mirror.watch.status import line_of
from gapless_mirror.watch.tracker import STALL_AFTER_SECONDS, StallTracker
from gapless_mirror.workers.supervisor import SilentWorkers
from unit.mirror.observed import facts, lane
from unit.mirror.test_mirror_status import scraped, status


def test_the_first_worker_that_is_well_tells_of_those_that_hang() -> None:
    silent_workers = SilentWorkers(multiprocessing.get_context("spawn"), 4)
    assert [silent_workers.reported_by(worker) for worker in range(4)] == [{}] * 4
    silent_workers.record(0, 21.0)
    silent_workers.record(2, 22.5)
    assert [silent_workers.reported_by(worker) for worker in range(4)] == [{}, {0: 21.0, 2: 22.5}, {}, {}]
    silent_workers.record(0, 0)
    assert [silent_workers.reported_by(worker) for worker in range(4)] == [{2: 22.5}, {}, {}, {}]
    for worker in range(4):
        silent_workers.record(worker, 30.0)
    assert [silent_workers.reported_by(worker) for worker in range(4)] == [{}] * 4


def test_a_worker_that_hangs_is_in_the_line_and_in_the_metrics_until_it_is_well() -> None:
    tracker = StallTracker(STALL_AFTER_SECONDS)
    tracker.update(causes(facts(stuck_workers={1: 21.7})), now=100.0, wall_clock=5000.0)
    told = status(stalls=tracker.stalls, is_idle=True)
    line = line_of(told)
    assert line.state == "stalled"
    assert [(one.reason, one.topic, one.partition) for one in line.problems] == [(StallReason.WORKER_STUCK, "", None)]
    assert line.problems[0].message.startswith("Worker 1 has not responded for 22 s")
    metrics = MirrorMetrics(0)
    try:
        metrics.show(told)
        assert scraped(metrics)['gapless_mirror_stalled{mirror="m",reason="WorkerStuck"}'] == 1
    finally:
        metrics.close()
    for seconds in (5.0, 10.0):
        tracker.update(causes(facts()), now=100.0 + seconds, wall_clock=5000.0 + seconds)
    assert tracker.stalls == ()


def test_a_worker_that_hangs_and_the_lanes_that_it_keeps_are_one_stall() -> None:
    tracker, seen = StallTracker(STALL_AFTER_SECONDS), facts(lane(lane=0), heartbeat_ages={0: 1.0, 1: 25.0})
    for look in range(8):
        tracker.update(causes(seen), now=100.0 + 5 * look, wall_clock=5000.0 + 5 * look)
    (of_lane,) = tracker.stalls
    seen = facts(lane(lane=0), heartbeat_ages={0: 1.0, 1: 60.0}, stuck_workers={1: 22.0})
    changes = tracker.update(causes(seen), now=140.0, wall_clock=5040.0)
    (both,) = tracker.stalls
    assert (of_lane.reason, both.reason, both.since) == (StallReason.WORKER_STUCK, of_lane.reason, of_lane.since)
    assert "Worker 1" in both.sentence
    assert changes == ((), ())
