"""The proof that a log that Kafka truncated under the same topic ID is never continued in silence."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from integration.archive.conftest import REGION, Archive, Ended, archived, commits, in_kafka
from kit.kafka.broker import KafkaBroker
from kit.kafka.truncation import truncate

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaBroker]:
    """A broker of its own, because it is restarted."""
    with KafkaBroker() as broker:
        yield broker


def fill(kafka: KafkaBroker, topic: str, records: int, value: bytes = b"old") -> None:
    """Write batches of 50, so that a log can be cut there."""
    for _ in range(records // 50):
        kafka.produce(topic, [value] * 50)


def refused(told: Ended, topic: str, kept_end: int, head: int) -> None:
    assert (told.code, told.report["outcome"], told.report["exit_code"]) == (4, "log-truncated", 4), told.err
    assert (
        f"Kafka has truncated the log under the same topic ID, as after an unclean leader election or on a replaced "
        f"disk ({topic}/0 from offset {kept_end} on, archived up to {head - 1}), so nothing more of these partitions "
        f"is archived; the archive keeps the records that Kafka lost. To archive what Kafka has now, run gapless "
        f"archive with another --region."
    ) in " ".join(told.err.split())
    assert told.topic(topic)["truncated_partitions"] == [0]


@pytest.mark.parametrize("kept", [0, 50])
def test_a_log_that_is_shorter_or_has_grown_again_is_never_continued(
    kafka: KafkaBroker, archive: Archive, place: Path, kept: int
) -> None:
    orders, other = kafka.create_topic(f"orders{kept}"), kafka.create_topic(f"other{kept}")
    fill(kafka, orders, 100)
    fill(kafka, other, 50)
    topics = f"--topics={orders},{other}"
    assert archive(topics).code == 0
    before = archived(place, orders)
    truncate(kafka, orders, end=kept)
    refused(archive(topics), orders, kept, 100)
    for produced, lag in ((100 - kept, 100 - kept), (50, 150 - kept)):  # as long as the archive, and longer
        fill(kafka, orders, produced, b"new")
        fill(kafka, other, 50)
        told = archive(topics)
        refused(told, orders, kept, 100)
        assert told.topic(orders)["lag"] == lag
        assert archived(place, orders) == before
        assert archived(place, other) == in_kafka(kafka, other)
    elsewhere = archive(topics, "--region=site-a-2")
    assert elsewhere.code == 0, elsewhere.err
    assert elsewhere.topic(orders)["records"] == 150


def test_restarts_of_the_leader_truncate_nothing(kafka: KafkaBroker, archive: Archive, place: Path) -> None:
    orders = kafka.create_topic("restarted")
    fill(kafka, orders, 50)
    assert archive(f"--topics={orders}").code == 0
    for _ in range(2):
        kafka.restart()
        kafka.await_leaders(orders, 1)
        assert archive(f"--topics={orders}").code == 0
        fill(kafka, orders, 50)
        assert archive(f"--topics={orders}").code == 0
    assert archived(place, orders) == in_kafka(kafka, orders)


def test_a_log_that_is_truncated_while_it_is_read_is_not_committed(
    kafka: KafkaBroker, archive: Archive, place: Path, meanwhile: Callable[..., None]
) -> None:
    orders = kafka.create_topic("while-read")
    fill(kafka, orders, 100)

    def lose() -> None:
        truncate(kafka, orders, end=50)
        fill(kafka, orders, 100, b"new")

    meanwhile(after=lose)
    told = archive(f"--topics={orders}")
    assert told.code == 0, told.err
    again = archive(f"--topics={orders}")
    assert again.code == 0, again.err
    assert archived(place, orders) == in_kafka(kafka, orders)


def test_a_chain_of_an_earlier_release_is_continued_and_gets_epochs(
    kafka: KafkaBroker, archive: Archive, place: Path
) -> None:
    orders = kafka.create_topic("older")
    fill(kafka, orders, 50)
    assert archive(f"--topics={orders}").code == 0
    (file,) = place.glob(f"{REGION}/{orders}/*/chain/*.json")
    commit = json.loads(file.read_text())
    assert len(commit.pop("reached")) == 1
    del commit["predecessors"], commit["started"]
    file.write_text(json.dumps({**commit, "gaplessArchive": 1}))
    fill(kafka, orders, 50)
    assert archive(f"--topics={orders}").code == 0
    assert archived(place, orders) == in_kafka(kafka, orders)
    assert [len(commit.get("reached", ())) for commit in commits(place, orders)][-1] == 1
    truncate(kafka, orders, end=50)
    fill(kafka, orders, 100, b"new")
    refused(archive(f"--topics={orders}"), orders, 50, 100)
