"""The proof that consumer groups continue at exactly the same record in the target, and are never set back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from kit.kafka.transactions import end_transaction, offset_in_transaction
from kit.machine.processes import wait_until
from kit.story.commands import GAPLESS

if TYPE_CHECKING:
    from mirror.conftest import Scene

    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker

pytestmark = pytest.mark.integration


def consumer(kafka: KafkaBroker, group: str) -> Consumer:
    return Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group, "enable.auto.commit": False})


def commit(kafka: KafkaBroker, group: str, topic: str, offset: int) -> None:
    one = consumer(kafka, group)
    one.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    one.close()


def position(kafka: KafkaBroker, group: str, topic: str) -> int:
    one = consumer(kafka, group)
    (found,) = one.committed([TopicPartition(topic, 0)], timeout=20)
    one.close()
    return int(found.offset)


def translate(scene: Scene, *arguments: str) -> tuple[int, dict[str, Any], str]:
    source, target = scene.source.bootstrap, scene.target.bootstrap
    clusters = [f"--source-bootstrap-servers={source}", f"--target-bootstrap-servers={target}"]
    done = GAPLESS.run("mirror", "groups", *clusters, f"--name={scene.name}", "--json", *arguments)
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


def test_a_group_continues_at_the_same_record_and_is_never_set_back(scene: Scene, topic: TopicFactory) -> None:
    name = topic(1)
    group, chosen = f"group-of-{name}", f"--groups=group-of-{name}"
    for turn in range(2):  # the marker of the first transaction takes an offset of the target
        scene.source.produce(name, [b"%d" % (10 * turn + number) for number in range(10)])
        assert scene.run(f"--topics={name}", "--once").wait() == 0
    commit(scene.source, group, name, 12)

    code, planned, err = translate(scene, chosen, "--plan")
    assert (code, [move["state"] for move in planned["moves"]]) == (0, ["planned"]), err
    assert position(scene.target, group, name) < 0
    code, moved, err = translate(scene, chosen)
    assert (code, [move["state"] for move in moved["moves"]]) == (0, ["moved"]), err
    there = position(scene.target, group, name)
    record = {message.offset(): message.value() for message in scene.target.read(name)}
    assert (there, record[there]) == (13, b"12")
    assert [move["state"] for move in translate(scene, chosen)[1]["moves"]] == ["unchanged"]

    other = f"payroll-of-{name}"
    commit(scene.source, other, name, 12)
    code, listed, err = translate(scene, f"--group-pattern=.*-of-{name}", f"--allowed-groups=x,{group[:-1]}*")
    assert (code, listed["groups"]) == (4, [group]), err
    assert [(finding["group"], finding["reason"]) for finding in listed["findings"]] == [(other, "GroupNotAllowed")]
    assert position(scene.target, other, name) < 0

    commit(scene.target, group, name, 15)
    code, back, _ = translate(scene, chosen)
    assert (code, [finding["reason"] for finding in back["findings"]]) == (0, ["NotBackwards"])
    assert position(scene.target, group, name) == 15

    scene.source.produce(name, [b"20", b"21"])
    commit(scene.source, group, name, 21)
    code, ahead, _ = translate(scene, chosen)
    assert (code, [finding["reason"] for finding in ahead["findings"]]) == (4, ["AheadOfMirror"])
    assert position(scene.target, group, name) == 15

    member = consumer(scene.target, group)
    member.subscribe([name])
    wait_until(lambda: bool(member.poll(0.1) or member.assignment()), what="a member at the target")
    mirror = scene.run(f"--topics={name}", "--once", chosen)
    assert mirror.wait() == 0, mirror.log
    assert "has members at the target" in mirror.log
    assert position(scene.target, group, name) == 15
    member.close()

    running = scene.start(f"--topics={name}", chosen, "--group-interval=1s")
    wait_until(lambda: position(scene.target, group, name) > 15, what="a translated position")
    there = position(scene.target, group, name)
    record = {message.offset(): message.value() for message in scene.target.read(name)}
    assert record[there] == b"21"
    assert running.stop() == 143, running.log


def test_a_group_is_not_set_to_a_copy_that_has_expired_in_the_target(scene: Scene, topic: TopicFactory) -> None:
    """Its consumers would begin at the end of the log, by their own reset, and skip what is left."""
    name = topic(1)
    behind, done = f"behind-of-{name}", f"done-of-{name}"
    scene.source.produce(name, [b"%d" % number for number in range(10)])
    assert scene.run(f"--topics={name}", "--once").wait() == 0
    commit(scene.source, behind, name, 3)
    commit(scene.source, done, name, 10)

    scene.target.delete_records(name, 0, 8)
    code, said, err = translate(scene, f"--groups={behind}")
    assert (code, [finding["reason"] for finding in said["findings"]]) == (4, ["ExpiredInTarget"]), err
    assert "at offset 3 of" in said["findings"][0]["message"]
    assert "starts at 8" in said["findings"][0]["message"]
    assert position(scene.target, behind, name) < 0

    scene.target.delete_records(name, 0, 11)  # also the marker of the transaction
    code, said, err = translate(scene, f"--groups={done}")
    assert (code, [move["state"] for move in said["moves"]]) == (0, ["moved"]), err
    assert position(scene.target, done, name) == 11


def test_a_mirror_begins_where_a_group_stood_and_continues_at_its_own_positions(
    scene: Scene, topic: TopicFactory
) -> None:
    name, shortened, ahead = topic(2), topic(1), topic(1)
    group, names = f"former-{name}", f"--topics={name},{shortened},{ahead}"
    for partition in range(2):
        scene.source.produce(name, [b"%d" % number for number in range(10)], partition=partition)
    scene.source.produce(shortened, [b"%d" % number for number in range(10)])
    commit(scene.source, group, name, 4)
    commit(scene.source, group, shortened, 3)
    commit(scene.source, group, ahead, 2)
    scene.source.delete_records(shortened, 0, 5)

    for arguments, reason in (("nobody", "shows no consumer group nobody"), (group, "has members")):
        member = consumer(scene.source, group)
        member.subscribe([name])
        wait_until(
            lambda: bool(member.poll(0.1) or member.assignment()),  # noqa: B023 -- called at once
            what="a member at the source",
        )
        refused = scene.run(names, "--once", f"--start-at-group={arguments}")
        member.close()
        assert refused.wait() == 2
        assert reason in refused.report["message"]
    assert not {name, shortened} & scene.target.admin().list_topics(timeout=10).topics.keys()

    first = scene.run(names, "--once", f"--start-at-group={group}")
    assert (first.wait(), first.report["records"]) == (4, 16), first.log
    stops = " ".join(first.report["stops"])
    assert "offsets 3-4 of" in stops
    assert f"log of {ahead}/0 ends at 0" in stops
    assert {number: [row.value for row in found] for number, found in scene.arrived(name).items()} == {
        0: [b"%d" % number for number in range(4, 10)],
        1: [b"%d" % number for number in range(10)],
    }
    commit(scene.source, group, name, 0)
    scene.source.produce(name, [b"10"], partition=0)
    again = scene.run(names, "--once", f"--start-at-group={group}", "--on-data-loss=skip-and-record")
    assert again.report["records"] == 1 + 5, again.log
    assert [row.value for row in scene.arrived(shortened)[0]] == [b"%d" % number for number in range(5, 10)]


def test_metadata_is_carried_over_and_topics_that_are_not_mirrored_are_listed(
    scene: Scene, topic: TopicFactory
) -> None:
    name, other = topic(1), topic(2)
    group, chosen = f"group-of-{name}", f"--groups=group-of-{name}"
    scene.source.produce(name, [b"1", b"2"])
    scene.source.produce(other, [b"1", b"2"], partition=1)
    assert scene.run(f"--topics={name}", "--once").wait() == 0
    one = consumer(scene.source, group)
    commits = [TopicPartition(name, 0, 1, metadata="AgAAAY=="), TopicPartition(other, 1, 2)]
    one.commit(offsets=commits, asynchronous=False)
    one.close()

    code, report, err = translate(scene, chosen)
    assert code == 4, err
    (finding,) = report["findings"]
    assert (finding["reason"], finding["topic"], finding["partition"]) == ("NotMirrored", other, None)
    assert [(move["state"], move["metadata"]) for move in report["moves"]] == [("moved", "AgAAAY==")]
    there = consumer(scene.target, group)
    (found,) = there.committed([TopicPartition(name, 0)], timeout=20)
    there.close()
    assert (found.offset, found.metadata) == (1, "AgAAAY==")
    assert [move["state"] for move in translate(scene, chosen)[1]["moves"]] == ["unchanged"]

    assert scene.run(f"--topics={name},{other}", "--once").wait() == 0
    assert translate(scene, chosen)[0] == 0


def test_a_group_with_offsets_in_an_open_transaction_is_named_and_delays_no_other(
    scene: Scene, topic: TopicFactory
) -> None:
    name = topic(1)
    scene.source.produce(name, [b"%d" % number for number in range(10)])
    assert scene.run(f"--topics={name}", "--once").wait() == 0
    ended, is_open = f"ended-{name}", f"open-{name}"
    for group in (ended, is_open):
        commit(scene.source, group, name, 5)
    left_open = offset_in_transaction(scene.source, is_open, name, 7)

    code, moved, err = translate(scene, f"--groups={is_open},{ended}", "--connect-timeout=2")
    assert (code, [(move["group"], move["targetOffset"]) for move in moved["moves"]]) == (4, [(ended, 5)]), err
    (finding,) = moved["findings"]
    assert (finding["group"], finding["reason"]) == (is_open, "TransactionOpen")
    assert "try again after its end" in finding["message"]
    begun = scene.run(f"--topics={name}", "--once", f"--start-at-group={is_open}", "--connect-timeout=2")
    assert begun.wait() == 3
    assert "A transaction with offsets of the consumer group" in begun.report["message"]

    end_transaction(left_open, commit=True)
    code, moved, err = translate(scene, f"--groups={is_open},{ended}", "--connect-timeout=2")
    assert (code, [move["targetOffset"] for move in moved["moves"]]) == (0, [5, 7]), err
