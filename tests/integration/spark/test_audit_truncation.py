"""The proof that an audit with a state never counts events of a log that Kafka has truncated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gapless_spark.audit import command
from kit.kafka.broker import KafkaBroker
from kit.kafka.truncation import truncate

if TYPE_CHECKING:
    from integration.spark.conftest import Ended, Gapless

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaBroker]:
    """A broker of its own, because it is restarted."""
    with KafkaBroker() as broker:
        yield broker


def receive(kafka: KafkaBroker, topic: str, first: int, end: int) -> None:
    kafka.produce(topic, [b"event"] * (end - first), keys=[f"t_0_{offset}".encode() for offset in range(first, end)])


def audit(gapless: Gapless, kafka: KafkaBroker, topic: str, *more: str) -> Ended:
    return gapless("audit", f"--bootstrap-servers={kafka.bootstrap}", f"--topics={topic}", "--engine=local", *more)


def refused(ended: Ended, words: str) -> None:
    assert (ended.code, ended.bundle) == (2, None), ended.err
    assert words in " ".join(ended.err.split())


@pytest.mark.parametrize("kept", [0, 50])
def test_a_received_topic_that_was_truncated_and_has_grown_again_is_refused(
    kafka: KafkaBroker, gapless: Gapless, tmp_path: Path, kept: int
) -> None:
    topic, state = kafka.create_topic(f"received{kept}"), tmp_path / "state"
    receive(kafka, topic, 0, 50)
    receive(kafka, topic, 50, 100)
    assert audit(gapless, kafka, topic, f"--state={state}").gaps == {("t", 0): []}
    before = sorted((file.name, file.read_bytes()) for file in state.iterdir())
    truncate(kafka, topic, end=kept)
    refused(audit(gapless, kafka, topic, f"--state={state}"), f"ends at offset {kept}, but the state {state} has read")
    for first, end in ((100, 200 - kept), (200, 250)):  # as long as it was, and longer
        receive(kafka, topic, first, end)
        refused(
            audit(gapless, kafka, topic, f"--state={state}"),
            f"Kafka has truncated partition 0 of topic {topic} under the same topic ID, as after an unclean leader "
            f"election or on a replaced disk: the state {state} has read offsets {kept} to 99, but other records have "
            f"or get these offsets, so nothing was audited; give an empty folder or prefix to start again.",
        )
    assert sorted((file.name, file.read_bytes()) for file in state.iterdir()) == before
    again = audit(gapless, kafka, topic, f"--state={tmp_path / 'another'}")
    assert (again.code, again.gaps) == (0, audit(gapless, kafka, topic).gaps)


def test_restarts_of_a_broker_are_no_truncation(kafka: KafkaBroker, gapless: Gapless, tmp_path: Path) -> None:
    topic, state = kafka.create_topic("older"), tmp_path / "state"
    receive(kafka, topic, 0, 50)
    assert audit(gapless, kafka, topic, f"--state={state}").code == 0
    for first in (50, 100):
        receive(kafka, topic, first, first + 50)
        ended = audit(gapless, kafka, topic, f"--state={state}")
        assert (ended.code, ended.gaps) == (0, {("t", 0): []}), ended.err
        kafka.restart()
        kafka.await_leaders(topic, 1)
        assert audit(gapless, kafka, topic, f"--state={state}").code == 0
    truncate(kafka, topic, end=50)
    receive(kafka, topic, 200, 300)
    refused(audit(gapless, kafka, topic, f"--state={state}"), "has read offsets 50 to 149, but other records have")


def test_a_topic_that_is_truncated_while_it_is_read_is_not_audited(
    kafka: KafkaBroker, gapless: Gapless, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, state = kafka.create_topic("while-read"), tmp_path / "state"
    receive(kafka, topic, 0, 50)
    receive(kafka, topic, 50, 100)
    recheck = command.recheck_cut

    def lose(*arguments: Any) -> Any:
        truncate(kafka, topic, end=50)
        receive(kafka, topic, 100, 200)
        return recheck(*arguments)

    monkeypatch.setattr(command, "recheck_cut", lose)
    refused(
        audit(gapless, kafka, topic, f"--state={state}"), f"Kafka truncated partition 0 of topic {topic} at offset 50"
    )
    monkeypatch.undo()
    assert audit(gapless, kafka, topic, f"--state={state}").gaps == {("t", 0): [[50, 99]]}
