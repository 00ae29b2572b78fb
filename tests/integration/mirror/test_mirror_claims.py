"""The proof that a mirror compares its positions with both clusters before it continues from them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from integration.mirror.conftest import Scene
from integration.mirror.test_doctor_of_mirror import doctor
from integration.mirror.test_mirror_group_positions import commit, position, translate
from kit.kafka.broker import KafkaBroker
from kit.kafka.truncation import truncate
from kit.machine.processes import wait_until
from kit.story.commands import GAPLESS

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.cluster import KafkaCluster

pytestmark = pytest.mark.integration
QUICK = ("--look-interval=0.5s", "--progress-interval=1", "--lanes=2", "--topic-refresh=1s", "--heartbeat=false")
SLOW = ("--max-records-per-second=60", "--commit-interval=0.2s", *QUICK)


def values(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def status(scene: Scene) -> tuple[int, dict[str, Any]]:
    clusters = [
        f"--source-bootstrap-servers={scene.source.bootstrap}",
        f"--target-bootstrap-servers={scene.target.bootstrap}",
    ]
    done = GAPLESS.run("mirror", "status", *clusters, f"--name={scene.name}", "--json")
    assert done.stdout, done.stderr
    (partition,) = json.loads(done.stdout)["partitions"]
    return done.returncode, partition


def diff(scene: Scene, name: str) -> tuple[int, dict[str, Any]]:
    clusters = [
        f"--source-bootstrap-servers={scene.source.bootstrap}",
        f"--target-bootstrap-servers={scene.target.bootstrap}",
    ]
    done = GAPLESS.run("mirror", "diff", *clusters, f"--name={scene.name}", f"--topics={name}", "--json")
    assert done.stdout, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, report


def lose_by_deletion(target: KafkaCluster, name: str) -> None:
    target.delete_topic(name)


def lose_by_recreation(target: KafkaCluster, name: str) -> None:
    target.delete_topic(name)
    target.create_topic(name)


def lose_and_regrow(target: KafkaCluster, name: str) -> None:
    lose_by_recreation(target, name)
    target.produce(name, values(0, 300))


@pytest.mark.parametrize(
    ("lose", "reason"),
    [
        (lose_by_deletion, "TargetDeleted"),
        (lose_by_recreation, "TargetRecreated"),
        (lose_and_regrow, "TargetRecreated"),
    ],
)
def test_a_target_that_lost_copies_needs_a_decision_in_every_program(
    scene: Scene, topic: TopicFactory, lose: Callable[[KafkaCluster, str], None], reason: str
) -> None:
    name = topic(1)
    group, chosen = f"group-of-{name}", f"--groups=group-of-{name}"
    scene.source.produce(name, values(0, 100))
    assert scene.run(f"--topics={name}", "--once").wait() == 0
    commit(scene.source, group, name, 60)
    lose(scene.target, name)
    scene.source.produce(name, values(100, 110))

    again = scene.run(f"--topics={name}", "--once")
    assert again.wait() == 4, again.log
    assert "--on-target-loss=copy-again" in again.report["message"], again.log
    assert again.report["records"] == 0
    assert (name in scene.target.admin().list_topics(timeout=10).topics) == (reason != "TargetDeleted")
    code, partition = status(scene)
    assert (code, partition["state"], partition["lag"], partition["position"]) == (4, reason, None, 100)
    code, report, _ = translate(scene, chosen)
    assert (code, [finding["reason"] for finding in report["findings"]]) == (4, [reason])
    if reason != "TargetDeleted":
        assert position(scene.target, group, name) < 0
    assert reason in {finding["id"] for finding in doctor(scene, name, scene.name)}
    code, found = diff(scene, name)
    assert (code, found["positionsCompared"]) == (4, 1)
    assert [(each["partition"], each["state"]) for each in found["positions"]] == [(0, reason)]

    decided = scene.run(f"--topics={name}", "--once", "--on-target-loss=copy-again")
    assert decided.wait() == 0, decided.log
    copied = [row.value for row in scene.arrived(name)[0]]
    assert copied[-110:] == values(0, 110)
    code, partition = status(scene)
    assert (code, partition["state"], partition["lag"] <= 2) == (0, "Holds", True)
    code, found = diff(scene, name)
    assert (code, found["positionsCompared"], found["positions"]) == (0, 1, [])
    # A deleted topic is created first, and is then another one than that of the position.
    assert [(loss["reason"], loss["restart"]) for loss in partition["copied_again"]] == [("TargetRecreated", 0)]
    assert scene.run(f"--topics={name}", "--once").wait() == 0
    assert [row.value for row in scene.arrived(name)[0]] == copied


def test_a_running_mirror_does_not_create_a_lost_target_again(scene: Scene, topic: TopicFactory) -> None:
    name, other = topic(1), topic(1)
    mirror = scene.start(f"--topics={name},{other}", *QUICK)
    scene.source.produce(name, values(0, 100))
    scene.wait_for(name, 100)
    scene.target.delete_topic(name)
    wait_until(lambda: '"TargetDeleted"' in mirror.log, what="the name")
    scene.source.produce(name, values(100, 110))
    scene.source.produce(other, [b"goes on"])
    scene.wait_for(other, 1)
    assert name not in scene.target.admin().list_topics(timeout=10).topics
    assert mirror.stop() == 3
    assert "TargetDeleted" in mirror.report["stalls"][0]


def test_a_target_that_is_missed_while_writing_is_named_as_deleted(scene: Scene, topic: TopicFactory) -> None:
    name = topic(1)
    mirror = scene.start(f"--topics={name}", *QUICK, "--topic-refresh=1h")
    scene.source.produce(name, values(0, 100))
    scene.wait_for(name, 100)
    scene.target.delete_topic(name)
    scene.source.produce(name, values(100, 110))
    stopped = re.compile(r'"reason":\s*"TargetDeleted".*"partition stopped"|"partition stopped".*"TargetDeleted"')
    wait_until(lambda: stopped.search(mirror.log), what="the lane's stop")
    wait_until(lambda: re.search(r'"TargetDeleted".*"stall begins"', mirror.log), what="the look of the watch")
    assert name not in scene.target.admin().list_topics(timeout=10).topics
    assert mirror.stop() == 3
    assert mirror.report["stalls"][0].startswith("TargetDeleted")


def test_a_running_mirror_sees_that_its_target_was_recreated(scene: Scene, topic: TopicFactory) -> None:
    name = topic(1)
    mirror = scene.start(f"--topics={name}", *QUICK)
    scene.source.produce(name, values(0, 100))
    scene.wait_for(name, 100)
    lose_by_recreation(scene.target, name)
    scene.source.produce(name, values(100, 110))
    wait_until(lambda: '"TargetRecreated"' in mirror.log, what="the name")
    assert mirror.stop() == 3
    assert scene.arrived(name) == {}


def test_what_expires_in_the_target_is_no_loss(scene: Scene, topic: TopicFactory) -> None:
    name = topic(1)
    scene.source.produce(name, values(0, 100))
    assert scene.run(f"--topics={name}", "--once").wait() == 0
    scene.target.delete_records(name, 0, 100)
    scene.source.produce(name, values(100, 110))
    assert scene.run(f"--topics={name}", "--once").wait() == 0
    assert [row.value for row in scene.arrived(name)[0]] == values(100, 110)
    assert status(scene)[0] == 0


def test_a_target_log_that_was_truncated_needs_a_decision(kafka: KafkaBroker, tmp_path: Path) -> None:
    kafka.create_topic("cut-target")
    with KafkaBroker() as target:
        (tmp_path / "runs").mkdir()
        scene = Scene(kafka, target, tmp_path / "runs")
        try:
            kafka.produce("cut-target", values(0, 100))
            assert scene.run("--topics=cut-target", "--once").wait() == 0
            truncate(target, "cut-target")
            again = scene.run("--topics=cut-target", "--once")
            assert again.wait() == 4, again.log
            code, partition = status(scene)
            assert (code, partition["state"]) == (4, "TargetTruncated")
        finally:
            scene.close()


@pytest.fixture(scope="module")
def cut_source() -> Iterator[KafkaBroker]:
    """A source that is restarted with shorter logs."""
    with KafkaBroker() as broker:
        yield broker


@pytest.mark.parametrize("grown", [50, 150])
@pytest.mark.parametrize("is_running", [False, True])
def test_a_source_log_that_was_truncated_needs_a_decision(
    cut_source: KafkaBroker, target_kafka: KafkaBroker, tmp_path: Path, grown: int, *, is_running: bool
) -> None:
    name, source = f"cut-{grown}-{is_running}", cut_source
    target_kafka.create_topic(name)
    source.create_topic(name)
    (tmp_path / name).mkdir()  # the name of the mirror follows it
    with closing(Scene(source, target_kafka, tmp_path / name)) as scene:
        source.produce(name, values(0, 100))
        if is_running:
            mirror = scene.start(f"--topics={name}", *QUICK)
            scene.wait_for(name, 100)
        else:
            assert scene.run(f"--topics={name}", "--once").wait() == 0
        truncate(source, name)
        source.produce(name, [b"new %d" % number for number in range(grown)])
        if is_running:
            wait_until(lambda: '"SourceTruncated"' in mirror.log, what="the name")
            assert mirror.stop() == 3
        once = scene.run(f"--topics={name}", "--once")
        assert once.wait() == 4, once.log
        assert "was truncated" in once.report["message"]
        code, partition = status(scene)
        assert (code, partition["state"], partition["lag"]) == (4, "SourceTruncated", None)
        assert "SourceTruncated" in {finding["id"] for finding in doctor(scene, name, scene.name)}
        decided = scene.run(f"--topics={name}", "--once", "--on-data-loss=skip-and-record")
        assert (decided.wait(), decided.report["lost"]) == (4, 100), decided.log
        copied = [row.value for row in scene.arrived(name)[0]]
        assert copied == values(0, 100) + [b"new %d" % number for number in range(grown)]
        code, partition = status(scene)
        assert (code, partition["lag"]) == (0, 0)
        assert [(each["first"], each["last"], each["reason"]) for each in partition["lost_ranges"]] == [
            (0, 99, "SourceTruncated")  # it was cut there, wherever it ends now
        ]
        assert scene.run(f"--topics={name}", "--once").wait() == 0


@pytest.mark.parametrize("left", [0, 40, 400])
def test_a_topic_that_is_recreated_during_a_run_that_ends_has_a_state(
    scene: Scene, topic: TopicFactory, left: int
) -> None:
    """Whether the new topic ends before the position, or before the offset where copying ends, or after it."""
    name = topic(1)
    scene.source.produce(name, values(0, 300))
    mirror = scene.start(f"--topics={name}", "--once", *SLOW)
    scene.wait_for(name, 20)
    scene.source.delete_topic(name)
    scene.source.create_topic(name)
    if left:
        scene.source.produce(name, [b"new"] * left)
    assert mirror.wait() == 4, mirror.log
    assert "recreated" in mirror.report["message"]
    assert [row.value for row in scene.arrived(name)[0]] == values(0, mirror.report["records"])


def test_a_topic_that_is_deleted_during_a_run_that_ends_is_named(scene: Scene, topic: TopicFactory) -> None:
    name = topic(1)
    scene.source.produce(name, values(0, 300))
    mirror = scene.start(
        f"--topic-pattern={name}", "--once", "--max-records-per-second=60", "--commit-interval=0.2s", *QUICK
    )
    scene.wait_for(name, 20)
    scene.source.delete_topic(name)
    assert mirror.wait() == 4, mirror.log
    assert f"topic {name} was deleted" in mirror.report["message"]
