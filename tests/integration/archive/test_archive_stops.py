"""The proof that one record that cannot be archived stops its partition, by name, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition

from gapless_spark.archiving.archive import reporter, tasks
from integration.archive.conftest import Archive, archived, fill_compressed, in_kafka
from kit.kafka.damage import alter, damage

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker

pytestmark = [
    pytest.mark.integration,
    # Spark leaves sockets of failed tasks to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("engine", ["local", "spark"])
def test_a_damaged_log_stops_its_partition_and_nothing_else(
    kafka: KafkaBroker, topic: TopicFactory, archive: Archive, place: Path, engine: str
) -> None:
    orders, other = topic(partitions=2), topic()
    for partition in (0, 1):
        fill_compressed(kafka, orders, partition, 3)
    fill_compressed(kafka, other, 0, 1)
    first, second = in_kafka(kafka, orders, 0), in_kafka(kafka, orders, 1)
    mend = damage(kafka, orders, 0, batch_at=5)
    for _ in range(2):  # a later run stops there, too
        told = archive(f"--topics={orders},{other}", f"--engine={engine}")
        assert (told.code, told.report["outcome"], told.report["exit_code"]) == (4, "partitions-stopped", 4), told.err
        (stopped,) = told.topic(orders)["stopped_partitions"]
        assert (stopped["partition"], stopped["offset"]) == (0, 5)
        assert f"({orders}/0 from offset 5 on: {stopped['reason']})" in told.report["message"]
        assert (told.topic(orders)["lag"], told.topic(other)["lag"]) == (10, 0)
        assert archived(place, orders, 0) == first[:5]
        assert archived(place, orders, 1) == second
        assert archived(place, other) == in_kafka(kafka, other)
    mend()
    told = archive(f"--topics={orders},{other}", f"--engine={engine}")
    assert (told.code, told.topic(orders)["stopped_partitions"]) == (0, []), told.err
    assert archived(place, orders, 0) == first


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("engine", ["local", "spark"])
def test_altered_bytes_are_not_archived_and_become_a_recorded_loss_when_they_are_deleted(
    kafka: KafkaBroker, topic: TopicFactory, archive: Archive, place: Path, engine: str
) -> None:
    """The records stay readable: only the checksum of their batch shows it."""
    name = topic()
    for batch in range(3):
        records = [{"value": b"value %d of batch %d" % (number, batch)} for number in range(5)]
        kafka.write(name, records, compression_type="none", linger_ms=200)
    kept = in_kafka(kafka, name)
    alter(kafka, name, 0, batch_at=5, old=b"value 2 of batch 1", new=b"value 9 of batch 1")
    told = archive(f"--topics={name}", f"--engine={engine}")
    assert (told.code, told.report["outcome"]) == (4, "partitions-stopped"), told.err
    (stopped,) = told.topic(name)["stopped_partitions"]
    assert (stopped["partition"], stopped["offset"]) == (0, 5)
    assert "CRC" in stopped["reason"]
    assert archived(place, name) == kept[:5]
    cut = TopicPartition(name, 0, 10)
    kafka.admin().delete_records([cut])[cut].result()
    told = archive(f"--topics={name}", f"--engine={engine}")
    assert (told.code, told.topic(name)["lost"]) == (4, [{"partition": 0, "first": 5, "last": 9}]), told.err
    assert (told.topic(name)["records"], told.topic(name)["lag"]) == (5, 0)


def test_an_exception_in_the_status_does_not_end_the_archive(
    kafka: KafkaBroker, topic: TopicFactory, archive: Archive, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic()
    kafka.produce(name, [b"x"] * 4)

    def fail(_: object) -> None:
        raise KeyError("the content of a record")

    monkeypatch.setattr(reporter, "status_line", fail)
    told = archive(f"--topics={name}", "--engine=local")
    assert told.code == 0, told.err
    assert archived(place, name) == in_kafka(kafka, name)
    assert told.err.count("The status of the archive was not reported: an unexpected error in Gapless (KeyError") == 1
    assert "the content of a record" not in told.err


@pytest.mark.parametrize("layout", ["gapless", "kafka-replicator"])
def test_an_exception_for_one_record_stops_its_partition_before_it(  # noqa: PLR0917 -- fixtures
    kafka: KafkaBroker,
    topic: TopicFactory,
    archive: Archive,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    layout: str,
) -> None:
    names = [topic() for _ in range(12)]  # a run discards ten batches for other reasons
    for name in names[1:]:
        kafka.produce(name, [b"x", b"x", b"strange", b"x"])
    kafka.produce(names[0], [b"x"] * 4)
    convert = tasks.rows_by_partition

    def refuse(messages: Sequence[Any]) -> Any:
        if any(message.value() == b"strange" for message in messages):
            raise OverflowError("the content of a record")
        return convert(messages)

    monkeypatch.setattr(tasks, "rows_by_partition", refuse)
    told = archive(f"--topics={','.join(names)}", "--engine=local", f"--layout={layout}")
    assert (told.code, told.report["outcome"]) == (4, "partitions-stopped"), told.err
    assert told.topic(names[0])["records"] == 4
    assert "the content of a record" not in told.err + told.out + str(told.report), "others may read logs and reports"
    for name in names[1:]:
        entry = told.topic(name)
        (stopped,) = entry["stopped_partitions"]
        assert (entry["records"], entry["lag"], stopped["partition"], stopped["offset"]) == (2, 2, 0, 2)
        assert stopped["reason"].startswith(
            "an unexpected error in Gapless: OverflowError in test_archive_stops.py, line"
        )
    if layout == "gapless":
        assert archived(place, names[1]) == in_kafka(kafka, names[1])[:2]
