"""A mirror that stands still names the reason, and goes on by itself when it is gone; an idle one names none."""

from __future__ import annotations

import json
import os
import re
import signal
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from gapless_api.wire.mirror_progress import MIRROR_LINE, MirrorLine, StallReason
from integration.mirror.conftest import Mirror, Scene
from kit.kafka.broker import KafkaBroker
from kit.kafka.cluster import USERS
from kit.kafka.renumbering import renumber
from kit.kafka.transactions import end_transaction, in_transaction
from kit.machine.processes import free_ports, wait_until
from kit.machine.small_disk import full, small_disk

if TYPE_CHECKING:
    from conftest import TopicFactory

pytestmark = pytest.mark.integration

QUICK = ("--look-interval=0.5s", "--progress-interval=1", "--lanes=2", "--topic-refresh=2s")
"""Three seconds of standstill are a stall."""
_PATIENCE_SECONDS = 120.0
"""Ends a test whose mirror hangs, also on a busy machine: with these intervals a stall has its name after seconds."""


def lines(mirror: Mirror) -> list[MirrorLine]:
    return [
        MIRROR_LINE.from_json(json.loads(line))
        for line in mirror.log.splitlines()
        if line.startswith("{") and MIRROR_LINE.event in line
    ]


def events(mirror: Mirror, name: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in mirror.log.splitlines() if line.startswith("{")]
    return [each for each in found if each.get("event") == name]


def metrics(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as response:
        text: str = response.read().decode()
    return text


def problems(mirror: Mirror) -> dict[tuple[str, str], str]:
    """The sentences of the last line, by reason and topic."""
    return {(one.reason.value, one.topic): one.message for line in lines(mirror)[-1:] for one in line.problems}


def wait_with_log(
    mirror: Mirror, condition: Callable[[], bool], what: str, timeout_seconds: float = _PATIENCE_SECONDS
) -> None:
    """Wait until a mirror that runs shows something."""

    def there() -> bool:
        assert mirror.process.poll() is None, mirror.log
        return condition()

    try:
        wait_until(there, timeout_seconds=timeout_seconds, what=what)
    except TimeoutError as error:
        raise AssertionError(f"{error}: {mirror.end_with_stacks()}") from None


def wait_for_state(mirror: Mirror, state: str) -> MirrorLine:
    expected = [(state, 2)]
    wait_with_log(
        mirror,
        lambda: [(line.state, line.lanes_owned) for line in lines(mirror)[-1:]] == expected,
        f"the state {state}",
    )
    return lines(mirror)[-1]


def wait_for_stall(mirror: Mirror, reason: StallReason, topic: str | None) -> str:
    """Wait for the name of a stall; its sentence."""

    wait_with_log(mirror, lambda: (reason.value, topic or "") in problems(mirror), reason.value)
    begun = events(mirror, "stall begins")
    assert {(each["reason"], each.get("topic")) for each in begun} == {(reason.value, topic)}, begun
    return str(begun[-1]["message"])


def test_an_idle_mirror_has_heartbeats_and_no_stall_and_an_open_transaction_has_a_name(
    scene: Scene, topic: TopicFactory
) -> None:
    name = topic(2)
    (port,) = free_ports(1)
    mirror = scene.start(f"--topics={name}", *QUICK, f"--metrics-port={port}")
    wait_for_state(mirror, "idle")
    # The topic of heartbeats may have had one partition: that of the other lane comes with the next refresh.
    wait_with_log(mirror, lambda: 'gapless_mirror_heartbeat_age_seconds{lane="1"' in metrics(port), "heartbeats")
    wait_with_log(mirror, lambda: lines(mirror)[-1].heartbeat_age_seconds is not None, "a line with their age")
    wait_with_log(
        mirror, lambda: any(one.partitions == 2 for one in lines(mirror)[-1].topics if one.topic == name), "a look"
    )
    open_one = in_transaction(scene.source, name, [(None, b"1"), (None, b"2")])
    sentence = wait_for_stall(mirror, StallReason.TRANSACTION_OPEN, name)
    assert f"A transaction is open in {name}/0 since offset 0; 2 offsets" in sentence
    stalled = lines(mirror)[-1]
    assert (stalled.lag_records, stalled.partitions_with_lag, stalled.records) == (2, 1, 0)
    assert stalled.lag_seconds is not None
    assert stalled.lag_seconds > 2
    found = metrics(port)
    assert f'gapless_mirror_stalled{{mirror="{scene.name}",reason="TransactionOpen"}} 1.0' in found
    assert f'gapless_mirror_stalled{{mirror="{scene.name}",reason="WorkerStuck"}} 0.0' in found
    assert 'gapless_mirror_heartbeat_age_seconds{lane="1"' in found
    end_transaction(open_one, commit=True)
    idle = wait_for_state(mirror, "idle")
    assert (idle.records, idle.lag_records, idle.heartbeat_age_seconds is not None) == (2, 0, True)
    assert [each["reason"] for each in events(mirror, "stall ends")] == ["TransactionOpen"]
    assert mirror.stop() == 143
    assert scene.copied(name)


def test_the_spark_engine_names_a_standstill_like_workers(scene: Scene, topic: TopicFactory) -> None:
    name = topic(2)
    # Nine seconds of standstill are a stall: tasks tell of their lanes at the end of a turn.
    slower = ("--look-interval=1.5s", "--progress-interval=1", "--lanes=2")
    mirror = scene.start(f"--topics={name}", *slower, "--engine=spark", "--master=local[1]")
    # Spark's start takes its time on a busy machine.
    wait_with_log(
        mirror,
        lambda: any(line.heartbeat_age_seconds is not None for line in lines(mirror)),
        "heartbeats",
        timeout_seconds=180,
    )
    open_one = in_transaction(scene.source, name, [(None, b"1"), (None, b"2")])
    wait_with_log(mirror, lambda: ("TransactionOpen", name) in problems(mirror), "the name")
    assert f"A transaction is open in {name}/0 since offset 0; 2 offsets" in problems(mirror)["TransactionOpen", name]
    assert (lines(mirror)[-1].engine, lines(mirror)[-1].state) == ("spark", "stalled")
    end_transaction(open_one, commit=True)
    scene.wait_for(name, 2)
    wait_for_state(mirror, "idle")
    assert mirror.stop() == 143, mirror.log
    assert scene.copied(name)


def test_a_mirror_that_is_stopped_while_it_stands_still_ends_with_the_name(scene: Scene, topic: TopicFactory) -> None:
    name = topic(2)
    target = scene.target.create_topic(name, 2, max_message_bytes="1000")
    assert target == name
    mirror = scene.start(f"--topics={name}", *QUICK)
    wait_for_state(mirror, "idle")
    scene.source.produce(name, [os.urandom(100_000)], partition=0)
    scene.source.produce(name, [b"small"], partition=1)
    sentence = wait_for_stall(mirror, StallReason.TARGET_REFUSES, name)
    assert "max.message.bytes" in sentence
    scene.wait_for(name, 1)
    assert mirror.stop() == 3
    assert mirror.report["stalls"][0].startswith("TargetRefuses: ")
    assert "TargetRefuses: " in mirror.log.splitlines()[-1]
    scene.target.alter_topic(name, max_message_bytes="2000000")
    again = scene.start(f"--topics={name}", *QUICK)
    scene.wait_for(name, 2)
    wait_for_state(again, "idle")
    assert again.stop() == 143
    assert scene.copied(name)


def as_alice(secure_kafka: KafkaBroker, folder: Path, side: str) -> list[str]:
    """Options by which alice reaches the broker with access control."""
    password = folder / "password"
    password.write_text(USERS["alice"])
    return [
        f"--{side}-bootstrap-servers={secure_kafka.address('SASL_PLAINTEXT')}",
        f"--{side}-sasl-mechanism=PLAIN",
        f"--{side}-sasl-username=alice",
        f"--{side}-sasl-password-file={password}",
    ]


@pytest.fixture
def alice(secure_kafka: KafkaBroker, tmp_path: Path) -> list[str]:
    """Options by which alice reads from the broker with access control."""
    return as_alice(secure_kafka, tmp_path, "source")


def remove_rules(kafka: KafkaBroker, kind: ResourceType, name: str, permission: AclPermissionType) -> None:
    found = AclBindingFilter(kind, name, ResourcePatternType.LITERAL, "User:alice", None, AclOperation.ANY, permission)
    kafka.remove_rules(found)


def test_rights_that_are_revoked_and_given_back(
    secure_kafka: KafkaBroker, target_kafka: KafkaBroker, alice: list[str], tmp_path: Path
) -> None:
    name = secure_kafka.create_topic("revoked")
    secure_kafka.allow(name, "alice")
    (tmp_path / "runs").mkdir()
    scene = Scene(secure_kafka, target_kafka, tmp_path / "runs")
    try:
        mirror = scene.start(f"--topics={name}", "--heartbeat=false", *QUICK, *alice)
        wait_for_state(mirror, "idle")
        secure_kafka.deny(name, "alice", AclOperation.READ)
        assert f"The source denies Read on the topic {name}" in wait_for_stall(
            mirror, StallReason.AUTHORIZATION_FAILED, name
        )
        secure_kafka.produce(name, [b"late"])
        remove_rules(secure_kafka, ResourceType.TOPIC, name, AclPermissionType.DENY)
        scene.wait_for(name, 1)
        wait_for_state(mirror, "idle")
        assert mirror.stop() == 143
        assert scene.copied(name)
    finally:
        scene.close()


@pytest.mark.parametrize("choice", ["--topics", "--topic-prefix"])
def test_a_topic_that_is_not_shown_any_more_is_denied_and_not_deleted(
    secure_kafka: KafkaBroker, target_kafka: KafkaBroker, alice: list[str], tmp_path: Path, choice: str
) -> None:
    name = secure_kafka.create_topic(f"hidden{choice}")
    secure_kafka.allow(name, "alice")
    secure_kafka.allow(name, "bob")  # without any rule everybody may see it
    (tmp_path / "runs").mkdir()
    scene = Scene(secure_kafka, target_kafka, tmp_path / "runs")
    try:
        mirror = scene.start(f"{choice}={name}", "--heartbeat=false", *QUICK, *alice)
        wait_for_state(mirror, "idle")
        remove_rules(secure_kafka, ResourceType.TOPIC, name, AclPermissionType.ALLOW)
        secure_kafka.produce(name, [b"late"])
        sentence = wait_for_stall(mirror, StallReason.AUTHORIZATION_FAILED, name)
        assert f"The source denies Describe on the topic {name}" in sentence
        told = len(lines(mirror))
        wait_with_log(mirror, lambda: len(lines(mirror)) > told + 8, "several looks at the source")
        assert problems(mirror).keys() == {("AuthorizationFailed", name)}, mirror.log
        secure_kafka.allow(name, "alice")
        scene.wait_for(name, 1)
        wait_for_state(mirror, "idle")
        assert mirror.stop() == 143
        assert scene.copied(name)
    finally:
        scene.close()


def test_a_group_that_is_denied_at_the_target(scene: Scene, topic: TopicFactory, tmp_path: Path) -> None:
    name = topic()
    group = f"gapless-mirror-{scene.name}"
    rule = AclBinding(
        ResourceType.GROUP,
        group,
        ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.READ,
        AclPermissionType.DENY,
    )
    scene.target.add_rule(rule)
    mirror = scene.start(f"--topics={name}", "--heartbeat=false", *QUICK, *as_alice(scene.target, tmp_path, "target"))
    sentence = wait_for_stall(mirror, StallReason.AUTHORIZATION_FAILED, None)
    assert "grant Read on the group" in sentence
    remove_rules(scene.target, ResourceType.GROUP, group, AclPermissionType.DENY)
    scene.source.produce(name, [b"late"])
    scene.wait_for(name, 1)
    wait_for_state(mirror, "idle")
    assert mirror.stop() == 143


def test_broker_ids_that_changed_under_the_coordinators_of_the_target(kafka: KafkaBroker, tmp_path: Path) -> None:
    name = kafka.create_topic("renumbered")
    with KafkaBroker() as target:
        scene = Scene(kafka, target, tmp_path)
        try:
            mirror = scene.start(f"--topics={name}", *QUICK)
            wait_for_state(mirror, "idle")
            renumber(target, 1010)
            kafka.produce(name, [b"never"])

            # Until the session of the old ID has ended, nobody can tell more than that no transaction is opened.
            expected = "has no leader (replicas on 1; registered brokers 1010)"
            wait_with_log(
                mirror,
                lambda: expected in problems(mirror).get(("CoordinatorUnavailable", ""), ""),
                "the name, with the place that has no leader",
            )
            assert mirror.stop() == 3
            assert "CoordinatorUnavailable: " in mirror.log.splitlines()[-1]
        finally:
            scene.close()


def test_partitions_without_a_leader_on_either_side(kafka: KafkaBroker, tmp_path: Path) -> None:
    # Topics of their own: with the same ones, the mirror that sees the other one first says that records would loop.
    kafka.create_topic("led-there")
    kafka.create_topic("led-back")
    with KafkaBroker() as renumbered:
        renumbered.create_topic("led-there")
        renumbered.create_topic("led-back")
        renumber(renumbered, 1010)
        renumbered.create_topic("fresh")
        there, back = tmp_path / "there", tmp_path / "back"
        there.mkdir()
        back.mkdir()
        scenes = Scene(kafka, renumbered, there), Scene(renumbered, kafka, back)
        try:
            kafka.produce("led-there", [b"never"])
            copying_there = scenes[0].start("--topics=led-there", *QUICK)
            copying_back = scenes[1].start("--topics=led-back,fresh", *QUICK)
            for mirror, side, led in ((copying_there, "target", "led-there"), (copying_back, "source", "led-back")):
                cause = ("LeaderMissing", led)
                wait_with_log(mirror, lambda mirror=mirror, cause=cause: cause in problems(mirror), "the name")
                assert f"Partition 0 of the {side} topic {led} has no leader" in problems(mirror)[cause]
            renumbered.produce("fresh", [b"goes on"])
            scenes[1].wait_for("fresh", 1)
            once = scenes[1].run("--topics=led-back,fresh", "--once", "--name=once", "--copy-again")
            assert (once.wait(), once.report["records"]) == (4, 1), once.log
        finally:
            for scene in scenes:
                scene.close()


def test_a_disk_of_the_target_that_is_full(kafka: KafkaBroker, tmp_path: Path) -> None:
    with small_disk(tmp_path, "40m") as disk:
        folder = tmp_path / "target"
        folder.mkdir()
        # Internal topics go to the other disk, which holds less when most of these topics are gone.
        config = {
            "log.dirs": f"{folder}/node1/data,{disk}/data",
            "log.index.size.max.bytes": "4096",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
        }
        with KafkaBroker(folder, config=config) as target:
            topics = [target.create_topic(f"topic-{number}") for number in range(10)]
            name, *_ = sorted(found.name.removesuffix("-0") for found in (disk / "data").glob("topic-*-0"))
            for other in topics:
                if not (disk / "data" / f"{other}-0").exists():
                    target.delete_topic(other)
            kafka.create_topic(name)
            kafka.produce(name, [b"1", b"2"])
            (tmp_path / "runs").mkdir()
            scene = Scene(kafka, target, tmp_path / "runs")
            try:
                mirror = scene.start(f"--topics={name}", *QUICK, "--lanes=1", "--heartbeat=false")
                scene.wait_for(name, 2)
                with full(disk):
                    kafka.produce(name, [os.urandom(100_000)] * 5)
                    wait_with_log(mirror, lambda: ("LeaderMissing", name) in problems(mirror), "the name")
                    assert "a disk of these brokers is full or broken" in problems(mirror)["LeaderMissing", name]
                target.restart()
                kafka.produce(name, [b"last"])
                scene.wait_for(name, 8)
                assert mirror.stop() == 143, mirror.log
                assert scene.copied(name)
            finally:
                scene.close()


def test_records_and_topics_that_are_gone_need_a_decision(scene: Scene, topic: TopicFactory) -> None:
    overtaken, lower, higher = topic(), topic(), topic()
    names = f"--topics={overtaken},{lower},{higher}"
    for name in (overtaken, lower, higher):
        scene.source.produce(name, [b"%d" % number for number in range(10)])
    first = scene.run(names, "--once", *QUICK)
    assert first.wait() == 0, first.log
    scene.source.produce(overtaken, [b"%d" % number for number in range(10, 30)])
    scene.source.delete_records(overtaken, 0, 17)
    for name, count in ((lower, 5), (higher, 50)):
        scene.source.delete_topic(name)
        scene.source.create_topic(name)
        scene.source.produce(name, [b"new %d" % number for number in range(count)])
    mirror = scene.start(names, *QUICK)

    expected = {("RetentionOvertook", overtaken), ("TopicRecreated", lower), ("TopicRecreated", higher)}
    wait_with_log(mirror, lambda: problems(mirror).keys() == expected, f"{expected}")
    assert re.search("offsets 10( to |-)16 ", problems(mirror)["RetentionOvertook", overtaken])
    assert mirror.stop() == 3
    decided = scene.start(names, "--on-data-loss=skip-and-record", *QUICK)
    scene.wait_for(overtaken, 23)
    scene.wait_for(lower, 15)
    scene.wait_for(higher, 60)
    assert wait_for_state(decided, "idle").lost_records == 7
    assert decided.stop() == 143


def test_a_worker_that_hangs_is_noticed_and_replaced_while_the_other_goes_on(scene: Scene, topic: TopicFactory) -> None:
    name = topic(4)
    mirror = scene.start(f"--topics={name}", "--workers=2", *QUICK)
    wait_with_log(mirror, lambda: {line.lanes_owned for line in lines(mirror)[-2:]} == {1}, "a lane for each worker")
    before = set(mirror.workers())
    stuck = min(before)
    os.kill(stuck, signal.SIGSTOP)
    for partition in range(4):
        scene.source.produce(name, [b"1", b"2"], partition=partition)
    scene.wait_for(name, 8)  # the other one has taken over
    silent = re.compile(r"Worker [01] has not responded for 1\d s; it is killed and restarted\.")
    wait_with_log(
        mirror,
        lambda: any(
            one.reason is StallReason.WORKER_STUCK and silent.match(one.message)
            for line in lines(mirror)
            for one in line.problems
        ),
        "the name in the line of the other worker",
    )
    wait_with_log(mirror, lambda: len(before & set(mirror.workers())) == 1 < len(mirror.workers()), "another worker")
    scene.source.produce(name, [b"3"])
    scene.wait_for(name, 9)
    wait_with_log(mirror, lambda: not any(line.problems for line in lines(mirror)[-2:]), "the end of the stall")
    assert mirror.stop() == 143, mirror.log
    assert scene.copied(name)
