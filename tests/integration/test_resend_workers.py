"""The proof that a parallel resend ends soon, with a true report, whatever ends it and whenever."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kit.story.resending import Ended, Resend, events_of, ids_of
from kit.story.worker_rounds import CERTIFICATE, EVENTS, MAX_SECONDS, PARTITIONS, WAYS, Rounds

if TYPE_CHECKING:
    from kit.kafka.broker import KafkaBroker
    from kit.network.listener import Listener

pytestmark = pytest.mark.integration

KEY_EXCHANGE = 3


@pytest.fixture(scope="module")
def filled(kafka: KafkaBroker) -> str:
    name = kafka.create_topic(f"workers-{os.getpid()}", PARTITIONS)
    for partition in range(PARTITIONS):
        kafka.produce(name, (b"%d of %d" % (offset, partition) for offset in range(EVENTS)), partition=partition)
    return name


def chosen(resend: Resend, topic: str, **others: Any) -> dict[str, Any]:
    """Settings for all events, with a new key every second."""
    return {
        "resendFileName": bundle(resend, topic),
        "parallelism": 3,
        "encryption": True,
        "publicKeyFile": CERTIFICATE,
        "generateNewSymmetricKeyEvery": 1,
        "keyRepeats": 1,
        "keySettle": 0.1,
        "eps": 1000,
        **others,
    }


def bundle(resend: Resend, topic: str) -> Path:
    return resend.bundle({(topic, n): [[0, EVENTS - 1]] for n in range(PARTITIONS)})


def keys_in(datagrams: list[bytes]) -> int:
    return len({datagram for datagram in datagrams if datagram[0] == KEY_EXCHANGE})


def wait_for_keys(listener: Listener, count: int) -> None:
    deadline = time.monotonic() + 60
    while keys_in(listener.datagrams) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def children_of(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as listed:  # noqa: PTH123
        return [int(number) for number in listed.read().split()]


def check_agreement(ended: Ended, datagrams: list[bytes], *, most_cut: int = 0) -> None:
    """The report has every event that arrived, but for cut batches, and none that did not."""
    came = Counter(ids_of(datagrams))
    assert set(came.values()) <= {1}
    assert ended.ledger["planned"] == PARTITIONS * EVENTS
    assert ended.ledger["remaining"] == PARTITIONS * EVENTS - ended.ledger["sent"]
    assert 0 <= len(came) - ended.ledger["sent"] <= most_cut


@pytest.mark.parametrize("checkpoint", ["checkpoint", None])
def test_a_killed_worker_is_in_the_report_with_all_that_it_has_sent(
    checkpoint: str | None, filled: str, resend: Resend, listener: Listener
) -> None:
    process = resend.start(**chosen(resend, filled, checkpoint=checkpoint))
    listener.wait_for(1500)
    began = time.monotonic()
    os.kill(children_of(process.pid)[1], signal.SIGKILL)
    ended = resend.ended(process)
    assert time.monotonic() - began < MAX_SECONDS
    assert ended.exit_code == 143
    assert "Worker process 1 ended unexpectedly (signal 9)" in ended.stderr
    assert ended.ledger["sent"] > 1000
    check_agreement(ended, listener.settled(), most_cut=50)
    assert ended.report is not None
    assert ended.report["keysAnnounced"] == keys_in(listener.datagrams)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_stop_while_the_key_is_replaced_ends_at_once_and_repeats_nothing(
    parallelism: int, filled: str, resend: Resend, listener: Listener
) -> None:
    settings = chosen(resend, filled, checkpoint=resend.folder / "c", parallelism=parallelism, keyRepeats=2)
    process = resend.start(**settings)
    wait_for_keys(listener, 2)
    began = time.monotonic()
    process.terminate()
    ended = resend.ended(process)
    assert time.monotonic() - began < MAX_SECONDS
    assert ended.exit_code == 143, ended.stderr
    assert ended.ledger["sent"] == len(events_of(listener.settled())) > 0
    check_agreement(ended, listener.datagrams)
    assert ended.report is not None
    assert ended.report["keysAnnounced"] == keys_in(listener.datagrams) == 2
    again = resend.run(**settings | {"encryption": None, "eps": 0})
    assert again.exit_code == 0, again.stderr
    came = Counter(ids_of(listener.settled()))
    assert (len(came), set(came.values())) == (PARTITIONS * EVENTS, {1})


def test_a_worker_that_is_killed_while_the_key_is_replaced_ends_the_resend_with_a_report(
    filled: str, resend: Resend, listener: Listener
) -> None:
    process = resend.start(**chosen(resend, filled, keyRepeats=3))
    wait_for_keys(listener, 2)
    os.kill(children_of(process.pid)[0], signal.SIGKILL)
    ended = resend.ended(process)
    assert ended.exit_code == 143
    assert "Traceback" not in ended.stderr
    check_agreement(ended, listener.settled())


def test_ctrl_c_is_one_request_although_every_process_hears_of_it(
    filled: str, resend: Resend, listener: Listener
) -> None:
    settings = chosen(resend, filled, encryption=None, eps=200, checkpoint=resend.folder / "c")
    process = resend.start(own_group=True, **settings)
    listener.wait_for(50)
    for child in children_of(process.pid):
        os.kill(child, signal.SIGINT)
    listener.wait_for(len(listener.datagrams) + 100)  # It is for the parent to say what that means.
    os.killpg(process.pid, signal.SIGINT)
    ended = resend.ended(process)
    assert ended.exit_code == 130
    check_agreement(ended, listener.settled())


@pytest.mark.parametrize("parallelism", [1, 3])
def test_nothing_leaves_before_kafka_has_answered_and_every_topic_is_there(
    parallelism: int, filled: str, resend: Resend, listener: Listener
) -> None:
    gaps = {(filled, 0): [[0, 9]], (filled, 1): [[0, 9]], ("nowhere", 0): [[0, 9]]}
    settings = chosen(resend, filled, parallelism=parallelism, connectTimeout=2)
    resend.bundle(gaps)
    for other, exit_code in (({}, 2), ({"bootstrapServers": "127.0.0.1:1"}, 3)):
        ended = resend.run(**settings, **other)
        assert ended.exit_code == exit_code, ended.stderr
        assert ended.ledger["planned"] == ended.ledger["remaining"] == 30, "numbers are known without Kafka"
        assert listener.settled() == [], "neither a packet nor a key"


@pytest.mark.parametrize("parallelism", [1, 2])
def test_speed_is_that_of_this_run(parallelism: int, filled: str, resend: Resend, listener: Listener) -> None:
    settings = chosen(
        resend, filled, encryption=None, checkpoint=resend.folder / "c", parallelism=parallelism, progressInterval=0.1
    )
    process = resend.start(**settings | {"eps": 4000})
    listener.wait_for(3000)
    process.terminate()
    before = resend.ended(process)
    process = resend.start(**settings | {"eps": 100})
    listener.wait_for(len(listener.datagrams) + 60)
    process.terminate()
    ended = resend.ended(process)
    assert ended.report is not None
    here = ended.ledger["sent"] - before.ledger["sent"]
    assert ended.report["eventsPerSecond"] == pytest.approx(here / ended.report["seconds"], abs=0.1)
    lines = [json.loads(line) for line in ended.stderr.splitlines() if '"progress"' in line]
    assert lines
    assert all(line["eventsPerSecond"] < 200 for line in lines)


@pytest.mark.parametrize(
    ("parallelism", "files"), [(1, ()), (2, ()), (1, ("log", "rates")), (2, ("log", "rates")), (2, ("log",))]
)
def test_a_hangup_reopens_the_log_looks_at_the_rates_and_ends_nothing(
    parallelism: int, files: tuple[str, ...], filled: str, resend: Resend, listener: Listener
) -> None:
    log, rates = resend.folder / "log", resend.folder / "rates"
    rates.write_text("eps=100\n")
    settings = chosen(resend, filled, encryption=None, eps=100, parallelism=parallelism, logStatistics=1)
    settings |= {"logFileName": log} if "log" in files else {}
    settings |= {"rateFile": rates} if "rates" in files else {}
    process = resend.start(own_group=True, **settings)
    listener.wait_for(20)
    if "log" in files:
        log.rename(resend.folder / "rotated")
    rates.write_text("eps=1000\n")
    os.killpg(process.pid, signal.SIGHUP)
    listener.wait_for(len(listener.datagrams) + 150)
    process.terminate()
    ended = resend.ended(process)
    assert ended.exit_code == 143, ended.stderr
    assert ("log" in files) == log.exists(), "opened anew"


def test_a_plan_can_be_interrupted(filled: str, resend: Resend) -> None:
    """Kafka is asked for so long that only a signal can have ended it."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        settings = {"topic": filled, "partition": 0, "offsetFrom": 0, "plan": True, "bootstrapServers": address}
        process = resend.start(**settings, connectTimeout=60, report=None)
        silent.accept()[0].close()
        process.send_signal(signal.SIGINT)
        assert resend.ended(process, timeout_seconds=30).exit_code == 130


@pytest.mark.parametrize("way", WAYS)
def test_report_checkpoint_and_arrivals_agree_whatever_ends_it(
    way: str, filled: str, resend: Resend, listener: Listener
) -> None:
    """`make stress-workers` does 200 of these."""
    rounds = Rounds(filled, resend.folder, resend.settings, listener, random.Random(way))
    assert rounds.run_round(0, way) == []
