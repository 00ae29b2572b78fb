"""The proof that no fault between two looks at Kafka loses a record or archives one twice."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gapless_archive.catalog.catalog import find_chain
from gapless_archive.catalog.chain import Changes
from gapless_archive.store.access import S3Access
from gapless_archive.store.places import open_place, parse_place
from integration.archive.conftest import REGION, Archive, archived, commits, in_kafka, segments
from integration.archive.test_archive_once import recreate

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker

pytestmark = pytest.mark.integration


def test_records_that_expire_before_they_are_read_are_lost_and_nothing_else(
    kafka: KafkaBroker, topic: TopicFactory, archive: Archive, place: Path, meanwhile: Callable[..., None]
) -> None:
    orders = topic()
    kafka.produce(orders, [b"x"] * 5)
    archive(f"--topics={orders}")
    kafka.produce(orders, [b"y"] * 10)
    meanwhile(before=lambda: kafka.delete_records(orders, 0, 8))
    told = archive(f"--topics={orders}")
    assert told.code == 4, told.err
    assert told.topic(orders)["lost"] == [{"partition": 0, "first": 5, "last": 7}]
    assert [(one["first"], one["end"]) for one in segments(place, orders, 0)] == [(0, 5), (8, 15)]


def test_records_that_expire_after_they_are_read_are_not_lost(
    kafka: KafkaBroker, topic: TopicFactory, archive: Archive, place: Path, meanwhile: Callable[..., None]
) -> None:
    orders = topic()
    kafka.produce(orders, [b"y"] * 10)
    rows = in_kafka(kafka, orders)
    meanwhile(after=lambda: kafka.delete_records(orders, 0, 8))
    assert archive(f"--topics={orders}").code == 0
    assert archived(place, orders) == rows


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_topic_that_is_recreated_while_it_is_archived_is_never_mixed(  # noqa: PLR0917 -- fixtures
    kafka: KafkaBroker, topic: TopicFactory, archive: Archive, place: Path, meanwhile: Callable[..., None], when: str
) -> None:
    orders, other = topic(), topic()
    kafka.produce(orders, [b"old"] * 5)
    kafka.produce(other, [b"other"] * 5)

    def replace() -> None:
        recreate(kafka, orders)
        kafka.produce(orders, [b"new"] * 7)

    meanwhile(**{when: replace})
    told = archive(f"--topics={orders},{other}")
    assert told.code == 0, told.err
    assert archived(place, other) == in_kafka(kafka, other)
    again = archive(f"--topics={orders}")
    assert again.code == 0, again.err
    (generation,) = (place / REGION / orders).glob("*/chain")
    assert generation.parent.name == told.topic(orders)["topic_id"]
    assert archived(place, orders) == in_kafka(kafka, orders)
    named = {segment["object"] for name in (orders, other) for segment in segments(place, name, 0)}
    assert {str(file.relative_to(place)) for file in place.rglob("*.parquet")} == named


def test_of_two_runs_at_once_each_record_is_archived_once(
    kafka: KafkaBroker, topic: TopicFactory, archive: Archive, place: Path, meanwhile: Callable[..., None]
) -> None:
    orders, other = topic(2), topic()
    for number in (0, 1):
        kafka.produce(orders, [b"x"] * 9, partition=number)
    kafka.produce(other, [b"z"] * 3)
    meanwhile(after=lambda: run_beside(kafka, place, orders))
    told = archive(f"--topics={orders},{other}")
    assert (told.code, told.topic(orders)["records"], told.topic(other)["records"]) == (0, 0, 3), told.err
    for name, number in ((orders, 0), (orders, 1), (other, 0)):
        assert archived(place, name, number) == in_kafka(kafka, name, number)


def test_commits_of_other_kinds_do_not_disturb_a_run(
    kafka: KafkaBroker, topic: TopicFactory, archive: Archive, place: Path, meanwhile: Callable[..., None]
) -> None:
    orders = topic(2)
    kafka.produce(orders, [b"x"] * 9)
    archive(f"--topics={orders}")
    kafka.produce(orders, [b"y"] * 9, partition=1)
    kafka.produce(orders, [b"y"] * 9)

    def hold() -> None:
        chain = find_chain(open_place(parse_place(str(place)), S3Access()), orders)
        chain.commit(chain.load(), Changes(action="hold", hold=True))

    meanwhile(after=hold)
    assert archive(f"--topics={orders}").topic(orders)["records"] == 18
    assert [commit["action"] for commit in commits(place, orders)] == ["archive", "hold", "claim", "archive"]
    assert [archived(place, orders, number) for number in (0, 1)] == [in_kafka(kafka, orders, n) for n in (0, 1)]


def run_beside(kafka: KafkaBroker, place: Path, *topics: str, program: str = "") -> int:
    """Run ``gapless archive --once`` in another process, with `program` executed before it."""
    code = f"{program}\nfrom gapless_api.cli.main import main\nmain()"
    arguments = [
        f"--bootstrap-servers={kafka.bootstrap}", f"--topics={','.join(topics)}", f"--archive={place}",
        f"--region={REGION}", "--once", "--engine=local",
    ]  # fmt: skip
    return subprocess.run([sys.executable, "-c", code, "archive", *arguments], check=False, timeout=120).returncode


KILLED = {
    "before the objects are uploaded": ("gapless_archive.segments.level_zero", "LevelZeroWriter", "close"),
    "while an object is uploaded": ("gapless_archive.store.places", "_Folder", "put"),
    "between upload and commit": ("gapless_archive.catalog.chain", "Chain", "commit"),
}


@pytest.mark.parametrize("module", KILLED.values(), ids=KILLED)
def test_a_killed_run_leaves_nothing_half_done(
    kafka: KafkaBroker, topic: TopicFactory, archive: Archive, place: Path, module: tuple[str, str, str]
) -> None:
    orders = topic(2)
    for number in (0, 1):
        kafka.produce(orders, [b"x" * 100] * 50, partition=number)
    name, owner, method = module
    program = f"import os, {name} as m\nm.{owner}.{method} = lambda *_, **__: os.kill(os.getpid(), 9)"
    assert run_beside(kafka, place, orders, program=program) == -9
    assert commits(place, orders) == []
    told = archive(f"--topics={orders}")
    assert (told.code, told.topic(orders)["records"]) == (0, 100)
    assert [archived(place, orders, number) for number in (0, 1)] == [in_kafka(kafka, orders, n) for n in (0, 1)]


def test_a_killed_run_repeats_nothing_that_was_committed(
    kafka: KafkaBroker, topic: TopicFactory, archive: Archive, place: Path
) -> None:
    orders = topic()
    kafka.produce(orders, [b"x"] * 5)
    program = (
        "import os, gapless_archive.catalog.chain as m\nreal = m.Chain.commit\n"
        "m.Chain.commit = lambda *a: (real(*a), os.kill(os.getpid(), 9))"
    )
    assert run_beside(kafka, place, orders, program=program) == -9
    assert archive(f"--topics={orders}").report["outcome"] == "nothing-to-do"
    assert archived(place, orders) == in_kafka(kafka, orders)


def test_a_place_that_cannot_be_written_is_named(
    kafka: KafkaBroker, topic: TopicFactory, archive: Archive, tmp_path: Path
) -> None:
    orders = topic()
    kafka.produce(orders, [b"x"])
    (tmp_path / "file").write_text("")
    told = archive(f"--topics={orders}", f"--archive={tmp_path / 'file' / 'archive'}")
    assert told.code == 2
    assert "cannot be written (Not a directory)" in told.err
    assert told.report["outcome"] == "bad-configuration"
