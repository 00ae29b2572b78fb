"""The proof that a resend can be ended anywhere and goes on where it was."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from kit.machine.processes import children_of, wait_for_exit
from kit.machine.small_disk import full, small_disk
from kit.story.resending import Resend, events_of, ids_of

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker
    from kit.network.listener import Listener

pytestmark = pytest.mark.integration

EVENTS = 6000


@pytest.fixture(scope="module")
def filled(kafka: KafkaBroker) -> str:
    name = kafka.create_topic(f"progress-{os.getpid()}", 2)
    for partition in range(2):
        kafka.produce(name, (b"%d of %d" % (offset, partition) for offset in range(EVENTS)), partition=partition)
    return name


def wanted(topic: str) -> dict[tuple[str, int], list[list[int]]]:
    return {(topic, 0): [[0, EVENTS - 1]], (topic, 1): [[0, EVENTS - 1]]}


def everything(topic: str) -> set[str]:
    return {f"{topic}_{partition}_{offset}" for partition in range(2) for offset in range(EVENTS)}


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_progress_and_nothing_is_sent_twice(
    number: signal.Signals, parallelism: int, filled: str, resend: Resend, listener: Listener
) -> None:
    settings = {
        "resendFileName": resend.bundle(wanted(filled)),
        "checkpoint": resend.folder / "checkpoint",
        "eps": 2000,
        "parallelism": parallelism,
    }
    process = resend.start(**settings)
    listener.wait_for(1500)
    process.send_signal(number)
    stopped = resend.ended(process)
    assert stopped.exit_code == 128 + number, stopped.stderr
    assert stopped.report is not None
    assert stopped.report["outcome"] == "Stopped"
    before = stopped.ledger
    assert before["planned"] == 2 * EVENTS
    assert before["remaining"] == 2 * EVENTS - before["sent"]
    assert 0 < before["sent"] < 2 * EVENTS
    assert any(b"shutting down" in datagram for datagram in listener.settled())
    assert len(events_of(listener.datagrams)) == before["sent"]
    resumed = resend.run(**settings | {"eps": 0})
    assert resumed.exit_code == 0, resumed.stderr
    assert resumed.ledger["sent"] == resumed.ledger["planned"] == 2 * EVENTS
    sent = Counter(ids_of(listener.settled()))
    assert set(sent) == everything(filled)
    assert set(sent.values()) == {1}


@pytest.mark.parametrize(
    ("parallelism", "killed"),
    [(1, "it"), (2, "the parent"), (2, "all")],
)
def test_a_kill_repeats_at_most_one_batch_for_each_process(
    parallelism: int, killed: str, filled: str, resend: Resend, listener: Listener
) -> None:
    eps = 1500
    settings = {
        "resendFileName": resend.bundle(wanted(filled)),
        "checkpoint": resend.folder / "checkpoint",
        "parallelism": parallelism,
    }
    for events in (1000, 4000):
        before = len(listener.arrivals)
        process = resend.start(**settings, eps=eps)
        listener.wait_for(before + events)
        workers = children_of(process)
        process.kill()
        for worker in workers if killed == "all" else ():  # As when a container has no memory left.
            os.kill(worker, signal.SIGKILL)
        process.communicate()
        wait_for_exit(workers)  # They notice that they are alone.
    resumed = resend.run(**settings)
    assert resumed.exit_code == 0, resumed.stderr
    assert resumed.ledger["sent"] == 2 * EVENTS
    sent = Counter(ids_of(listener.settled()))
    assert set(sent) == everything(filled)
    repeated = sum(count - 1 for count in sent.values())
    assert repeated <= 2 * eps, "two kills, and each repeats less than a second of the pace; without saving it is 5000"


def test_a_finished_checkpoint_sends_nothing_and_needs_no_kafka(
    filled: str, resend: Resend, listener: Listener
) -> None:
    settings = {"topic": filled, "partition": 0, "offsetFrom": 3, "offsetTo": 9, "checkpoint": resend.folder / "c"}
    assert resend.run(**settings).exit_code == 0
    listener.settled()
    listener.forget()
    again = resend.run(**settings, bootstrapServers="127.0.0.1:1")
    assert again.exit_code == 0, again.stderr
    assert again.report is not None
    assert again.report["outcome"] == "NothingToDo"
    assert "Nothing to do: everything was sent" in again.stderr
    assert again.ledger["sent"] == 7
    assert listener.settled() == []


def test_a_checkpoint_of_another_resend_is_refused_with_the_difference(filled: str, resend: Resend) -> None:
    settings = {"topic": filled, "partition": 0, "offsetFrom": 3, "checkpoint": resend.folder / "c"}
    assert resend.run(**settings, offsetTo=9).exit_code == 0
    other = resend.run(**settings, offsetTo=10)
    assert other.exit_code == 2
    assert "belongs to another resend (offsetTo was 9 and is 10)" in other.stderr


def test_an_altered_checkpoint_is_refused_before_anything_is_sent(
    filled: str, resend: Resend, listener: Listener
) -> None:
    path = resend.folder / "c"
    settings = {"topic": filled, "partition": 0, "offsetFrom": 3, "offsetTo": 9, "checkpoint": path}
    assert resend.run(**settings).exit_code == 0
    listener.settled()
    listener.forget()
    kept = path.read_text()
    for altered in (kept.replace('"sent":7', '"sent":8'), kept.replace('"cursor":10', '"cursor":9')):
        assert altered != kept
        for text in (altered, altered.replace('"complete":true', '"complete":false')):
            path.write_text(text)
            ended = resend.run(**settings)
            assert ended.exit_code == 2
            assert "gapless: The checkpoint was altered or belongs to other work: it accounts for" in ended.stderr
    assert listener.settled() == []


def test_two_senders_cannot_share_a_checkpoint(filled: str, resend: Resend, listener: Listener) -> None:
    settings = {"topic": filled, "partition": 0, "offsetFrom": 0, "offsetTo": 3000, "checkpoint": resend.folder / "c"}
    first = resend.start(**settings, eps=20)
    listener.wait_for(10)
    second = resend.run(**settings, report=resend.folder / "second.json")
    first.terminate()
    first.communicate()
    assert second.exit_code == 2
    assert "in use by another sender" in second.stderr


def test_an_open_end_ends_where_it_ended_at_the_first_start(
    kafka: KafkaBroker, topic: TopicFactory, resend: Resend, listener: Listener
) -> None:
    name = topic()
    kafka.produce(name, [b"first"] * 400)
    settings = {"topic": name, "partition": 0, "offsetFrom": 100, "checkpoint": resend.folder / "c"}
    process = resend.start(**settings, eps=30)
    listener.wait_for(20)
    process.terminate()
    assert resend.ended(process).exit_code == 143
    kafka.produce(name, [b"later"] * 100)
    resumed = resend.run(**settings)
    assert resumed.exit_code == 0
    assert resumed.ledger["sent"] == 300
    assert sorted(ids_of(listener.settled())) == sorted(f"{name}_0_{offset}" for offset in range(100, 400))


def test_a_disk_that_fills_up_ends_the_resend_and_loses_nothing(
    filled: str, resend: Resend, listener: Listener
) -> None:
    with small_disk(resend.folder) as place:
        settings = {"topic": filled, "partition": 0, "offsetFrom": 0, "offsetTo": 3999, "checkpoint": place / "c"}
        process = resend.start(**settings, eps=1000)
        listener.wait_for(1200)
        with full(place):
            ended = resend.ended(process)
        if ended.exit_code == 0:
            pytest.skip("the lines of the checkpoint fitted into its last block")
        assert ended.exit_code == 2, ended.stderr
        assert "No space left on device" in ended.stderr
        resumed = resend.run(**settings)
        assert resumed.exit_code == 0, resumed.stderr
        assert resumed.ledger["sent"] == 4000
        sent = Counter(ids_of(listener.settled()))
        assert len(sent) == 4000
        assert sum(sent.values()) <= 5000


def test_a_report_that_finds_no_room_goes_to_standard_error(filled: str, resend: Resend) -> None:
    with small_disk(resend.folder) as place, full(place):
        ended = resend.run(topic=filled, partition=0, offsetFrom=0, offsetTo=9, report=place / "report.json")
        assert ended.exit_code == 2
        assert "The report" in ended.stderr
        shown = json.loads(ended.stderr[ended.stderr.index("{") : ended.stderr.rindex("}") + 1])
        assert shown["ledger"]["sent"] == 10
        assert [file.name for file in place.iterdir()] == ["ballast"]
