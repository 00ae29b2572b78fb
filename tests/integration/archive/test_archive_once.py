"""The proof that ``gapless archive --once`` keeps all that Kafka holds as it is, and accounts for every offset."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from integration.archive.conftest import REGION, Archive, archived, commits, in_kafka, segments
from kit.kafka.transactions import end_transaction, in_transaction, write_transactions
from kit.object_store import ObjectStore

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker

pytestmark = [
    pytest.mark.integration,
    # Py4J leaves the sockets of its finished answers to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_every_record_is_archived_as_it_is(  # noqa: PLR0917
    kafka: KafkaBroker, topic: TopicFactory, archive: Archive, place: Path, engine: str, request: pytest.FixtureRequest
) -> None:
    if engine == "spark":
        request.getfixturevalue("spark")
    chance = random.Random(7)
    mixed = topic(3)
    for commit in (True, False, True, False):
        records = [(b"in", chance.randbytes(40)) for _ in range(chance.randrange(1, 6))]
        end_transaction(in_transaction(kafka, mixed, records), commit=commit)
        kafka.produce(mixed, [None, b"", b"\xff" * 1000], partition=0, keys=[b"\x00\xff", None, b""])
    kafka.produce(mixed, [chance.randbytes(900_000) for _ in range(3)], partition=2)
    ended = archive(f"--topics={mixed}", f"--engine={engine}", "--max-segment-records=4")
    assert ended.code == 0, ended.err
    for partition in range(3):
        assert archived(place, mixed, partition) == in_kafka(kafka, mixed, partition)
    watermarks = kafka.watermarks(mixed)
    assert [segments(place, mixed, number)[-1]["end"] for number in (0, 2)] == [watermarks[0][1], watermarks[2][1]]
    told = ended.topic(mixed)
    assert told["records"] == sum(len(in_kafka(kafka, mixed, number)) for number in range(3))
    assert (told["lag"], ended.report["read_by"], ended.report["outcome"]) == (0, engine, "archived")


def test_a_run_archives_what_is_new_and_tells_when_nothing_is(
    kafka: KafkaBroker, topic: TopicFactory, archive: Archive, place: Path
) -> None:
    orders = topic(2)
    kafka.produce(orders, [b"1", b"2"])
    assert archive(f"--topics={orders}").topic(orders)["records"] == 2
    idle = archive(f"--topics={orders}")
    assert (idle.code, idle.report["outcome"], idle.topic(orders)["segments"]) == (0, "nothing-to-do", 0)
    assert "Nothing to archive" in idle.out
    kafka.produce(orders, [b"3"])
    kafka.produce(orders, [b"4"], partition=1)
    assert archive(f"--topics={orders}").topic(orders)["records"] == 2
    assert [len(commit["added"]) for commit in commits(place, orders)] == [1, 2]
    assert [archived(place, orders, number) for number in (0, 1)] == [in_kafka(kafka, orders, n) for n in (0, 1)]


def test_all_kinds_of_headers_and_timestamps_are_kept(
    kafka: KafkaBroker, topic: TopicFactory, archive: Archive, place: Path
) -> None:
    created, appended = topic(), topic(**{"message.timestamp.type": "LogAppendTime"})
    for name in (created, appended):
        kafka.produce(name, [b"v"], headers=[("h", b"1"), ("h", None), ("", b""), ("ü", b"\xff")], timestamps=[1234])
        kafka.produce(name, [None, b""], keys=[b"", None])
    assert archive(f"--topics={created},{appended}").code == 0
    for name, kind in ((created, 0), (appended, 1)):
        rows = archived(place, name)
        assert rows == in_kafka(kafka, name)
        assert {row["timestamp_type"] for row in rows} == {kind}
        assert [header["value"] for header in rows[0]["headers"]] == [b"1", None, b"", b"\xff"]
    assert archived(place, created)[0]["timestamp"] == 1234


def test_offsets_without_records_are_absent_and_hold_nothing_back(
    kafka: KafkaBroker, topic: TopicFactory, archive: Archive, place: Path
) -> None:
    aborted, ended_by_marker = topic(), topic()
    write_transactions(kafka, aborted, False, False)
    write_transactions(kafka, ended_by_marker, True, False)
    told = archive(f"--topics={aborted},{ended_by_marker}", "--max-segment-records=2")
    assert (told.code, told.topic(aborted)["lag"], told.topic(ended_by_marker)["lag"]) == (0, 0, 0)
    (empty,) = segments(place, aborted, 0)
    assert (empty["object"], empty["records"], empty["first"], empty["end"]) == ("", 0, 0, 8)
    assert [(one["first"], one["end"]) for one in segments(place, ended_by_marker, 0)] == [(0, 2), (2, 8)]
    assert archived(place, ended_by_marker) == in_kafka(kafka, ended_by_marker)
    assert archive(f"--topics={aborted}").report["outcome"] == "nothing-to-do"


def test_an_open_transaction_is_archived_when_it_has_ended(
    kafka: KafkaBroker, topic: TopicFactory, archive: Archive, place: Path
) -> None:
    orders = topic()
    kafka.produce(orders, [b"before"])
    producer = in_transaction(kafka, orders, [(None, b"inside")])
    kafka.produce(orders, [b"behind"])
    told = archive(f"--topics={orders}").topic(orders)
    assert (told["records"], told["lag"]) == (1, 2)
    end_transaction(producer, commit=True)
    archive(f"--topics={orders}")
    assert [row["value"] for row in archived(place, orders)] == [b"before", b"inside", b"behind"]


def test_a_compacted_topic_keeps_its_tombstones(
    kafka: KafkaBroker, topic: TopicFactory, archive: Archive, place: Path
) -> None:
    latest = topic(**{"cleanup.policy": "compact"})
    kafka.produce(latest, [b"1", None, b"", b"2"], keys=[b"a", b"a", b"b", b"c"])
    assert archive(f"--topics={latest}").code == 0
    assert [row["value"] for row in archived(place, latest)] == [b"1", None, b"", b"2"]
    (first,) = commits(place, latest)
    assert (first["configuration"], first["partitions"]) == ({"cleanup.policy": "compact"}, 1)
    kafka.alter_topic(latest, retention_ms="1000000000")
    archive(f"--topics={latest}")
    changed = commits(place, latest)[-1]
    assert changed["configuration"] == {"cleanup.policy": "compact", "retention.ms": "1000000000"}
    assert (changed["added"], changed["partitions"]) == ([], None)
    archive(f"--topics={latest}")
    assert len(commits(place, latest)) == 2


def test_a_hold_is_committed_and_released(
    kafka: KafkaBroker, topic: TopicFactory, archive: Archive, place: Path
) -> None:
    orders = topic()
    kafka.produce(orders, [b"1"])
    for hold, expected in (("true", [True]), ("true", [True]), (None, [True]), ("false", [True, False])):
        assert archive(f"--topics={orders}", *([f"--hold={hold}"] if hold else [])).code == 0
        assert [commit["hold"] for commit in commits(place, orders) if commit["action"] == "hold"] == expected
    assert archived(place, orders) == in_kafka(kafka, orders)


def test_many_quiet_partitions_make_few_objects(
    kafka: KafkaBroker, topic: TopicFactory, archive: Archive, place: Path
) -> None:
    quiet = topic(100)
    for number in range(0, 100, 3):
        kafka.produce(quiet, [b"x" * number], partition=number)
    assert archive(f"--topics={quiet}").topic(quiet)["records"] == 34
    assert len(list(place.rglob("*.parquet"))) == 1
    assert all(archived(place, quiet, number) == in_kafka(kafka, quiet, number) for number in (0, 1, 42, 99))


def test_work_is_committed_cycle_by_cycle(
    kafka: KafkaBroker, topic: TopicFactory, archive: Archive, place: Path
) -> None:
    orders = topic(2)
    for number in (0, 1):
        kafka.produce(orders, [b"x" * 1000] * 300, partition=number)
    assert archive(f"--topics={orders}", "--cycle-bytes=100KiB", "--engine=local").topic(orders)["records"] == 600
    assert len(commits(place, orders)) >= 6
    assert [archived(place, orders, number) for number in (0, 1)] == [in_kafka(kafka, orders, n) for n in (0, 1)]


def test_topics_are_chosen_by_prefix_pattern_and_exclusion(topic: TopicFactory, archive: Archive) -> None:
    logs, more, other = topic(prefix="log-a"), topic(prefix="log-b"), topic(prefix="xlog")
    left_out = topic(prefix="log-c")
    arguments = ["--topic-prefix=log-a,log-c", "--topic-pattern=log-b.*|log", "--exclude=log-c*"]
    told = archive(*arguments)
    names = {found["topic"] for found in told.report["topics"]}
    assert {logs, more} <= names
    assert not {other, left_out} & names
    assert not any(name.startswith("__") for name in names)
    assert archive("--exclude=x").code == 2


def test_the_position_is_that_of_a_consumer_group(kafka: KafkaBroker, topic: TopicFactory, archive: Archive) -> None:
    orders = topic(2)
    kafka.produce(orders, [b"x"] * 3)
    assert archive(f"--topics={orders}").code == 0
    assert archive(f"--topics={orders}", "--group-id=none").code == 0
    asked = [ConsumerGroupTopicPartitions("gapless-archive-site-a", [TopicPartition(orders, 0)])]
    found = kafka.admin().list_consumer_group_offsets(asked)["gapless-archive-site-a"].result()
    assert [(one.partition, one.offset) for one in found.topic_partitions] == [(0, 3)]


def test_what_kafka_deleted_before_it_was_archived_is_lost_and_told(
    kafka: KafkaBroker, topic: TopicFactory, archive: Archive, place: Path
) -> None:
    orders = topic()
    kafka.produce(orders, [b"x"] * 5)
    archive(f"--topics={orders}")
    kafka.produce(orders, [b"y"] * 10)
    kafka.delete_records(orders, 0, 9)
    told = archive(f"--topics={orders}")
    assert (told.code, told.report["outcome"]) == (4, "records-lost")
    assert f"Kafka had deleted 4 offsets before they were archived ({orders}/0 5-8)" in told.err
    assert told.topic(orders)["lost"] == [{"partition": 0, "first": 5, "last": 8}]
    assert [commit["lost"] for commit in commits(place, orders)][-1] == [{"partition": 0, "first": 5, "end": 9}]
    assert [(one["first"], one["end"]) for one in segments(place, orders, 0)] == [(0, 5), (9, 15)]
    assert archive(f"--topics={orders}").code == 0


def test_a_new_topic_whose_first_records_expired_has_lost_nothing(
    kafka: KafkaBroker, topic: TopicFactory, archive: Archive, place: Path
) -> None:
    orders = topic()
    kafka.produce(orders, [b"x"] * 5)
    kafka.delete_records(orders, 0, 3)
    assert archive(f"--topics={orders}").code == 0
    assert [(one["first"], one["end"]) for one in segments(place, orders, 0)] == [(3, 5)]


def test_a_topic_that_does_not_exist_is_named(archive: Archive) -> None:
    told = archive("--topics=no-such-topic")
    assert told.code == 2
    assert "does not have the topic no-such-topic" in told.err


def test_a_recreated_topic_is_another_generation(
    kafka: KafkaBroker, topic: TopicFactory, archive: Archive, place: Path
) -> None:
    orders = topic()
    kafka.produce(orders, [b"old"] * 5)
    archive(f"--topics={orders}")
    recreate(kafka, orders)
    kafka.produce(orders, [b"new"] * 2)
    told = archive(f"--topics={orders}")
    assert (told.code, told.topic(orders)["records"]) == (0, 2)
    generations = sorted(path.name for path in (place / "site-a" / orders).iterdir())
    assert len(generations) == 2
    assert told.topic(orders)["recreated_from"] in generations
    assert told.topic(orders)["topic_id"] in generations


def recreate(kafka: KafkaBroker, name: str) -> None:
    kafka.delete_topic(name)
    kafka.create_topic(name)


def test_an_archive_in_a_store_is_as_one_in_a_folder(
    kafka: KafkaBroker, topic: TopicFactory, archive: Archive, tmp_path: Path
) -> None:
    orders = topic(3)
    for number in range(3):
        kafka.produce(orders, [b"%d" % number] * 50, partition=number)
    with ObjectStore() as store:
        store.make_bucket("events")
        (tmp_path / "id").write_text(store.ACCESS_KEY)
        (tmp_path / "key").write_text(store.SECRET_KEY)
        access = [
            "--archive=s3://events/here", f"--s3-endpoint={store.endpoint}",
            f"--s3-access-key-id-file={tmp_path / 'id'}", f"--s3-secret-access-key-file={tmp_path / 'key'}",
        ]  # fmt: skip
        assert archive(f"--topics={orders}", *access).topic(orders)["records"] == 150
        kafka.produce(orders, [b"more"])
        assert archive(f"--topics={orders}", *access).topic(orders)["records"] == 1
        keys = store.keys("events")
        as_peer = [*access, "--archive=s3://events/data", "--layout=kafka-replicator"]
        assert archive(f"--topics={orders}", *as_peer).topic(orders)["records"] == 151
        found = [key for key in store.keys("events") if key.startswith(f"data/{REGION}/")]
        ends = (50, 49, 49)
        assert found == [f"data/{REGION}/{orders}/{n}/0/{0:020d}-{end:020d}" for n, end in enumerate(ends)]
        assert archive(f"--topics={orders}", *as_peer).report["outcome"] == "nothing-to-do"
        copy = tmp_path / "copy"
        for key in keys:
            file = copy / key.removeprefix("here/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(store.content("events", key))
    for number in range(3):
        assert archived(copy, orders, number) == in_kafka(kafka, orders, number)


def test_a_topic_that_a_pattern_finds_and_that_is_not_allowed_is_not_named(
    topic: TopicFactory, archive: Archive
) -> None:
    opened, closed = topic(prefix="open"), topic(prefix="payroll")
    for chosen in (f"--topic-pattern=open.*|{closed[:-1]}.", f"--topic-prefix={closed[:-1]}"):
        told = archive(f"--topics={opened}", chosen, f"--allowed-topics={opened}")
        assert told.code == 2, told.err
        assert "The archive requests topics by a prefix or a pattern that may not be used" in told.err
        assert closed not in told.err
    told = archive(f"--topics={closed}", f"--allowed-topics={opened}")
    assert told.code == 2, told.err
    assert f"The archive requests the topic {closed}, and only {opened} may be used" in told.err
