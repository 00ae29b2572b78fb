"""The proof that records which the target refuses are skipped and recorded by request, and delay nothing else."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from integration.mirror.conftest import rows
from kit.story.commands import GAPLESS

if TYPE_CHECKING:
    from mirror.conftest import Scene

    from conftest import TopicFactory

pytestmark = pytest.mark.integration
_DAY_MS = 86_400_000
_FLAWS: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "too large": ({"max_message_bytes": "3000"}, {"values": [os.urandom(20_000)]}),
    "too old": (
        {"message_timestamp_before_max_ms": str(30 * _DAY_MS)},
        {"values": [b"old"], "timestamps": [1_000_000_000_000]},
    ),
    "without a key": ({"cleanup_policy": "compact"}, {"values": [b"no key"], "keys": [None]}),
}
_COUNT = 6


def write(scene: Scene, topic: str, partition: int, first: int) -> None:
    numbers = range(first, first + _COUNT)
    now = int(time.time() * 1000)
    scene.source.produce(
        topic,
        [b"value %d" % number for number in numbers],
        keys=[b"key %d" % number for number in numbers],
        timestamps=[now + number for number in numbers],
        partition=partition,
    )


@pytest.mark.parametrize(("flaw", "engine"), [*((flaw, "workers") for flaw in _FLAWS), ("without a key", "spark")])
def test_refused_records_are_skipped_and_recorded(scene: Scene, topic: TopicFactory, flaw: str, engine: str) -> None:
    limit, bad = _FLAWS[flaw]
    name, other = topic(2), topic()
    scene.target.create_topic(name, 2, **limit)
    write(scene, name, 0, 0)
    scene.source.produce(name, partition=0, **bad)
    write(scene, name, 0, _COUNT)
    scene.source.produce(name, partition=0, **bad)
    scene.source.produce(name, partition=0, **bad)
    write(scene, name, 1, 0)
    write(scene, other, 0, 0)
    mirror = scene.run(f"--topics={name},{other}", "--once", "--on-bad-record=skip-and-record", f"--engine={engine}")
    assert mirror.wait() == 4, mirror.log
    assert "3 offsets were lost, or refused by the target" in mirror.log
    expected = rows(scene.source, name)
    first = expected[0]
    expected[0] = [*first[:_COUNT], *first[_COUNT + 1 : -2]]
    assert scene.arrived(name) == expected
    assert scene.copied(other)
    clusters = {"source": scene.source, "target": scene.target}
    options = (f"--{side}-bootstrap-servers={cluster.bootstrap}" for side, cluster in clusters.items())
    status = GAPLESS.run("mirror", "status", f"--name={scene.name}", *options, "--json")
    found: list[dict[str, Any]] = json.loads(status.stdout)["partitions"]
    (entry,) = [each for each in found if (each["topic"], each["partition"]) == (name, 0)]
    lost = [(one["first"], one["last"], one["reason"]) for one in entry["lost_ranges"]]
    second = 2 * _COUNT + 1
    assert lost == [(_COUNT, _COUNT, "TargetRefuses"), (second, second + 1, "TargetRefuses")]
    again = scene.run(f"--topics={name},{other}", "--once")
    assert (again.wait(), again.report["records"]) == (0, 0), again.log


@pytest.mark.parametrize(("flaw", "engine"), [*((flaw, "workers") for flaw in _FLAWS), ("without a key", "spark")])
def test_refused_records_are_parked_and_recorded(scene: Scene, topic: TopicFactory, flaw: str, engine: str) -> None:
    limit, bad = _FLAWS[flaw]
    name = topic(2)
    parking = f"{name}-parked"
    scene.target.create_topic(name, 2, **limit)
    headers = [("a", b"1"), ("gapless-parked", b"of another program"), ("a", None)]
    write(scene, name, 1, 0)
    scene.source.produce(name, partition=1, headers=headers, **bad)
    write(scene, name, 1, _COUNT)
    scene.source.produce(name, partition=1, **bad)
    options = ("--on-bad-record=park", f"--parking-topic={parking}", f"--engine={engine}")
    mirror = scene.run(f"--topics={name}", "--once", *options)
    assert mirror.wait() == 4, mirror.log
    assert "2 offsets were lost, or refused by the target" in mirror.log
    assert mirror.report["records"] == 2 * _COUNT
    (expected,) = (found for found in rows(scene.source, name).values() if found)
    refused = [row for row in expected if row.value == bad["values"][0]]
    assert scene.arrived(name) == {1: [row for row in expected if row not in refused]}
    (parked,) = rows(scene.target, parking).values()
    assert [row._replace(headers=row.headers[:-1]) for row in parked] == refused
    origins = [json.loads(row.headers[-1][1] or b"") for row in parked]
    assert {row.headers[-1][0] for row in parked} == {"gapless-parked"}
    assert [(origin["topic"], origin["partition"], origin["offset"]) for origin in origins] == [
        (name, 1, _COUNT),
        (name, 1, 2 * _COUNT + 1),
    ]
    again = scene.run(f"--topics={name}", "--once", *options)
    assert (again.wait(), again.report["records"]) == (0, 0), again.log


def test_a_mirror_that_is_killed_while_it_parks_parks_each_record_once(scene: Scene, topic: TopicFactory) -> None:
    name, limit = topic(), _FLAWS["too large"][0]
    parking = f"{name}-parked"
    scene.target.create_topic(name, 1, **limit)
    values = [b"first", os.urandom(20_000), b"last"]
    scene.source.produce(name, values)
    options = (f"--topics={name}", "--once", "--on-bad-record=park", f"--parking-topic={parking}")
    killed, code = 0, -signal.SIGKILL
    while code == -signal.SIGKILL:
        code = scene.start(*options, interrupted=("SIGKILL", 1 + killed % 2)).wait()
        killed += code == -signal.SIGKILL
        assert killed < 30, "it never goes on"
    assert code in {0, 4}  # 0 if nothing was left for the last one
    assert killed >= 2
    (copied,), (parked,) = (rows(scene.target, each).values() for each in (name, parking))
    assert [row.value for row in copied] == values[::2]
    assert [row.value for row in parked] == values[1:2]


def test_a_record_that_cannot_be_parked_either_stops_its_partition(scene: Scene, topic: TopicFactory) -> None:
    name = topic()
    parking = f"{name}-parked"
    limit, bad = _FLAWS["too large"]
    scene.target.create_topic(name, 1, **limit)
    options = (f"--topics={name}", "--once", "--on-bad-record=park", f"--parking-topic={parking}")
    write(scene, name, 0, 0)
    scene.target.create_topic(parking, 1, retention_ms="86400000")
    mirror = scene.run(*options)
    assert mirror.wait() == 2
    assert f"The parking topic {parking} does not keep its records permanently; set retention.ms=-1" in mirror.log
    scene.target.alter_topic(parking, retention_ms="-1", max_message_bytes="3000")
    scene.source.produce(name, **bad)
    write(scene, name, 0, _COUNT)
    mirror = scene.run(*options)
    assert mirror.wait() == 4, mirror.log
    assert f"{name}/0 is not copied from offset {_COUNT} on. Kafka at " in mirror.log
    assert parking in mirror.log
    expected = rows(scene.source, name)
    assert scene.arrived(name) == {0: expected[0][:_COUNT]}
    scene.target.alter_topic(parking, max_message_bytes="100000")
    mirror = scene.run(*options)
    assert mirror.wait() == 4, mirror.log
    assert scene.arrived(name) == {0: [*expected[0][:_COUNT], *expected[0][_COUNT + 1 :]]}
    (parked,) = rows(scene.target, parking).values()
    assert [row.value for row in parked] == bad["values"]


@pytest.mark.parametrize("engine", ["workers", "spark"])
def test_without_the_setting_the_partition_of_a_refused_record_stops_alone_before_it(
    scene: Scene, topic: TopicFactory, engine: str
) -> None:
    name = topic(2)
    scene.target.create_topic(name, 2, max_message_bytes="3000")
    write(scene, name, 0, 0)
    scene.source.produce(name, [os.urandom(20_000)], partition=0)
    write(scene, name, 0, _COUNT)
    write(scene, name, 1, 0)
    expected = rows(scene.source, name)
    mirror = scene.run(f"--topics={name}", "--once", f"--engine={engine}")
    assert mirror.wait() == 4, mirror.log
    assert f"{name}/0 is not copied from offset {_COUNT} on. Kafka at " in mirror.log
    assert "too large" in mirror.log
    assert scene.arrived(name) == {0: expected[0][:_COUNT], 1: expected[1]}
    scene.target.alter_topic(name, max_message_bytes="100000")
    again = scene.run(f"--topics={name}", "--once", f"--engine={engine}")
    assert again.wait() == 0, again.log
    assert scene.arrived(name) == expected
