"""The proof that positions are exact whatever other programs do: open transactions, zombies, foreign topics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from gapless_api.base.errors import ConfigurationError, SourceUnreachableError
from gapless_api.offsets.ranges import OffsetRanges
from gapless_kafka.access.connection import KafkaConnection
from gapless_kafka.topics.target_topics import TargetTopics
from gapless_kafka.writing.control_topic import ControlTopic
from gapless_kafka.writing.faults import TakenOverError
from gapless_kafka.writing.portions import Columns, Portion
from gapless_kafka.writing.positions import POSITION, Position, RunOfWork, WorkPartition, content, position_key
from gapless_kafka.writing.takeover import Takeover, WorkSlot
from gapless_kafka.writing.writer import PortionWriter, WriterOptions
from kit.kafka.transactions import end_transaction, in_transaction

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker

pytestmark = pytest.mark.integration


class Scene:
    """Some work with one source partition, a topic that it writes to, and a control topic that no other test uses."""

    def __init__(self, kafka: KafkaBroker, topic: str) -> None:
        self.work, self.topic = f"work-of-{topic}", topic
        self.options = WriterOptions(control_topic=f"{topic}.positions")
        self.connection = KafkaConnection(bootstrap_servers=kafka.bootstrap)
        self.topics = TargetTopics(self.connection, timeout_seconds=20)
        self.while_waiting: list[Callable[[], None]] = []
        """What happens when the control topic waits next; nothing is left of it then."""
        self.control = ControlTopic(self.connection, self.topics, self.options.control_topic, waiting=self._wait)
        self.control.ensure()
        self.takeover = Takeover(self.connection, self.control, self.options, "test")

    def _wait(self) -> None:
        """Told once for each partition with an open transaction, such as one of the scene that is just being ended."""
        while self.while_waiting:
            self.while_waiting.pop()()

    def begin(self) -> int:
        run = RunOfWork(epoch=0, slots=1, source="s", source_id="S", topic=self.topic, topic_id="T")
        return self.takeover.begin(self.work, run).epoch

    def portion(self, first: int, last: int, size: int = 1) -> Portion:
        offsets = list(range(first, last + 1))
        position = Position(topic=self.topic, topic_id="T", target_partition=0, source_id="S", epoch=1)
        columns = Columns(
            offsets, [None] * len(offsets), [b"%d" % each for each in offsets], [b"v" * size] * len(offsets)
        )
        place = WorkPartition(self.work, "s", 0)
        return Portion(place, columns, position.advance(OffsetRanges([(first, last)]), records=len(offsets)))


@pytest.fixture
def scene(kafka: KafkaBroker, topic: TopicFactory) -> Scene:
    return Scene(kafka, topic())


def test_a_position_behind_an_open_transaction_is_waited_for(kafka: KafkaBroker, scene: Scene) -> None:
    epoch = scene.begin()
    other = Position(topic="t", topic_id="i", target_partition=0, source_id="s", epoch=1)
    foreign = (position_key(WorkPartition("other", "r/t", 0)), content(POSITION, other))
    with scene.takeover.slot(WorkSlot("test", scene.work, 0), epoch) as (writer, _):
        left_open = in_transaction(kafka, scene.options.control_topic, [foreign])
        writer.write([scene.portion(0, 4)])
    assert scene.control.state(settled=False).position(scene.work, "s", 0) is None
    scene.while_waiting.append(lambda: end_transaction(left_open, commit=False))
    found = scene.control.state().position(scene.work, "s", 0)
    assert found is not None
    assert (found.next_offset, scene.while_waiting) == (5, [])
    # The next run must fence the slots of this one, however many transactions hide its record from others.
    left_open = in_transaction(kafka, scene.options.control_topic, [foreign])
    assert scene.begin() == epoch + 1
    run = scene.control.run(scene.work)
    assert run is not None
    assert run.epoch == epoch + 1
    end_transaction(left_open, commit=False)


def test_a_zombie_writes_nothing_after_another_run_has_begun(kafka: KafkaBroker, scene: Scene) -> None:
    epoch = scene.begin()
    with scene.takeover.slot(WorkSlot("test", scene.work, 0), epoch) as (writer, _):
        writer.write([scene.portion(0, 4)])
        later = scene.begin()
        with pytest.raises(TakenOverError, match="Another run of the same work"):
            writer.write([scene.portion(5, 9)])
    # A task of the older run that begins only now is refused before it writes.
    with pytest.raises(TakenOverError), scene.takeover.slot(WorkSlot("test", scene.work, 0), epoch):
        pass
    with scene.takeover.slot(WorkSlot("test", scene.work, 0), later) as (writer, state):
        found = state.position(scene.work, "s", 0)
        assert found is not None
        assert found.next_offset == 5
        writer.write([scene.portion(5, 6)])
    assert [message.key() for message in kafka.read(scene.topic)] == [b"%d" % number for number in range(7)]


def test_offset_maps_name_every_record(kafka: KafkaBroker, scene: Scene) -> None:
    with scene.takeover.slot(WorkSlot("test", scene.work, 0), scene.begin()) as (writer, _):
        writer.write([scene.portion(2**62, 2**62 + 4)])
        writer.write([scene.portion(2**62 + 7, 2**62 + 9)])
    found = scene.control.offset_maps({scene.work})[scene.work, 0]
    for message in kafka.read(scene.topic):
        assert found.position(int(message.key() or b"")) == message.offset()
    assert len(found) == 2
    assert found.position(2**62 + 5) == found.position(2**62 + 7)


def test_a_record_that_is_too_large_is_refused_with_one_sentence(scene: Scene) -> None:
    scene.topics.configure(scene.topic, {"max.message.bytes": "2000"})
    uncompressed = WriterOptions(control_topic=scene.options.control_topic, compression="none")
    with PortionWriter(scene.connection, "too-large", uncompressed) as writer:
        with pytest.raises(ConfigurationError, match=r"too large; raise max\.message\.bytes of the topic"):
            writer.write([scene.portion(0, 0, size=4000)])
        writer.write([scene.portion(0, 0)])
    state = scene.control.state()
    found = state.position(scene.work, "s", 0)
    assert found is not None
    assert found.records == 1


def test_a_topic_that_cannot_keep_positions_is_refused(scene: Scene, topic: TopicFactory) -> None:
    for name in (topic(1, cleanup_policy="compact"), topic(2, cleanup_policy="delete")):
        with pytest.raises(ConfigurationError, match="it requires 2 partitions or more and cleanup"):
            ControlTopic(scene.connection, scene.topics, name).ensure()


def test_missing_rights_are_named(secure_kafka: KafkaBroker, scene: Scene) -> None:
    name = secure_kafka.create_topic("no-rights-here", 1)
    password = secure_kafka.folder / "bob"
    password.write_text("bob-secret")
    connection = KafkaConnection(
        bootstrap_servers=secure_kafka.address("SASL_PLAINTEXT"),
        sasl_mechanism="PLAIN",
        sasl_username="bob",
        sasl_password_file=password,
    )
    rule = AclBinding(
        ResourceType.TRANSACTIONAL_ID,
        "gapless-test-",
        ResourcePatternType.PREFIXED,
        "User:bob",
        "*",
        AclOperation.ALL,
        AclPermissionType.DENY,
    )
    secure_kafka.add_rule(rule)
    with pytest.raises(SourceUnreachableError, match="transactional IDs with the prefix gapless-test-w,"):  # noqa: SIM117
        with PortionWriter(connection, "gapless-test-w-0", scene.options):
            pass
    secure_kafka.allow(name, "bob", AclOperation.DESCRIBE)
    described = TargetTopics(connection, timeout_seconds=20).describe([name, "not-there"])
    assert described.keys() == {name}
    assert "WRITE" not in (described[name].operations or ())
    portion = scene.portion(0, 1)
    position = Position(topic=name, topic_id="T", target_partition=0, source_id="S", epoch=1)
    refused = pytest.raises(SourceUnreachableError, match=f"denies writing to the topic {name}; grant this user")
    with PortionWriter(connection, "", replace(scene.options, transactional=False)) as writer, refused:
        writer.write([portion._replace(position=position)])
