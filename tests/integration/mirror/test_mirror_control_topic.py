"""The proof that nothing is copied twice after a control topic was deleted, changed or damaged."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from gapless_kafka.writing.positions import content
from gapless_mirror.lanes.identity import lane_of
from gapless_mirror.lanes.records import LAYOUT, LAYOUT_KEY, LayoutRecord, position_key
from integration.mirror.conftest import Scene, rows
from integration.mirror.test_doctor_of_mirror import doctor
from integration.mirror.test_mirror_advice import show
from integration.mirror.test_mirror_group_positions import commit, translate
from kit.kafka.damage import damage
from kit.machine.processes import wait_until
from kit.story.commands import GAPLESS

if TYPE_CHECKING:
    from conftest import TopicFactory

pytestmark = pytest.mark.integration
OLD = [b"old %d" % number for number in range(50)]
NEW = [b"new %d" % number for number in range(10)]


def delete_control_topic(scene: Scene) -> None:
    control = f"_gapless_mirror_{scene.name}"
    scene.target.delete_topic(control)


def put(scene: Scene, lane: int, key: bytes, value: bytes | None) -> None:
    """Write a record to the control topic, as a disk or another program would."""
    producer = Producer({"bootstrap.servers": scene.target.bootstrap})
    producer.produce(f"_gapless_mirror_{scene.name}", value, key, lane)
    assert producer.flush(30) == 0


def last_record(scene: Scene, key: bytes) -> bytes:
    """Return the last value of a key in lane 0 of the control topic."""
    values = [row.value for row in rows(scene.target, f"_gapless_mirror_{scene.name}").get(0, []) if row.key == key]
    assert values[-1] is not None
    return values[-1]


def values_of(scene: Scene, topic: str, partition: int = 0) -> list[Any]:
    return [row.value for row in rows(scene.target, topic).get(partition, [])]


@pytest.mark.parametrize("engine", ["workers", "spark"])
def test_a_control_topic_that_was_deleted_is_not_a_new_mirror(scene: Scene, topic: TopicFactory, engine: str) -> None:
    name, new = topic(2), topic(1)
    arguments = [f"--topics={name},{new}", "--once"]
    for partition in range(2):
        scene.source.produce(name, OLD, partition=partition)
    scene.source.produce(name, [b"same"] * 3)
    assert scene.run(f"--topics={name}", "--once").wait() == 0
    delete_control_topic(scene)
    scene.source.produce(name, NEW)
    scene.source.produce(new, NEW)

    refused = scene.run(*arguments, f"--engine={engine}")
    assert (refused.wait(), refused.report["records"]) == (4, len(NEW)), refused.log
    assert f"has no position of {name}/" in refused.report["message"]
    assert "--start-at-target" in refused.report["message"]
    assert (len(values_of(scene, name)), values_of(scene, new)) == (53, NEW)

    found = scene.run(*arguments, "--start-at-target", f"--engine={engine}")
    assert found.wait() == 0, found.log
    assert scene.copied(name)
    again = scene.run(*arguments)  # by workers, which read the same positions
    assert (again.wait(), again.report["records"]) == (0, 0), again.log
    assert scene.copied(name)


def test_the_other_decisions_about_a_missing_position(scene: Scene, topic: TopicFactory) -> None:
    name, foreign = topic(1), topic(1)
    names, group = f"--topics={name}", f"former-{name}"
    scene.source.produce(name, OLD)
    assert scene.run(names, "--once").wait() == 0
    delete_control_topic(scene)
    scene.source.produce(name, NEW)
    commit(scene.source, group, name, len(OLD))
    both = scene.run(names, "--once", "--start-at-target", "--copy-again")
    assert both.wait() == 2
    assert "contradict each other" in both.report["message"]
    assert scene.run(names, "--once", f"--start-at-group={group}").wait() == 0
    assert scene.copied(name)
    delete_control_topic(scene)
    assert scene.run(names, "--once", "--copy-again").wait() == 0
    assert values_of(scene, name) == [*OLD, *NEW] * 2

    scene.source.produce(foreign, OLD)
    scene.target.create_topic(foreign)
    scene.target.produce(foreign, [b"of another program"])
    unknown = scene.run(f"--topics={foreign}", "--once", "--start-at-target")
    assert unknown.wait() == 4
    assert "the source does not have its last record" in unknown.report["message"]
    assert values_of(scene, foreign) == [b"of another program"]


def test_partitions_that_are_added_to_the_control_topic_are_ignored(scene: Scene, topic: TopicFactory) -> None:
    name, control = topic(12), f"_gapless_mirror_{scene.name}"
    for partition in range(12):
        scene.source.produce(name, OLD, partition=partition)
    running = scene.start(f"--topics={name}", "--lanes=8", "--workers=2")
    scene.wait_for(name, 12 * 50)
    scene.target.add_partitions(control, 12)
    other = scene.start(f"--topics={name}", "--progress-interval=1")  # it sees the added partitions
    wait_until(lambda: "added partitions of the control topic are ignored" in other.log, what="it")
    wait_until(lambda: '"mirror-progress"' in other.log, what="the other one")
    for partition in range(12):
        scene.source.produce(name, NEW, partition=partition)
    scene.wait_for(name, 12 * 60)
    assert [mirror.stop() for mirror in (running, other)] == [143, 143]
    assert scene.run(f"--topics={name}", "--once").wait() == 0
    assert scene.copied(name)
    put(scene, 0, LAYOUT_KEY, None)  # an earlier release did not write it
    for partition in range(12):
        scene.source.produce(name, NEW, partition=partition)
    assert scene.run(f"--topics={name}", "--once").wait() == 0
    assert scene.copied(name)
    assert json.loads(show(scene, "status", "--json").stdout)["lanes"] == 8


def test_a_record_that_cannot_be_read_stops_its_partition_only(scene: Scene, topic: TopicFactory) -> None:
    damaged, whole = topic(1), topic(1)
    names, group = f"--topics={damaged},{whole}", f"of-{damaged}"
    for name in (damaged, whole):
        scene.source.produce(name, OLD)
    assert scene.run(names, "--once", "--lanes=2").wait() == 0
    lane = lane_of(damaged, 0, 2)
    put(scene, lane, position_key(damaged, 0), b'{"gaplessMirror":99}')
    put(scene, lane, b"what is this", b"?")
    for name in (damaged, whole):
        scene.source.produce(name, NEW)
        commit(scene.source, group, name, 20)

    stopped = scene.run(names, "--once")
    assert (stopped.wait(), stopped.report["records"]) == (4, len(NEW)), stopped.log
    control = f"_gapless_mirror_{scene.name}/{lane}"
    assert f"of {control} is about {damaged}/0 and cannot be read" in stopped.report["message"]
    assert scene.copied(whole)
    assert values_of(scene, damaged) == OLD
    status = show(scene, "status")
    assert (status.returncode, whole in status.stdout) == (4, True), status.stderr
    assert f"of {control} is about {damaged}/0" in status.stdout
    assert f"of {control} is not one of a mirror" in status.stdout
    code, found, err = translate(scene, f"--groups={group}")
    assert code == 4, err
    assert [(move["topic"], move["state"]) for move in found["moves"]] == [(whole, "moved")]
    assert [finding["reason"] for finding in found["findings"]] == ["PositionUnreadable"]

    assert scene.run(names, "--once", "--start-at-target").wait() == 0
    assert scene.copied(damaged)
    assert show(scene, "status").returncode == 0


def test_every_program_refuses_a_control_topic_with_fewer_partitions_than_lanes(
    scene: Scene, topic: TopicFactory
) -> None:
    name = topic(1)
    scene.source.produce(name, OLD)
    assert scene.run(f"--topics={name}", "--once", "--lanes=2").wait() == 0
    put(scene, 0, LAYOUT_KEY, content(LAYOUT, LayoutRecord(lanes=3)))
    clusters = [
        f"--source-bootstrap-servers={scene.source.bootstrap}",
        f"--target-bootstrap-servers={scene.target.bootstrap}",
        f"--name={scene.name}",
    ]
    for arguments in (("status",), ("groups", "--groups=any"), ("diff", f"--topics={name}")):
        done = GAPLESS.run("mirror", *arguments, *clusters)
        assert (done.returncode, "has 2 partitions, and the mirror has 3 lanes" in done.stderr) == (2, True), arguments
    again = scene.run(f"--topics={name}", "--once")
    assert (again.wait(), "the mirror has 3 lanes" in again.report["message"]) == (2, True)
    (found,) = [each for each in doctor(scene, name, scene.name) if "3 lanes" in each["message"]]
    assert found["severity"] != "ok"


def copied_beyond_its_position(scene: Scene, name: str, arguments: list[str]) -> None:
    """Copy the records of a topic with two runs, and put the position of the first run into the place of the second."""
    scene.source.produce(name, OLD)
    assert scene.run(*arguments, "--lanes=1").wait() == 0
    older = last_record(scene, position_key(name, 0))
    scene.source.produce(name, NEW)
    assert scene.run(*arguments).wait() == 0
    put(scene, 0, position_key(name, 0), older)


@pytest.mark.parametrize("engine", ["workers", "spark"])
def test_a_position_that_is_older_than_the_copies_needs_a_decision(
    scene: Scene, topic: TopicFactory, engine: str
) -> None:
    """The control topic lost its last records, or a program has written an older one: both leave an older position."""
    name, other = topic(1), topic(1)
    arguments = [f"--topics={name},{other}", "--once"]
    copied_beyond_its_position(scene, name, arguments)
    scene.target.produce(name, [b"of another program"])
    for each in (name, other):
        scene.source.produce(each, [b"later"])

    refused = scene.run(*arguments, f"--engine={engine}")
    assert (refused.wait(), refused.report["records"]) == (4, 1), refused.log
    assert f"The position of {name}/0 is older than its copies" in refused.report["message"]
    assert (len(values_of(scene, name)), values_of(scene, other)) == (61, [b"later"])

    unknown = scene.run(*arguments, "--start-at-target")  # the last record of the target is not one of the mirror
    assert (unknown.wait(), len(values_of(scene, name))) == (4, 61), unknown.log
    again = scene.run(*arguments, "--copy-again", f"--engine={engine}")
    assert again.wait() == 0, again.log
    assert values_of(scene, name) == [*OLD, *NEW, b"of another program", *NEW, b"later"]


def test_an_older_position_is_found_again_at_the_target(scene: Scene, topic: TopicFactory) -> None:
    name = topic(1)
    scene.source.produce(name, OLD)
    assert scene.run(f"--topics={name}", "--once", "--lanes=1").wait() == 0
    older = last_record(scene, position_key(name, 0))
    running = scene.start(f"--topics={name}")
    scene.source.produce(name, NEW)
    scene.wait_for(name, 60)
    assert running.stop() == 143
    put(scene, 0, position_key(name, 0), older)
    scene.source.produce(name, [b"later"])
    found = scene.run(f"--topics={name}", "--once", "--start-at-target")
    assert (found.wait(), found.report["records"]) == (0, 1), found.log
    assert scene.copied(name)
    assert scene.run(f"--topics={name}", "--once").wait() == 0
    assert scene.copied(name)


def test_a_position_is_not_taken_for_the_newest_where_the_target_cannot_be_read(
    scene: Scene, topic: TopicFactory
) -> None:
    name, other = topic(1), topic(1)
    arguments = [f"--topics={name},{other}", "--once"]
    copied_beyond_its_position(scene, name, arguments)
    for each in (name, other):
        scene.source.produce(each, [b"later"])
    mend = damage(scene.target, name, 0, batch_at=len(OLD) + 1)

    refused = scene.run(*arguments)
    assert (refused.wait(), refused.report["records"]) == (4, 1), refused.log
    assert f"Whether the position of {name}/0 is older than its copies is not known" in refused.report["message"]
    assert values_of(scene, other) == [b"later"]
    mend()
    assert values_of(scene, name) == [*OLD, *NEW]
    found = scene.run(*arguments, "--start-at-target")
    assert (found.wait(), found.report["records"]) == (0, 1), found.log
    assert scene.copied(name)
