"""The proof that a mirror copies everything, exactly once, and ends as it says."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kit.machine.processes import wait_for_exit, wait_until

if TYPE_CHECKING:
    from conftest import TopicFactory
    from integration.mirror.conftest import Scene

pytestmark = pytest.mark.integration


def test_once_copies_what_is_there_and_a_second_run_nothing(scene: Scene, topic: TopicFactory) -> None:
    name = topic(3, max_message_bytes="2000000")
    for partition in range(3):
        scene.source.produce(name, [b"%d" % number for number in range(1000)], partition=partition)
    first = scene.run(f"--topics={name}", "--once")
    assert (first.wait(), first.report["records"]) == (0, 3000), first.log
    assert scene.copied(name)
    again = scene.run(f"--topics={name}", "--once")
    assert (again.wait(), again.report["records"]) == (0, 0), again.log
    assert again.report["message"].startswith("Nothing to copy")
    scene.source.produce(name, [b"more"], partition=1)
    last = scene.run(f"--topics={name}", "--once", "--workers=2")
    assert (last.wait(), last.report["records"]) == (0, 1), last.log
    assert scene.copied(name)


def test_two_workers_share_the_lanes_and_follow_what_is_written(scene: Scene, topic: TopicFactory) -> None:
    name = topic(8)
    mirror = scene.start(f"--topics={name}", "--workers=2")
    for turn in range(3):
        for partition in range(8):
            scene.source.produce(name, [b"%d" % number for number in range(500)], partition=partition)
        scene.wait_for(name, 4000 * (turn + 1))
    assert mirror.stop() == 143, mirror.log
    assert mirror.report["records"] == 12_000
    assert scene.copied(name)


def test_workers_end_in_order_when_their_supervisor_is_killed(scene: Scene, topic: TopicFactory) -> None:
    name = topic(8)
    scene.source.produce(name, [b"1"])
    mirror = scene.start(f"--topics={name}", "--workers=2")
    scene.wait_for(name, 1)
    workers = mirror.workers()
    assert len(workers) == 2
    mirror.kill()
    wait_for_exit(workers)
    assert "Traceback" not in mirror.log


def test_limits_follow_their_file_while_the_mirror_runs(scene: Scene, topic: TopicFactory, tmp_path: Path) -> None:
    name, file = topic(1), tmp_path / "limits.properties"
    scene.source.produce(name, [b"%d" % number for number in range(5000)])

    def limit(records_per_second: int) -> float:
        fresh = file.with_suffix(".new")
        fresh.write_text(f"maxRecordsPerSecond={records_per_second}\n")
        fresh.rename(file)
        return time.monotonic()

    def copied() -> int:
        return len(scene.arrived(name).get(0, ())) if name in scene.target.admin().list_topics(timeout=10).topics else 0

    def most(rate: int, since: float) -> float:
        """What can be copied: a second's worth is more than a lane reads at once."""
        return rate * (time.monotonic() - since + 1)

    began = limit(40)
    mirror = scene.start(f"--topics={name}", "--lanes=1", "--heartbeat=false", f"--limits-file={file}")
    scene.wait_for(name, 80)
    slow = copied()
    assert slow <= most(40, began)
    changed = limit(400)

    def is_faster() -> bool:
        now = copied()
        assert now <= most(40, began) + most(400, changed)
        return now > most(40, began)

    wait_until(is_faster, what="more records than the first limit allows")
    limit(1_000_000)
    scene.wait_for(name, 5000)
    assert mirror.stop() == 143, mirror.log
    assert scene.copied(name)
