"""The proof that the advice of each data-loss message works and is true: a test does what the message says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from integration.mirror.conftest import Mirror, Scene, rows
from integration.mirror.test_mirror_group_positions import commit, position, translate
from kit.kafka.broker import KafkaBroker
from kit.kafka.truncation import truncate
from kit.machine.processes import wait_until
from kit.story.commands import GAPLESS

if TYPE_CHECKING:
    import subprocess

    from kit.kafka.cluster import KafkaCluster

pytestmark = pytest.mark.integration
OLD = [b"old %d" % number for number in range(100)]
NEW = [b"new %d" % number for number in range(30)]
_ADVICE = re.compile(r"(--on-data-loss=[a-z-]+)")


@pytest.fixture(scope="module")
def own_source() -> Iterator[KafkaBroker]:
    """A source that is cut while it is stopped."""
    with KafkaBroker() as broker:
        yield broker


@pytest.fixture
def own(own_source: KafkaBroker, target_kafka: KafkaCluster, tmp_path: Path) -> Iterator[Scene]:
    clusters = Scene(own_source, target_kafka, tmp_path)
    yield clusters
    clusters.close()


def advice_of(mirror: Mirror) -> str:
    """Wait until a mirror advises an option, stop it, and return the option."""
    wait_until(lambda: _ADVICE.search(mirror.log) is not None, what="the advice")
    assert mirror.stop() == 3, mirror.log
    found = _ADVICE.search(mirror.report["message"])
    assert found is not None, mirror.report["message"]
    return found[1]


def show(scene: Scene, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command about the mirror of a scene."""
    clusters = [
        f"--source-bootstrap-servers={scene.source.bootstrap}",
        f"--target-bootstrap-servers={scene.target.bootstrap}",
        f"--name={scene.name}",
    ]
    return GAPLESS.run("mirror", command, *clusters, *arguments)


def partition_of(scene: Scene, topic: str) -> dict[str, Any]:
    """Return the status of a topic's first partition."""
    partitions = json.loads(show(scene, "status", "--json").stdout)["partitions"]
    return next(each for each in partitions if each["topic"] == topic)


def values_of(scene: Scene, topic: str) -> list[Any]:
    return [row.value for row in rows(scene.target, topic).get(0, [])]


@pytest.mark.parametrize("engine", ["workers", "spark"])
def test_the_advice_after_a_truncation_works_and_groups_follow_the_latest_copy(own: Scene, engine: str) -> None:
    name, other = own.source.create_topic(f"cut-{engine}"), own.source.create_topic(f"whole-{engine}")
    names, group = [f"--topics={name},{other}"], f"of-{name}"
    for topic in (name, other):
        own.source.produce(topic, OLD[:50])
        own.source.produce(topic, OLD[50:])
    assert own.run(*names, "--once").wait() == 0
    truncate(own.source, name, end=50)

    # The workers continue from what the engine has written: what reads positions and maps is the same.
    advice = advice_of(own.start(*names, f"--engine={engine}"))
    skipping = own.start(*names, advice, f"--engine={engine}")
    wait_until(lambda: partition_of(own, name)["position"] == 50, what="the decision")
    own.source.produce(name, NEW)
    own.wait_for(name, 130)
    skipping.stop()
    lost = partition_of(own, name)["lost_ranges"]
    assert [(each["first"], each["last"], each["reason"]) for each in lost] == [(50, 99, "SourceTruncated")]
    for turn in range(2):  # later starts read the map that was written
        assert own.run(*names, "--once").wait() == 0
        assert values_of(own, name) == [*OLD, *NEW], turn
    assert show(own, "status").returncode == 0
    for offset, expected in ((30, b"old 30"), (50, b"new 0"), (75, b"new 25")):
        group_at = f"{group}-{offset}"
        commit(own.source, group_at, name, offset)
        code, found, err = translate(own, f"--groups={group_at}")
        assert (code, [move["state"] for move in found["moves"]]) == (0, ["moved"]), err
        record = {message.offset(): message.value() for message in own.target.read(name)}
        assert record[position(own.target, group_at, name)] == expected
    own.source.produce(other, NEW)
    assert own.run(*names, "--once").wait() == 0
    assert own.copied(other)


def test_the_advice_after_retention_and_after_a_recreated_topic_works(own: Scene) -> None:
    expired, recreated = own.source.create_topic("expired"), own.source.create_topic("recreated")
    for topic in (expired, recreated):
        own.source.produce(topic, OLD)
        assert own.run(f"--topics={topic}", "--once").wait() == 0
    own.source.produce(expired, NEW)
    own.source.delete_records(expired, 0, 110)
    own.source.delete_topic(recreated)
    own.source.create_topic(recreated)
    own.source.produce(recreated, NEW)
    for topic, copied in ((expired, [*OLD, *NEW[10:]]), (recreated, [*OLD, *NEW])):
        skipped = own.run(f"--topics={topic}", "--once", advice_of(own.start(f"--topics={topic}")))
        assert skipped.wait() in {0, 4}, skipped.log
        assert values_of(own, topic) == copied
        assert own.run(f"--topics={topic}", "--once").wait() == 0
        assert values_of(own, topic) == copied
