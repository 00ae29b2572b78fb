"""The proof that an inventory says what a real Kafka holds, and reaches the receiver over the link."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gapless_api.inventory.parts import PartAssembler, parse_part
from gapless_api.inventory.reader import read_inventory, read_inventory_text
from kit.kafka.transactions import end_transaction, in_transaction, write_transactions
from kit.machine.processes import wait_until
from kit.peer.receiver import Receiver
from kit.signing import key_pair
from kit.story.commands import GAPLESS

if TYPE_CHECKING:
    from conftest import TopicFactory
    from gapless_api.inventory.form import Inventory
    from kit.kafka.broker import KafkaBroker
    from kit.network.listener import Listener

pytestmark = pytest.mark.integration


@pytest.fixture
def made(kafka: KafkaBroker, tmp_path: Path) -> Any:
    """Runs `gapless inventory` and reads what it wrote."""

    def make(*options: str, code: int = 0, command: str = "inventory", **settings: Any) -> tuple[Inventory | None, str]:
        file = tmp_path / "m.json"
        file.unlink(missing_ok=True)
        given = {"bootstrapServers": kafka.bootstrap, command: file, "progressInterval": 0, **settings}
        words = [command, *options, *(f"--{name}={_text(value)}" for name, value in given.items())]
        ended = GAPLESS.run(*words, cwd=tmp_path)
        assert ended.returncode == code, ended.stderr
        assert not list(tmp_path.glob(".*.tmp")), "half-written files"
        return (read_inventory(file) if file.exists() else None), ended.stderr

    return make


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, dict) else str(value)


def shown(inventory: Inventory | None) -> dict[tuple[str, int], Any]:
    assert inventory is not None
    return {
        (e.topic, e.partition): (e.first, e.last, None if e.absent is None else list(map(tuple, e.absent)))
        for e in inventory.entries
    }


def test_partitions_are_listed_as_the_receiving_side_numbers_them(
    kafka: KafkaBroker, topic: TopicFactory, made: Any
) -> None:
    name = topic(4)
    kafka.produce(name, [b"x"] * 10, partition=0)
    kafka.produce(name, [b"x"] * 20, partition=2)
    kafka.delete_records(name, 2, 5)
    kafka.produce(name, [b"x"] * 3, partition=3)
    kafka.delete_records(name, 3, 3)
    everything, said = made(topics=name)
    assert shown(everything) == {
        (name, 0): (0, 9, None), (name, 1): (0, None, None), (name, 2): (5, 19, None), (name, 3): (3, None, None),
    }  # fmt: skip
    assert "25 events in 4 partitions of 1 topic, 2 of them empty." in said
    assert everything.metadata.cluster == kafka.cluster_id
    again, _ = made(topics=name, command="manifest")
    assert shown(again) == shown(everything), "the old name of the command and of its setting"
    shifted, _ = made(topic=name, topicTranslations={name: "wire_x"}, partitionStartValue=7, partitionStopValue=3)
    assert shown(shifted) == {
        ("wire_x", 7): (0, 9, None), ("wire_x", 8): (0, None, None), ("wire_x", 9): (5, 19, None),
    }  # fmt: skip
    again, _ = made(topics=f"wire_x,{name}", topicTranslations={name: "wire_x"}, partitionStartValue=7)
    assert len(shown(again)) == 4


def test_a_file_of_the_live_sender_names_the_topics(
    kafka: KafkaBroker, topic: TopicFactory, made: Any, tmp_path: Path
) -> None:
    name = topic()
    kafka.produce(name, [b"x"])
    file = tmp_path / "upstream.properties"
    file.write_text(f"id=up\ntopic={name}\nsource=kafka\nsendingThreads=[]\npartitionStartValue=2\nencryption=true\n")
    assert shown(made(str(file))[0]) == {(name, 2): (0, 0, None)}
    file.write_text(f'topicTranslations={{"{name}":"t"}}\n')
    assert shown(made(str(file))[0]) == {("t", 0): (0, 0, None)}


def test_markers_and_aborted_records_are_absent_as_the_isolation_level_says(
    kafka: KafkaBroker, topic: TopicFactory, made: Any
) -> None:
    name = topic()
    write_transactions(kafka, name, True, False, True)
    open_one = in_transaction(kafka, name, [(None, b"open")])
    # 0-2 data, 3 marker, 4-6 aborted data, 7 marker, 8-10 data, 11 marker, 12 open
    assert shown(made(topics=name)[0]) == {(name, 0): (0, 12, None)}
    everything, said = made("--absent", topics=name)
    assert shown(everything) == {(name, 0): (0, 12, [(3, 3), (7, 7), (11, 11)])}
    assert "Reading 13 offsets of 1 partition" in said
    assert "10 events" in said
    _, refused = made("--absent", topics=name, absentLimit=2, code=2)
    assert "more than 2 ranges of absent offsets" in refused
    committed, _ = made("--absent", topics=name, isolationLevel="read_committed")
    assert shown(committed) == {(name, 0): (0, 11, [(3, 7), (11, 11)])}
    end_transaction(open_one, commit=False)


def test_compacted_offsets_are_absent_and_what_was_looked_at_is_not_read_again(
    kafka: KafkaBroker, topic: TopicFactory, made: Any, tmp_path: Path
) -> None:
    name = topic(
        cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.001", max_compaction_lag_ms="100",
        delete_retention_ms="100",
    )  # fmt: skip
    kafka.produce(name, [b"v%d" % n for n in range(300)], keys=[b"k%d" % (n % 3) for n in range(300)])

    def compacted() -> bool:
        kafka.produce(name, [b"roll"], keys=[b"roll"])  # a segment is closed by the record after its time
        return len(kafka.read(name)) < 150

    wait_until(compacted, what="the compaction")
    first, _ = made("--absent", topics=name)
    present = {message.offset() for message in kafka.read(name)}
    (entry,) = first.entries
    assert {0, 299} <= set(range(entry.first, entry.last + 1))
    assert entry.absent.count >= 150
    assert not any(offset in entry.absent for offset in present)
    (tmp_path / "m.json").rename(tmp_path / "previous.json")
    kafka.produce(name, [b"more"] * 4, keys=[b"a", b"b", b"c", b"d"])
    second, said = made("--absent", topics=name, previous=tmp_path / "previous.json")
    (after,) = second.entries
    assert after.last == entry.last + 4
    assert f"Reading {after.last - entry.last} offsets" in said
    assert entry.absent.clip(after.first, after.last) == after.absent.clip(after.first, entry.last)


def test_the_same_content_gives_the_same_bytes_and_a_signature_is_checked(
    kafka: KafkaBroker, topic: TopicFactory, made: Any, tmp_path: Path
) -> None:
    name = topic(2)
    kafka.produce(name, [b"x"] * 5)
    keys = key_pair(tmp_path)
    one, _ = made(topics=name, signingKey=keys.private, sourceName="north")
    other, _ = made(topics=name)
    assert one.metadata.sha256 == other.metadata.sha256
    assert one.metadata.source == {"command": "gapless inventory", "name": "north"}
    made(topics=name, signingKey=keys.private)
    assert read_inventory(tmp_path / "m.json", verification_key=keys.public).metadata.signature


@pytest.mark.parametrize(
    ("settings", "code", "why"),
    [
        ({}, 2, "No topic is selected"),
        ({"topics": "not-there"}, 2, "does not have the topic not-there"),
        ({"topics": "t", "targetIP": "127.0.0.1"}, 2, "targetPort is missing"),
        ({"topics": "t", "previous": "/none"}, 2, "previous has an effect only with absent"),
        ({"topics": "t", "signingKey": "/none"}, 2, "/none"),
        ({"topics": "t", "inventory": "/none/m"}, 2, "there is no folder /none"),
        ({"topics": "t", "bootstrapServers": "127.0.0.1:1", "connectTimeout": 1}, 3, "cannot be reached"),
    ],
)
def test_what_is_wrong_is_one_sentence(made: Any, settings: dict[str, Any], code: int, why: str) -> None:
    inventory, said = made(code=code, **settings)
    assert inventory is None
    assert why in said
    assert said.strip().count("\n") == 0


def test_a_large_inventory_goes_over_the_link_in_texts_of_one_datagram(
    kafka: KafkaBroker, topic: TopicFactory, made: Any, listener: Listener
) -> None:
    names = [topic(40, prefix="many") for _ in range(3)]
    for number in range(40):
        kafka.produce(names[0], [b"x"] * (number * 7 % 31), partition=number)
    way = {"targetIP": "127.0.0.1", "targetPort": listener.port, "payloadSize": 500, "copies": 2, "id": "Nörd"}
    inventory, said = made(topics=",".join(names), **way)
    datagrams = listener.settled()
    assert len(datagrams) >= 4
    assert f"Sent as {len(datagrams) // 2} status texts, 2 times." in said
    assert all(d[:7] == b"\x02\x00\x01\x00\x01\x00\x06" and d[7:13] == b"STATUS" and len(d) <= 500 for d in datagrams)
    held = PartAssembler()
    parts = [parse_part(datagram[19:]) for datagram in datagrams]
    assert None not in parts
    joined = [text for part in parts if part is not None and (text := held.add(part)) is not None]
    assert [read_inventory_text(text, name="m") for text in joined] == [inventory, inventory]


def test_the_receiver_writes_the_texts_to_its_internal_topic_or_drops_them_and_goes_on(
    kafka: KafkaBroker, topic: TopicFactory, made: Any
) -> None:
    name, internal = topic(3), topic()
    kafka.produce(name, [b"x"] * 9)
    with Receiver(kafka.bootstrap, internal_topic=internal) as receiver:
        inventory, _ = made(topics=name, targetIP="127.0.0.1", targetPort=receiver.port)
        stats = receiver.wait_idle()
    assert (stats["status_count"], stats["refused"], stats["unreadable"], stats["incomplete"]) == (3, {}, {}, 0)
    held = PartAssembler()
    parts = [parse_part(message.value()) for message in kafka.read(internal)]
    joined = [text for part in parts if part is not None and (text := held.add(part)) is not None]
    assert [read_inventory_text(text, name="m") for text in joined] == [inventory] * 3
    with Receiver(kafka.bootstrap) as receiver:
        made(topics=name, targetIP="127.0.0.1", targetPort=receiver.port)
        stats = receiver.wait_idle()
    assert (stats["status_count"], stats["events"], stats["written"], stats["lost_in_kafka"]) == (3, 0, 0, 0)
