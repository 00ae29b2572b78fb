"""An upstream log that was truncated and has grown again between two inventories is found by the audit."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gapless_api.inventory.reader import read_inventory
from kit.kafka.broker import KafkaBroker
from kit.kafka.truncation import truncate
from kit.story.resending import PROGRAM

if TYPE_CHECKING:
    from integration.spark.conftest import Ended, Gapless

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaBroker]:
    """A broker of its own, because it is restarted."""
    with KafkaBroker() as broker:
        yield broker


def inventory(kafka: KafkaBroker, topic: str, file: Path, *more: str) -> Path:
    command = [str(PROGRAM), "inventory", f"--bootstrapServers={kafka.bootstrap}", f"--topics={topic}", *more]
    subprocess.run([*command, f"--inventory={file}"], capture_output=True, check=True, timeout=300)
    return file


def receive(kafka: KafkaBroker, upstream: str, received: str, first: int, end: int) -> None:
    keys = [f"{upstream}_0_{offset}".encode() for offset in range(first, end)]
    kafka.produce(received, [b"event"] * len(keys), keys=keys)


def audit(gapless: Gapless, kafka: KafkaBroker, received: str, *files: Path, more: tuple[str, ...] = ()) -> Ended:
    expected = f"--expect-inventory={','.join(map(str, files))}"
    return gapless(
        "audit", f"--bootstrap-servers={kafka.bootstrap}", f"--topics={received}", "--engine=local", expected, *more
    )


def row(ended: Ended) -> dict[str, Any]:
    assert ended.report is not None, ended.err
    (found,) = ended.report["partitions"]
    return dict(found)


def test_events_of_a_log_that_no_longer_exists_are_unknown_and_the_truncation_is_named(
    kafka: KafkaBroker, gapless: Gapless, tmp_path: Path
) -> None:
    upstream, received = kafka.create_topic("upstream"), kafka.create_topic("received")
    kafka.produce(upstream, [b"old"] * 50)
    kafka.produce(upstream, [b"old"] * 50)
    receive(kafka, upstream, received, 0, 100)
    before = inventory(kafka, upstream, tmp_path / "before", "--absent")
    kafka.restart()
    kafka.await_leaders(upstream, 1)
    same = inventory(kafka, upstream, tmp_path / "same")
    ended = audit(gapless, kafka, received, before, same)
    assert (ended.code, ended.gaps) == (0, {(upstream, 0): []}), "a new leader alone is no loss"
    truncate(kafka, upstream, end=50)
    kafka.produce(upstream, [b"new"] * 100)
    after = inventory(kafka, upstream, tmp_path / "after", "--absent", f"--previous={before}")
    ids = [read_inventory(file).metadata.id for file in (before, after)]
    for files in ((before, after), (after, before), (before, same, after)):
        ended = audit(gapless, kafka, received, *files)
        assert (ended.code, row(ended)["missing"], row(ended)["unknown"]) == (4, 0, 100), ended.err
        said = " ".join(ended.err.split())
        assert f"{upstream}/0 was truncated at offset 50 under the same topic ID" in said
        assert ids[1] in said
        assert "the upstream log was truncated between two inventories, so that the offsets belong to other " in said
        assert f"({upstream}/0 from offset 50)" in said
    again = audit(gapless, kafka, received, before, after, more=("--include-unknown",))
    assert again.gaps == {(upstream, 0): [[50, 149]]}, "what has to be sent again"
    alone = audit(gapless, kafka, received, after)
    assert (alone.code, alone.gaps) == (0, {(upstream, 0): [[100, 149]]})


def test_a_state_remembers_the_log_and_asks_only_for_what_was_not_received_again(
    kafka: KafkaBroker, gapless: Gapless, tmp_path: Path
) -> None:
    """Each audit has only the newest inventory, as one that runs every night has."""
    upstream, received = kafka.create_topic("nightly"), kafka.create_topic("nightly-received")
    state = f"--state={tmp_path / 'state'}"
    for count in (50, 50):
        kafka.produce(upstream, [b"old"] * count)
    receive(kafka, upstream, received, 0, 100)
    before = inventory(kafka, upstream, tmp_path / "before")
    assert audit(gapless, kafka, received, before, more=(state,)).code == 0
    receive(kafka, upstream, received, 100, 120)  # old events, upstream before the truncation and after the inventory
    truncate(kafka, upstream, end=50)
    for count in (30, 70):
        kafka.produce(upstream, [b"new"] * count)
    after = inventory(kafka, upstream, tmp_path / "after")
    ended = audit(gapless, kafka, received, after, more=(state, "--include-unknown"))
    assert (ended.code, row(ended)["missing"], row(ended)["unknown"]) == (4, 0, 100), ended.err
    assert ended.gaps == {(upstream, 0): [[50, 149]]}
    assert f"{upstream}/0 was truncated at offset 50 under the same topic ID" in " ".join(ended.err.split())
    receive(kafka, upstream, received, 50, 60)  # of what is sent again, the first events
    for files in ((after,), (before, after)):
        ended = audit(gapless, kafka, received, *files, more=(state,))
        assert (ended.code, row(ended)["missing"], row(ended)["unknown"]) == (4, 0, 90), ended.err
        assert "was truncated at offset" not in " ".join(ended.err.split()), "it is reported once"
        assert f"({upstream}/0 from offset 50)" in " ".join(ended.err.split())
    kafka.produce(upstream, [b"new"] * 10)
    later = inventory(kafka, upstream, tmp_path / "later")
    receive(kafka, upstream, received, 60, 155)
    ended = audit(gapless, kafka, received, later, more=(state,))
    assert (ended.code, ended.gaps, row(ended)["unknown"]) == (0, {(upstream, 0): [[155, 159]]}, 0), ended.err
    truncate(kafka, upstream, end=80)
    kafka.produce(upstream, [b"newest"] * 10)
    shorter = inventory(kafka, upstream, tmp_path / "shorter")
    ended = audit(gapless, kafka, received, shorter, more=(state, "--include-unknown"))
    assert (ended.code, ended.gaps) == (4, {(upstream, 0): [[80, 89]]}), ended.err
    receive(kafka, upstream, received, 80, 90)
    assert audit(gapless, kafka, received, shorter, more=(state,)).code == 0


def test_the_epochs_of_a_log_are_those_of_its_records(kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka.create_topic("epochs", 2)
    written: list[int] = []
    for count in (3, 0, 2, 4):
        written.append(count)
        kafka.produce(topic, [b"x"] * count)
        kafka.restart()
        kafka.await_leaders(topic, 2)
    kafka.delete_records(topic, 0, 4)
    entries = read_inventory(inventory(kafka, topic, tmp_path / "m")).entries
    by_offset = {message.offset(): message.leader_epoch() for message in kafka.read(topic) if not message.partition()}
    of_first, of_empty = (entry.epochs for entry in entries)
    assert of_first is not None
    assert of_empty is not None
    assert sorted(by_offset) == list(range(4, 9))
    for offset, epoch in by_offset.items():
        assert [start.epoch for start in of_first if start.first_offset <= offset][-1] == epoch
    assert (of_first[0].first_offset, of_first[-1].first_offset) == (4, 9), "the leader of now has no records"
    assert [start.first_offset for start in of_empty] == [0]
