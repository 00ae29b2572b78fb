"""The proof that nothing is lost and nothing is there twice, whatever happens to workers and brokers."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.mirror.conftest import Scene, await_interruption, fill, rows
from kit.kafka.broker import KafkaBroker

if TYPE_CHECKING:
    from conftest import TopicFactory

pytestmark = pytest.mark.integration


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Scene]:
    """Two clusters that nothing else uses."""
    with KafkaBroker() as source, KafkaBroker() as target:
        clusters = Scene(source, target, tmp_path)
        yield clusters
        clusters.close()


def test_a_worker_that_is_killed_in_a_transaction_is_replaced(scene: Scene, topic: TopicFactory) -> None:
    name = topic(8)
    fill(scene, name, 8)
    killed = scene.start(f"--topics={name}", interrupted=("SIGKILL", 3))
    assert killed.wait() == -signal.SIGKILL
    other = scene.start(f"--topics={name}")
    fill(scene, name, 8)
    scene.wait_for(name, 8000)
    assert other.stop() == 143, other.log
    assert scene.copied(name)
    assert other.report["records"] < 8000  # what the first one committed is not copied again


def test_a_worker_that_was_cut_off_writes_nothing_when_it_comes_back(scene: Scene, topic: TopicFactory) -> None:
    name = topic(8)
    fill(scene, name, 8)
    stale = scene.start(f"--topics={name}", interrupted=("SIGSTOP", 3))
    await_interruption(stale)
    other = scene.start(f"--topics={name}")
    scene.wait_for(name, 4000)
    stale.process.send_signal(signal.SIGCONT)
    fill(scene, name, 8)
    scene.wait_for(name, 8000)
    assert other.stop() == 143, other.log
    fill(scene, name, 8)
    scene.wait_for(name, 12_000)  # by the one that was cut off, which is a worker like any other again
    assert stale.stop() == 143, stale.log
    assert scene.copied(name)


def test_a_commit_without_an_answer_is_counted_once(scene: Scene, topic: TopicFactory) -> None:
    name = topic(2)
    fill(scene, name, 2)
    mirror = scene.start(f"--topics={name}", "--once", "--lanes=1", interrupted=("unanswered", 1))
    assert mirror.wait() == 0, mirror.log
    assert "lane failed" in mirror.log
    assert scene.copied(name)
    assert mirror.report["records"] == 1000


def test_a_commit_without_an_answer_is_counted_when_the_worker_is_stopped(scene: Scene, topic: TopicFactory) -> None:
    name = topic(1)
    fill(scene, name, 1)
    mirror = scene.start(f"--topics={name}", "--lanes=1", interrupted=("unanswered-at-end", 1))
    assert mirror.wait() == 143, mirror.log
    assert mirror.report["records"] == len(rows(scene.target, name)[0]) > 0


def test_brokers_of_both_clusters_restart(own: Scene) -> None:
    scene, name = own, own.source.create_topic("restarted", 8)
    mirror = scene.start(f"--topics={name}")
    fill(scene, name, 8)
    scene.wait_for(name, 4000)
    scene.source.restart()
    fill(scene, name, 8)
    scene.target.restart()  # in the middle of a commit, as often as not
    scene.wait_for(name, 8000)
    fill(scene, name, 8)
    scene.wait_for(name, 12_000)
    assert mirror.stop() == 143, mirror.log
    assert scene.copied(name)
    assert mirror.report["records"] == 12_000, mirror.log


def test_a_worker_without_transactions_repeats_and_loses_nothing(scene: Scene, topic: TopicFactory) -> None:
    name = topic(2)
    fill(scene, name, 2)
    killed = scene.start(f"--topics={name}", "--delivery=at-least-once", interrupted=("SIGKILL", 2))
    assert killed.wait() == -signal.SIGKILL
    assert scene.run(f"--topics={name}", "--delivery=at-least-once", "--once").wait() == 0
    copied = rows(scene.target, name)
    for partition, expected in rows(scene.source, name).items():
        assert list(dict.fromkeys(copied[partition])) == expected


def test_a_record_that_the_target_refuses_holds_up_its_partition_only(scene: Scene, topic: TopicFactory) -> None:
    name, other = topic(2, max_message_bytes="4000000"), topic(1)
    scene.target.create_topic(name, 2, max_message_bytes="10000")
    scene.source.produce(name, [b"1", os.urandom(100_000), b"3"], partition=0)
    scene.source.produce(name, [b"1"], partition=1)
    scene.source.produce(other, [b"1"])
    refused = scene.run(f"--topics={name},{other}", "--once", "--lanes=1")
    assert refused.wait() == 4, refused.log
    assert f"refuses a record for the topic {name} because it is too large" in refused.log
    assert scene.copied(other)
    assert len(rows(scene.target, name)[1]) == 1
    scene.target.alter_topic(name, max_message_bytes="4000000")
    assert scene.run(f"--topics={name},{other}", "--once").wait() == 0
    assert scene.copied(name)


def test_a_busy_partition_goes_on_beside_one_that_is_refused_in_batches_that_the_target_takes(
    scene: Scene, topic: TopicFactory
) -> None:
    name = topic(2, max_message_bytes="4000000")
    scene.target.create_topic(name, 2, max_message_bytes="20000")
    scene.source.produce(name, [os.urandom(100_000)], partition=0)
    for _ in range(4):
        scene.source.produce(name, [os.urandom(100) for _ in range(10_000)], partition=1)
    mirror = scene.run(f"--topics={name}", "--once", "--lanes=1", "--commit-interval=5s")
    assert (mirror.wait(), mirror.report["records"]) == (4, 40_000), mirror.log
    assert len(mirror.report["stops"]) == 1, mirror.report
    copied = rows(scene.target, name)
    assert (copied.get(0, []), copied[1] == rows(scene.source, name)[1]) == ([], True)


def test_records_of_others_in_the_same_partition_do_no_harm(scene: Scene, topic: TopicFactory) -> None:
    name = topic(1)
    scene.target.create_topic(name, 1)
    mirror = scene.start(f"--topics={name}", "--commit-interval=0.05s", "--copy-again")  # the target has others
    values = [b"%d" % number for number in range(2000)]
    for first in range(0, 2000, 100):
        scene.source.produce(name, values[first : first + 100])
        scene.target.produce(name, [b"other"] * 20)
    scene.wait_for(name, 2400)
    assert mirror.stop() == 143
    assert [row.value for row in rows(scene.target, name)[0] if row.value != b"other"] == values
