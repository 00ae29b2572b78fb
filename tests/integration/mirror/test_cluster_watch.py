"""A look at a real cluster tells what the rule of stalls needs, and what cannot be looked at hides nothing else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AclOperation

from gapless_api.base.errors import SourceUnreachableError
from gapless_kafka.access.client import KafkaClient
from gapless_kafka.access.connection import KafkaConnection
from gapless_kafka.access.constructors import new_admin
from gapless_kafka.reading.topic_offsets import read_cut
from gapless_kafka.topics.target_topics import TargetTopics
from gapless_mirror.lanes.identity import lane_of
from gapless_mirror.watch.cluster_watch import ClusterWatch
from gapless_mirror.watch.facts import PartitionEnds
from gapless_mirror.watch.heartbeat import HEARTBEAT_TOPIC, Heartbeats, partitions_of, prepare_heartbeats
from kit.kafka.broker import KafkaBroker
from kit.kafka.cluster import KafkaCluster
from kit.kafka.transactions import end_transaction, in_transaction
from kit.machine.processes import HANGING_SECONDS, free_ports, wait_until

if TYPE_CHECKING:
    from conftest import TopicFactory

pytestmark = pytest.mark.integration


def test_a_look_tells_ends_ids_rights_and_retention(kafka: KafkaBroker, topic: TopicFactory) -> None:
    name = topic(2, retention_ms="600000")
    kafka.produce(name, [b"1", b"2", b"3"])
    kafka.delete_records(name, 0, 1)
    open_one = in_transaction(kafka, name, [(None, b"4"), (None, b"5")])
    watch = ClusterWatch("source", KafkaConnection(bootstrap_servers=kafka.bootstrap))
    look = watch.snapshot([name, "missing", "__transaction_state"], {(name, 0): 1, (name, 1): 0, ("missing", 0): 0})
    assert look.fault is None
    assert look.brokers == {1}
    found = look.topics[name]
    assert [found.partitions[number].ends for number in (0, 1)] == [PartitionEnds(1, 3, 5), PartitionEnds(0, 0, 0)]
    assert len(found.id) == 22
    assert found.operations is not None
    assert {"READ", "WRITE", "DESCRIBE"} <= found.operations
    assert (found.retention_seconds, found.partitions[0].leader, found.partitions[0].replicas) == (600.0, 1, (1,))
    assert look.topics["missing"].error == "UNKNOWN_TOPIC_OR_PART"
    assert {one.leader for one in look.topics["__transaction_state"].partitions.values()} == {1}
    assert watch.newest_timestamps("missing") == {}
    end_transaction(open_one, commit=True)
    after = watch.snapshot([name], {(name, 0): 3}).topics[name].partitions
    assert (after[0].ends, after[1].ends) == (PartitionEnds(1, 6, 6), None)
    copied = watch.snapshot([name], {(name, 0): 6, (name, 1): 0}).topics[name].partitions
    assert [copied[number].ends for number in (0, 1)] == [PartitionEnds(1, 6, 6), PartitionEnds(0, 0, 0)]


def test_what_is_denied_is_told_for_its_topic_only(secure_kafka: KafkaBroker, tmp_path: Path) -> None:
    for name in ("watch-open", "watch-unread", "watch-hidden"):
        secure_kafka.create_topic(name)
    secure_kafka.allow("watch-unread", "alice")
    secure_kafka.deny("watch-unread", "alice", AclOperation.READ)
    secure_kafka.deny("watch-hidden", "alice", AclOperation.DESCRIBE)
    password = tmp_path / "password"
    password.write_text("alice-secret")
    connection = KafkaConnection(
        bootstrap_servers=secure_kafka.address("SASL_PLAINTEXT"),
        sasl_mechanism="PLAIN",
        sasl_username="alice",
        sasl_password_file=password,
    )
    names = ["watch-open", "watch-unread", "watch-hidden"]
    look = ClusterWatch("source", connection).snapshot(names, {(name, 0): 0 for name in names})
    assert look.fault is None
    open_one, unread = look.topics["watch-open"], look.topics["watch-unread"]
    assert open_one.partitions[0].ends == PartitionEnds(0, 0, 0)
    assert open_one.operations is not None
    assert unread.operations is not None
    assert open_one.operations - unread.operations == {"READ"}
    assert look.topics["watch-hidden"].error == "TOPIC_AUTHORIZATION_FAILED"
    password.write_text("wrong")
    refused = ClusterWatch("source", connection).snapshot(names)
    assert refused.fault is not None
    assert refused.fault.name == "_AUTHENTICATION"


def test_a_cluster_that_does_not_answer_keeps_its_last_look() -> None:
    with KafkaBroker() as broker:
        broker.create_topic("here")
        broker.write("here", [{"value": b"1", "timestamp": 1000}])
        watch = ClusterWatch("target", KafkaConnection(bootstrap_servers=broker.bootstrap), request_seconds=2.0)
        before = watch.snapshot(["here"], {("here", 0): 0})
        assert watch.newest_timestamps("here") == {0: 1.0}
        broker.kill()
        gone = watch.snapshot(["here"], {("here", 0): 0})
        assert (gone.topics, gone.brokers) == (before.topics, before.brokers)
        assert gone.fault is not None
        assert gone.fault.side == "target"
        assert watch.newest_timestamps("here") == {0: 1.0}
        broker.start()
        wait_until(lambda: watch.snapshot(["here"]).fault is None, what="an answer")
        broker.delete_topic("here")
        broker.create_topic("here")
        known = {"", before.topics["here"].id}
        wait_until(lambda: watch.snapshot(["here"]).topics["here"].id not in known, what="the new topic")
        assert watch.newest_timestamps("here") == {}


def test_a_cluster_without_a_registered_broker_is_a_fault_and_not_the_end_of_the_process() -> None:
    # The controller takes a broker for dead that sends no second heartbeat, and the broker goes on answering.
    config = {"broker.heartbeat.interval.ms": "600000", "broker.session.timeout.ms": "6000"}
    with KafkaBroker(config=config) as broker:
        broker.create_topic("here")
        connection = KafkaConnection(bootstrap_servers=broker.bootstrap)
        watch = ClusterWatch("target", connection, request_seconds=2.0)
        assert watch.snapshot(["here"]).fault is None
        while (fault := watch.snapshot(["here"]).fault) is None:
            time.sleep(0.1)
        assert fault.name in {"BROKER_NOT_AVAILABLE", "_TRANSPORT"}
        with pytest.raises(SourceUnreachableError, match="no broker is registered"):
            TargetTopics(connection, timeout_seconds=1).cluster()
        reader = KafkaClient(connection, {"group.id": "nobody"}, connect_timeout_seconds=2.0)
        with pytest.raises(SourceUnreachableError, match="no broker is registered"):
            reader.connect()
        reader.close()
        broker.kill()
        broker.start(broker_heartbeat_interval_ms="500")
        wait_until(lambda: watch.snapshot(["here"]).fault is None, what="a look after the broker has come back")


def test_a_topic_is_created_by_a_broker_that_takes_longer_than_for_its_first_answer() -> None:
    with KafkaBroker() as broker:
        topics = TargetTopics(KafkaConnection(bootstrap_servers=broker.bootstrap), timeout_seconds=4)
        broker.create_topic("growing")
        with broker.suspended(33):  # longer than other brokers wait for a controller that hangs
            topics.create("made", 2, {})
        with broker.suspended(7):
            topics.add_partitions("growing", 3)
        assert {name: one.partitions for name, one in topics.describe(["made", "growing"]).items()} == {
            "made": 2,
            "growing": 3,
        }


def test_the_topic_of_heartbeats_has_its_settings_where_brokers_create_topics_themselves() -> None:
    with KafkaBroker(config={"auto.create.topics.enable": "true"}) as broker:
        connection = KafkaConnection(bootstrap_servers=broker.bootstrap)
        prepare_heartbeats(connection, 3)
        topics = TargetTopics(connection, timeout_seconds=10)
        made = topics.describe([HEARTBEAT_TOPIC])[HEARTBEAT_TOPIC]
        assert topics.cluster().brokers == 1
        assert set(broker.admin().list_topics(timeout=10).topics) == {HEARTBEAT_TOPIC}
    assert (made.partitions, made.own["retention.ms"]) == (3, "3600000")


def test_with_a_dead_broker_the_others_answer_and_the_newest_timestamp_stays_known() -> None:
    # The dead broker stays in sync, so that a record which only its leader has is not committed.
    config = {"broker.session.timeout.ms": "600000", "replica.lag.time.max.ms": "600000"}
    with KafkaCluster(3, config=config) as cluster:
        cluster.create_topic("beats", 3)
        connection = KafkaConnection(bootstrap_servers=cluster.bootstrap)
        watch = ClusterWatch("target", connection, request_seconds=2.0)
        leaders = {number: each.leader for number, each in watch.snapshot(["beats"]).topics["beats"].partitions.items()}
        admin = new_admin(connection)
        asked = admin.list_topics(timeout=HANGING_SECONDS).controller_id
        partition = next(number for number, leader in leaders.items() if leader != asked)
        cluster.write("beats", [{"value": b"1", "partition": partition, "timestamp": 1000}])
        assert watch.newest_timestamps("beats") == {partition: 1.0}
        cluster.kill(next(index for index, node in enumerate(cluster.nodes) if node.node_id == asked))
        more = [{"value": b"2", "partition": partition, "timestamp": 2000}]
        cluster.write("beats", more, acks=1, enable_idempotence=False)

        def answers() -> bool:
            try:
                return bool(admin.describe_cluster(request_timeout=2).result())
            except KafkaException:
                return False

        wait_until(answers, what="an answer of another broker")
        wait_until(lambda: watch.snapshot(["beats"]).fault is None, what="a look without the dead broker")
        assert watch.newest_timestamps("beats") == {partition: 1.0}


def test_a_leader_that_does_not_answer_has_unknown_offsets_and_not_negative_ones() -> None:
    # The dead broker stays the leader, so that Kafka's client asks it, and nobody else.
    with KafkaCluster(3, config={"broker.session.timeout.ms": "600000"}) as cluster:
        cluster.create_topic("events", 3)
        cluster.write("events", [{"value": b"1", "partition": partition} for partition in range(3)])
        connection = KafkaConnection(bootstrap_servers=cluster.bootstrap)
        watch = ClusterWatch("source", connection, request_seconds=2.0)
        copied = {("events", partition): 0 for partition in range(3)}
        leaders = {n: each.leader for n, each in watch.snapshot(["events"], copied).topics["events"].partitions.items()}
        dead = leaders[0]
        cluster.kill(next(index for index, node in enumerate(cluster.nodes) if node.node_id == dead))
        target = TargetTopics(connection, timeout_seconds=2)
        with pytest.raises(SourceUnreachableError):
            target.end_offset("events", 0, committed=True)
        found: dict[int, PartitionEnds | None] = {}

        def is_seen() -> bool:
            partitions = watch.snapshot(["events"], copied).topics["events"].partitions
            found.update({number: partition.ends for number, partition in partitions.items()})
            return all((found[number] is None) is (leader == dead) for number, leader in leaders.items())

        wait_until(is_seen, what="a look that knows the ends of the living leaders, and no other")
        with pytest.raises(SourceUnreachableError, match=r"refused|the leader of events/\d does not answer"):
            read_cut(connection, ["events"], timeout_seconds=2, election_seconds=0)


@pytest.fixture(scope="module")
def quiet_kafka() -> Iterator[KafkaBroker]:
    """A broker without the heartbeats of other tests."""
    with KafkaBroker(secured=True) as broker:
        yield broker


def test_a_heartbeat_goes_to_the_partition_of_its_lane(quiet_kafka: KafkaBroker) -> None:
    kafka, complaints = quiet_kafka, list[str]()
    beats = Heartbeats(KafkaConnection(bootstrap_servers=kafka.bootstrap), "m", 3, on_error=complaints.append)
    now = time.time()
    beats.beat([0, 2], now=now)
    more = Heartbeats(KafkaConnection(bootstrap_servers=kafka.bootstrap), "n", 5, on_error=complaints.append)
    more.beat([4], now=now)
    wait_until(
        lambda: sum(high for _, high in kafka.watermarks(HEARTBEAT_TOPIC).values()) == 3,
        what="three heartbeats",
    )
    beats.close()
    more.close()
    found = {(message.key(), message.partition()) for message in kafka.read(HEARTBEAT_TOPIC)}
    assert found == {
        (b"m", partitions_of(3)[0]),
        (b"m", partitions_of(3)[2]),
        (b"n", partitions_of(5)[4]),
    }
    assert all(lane_of(HEARTBEAT_TOPIC, partitions_of(5)[lane], 5) == lane for lane in range(5))
    assert len(kafka.watermarks(HEARTBEAT_TOPIC)) == 5
    watch = ClusterWatch("target", KafkaConnection(bootstrap_servers=kafka.bootstrap))
    watch.snapshot([HEARTBEAT_TOPIC])
    newest = watch.newest_timestamps(HEARTBEAT_TOPIC)
    assert newest.keys() == {partitions_of(3)[0], partitions_of(3)[2], partitions_of(5)[4]}
    assert all(abs(at - now) < 0.002 for at in newest.values())
    assert complaints == []


def test_heartbeats_that_are_denied_are_reported_once(quiet_kafka: KafkaBroker, tmp_path: Path) -> None:
    if HEARTBEAT_TOPIC not in quiet_kafka.admin().list_topics(timeout=10).topics:
        quiet_kafka.create_topic(HEARTBEAT_TOPIC, 2)
    quiet_kafka.allow(HEARTBEAT_TOPIC, "bob")
    quiet_kafka.deny(HEARTBEAT_TOPIC, "bob", AclOperation.WRITE)
    password = tmp_path / "password"
    password.write_text("bob-secret")
    connection = KafkaConnection(
        bootstrap_servers=quiet_kafka.address("SASL_PLAINTEXT"),
        sasl_mechanism="PLAIN",
        sasl_username="bob",
        sasl_password_file=password,
    )
    complaints: list[str] = []
    beats = Heartbeats(connection, "m", 2, on_error=complaints.append)

    def complained() -> bool:
        beats.beat([0, 1])
        return bool(complaints)

    wait_until(complained, what="a complaint")
    for _ in range(3):
        beats.beat([0, 1])
        time.sleep(0.2)
    beats.close()
    (sentence,) = complaints
    assert "the mirror works without them. Grant Create, Describe and Write on it" in sentence


def test_heartbeats_that_no_broker_takes_are_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gapless_mirror.watch.heartbeat._TIMEOUT_SECONDS", 0.5)
    (port,) = free_ports(1)
    complaints: list[str] = []
    beats = Heartbeats(KafkaConnection(bootstrap_servers=f"127.0.0.1:{port}"), "m", 1, on_error=complaints.append)
    beats.beat([0])
    (sentence,) = complaints
    assert sentence.endswith("the mirror works without them. They are tried again.")
