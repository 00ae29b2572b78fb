"""``gapless doctor`` against real brokers: what is wrong is named, what is right is not, and nothing is changed."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from gapless_kafka.topics.coordinators import coordinator_partition
from kit.kafka.broker import KafkaBroker
from kit.kafka.cluster import USERS, KafkaCluster
from kit.kafka.renumbering import renumber
from kit.machine.processes import wait_until
from kit.story.commands import GAPLESS

if TYPE_CHECKING:
    from conftest import TopicFactory

pytestmark = pytest.mark.integration


class Run(NamedTuple):
    """What a run of the doctor left."""

    exit_code: int
    report: dict[str, Any]
    errors: str

    @property
    def ids(self) -> set[str]:
        return {one["id"] for one in self.report["findings"]}

    def the(self, id_: str, where: str = "") -> dict[str, Any]:
        (found,) = [one for one in self.report["findings"] if one["id"] == id_ and where in one["where"]]
        return dict(found)


def doctor(servers: str, *options: str) -> Run:
    ended = GAPLESS.run("doctor", f"--bootstrap-servers={servers}", "--json", "--timeout=5", *options)
    return Run(ended.returncode, json.loads(ended.stdout) if ended.stdout else {}, ended.stderr)


def commit(kafka: KafkaBroker, group: str, topic: str, offset: int) -> None:
    """Leave a position of a group."""
    consumer = Consumer(kafka.client_options(**{"group.id": group}))

    def done() -> bool:
        try:
            consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        except KafkaException:  # the coordinator is being chosen
            return False
        return True

    try:
        wait_until(done, what=f"the position of {group}")
    finally:
        consumer.close()


def test_the_partition_of_a_group_is_the_one_that_kafka_writes_to(kafka: KafkaBroker, topic: TopicFactory) -> None:
    """The names have hash codes of both signs, and with each sign of every remainder."""
    orders = topic()
    names = [f"{number}-group" for number in range(24)]
    for name in names:
        commit(kafka, name, orders, 1)
    count = len(kafka.watermarks("__consumer_offsets"))
    everything = kafka.read("__consumer_offsets", committed_only=False)
    stored = [(bytes(message.key() or b""), message.partition()) for message in everything]
    for name in names:
        # The keys of its offset begin with a version, and then the length of its name.
        written = {number for key, number in stored if key[2:].startswith(len(name).to_bytes(2, "big") + name.encode())}
        assert written == {coordinator_partition(name, count)}, name


def test_a_topic_that_was_recreated_a_gaps_topic_and_a_group_that_was_overtaken(
    kafka: KafkaBroker, topic: TopicFactory, tmp_path: Path
) -> None:
    orders, gaps = topic(2), topic(cleanup_policy="delete")
    kafka.produce(orders, [b"x"] * 10)
    commit(kafka, "overtaken", orders, 3)
    file = tmp_path / "doctor.json"
    options = [f"--topics={orders}", "--groups=overtaken"]
    first = doctor(kafka.bootstrap, *options, f"--report={file}")
    assert first.exit_code == 0, first.report
    assert json.loads(file.read_text()) == first.report
    assert first.ids <= {"NotChecked"}

    kafka.delete_records(orders, 0, 7)
    second = doctor(kafka.bootstrap, *options, f"--gap-topic={gaps}", f"--remembered={file}")
    assert second.exit_code == 4
    assert second.ids - {"NotChecked"} == {"GroupOvertaken", "GapTopicNotCompacted"}
    assert "offsets 3 to 6" in second.the("GroupOvertaken")["message"]

    kafka.delete_topic(orders)
    kafka.create_topic(orders, 2)
    third = doctor(kafka.bootstrap, f"--topics={orders}", f"--remembered={file}")
    assert third.exit_code == 4
    (before,) = [one["id"] for one in first.report["source"]["topics"] if one["name"] == orders]
    (now,) = [one["id"] for one in third.report["source"]["topics"] if one["name"] == orders]
    assert f"{before} -> {now}" in third.the("TopicRecreated")["message"]


def test_the_settings_of_several_brokers_are_checked() -> None:
    with KafkaCluster(2, config={"auto.create.topics.enable": "true"}) as cluster:
        cluster.create_topic("orders")
        found = doctor(cluster.bootstrap, "--topics=orders")
        assert found.the("AutoCreateTopics")["where"] == "broker 1-2"
        assert "ReplicaFetchSmall" not in found.ids, "with the defaults of Kafka"
        assert not any("settings of the brokers" in one["message"] for one in found.report["findings"])
        cluster.alter_topic("orders", max_message_bytes="1048589")
        found = doctor(cluster.bootstrap, "--topics=orders")
    assert "replica.fetch.max.bytes is 1,048,576" in found.the("ReplicaFetchSmall", "orders")["message"]


def test_a_group_that_is_ahead_of_a_log_is_reported(kafka: KafkaBroker, topic: TopicFactory) -> None:
    """As after a log was truncated; a group at the end of a partition is not ahead."""
    orders = topic(2)
    kafka.produce(orders, [b"x"] * 10)
    commit(kafka, "complete", orders, 10)
    commit(kafka, "ahead", orders, 2010)
    found = doctor(kafka.bootstrap, f"--topics={orders}", "--groups=complete,ahead")
    assert found.exit_code == 4
    assert found.ids - {"NotChecked"} == {"GroupBeyondEnd"}
    finding = found.the("GroupBeyondEnd")
    assert "The group ahead" in finding["message"]
    assert "2,010, and the log ends at 10." in finding["message"]


def test_a_clock_is_known_while_brokers_write_their_time(kafka: KafkaBroker, topic: TopicFactory) -> None:
    appended = topic(message_timestamp_type="LogAppendTime")
    ended = threading.Event()

    def write() -> None:
        while not ended.wait(0.02):
            kafka.produce(appended, [b"x"])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        busy = doctor(kafka.bootstrap, f"--topics={appended}")
    finally:
        ended.set()
        writer.join()
    assert not [one for one in busy.report["findings"] if "clock" in one["message"]]


def test_both_ends_of_a_mirror() -> None:
    with KafkaBroker() as kafka:  # without an authorizer
        orders = kafka.create_topic("orders", 1, max_message_bytes="5000000")
        kafka.create_topic(f"copy.{orders}", 1, message_timestamp_type="LogAppendTime", max_message_bytes="1000")
        target = f"--target-bootstrap-servers={kafka.bootstrap}"
        copied = doctor(kafka.bootstrap, target, f"--topics={orders}", "--rename=copy.{topic}")
        assert copied.exit_code == 0, copied.report
        assert {"MessageTooLarge", "TimestampTypeDiffers"} == copied.ids - {"NotChecked"}
        assert not [one for one in copied.report["findings"] if "transactional" in one["message"]]
        looped = doctor(kafka.bootstrap, target, f"--topics={orders},nosuchtopic")
        assert looped.exit_code == 4
        assert looped.the("SameCluster")["where"] == orders
        assert looped.the("TopicMissing")["where"] == "nosuchtopic"
        down = doctor(kafka.bootstrap, "--target-bootstrap-servers=127.0.0.1:1", f"--topics={orders}", "--report-line")
        assert down.exit_code == 3
        assert down.the("ClusterUnreachable")["side"] == "target"
        assert down.report["source"]["topics"][0]["name"] == orders
        assert json.loads(down.errors)["event"] == "doctor"


@pytest.fixture
def alice(secure_kafka: KafkaBroker, tmp_path: Path) -> list[str]:
    """Options by which alice logs in over TLS."""
    assert secure_kafka.authority is not None
    password = tmp_path / "password"
    password.write_text(USERS["alice"])
    return [
        f"--ca-file={secure_kafka.authority.file}",
        "--sasl-mechanism=PLAIN",
        "--sasl-username=alice",
        f"--sasl-password-file={password}",
    ]


def test_operations_that_are_denied_and_certificates_that_expire(secure_kafka: KafkaBroker, alice: list[str]) -> None:
    readable, described = secure_kafka.create_topic("doctor-read"), secure_kafka.create_topic("doctor-described")
    secure_kafka.create_topic("doctor-hidden")
    secure_kafka.deny(described, "alice", AclOperation.READ)
    secure_kafka.deny(described, "alice", AclOperation.DESCRIBE_CONFIGS)
    secure_kafka.allow(described, "alice", AclOperation.DESCRIBE)
    secure_kafka.deny("doctor-hidden", "alice")
    servers = secure_kafka.address("SASL_SSL")
    topics = f"--topics={readable},{described},doctor-hidden"
    found = doctor(servers, *alice, topics, "--certificate-days=10")
    assert found.exit_code == 4
    assert found.the("OperationDenied")["where"] == described
    assert "Read" in found.the("OperationDenied")["message"]
    assert found.the("OperationMissing")["where"] == described
    assert "settings of 1 topic" in found.the("NotChecked", described)["message"]
    assert "denies" in found.the("NotChecked", "doctor-hidden")["message"]
    assert not {"CertificateExpires", "PartitionUnreadable", "TopicMissing"} & found.ids

    of_bob = AclBinding(
        ResourceType.TRANSACTIONAL_ID,
        "north-",
        ResourcePatternType.PREFIXED,
        "User:bob",
        "*",
        AclOperation.WRITE,
        AclPermissionType.ALLOW,
    )
    secure_kafka.add_rule(of_bob)
    to_itself = [f"--target-bootstrap-servers={servers}", *(one.replace("--", "--target-", 1) for one in alice)]
    writes = ["--rename={topic}-copy", "--transactional-ids=north-0"]
    target = doctor(servers, *alice, *to_itself, f"--topics={readable}", *writes)
    assert target.the("OperationMissing", "north-0")["side"] == "target"
    expiring = doctor(servers, *alice, f"--topics={readable}", "--certificate-days=60")
    certificates = [one for one in expiring.report["findings"] if one["id"] == "CertificateExpires"]
    # The chain has two: that of the broker, and that of the authority, which is in our file as well.
    assert sorted(one["side"] for one in certificates) == ["local", "source", "source"]


def test_a_broker_whose_certificate_is_not_trusted(secure_kafka: KafkaBroker) -> None:
    found = doctor(secure_kafka.address("SSL"), "--tls", "--timeout=2")
    assert found.exit_code == 3
    assert found.report["source"] is None
    assert "certificate" in found.the("CertificateRefused")["message"]


@pytest.fixture(scope="module")
def lonely_kafka() -> Iterator[KafkaBroker]:
    """A broker that comes back under another id."""
    with KafkaBroker() as broker:
        yield broker


def test_broker_ids_that_changed_under_the_positions_of_groups(lonely_kafka: KafkaBroker) -> None:
    lonely_kafka.create_topic("orders", 2)
    lonely_kafka.produce("orders", [b"x"] * 10)
    before = set(lonely_kafka.admin().list_topics(timeout=10).topics)
    assert doctor(lonely_kafka.bootstrap, "--groups=billing").exit_code == 0
    assert set(lonely_kafka.admin().list_topics(timeout=10).topics) == before  # not even __consumer_offsets
    commit(lonely_kafka, "billing", "orders", 5)

    renumber(lonely_kafka, 1010)
    lonely_kafka.create_topic("fresh")
    lonely_kafka.produce("fresh", [b"x"])
    started = time.monotonic()
    found = doctor(lonely_kafka.bootstrap, "--groups=billing")
    assert time.monotonic() - started < 60, "a stall has a name within a minute"
    assert found.exit_code == 4
    unregistered = found.the("BrokerNotRegistered")
    assert "the broker ID 1, which is not registered; registered are 1010" in unregistered["message"]
    assert unregistered["where"] == "__consumer_offsets 0-3; orders 0-1"
    assert "destroys the committed offsets" in unregistered["danger"]
    lost = found.the("GroupCoordinatorUnavailable")
    assert "billing" in lost["message"]
    assert "Without a group, fresh 0 can be read" in lost["message"]
    assert found.the("LeaderMissing")["where"] == "orders 0-1"
    assert "PartitionUnreadable" not in found.ids
