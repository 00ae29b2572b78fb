"""The proof of what a resend can be told: time ranges, windows, translations, copies, encryption, pace, plans."""

from __future__ import annotations

import itertools
import json
import os
import socket
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kit.network.listener import Listener
from kit.peer.receiver import Receiver
from kit.story.resending import Resend, events_of, ids_of

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker

pytestmark = pytest.mark.integration

VECTORS = Path(__file__).parent.parent / "unit" / "vectors"
FIRST_MS = 1767225600000  # 2026-01-01T00:00:00Z


@pytest.fixture(scope="module")
def minutes(kafka: KafkaBroker) -> str:
    """3 partitions of 60 records, one a minute."""
    name = kafka.create_topic(f"minutes-{os.getpid()}", 3)
    for partition in range(3):
        values = [f"{partition}/{minute}".encode() for minute in range(60)]
        kafka.produce(
            name, values, partition=partition, timestamps=[FIRST_MS + minute * 60_000 for minute in range(60)]
        )
    return name


def numbers(topic: str, partitions: range, offsets: range) -> set[str]:
    return {f"{topic}_{partition}_{offset}" for partition, offset in itertools.product(partitions, offsets)}


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_time_range_covers_all_partitions(parallelism: int, minutes: str, resend: Resend, listener: Listener) -> None:
    times = {"from": "2026-01-01T00:10:00Z", "to": "2026-01-01T01:14:59+01:00"}
    ended = resend.run(topic=minutes, parallelism=parallelism, **times)
    assert ended.exit_code == 0, ended.stderr
    assert ended.ledger["planned"] == ended.ledger["sent"] == 15
    assert set(ids_of(listener.settled())) == numbers(minutes, range(3), range(10, 15))


def test_a_time_range_does_not_lose_records_with_future_timestamps(
    kafka: KafkaBroker, topic: TopicFactory, resend: Resend, listener: Listener
) -> None:
    name = topic()
    kafka.produce(name, [b"a", b"b"], timestamps=[FIRST_MS, int(time.time() * 1000) + 3_000_000])
    assert resend.run(topic=name, from_="2026-01-01T00:00:00Z").exit_code == 0
    assert len(ids_of(listener.settled())) == 2


def test_times_narrow_a_bundle(minutes: str, resend: Resend, listener: Listener) -> None:
    chosen = {"resendFileName": resend.bundle({(minutes, 1): [[5, 8], [20]]})}
    chosen |= {"from_": "2026-01-01T00:07:00Z", "to": "2026-01-01T00:10:00Z"}
    plan = resend.run(**chosen, plan=True).report
    assert plan is not None
    assert (plan["events"], plan["outsideTimeRange"]) == (2, 3)
    ended = resend.run(**chosen)
    assert ended.stderr.splitlines()[-1] == "Sent 2 of 2 events; left out: 3 outside the time range."
    assert ended.exit_code == 0
    assert ended.ledger["planned"] == 2
    assert ended.ledger["outsideTimeRange"] == 3
    assert set(ids_of(listener.settled())) == numbers(minutes, range(1, 2), range(7, 9))


def test_times_narrow_offsets_without_an_end(minutes: str, resend: Resend, listener: Listener) -> None:
    chosen = {"topic": minutes, "partition": 2, "offsetFrom": 50, "from_": "2026-01-01T00:55:00Z"}
    plan = resend.run(**chosen, plan=True).report
    assert plan is not None
    assert plan["events"] == 5
    ended = resend.run(**chosen)
    assert ended.exit_code == 0, ended.stderr
    assert (ended.ledger["planned"], ended.ledger["outsideTimeRange"]) == (5, 5)
    assert set(ids_of(listener.settled())) == numbers(minutes, range(2, 3), range(55, 60))


def test_1970_is_no_bound_and_selects_everything(
    kafka: KafkaBroker, topic: TopicFactory, resend: Resend, listener: Listener
) -> None:
    """The shipped file of the peer sets it."""
    name = topic()
    kafka.produce(name, [b"a", b"b", b"c"], timestamps=[FIRST_MS, 1, 5])
    for chosen in ({"partition": 0, "offsetFrom": 0}, {"partition": 0}, {}):
        ended = resend.run(topic=name, from_="1970-01-01T00:00:00Z", **chosen)
        assert ended.exit_code == 0, ended.stderr
        assert ended.stderr.splitlines()[-1] == "Sent 3 of 3 events."
    assert len(ids_of(listener.settled())) == 9


def test_kafka_sees_the_client_id_that_was_given(resend: Resend) -> None:
    """The header of each request to a broker has it (KIP-482 and before): size, API, version, number, client id."""
    with socket.create_server(("127.0.0.1", 0)) as broker:
        address = f"127.0.0.1:{broker.getsockname()[1]}"
        process = resend.start(
            topic="t", partition=0, offsetFrom=0, bootstrapServers=address, clientID="night.shift", connectTimeout=60
        )
        with broker.accept()[0] as connection:
            request = connection.recv(4096)
        process.terminate()
        resend.ended(process)
    length = int.from_bytes(request[12:14], "big")
    assert request[14 : 14 + length] == b"night.shift"


def test_windows_and_translations_are_the_live_senders(minutes: str, resend: Resend, listener: Listener) -> None:
    bundle = resend.bundle({("wire", 9): [[1]], ("wire", 11): [[2, 3]], ("wire", 12): [[4]], ("wire", 20): [[5]]})
    ended = resend.run(
        resendFileName=bundle,
        partitionStartValue=10,
        partitionStopValue=3,
        topicTranslations={minutes: "wire"},
    )
    assert ended.exit_code == 0, ended.stderr
    assert sorted(ids_of(listener.settled())) == ["wire_11_2", "wire_11_3", "wire_12_4"]
    assert ended.report is not None
    assert ended.report["skipped"] == [
        {"topic": "wire", "partition": 9, "events": 1},
        {"topic": "wire", "partition": 20, "events": 1},
    ]
    assert "wire/9, wire/20" in ended.stderr
    left_out = "2 of 2 entries of the bundle outside the partition window"
    assert ended.stderr.splitlines()[-1] == f"Sent 3 of 3 events; left out: {left_out}."
    assert ended.report["message"] == ended.stderr.splitlines()[-1]
    assert b"1/2" in listener.datagrams[1], "downstream partition 11 is upstream partition 1"


def test_offsets_that_the_peers_bundle_repeats_are_sent_once(minutes: str, resend: Resend, listener: Listener) -> None:
    """Its create repeats offsets, out of order, when its window size has changed."""
    bundle = resend.bundle({(minutes, 0): [[3], [45, 46], [45, 47], [20]]})
    plan = resend.run(resendFileName=bundle, plan=True)
    assert plan.report is not None
    assert plan.report["events"] == 5
    ended = resend.run(resendFileName=bundle)
    assert ended.exit_code == 0, ended.stderr
    for each in (plan, ended):
        assert "The bundle lists 2 offsets more than once; each counts once." in each.stderr
    assert ended.stderr.splitlines()[-1] == "Sent 5 of 5 events."
    assert sorted(ids_of(listener.settled())) == sorted(f"{minutes}_0_{offset}" for offset in (3, 20, 45, 46, 47))


def test_a_bundle_for_another_cluster_is_nothing_to_do(minutes: str, resend: Resend) -> None:
    ended = resend.run(resendFileName=resend.bundle({(minutes, 0): [[1]]}), partitionStartValue=8, partitionStopValue=2)
    assert ended.exit_code == 0
    assert ended.report is not None
    assert ended.report["outcome"] == "NothingToDo"
    assert "Nothing to do" in ended.stderr


def test_copies_are_identical_and_interleaved(minutes: str, resend: Resend, listener: Listener) -> None:
    ended = resend.run(topic=minutes, partition=0, offsetFrom=0, offsetTo=29, copies=3, statusPackets=False)
    assert ended.exit_code == 0
    assert ended.ledger["sent"] == 30
    received = listener.settled()
    assert set(Counter(received).values()) == {3}
    assert received[:30] != [received[0]] * 3 + [received[1]] * 3
    assert set(received[:30]) == set(received[30:60])


def test_strict_order_is_the_order_of_offsets(
    kafka: KafkaBroker, topic: TopicFactory, resend: Resend, listener: Listener
) -> None:
    name = topic()
    kafka.produce(name, [b"x" * (index * 37 % 3000) for index in range(300)])
    assert resend.run(topic=name, partition=0, offsetFrom=0, order="strict").exit_code == 0
    assert ids_of(listener.settled()) == [f"{name}_0_{offset}" for offset in range(300)]


@pytest.mark.parametrize("parallelism", [1, 2])
def test_encrypted_and_compressed_events_arrive_whole(
    parallelism: int, kafka: KafkaBroker, topic: TopicFactory, resend: Resend
) -> None:
    source, name = topic(2), topic(2, prefix="arrived")
    sizes = [0, 1, 200, 1323, 1324, 1359, 1360, 2720, 5000, 64 * 1024]
    values = [(b"%d " % size + b"some text " * (size // 8))[:size] for size in sizes] * 40
    for partition in range(2):
        kafka.produce(source, values, partition=partition)
    with Receiver(kafka.bootstrap, private_keys=str(VECTORS / "test-private.pem")) as receiver:
        ended = resend.run(
            resendFileName=resend.bundle({(name, 0): [[0, 399]], (name, 1): [[0, 399]]}),
            topicTranslations={source: name},
            targetPort=receiver.port,
            encryption=True,
            publicKeyFile=VECTORS / "test-cert.pem",
            compressWhenLengthExceeds=1000,
            generateNewSymmetricKeyEvery=1,
            eps=200,
            parallelism=parallelism,
        )
        assert ended.exit_code == 0, ended.stderr
        assert ended.report is not None
        assert ended.report["keysAnnounced"] >= 2
        receiver.wait_idle()
    arrived = {message.key().decode(): message.value() or b"" for message in kafka.read(name)}
    assert arrived == {f"{name}_{p}_{offset}": value for p in range(2) for offset, value in enumerate(values)}


@pytest.mark.parametrize("pace", [(2, 7), (200, 500), (5000, 12_000)])
@pytest.mark.alone
def test_the_pace_is_kept_from_the_first_event_on(
    pace: tuple[int, int], kafka: KafkaBroker, topic: TopicFactory, resend: Resend, listener: Listener
) -> None:
    eps, events = pace
    name = topic()
    kafka.produce(name, [b"x"] * events)
    ended = resend.run(topic=name, partition=0, offsetFrom=0, eps=eps, statusPackets=False)
    assert ended.ledger["sent"] == events, "the slowest pace loses nothing"
    listener.settled()
    times = [moment for moment, _ in listener.arrivals]
    measured = (len(times) - 1) / (times[-1] - times[0])
    assert measured == pytest.approx(eps, rel=0.05)


def test_a_target_where_nobody_listens_is_named(kafka: KafkaBroker, topic: TopicFactory, resend: Resend) -> None:
    name = topic()
    kafka.produce(name, [b"x"] * 200)
    chosen = {"topic": name, "partition": 0, "offsetFrom": 0, "eps": 400}
    with Listener() as listener:
        chosen["targetPort"] = listener.port
        assert "connection refused" not in resend.run(**chosen).stderr
    ended = resend.run(**chosen)
    assert "that no program listens at the target (connection refused)" in ended.stderr
    assert ended.report is not None
    assert ended.report["link"]["refused"] > 0


def test_a_plan_tells_and_sends_nothing(
    kafka: KafkaBroker, topic: TopicFactory, resend: Resend, listener: Listener
) -> None:
    name = topic()
    kafka.produce(name, [b"x" * 100] * 1000)
    kafka.delete_records(name, 0, 10)
    bundle = resend.bundle({(name, 0): [[0, 99], [990, 1009]]})
    ended = resend.run(resendFileName=bundle, plan=True, eps=10, report=resend.folder / "plan.json")
    assert ended.exit_code == 0, ended.stderr
    made = json.loads((resend.folder / "plan.json").read_text())
    assert made["events"] == 100
    assert made["ranges"] == 2
    assert made["unavailable"] == {"Expired": 10, "NotYetWritten": 10}
    assert made["estimate"]["seconds"] == pytest.approx(10)
    assert made["estimate"]["datagrams"] == 100
    ended = resend.run(resendFileName=bundle, plan=True, report=None)
    assert json.loads(ended.stdout)["events"] == 100
    assert listener.settled() == []


def test_progress_is_told_as_json_lines(minutes: str, resend: Resend) -> None:
    ended = resend.run(topic=minutes, partition=0, offsetFrom=0, offsetTo=39, eps=20, progressInterval=0.5)
    lines = [json.loads(line) for line in ended.stderr.splitlines() if line.startswith("{")]
    assert len(lines) >= 3
    assert [line["sent"] for line in lines] == sorted(line["sent"] for line in lines)
    assert lines[-1]["percent"] == 100
    assert all(line["event"] == "progress" and line["planned"] == 40 for line in lines)


@pytest.mark.alone
def test_sending_begins_within_a_second_and_a_half(minutes: str, resend: Resend, listener: Listener) -> None:
    began = time.monotonic()
    process = resend.start(topic=minutes, partition=0, offsetFrom=0)
    listener.wait_for(1)
    first = listener.arrivals[0][0]
    process.communicate()
    assert first - began < 1.5


def test_large_events_of_many_fragments_arrive(
    kafka: KafkaBroker, topic: TopicFactory, resend: Resend, listener: Listener
) -> None:
    name = topic(max_message_bytes="22000000")
    kafka.produce(name, [b"y" * 900_000] * 20)
    ended = resend.run(topic=name, partition=0, offsetFrom=0, bitsPerSecond="400M", payloadSize=8000)
    assert ended.exit_code == 0, ended.stderr
    body = 8000 - 13 - len(f"{name}_0_5")
    assert len(events_of(listener.settled())) >= 20 * (900_000 // body)


@pytest.mark.alone
def test_partitions_do_not_wait_for_the_end_of_the_one_before(
    kafka: KafkaBroker, topic: TopicFactory, resend: Resend, listener: Listener
) -> None:
    """A fetch that waits at the end of a partition once held up the next partition by a tenth of a second, twice."""
    name = topic(150)
    for partition in range(150):
        kafka.produce(name, [b"x"], partition=partition)
    ended = resend.run(resendFileName=resend.bundle({(name, partition): [[0]] for partition in range(150)}))
    assert ended.ledger["sent"] == 150
    assert ended.report is not None
    assert ended.report["seconds"] < 15
    assert set(ids_of(listener.settled())) == numbers(name, range(150), range(1))
