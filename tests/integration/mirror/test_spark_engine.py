"""The proof that the engines of a mirror take over from each other and from a dead one, losing nothing."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Self

import pytest

if TYPE_CHECKING:
    from mirror.conftest import Scene

    from conftest import TopicFactory

pytestmark = pytest.mark.integration
_SPARK = ("--engine=spark", "--master=local[2]")


class Writer:
    """Writes to four partitions until its block ends: null and empty keys and values, headers, times of long ago."""

    def __init__(self, scene: Scene, topic: str) -> None:
        self._scene, self._topic = scene, topic
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.records = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        turn = 0
        while not self._ended.wait(0.2):
            turn += 1
            values = [None, b"", b"%d" % turn, b"x" * 300]
            self._scene.source.produce(
                self._topic,
                values,
                partition=turn % 4,
                keys=[b"k", b"", None, b"%d" % turn],
                timestamps=[1_000 + turn] * 4,
                headers=[("a", b"1"), ("a", None), ("b", b"")] if turn % 3 else None,
            )
            self.records += len(values)


def test_engines_take_over_from_each_other_and_from_a_dead_one(scene: Scene, topic: TopicFactory) -> None:
    name = topic(4)
    with Writer(scene, name) as writer:
        workers = scene.start(f"--topics={name}")
        scene.wait_for(name, 100)
        spark = scene.start(f"--topics={name}", *_SPARK)
        assert workers.wait() == 2, workers.log
        assert "taken over" in workers.report["message"]
        scene.wait_for(name, writer.records + 100)
        spark.kill()
        again = scene.start(f"--topics={name}", *_SPARK)
        scene.wait_for(name, writer.records + 100)
        last = scene.start(f"--topics={name}")
        assert again.wait() == 2, again.log
        scene.wait_for(name, writer.records + 100)
    scene.wait_for(name, writer.records)
    assert last.stop() == 143, last.log
    assert scene.copied(name)


def test_spark_copies_once_what_there_is(scene: Scene, topic: TopicFactory) -> None:
    name = topic(3)
    for partition in range(3):
        scene.source.produce(name, [b"%d" % number for number in range(1000)], partition=partition)
    first = scene.run(f"--topics={name}", "--once", *_SPARK)
    assert (first.wait(), first.report["records"]) == (0, 3000), first.log
    assert scene.copied(name)
    again = scene.run(f"--topics={name}", "--once")
    assert (again.wait(), again.report["records"]) == (0, 0), again.log


def test_a_transform_leaves_out_masks_and_routes_and_each_partition_keeps_its_order(
    scene: Scene, topic: TopicFactory
) -> None:
    name = topic(3)
    other = f"{name}-errors"
    scene.target.create_topic(other, 3)
    statement = (
        "SELECT CAST(regexp_replace(CAST(value AS STRING), 'card=[0-9]+', 'card=*') AS BINARY) AS value, "
        "CASE WHEN startswith(CAST(value AS STRING), 'error') THEN concat(topic, '-errors') END AS topic "
        "FROM records WHERE value IS NULL OR NOT startswith(CAST(value AS STRING), 'debug')"
    )
    kinds = ("debug", "info", "error")
    expected: dict[str, dict[int, list[tuple[object, ...]]]] = {name: {}, other: {}}
    for partition in range(3):
        values = [f"{kinds[number % 3]} {number} card=1234".encode() for number in range(600)]
        values[1:1] = [None, b""]
        keys = [b"%d" % number for number in range(len(values))]
        times = [1_000 + number for number in range(len(values))]
        headers = [("a", None), ("a", b""), ("b", b"x")]
        scene.source.produce(name, values, partition=partition, keys=keys, timestamps=times, headers=headers)
        for key, time, value in zip(keys, times, values, strict=True):
            masked = value.replace(b"card=1234", b"card=*") if value else value
            row = (time, key, masked, tuple(headers))
            if not (value or b"").startswith(b"debug"):
                target = other if (value or b"").startswith(b"error") else name
                expected[target].setdefault(partition, []).append(row)
    run = scene.run(f"--topics={name}", "--once", f"--transform={statement}", f"--transform-topics={other}", *_SPARK)
    assert (run.wait(), run.report["records"]) == (0, 3 * 402), run.log
    assert scene.arrived(name) == expected[name]
    assert scene.arrived(other) == expected[other]
    scene.source.produce(name, [b"debug only"] * 10, partition=0)
    again = scene.run(f"--topics={name}", "--once", f"--transform={statement}", f"--transform-topics={other}", *_SPARK)
    assert (again.wait(), again.report["records"]) == (0, 0), again.log
    plain = scene.run(f"--topics={name}", "--once")
    assert (plain.wait(), plain.report["records"]) == (0, 0), "the records left out were behind the position"


def test_heartbeats_go_past_a_transform_that_filters_and_routes(scene: Scene, topic: TopicFactory) -> None:
    name = topic(1)
    other = f"{name}-errors"
    scene.target.create_topic(other, 1)
    statement = "SELECT concat(topic, '-errors') AS topic FROM records WHERE value <> 'debug'"
    mirror = scene.start(f"--topics={name}", f"--transform={statement}", f"--transform-topics={other}", *_SPARK)
    scene.source.produce(name, [b"debug", b"info"])
    scene.wait_for(other, 1)
    scene.wait_for(f"gapless_heartbeats.{scene.name}", 8)
    assert mirror.stop(signal.SIGINT) == 130, mirror.log
    assert "Stopped by SIGINT" in mirror.log
    assert [row.value for row in scene.arrived(other)[0]] == [b"info"]
