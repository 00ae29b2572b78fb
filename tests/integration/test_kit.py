from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec

from kit.kafka import reading
from kit.kafka.broker import KafkaBroker
from kit.kafka.cluster import USERS, KafkaCluster
from kit.kafka.compare import compare_topics
from kit.kafka.events import EventSource, fill_topic
from kit.kafka.transactions import end_transaction, in_transaction
from kit.kafka.writing import Writer
from kit.machine.processes import TESTS_FOLDER, wait_until
from kit.machine.spark_java import borrow, give_back, lent
from kit.network.link import LossyLink
from kit.peer.detector import Detector
from kit.peer.receiver import Receiver

if TYPE_CHECKING:
    from conftest import TopicFactory

pytestmark = pytest.mark.integration

VECTORS = Path(__file__).parents[1] / "unit" / "vectors"


def datagrams(event_id: str, value: bytes, payload_size: int = 1400) -> list[bytes]:
    """Packets of one clear event, spelled out here so that the receiver is not tested against itself."""
    name = event_id.encode()
    room = payload_size - 13 - len(name)
    pieces = [value[start : start + room] for start in range(0, len(value), room)] or [b""]
    return [
        struct.pack(">BHHH", 6, number, len(pieces), len(name))
        + name
        + hashlib.md5(piece, usedforsecurity=False).hexdigest()[-4:].encode()
        + struct.pack(">H", len(piece))
        + piece
        for number, piece in enumerate(pieces, start=1)
    ]


def send(port: int, packets: Iterable[bytes], *, pause_seconds: float = 0.0) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect(("127.0.0.1", port))
        for number, packet in enumerate(packets):
            sender.send(packet)
            if pause_seconds or number % 200 == 199:
                time.sleep(pause_seconds or 0.002)


_REFUSED = {KafkaError._SSL, KafkaError._AUTHENTICATION, KafkaError._ALL_BROKERS_DOWN}
"""Errors of a connection that the client repeats until the record has waited too long."""


def round_trip(broker: KafkaBroker, topic: str, listener: str, **security: Any) -> None:
    """Write one record through a listener, or say why that is refused."""
    errors: list[Any] = []

    def on_error(error: Any) -> None:
        if error.code() in _REFUSED:
            errors.append(error)

    options = {"bootstrap.servers": broker.address(listener), "log_level": 0, "error_cb": on_error}
    producer = Producer({**options, **{name.replace("_", "."): value for name, value in security.items()}})
    producer.produce(topic, b"hello", on_delivery=lambda error, _message: errors.append(error))
    deadline = time.monotonic() + 120
    while not errors:
        assert time.monotonic() < deadline, "the broker did not say what became of the record"
        producer.poll(0.1)
    if errors[0] is not None:
        raise KafkaException(errors[0])


# The broker


def test_nulls_empties_headers_and_old_timestamps_come_back_as_they_went(
    kafka: KafkaBroker, topic: TopicFactory
) -> None:
    name = topic()
    headers = [("a", b"1"), ("a", None)]
    kafka.produce(name, [None, b"", b"x"], keys=[None, b"", b"k"], timestamps=[1, 2, 3], headers=headers)
    records = kafka.read(name)
    assert [record.value() for record in records] == [None, b"", b"x"]
    assert [record.key() for record in records] == [None, b"", b"k"]
    assert [record.timestamp()[1] for record in records] == [1, 2, 3]
    assert records[0].headers() == headers


def test_records_expire_on_demand(kafka: KafkaBroker, topic: TopicFactory) -> None:
    name = topic()
    kafka.produce(name, [b"%d" % number for number in range(10)])
    kafka.delete_records(name, 0, 4)
    assert kafka.watermarks(name) == {0: (4, 10)}
    assert [record.offset() for record in kafka.read(name)] == list(range(4, 10))


def test_generated_events_are_in_the_topic_as_the_generator_says(kafka: KafkaBroker, topic: TopicFactory) -> None:
    name = topic(3)
    counts = fill_topic(kafka, name, events=3000, partitions=3, seed=4)
    records = kafka.read(name)
    for partition, count in counts.items():
        found = [record for record in records if record.partition() == partition]
        expected = EventSource(name, partition, seed=4).events(count)
        for record, event in zip(found, expected, strict=True):
            assert (record.key(), record.value(), record.timestamp()[1]) == (event.key, event.value, event.timestamp_ms)
            assert record.headers() == event.headers


def test_every_reader_sees_that_a_transaction_has_ended(kafka: KafkaBroker, topic: TopicFactory) -> None:
    name = topic()
    partition = TopicPartition(name, 0)

    def end(isolation_level: IsolationLevel) -> int:
        answers = kafka.admin().list_offsets({partition: OffsetSpec.latest()}, isolation_level=isolation_level)
        return int(answers[partition].result(30).offset)

    for number in range(20):
        end_transaction(in_transaction(kafka, name, [(None, b"x")]), commit=number % 2 == 0)
        assert end(IsolationLevel.READ_COMMITTED) == end(IsolationLevel.READ_UNCOMMITTED) == 2 * (number + 1)


@pytest.mark.parametrize("ends", ["committed", "never"])
def test_a_topic_is_read_to_the_end_of_transactions_whose_markers_are_still_being_written(
    kafka: KafkaBroker, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    name = topic()
    kafka.produce(name, [b"before"])
    opened = in_transaction(kafka, name, [(None, b"in a transaction")])
    looks: list[object] = []

    def wait(_seconds: float) -> None:
        looks.append(None)
        if ends == "committed" and len(looks) == 1:
            end_transaction(opened, commit=True)

    monkeypatch.setattr(reading, "time", SimpleNamespace(monotonic=lambda: float(len(looks)), sleep=wait))
    values = [message.value() for message in kafka.read(name)]
    assert values == ([b"before", b"in a transaction"] if ends == "committed" else [b"before"])
    assert len(looks) == (1 if ends == "committed" else reading._MARKERS_SECONDS + 1)


def test_data_and_address_survive_a_stop_and_a_kill() -> None:
    with KafkaBroker() as broker:
        broker.create_topic("kept")
        address = broker.bootstrap
        for number, end in enumerate((broker.stop, broker.kill), start=1):
            broker.produce("kept", [b"x"])
            end()
            assert not broker.running
            broker.start()
            assert broker.bootstrap == address
            assert len(broker.read("kept")) == number
        folder = broker.folder
    assert not folder.exists()


def test_three_brokers_survive_the_death_of_one() -> None:
    with KafkaCluster(3) as cluster:
        cluster.create_topic("copied", 3, **{"min.insync.replicas": "1"})
        cluster.kill(2)
        assert cluster.watermarks("copied") == dict.fromkeys(range(3), (0, 0)), "of who leads now"
        cluster.produce("copied", [b"x"] * 10, partition=1)
        assert len(cluster.read("copied")) == 10


def test_the_broker_dies_with_whoever_started_it(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "kit.kafka.broker", "--data", str(tmp_path / "broker"), "--topic", "demo:2"]
    environment = {**os.environ, "PYTHONPATH": str(TESTS_FOLDER)}
    with subprocess.Popen(program, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        port = int(json.loads(process.stdout.readline())["bootstrap"].rsplit(":", 1)[1])
        os.kill(process.pid, signal.SIGKILL)

    def silent() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) != 0

    wait_until(silent, what="the end of the broker")


def test_a_retry_writes_no_record_twice() -> None:
    with KafkaBroker() as broker:
        _write_to_a_broker_that_answers_too_late(broker, broker.create_topic("repeated"))


def _write_to_a_broker_that_answers_too_late(kafka: KafkaBroker, name: str) -> None:
    errors: list[Any] = []
    # A broker that answers too late is asked again, and then finds both requests.
    options = {"socket.timeout.ms": 1000, "error_cb": errors.append}
    [server] = kafka._servers
    process = server._process
    assert process is not None

    def records() -> Iterator[dict[str, Any]]:
        process.send_signal(signal.SIGSTOP)
        yield from ({"value": b"%d" % number, "partition": 0} for number in range(1000))

    writer = Writer(kafka.client_options(**options))
    writer.write(name, [{"value": b"first", "partition": 0}])
    with ThreadPoolExecutor(1) as pool:
        try:
            writing = pool.submit(writer.write, name, records())
            wait_until(lambda: errors, what="the end of a request's time")
        finally:
            process.send_signal(signal.SIGCONT)
        assert writing.result(120) == 1000
    assert [record.value() for record in kafka.read(name)] == [b"first", *(b"%d" % number for number in range(1000))]


def test_a_topic_that_was_created_anew_or_grew_is_written_to(kafka: KafkaBroker, topic: TopicFactory) -> None:
    name = topic()
    kafka.produce(name, [b"before"] * 3)
    kafka.delete_topic(name)
    kafka.create_topic(name, 1)
    kafka.produce(name, [b"after"] * 2)
    kafka.add_partitions(name, 3)
    kafka.produce(name, [b"new"], partition=2)
    found = [(record.partition(), record.offset(), record.value()) for record in kafka.read(name)]
    assert found == [(0, 0, b"after"), (0, 1, b"after"), (2, 0, b"new")]


def test_a_rejected_record_is_said_and_the_next_write_succeeds(kafka: KafkaBroker, topic: TopicFactory) -> None:
    name = topic(max_message_bytes="1000")
    kafka.produce(name, [b"small"])
    with pytest.raises(KafkaException, match="too large"):
        kafka.produce(name, [bytes(random.randbytes(5000))])
    kafka.produce(name, [b"small"])
    assert [record.value() for record in kafka.read(name)] == [b"small", b"small"]


# Its listeners


def test_tls_without_a_client_certificate(secure_kafka: KafkaBroker) -> None:
    assert secure_kafka.authority is not None
    secure_kafka.create_topic("one-way-tls")
    ca = str(secure_kafka.authority.file)
    round_trip(secure_kafka, "one-way-tls", "SSL", security_protocol="ssl", ssl_ca_location=ca)
    with pytest.raises(KafkaException):
        round_trip(secure_kafka, "one-way-tls", "MTLS", security_protocol="ssl", ssl_ca_location=ca)
    with pytest.raises(KafkaException):
        round_trip(secure_kafka, "one-way-tls", "SSL", security_protocol="ssl")


@pytest.mark.parametrize("form", ["key", "key_encrypted", "key_encrypted_legacy"])
def test_mutual_tls_with_every_form_of_private_key(secure_kafka: KafkaBroker, form: str) -> None:
    assert secure_kafka.authority is not None
    assert secure_kafka.client_files is not None
    files = secure_kafka.client_files
    secure_kafka.create_topic(f"mtls-{form.replace('_', '-')}")
    security = {
        "security.protocol": "ssl",
        "ssl.ca.location": str(secure_kafka.authority.file),
        "ssl.certificate.location": str(files.certificate),
        "ssl.key.location": str(getattr(files, form)),
    }
    if form != "key":
        assert b"ENCRYPTED" in getattr(files, form).read_bytes()
        security["ssl.key.password"] = files.password
    round_trip(secure_kafka, f"mtls-{form.replace('_', '-')}", "MTLS", **security)


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_accounts(secure_kafka: KafkaBroker, listener: str, mechanism: str) -> None:
    assert secure_kafka.authority is not None
    name = secure_kafka.create_topic(f"{listener}.{mechanism}".lower().replace("_", "-"))
    security = {"security.protocol": listener.lower(), "sasl.mechanism": mechanism, "sasl.username": "alice"}
    if listener == "SASL_SSL":
        security["ssl.ca.location"] = str(secure_kafka.authority.file)
    round_trip(secure_kafka, name, listener, **security, **{"sasl.password": USERS["alice"]})
    if mechanism == "PLAIN":
        with pytest.raises(KafkaException):
            round_trip(secure_kafka, name, listener, **security, **{"sasl.password": "wrong"})


def test_a_denied_topic_is_denied_to_the_one_and_open_to_the_other(secure_kafka: KafkaBroker) -> None:
    name = secure_kafka.create_topic("denied")
    secure_kafka.deny(name, "alice")
    secure_kafka.allow(name, "bob")
    secure_kafka.deny(name, "client")

    def account(user: str) -> dict[str, str]:
        return {"sasl.mechanism": "PLAIN", "sasl.username": user, "sasl.password": USERS[user]}

    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        round_trip(secure_kafka, name, "SASL_PLAINTEXT", security_protocol="sasl_plaintext", **account("alice"))
    round_trip(secure_kafka, name, "SASL_PLAINTEXT", security_protocol="sasl_plaintext", **account("bob"))
    assert secure_kafka.client_files is not None
    assert secure_kafka.authority is not None
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        round_trip(
            secure_kafka,
            name,
            "MTLS",
            security_protocol="ssl",
            ssl_ca_location=str(secure_kafka.authority.file),
            ssl_certificate_location=str(secure_kafka.client_files.certificate),
            ssl_key_location=str(secure_kafka.client_files.key),
        )


# Receiver, link and detector


@pytest.mark.parametrize("vector_name", ["up-plain-fragmented", "up-compressed-small", "up-encrypted-fragmented"])
def test_what_the_peer_sends_lands_in_kafka(kafka: KafkaBroker, topic: TopicFactory, vector_name: str) -> None:
    vector = json.loads((VECTORS / f"{vector_name}.json").read_text(encoding="utf-8"))
    name, internal = topic(4), topic(prefix="internal")
    keys = str(VECTORS / "test-private.pem")
    packets = [bytes.fromhex(packet) for packet in vector["packets_hex"]]
    with Receiver(
        kafka.bootstrap, private_keys=keys, topic_translations={"transfer": name}, internal_topic=internal
    ) as receiver:
        send(receiver.port, packets, pause_seconds=0.02)
        stats = receiver.wait_idle()
    for sent, record in zip(vector["inputs"], kafka.read(name), strict=True):
        assert record.key().decode() == f"{sent['topic']}_{sent['partition']}_{sent['offset']}"
        assert record.partition() == sent["partition"]
        assert record.value() == bytes.fromhex(sent["payload_hex"])
        assert record.headers() is None
    assert stats["status_count"] == 1
    assert kafka.read(internal)[0].value().startswith(b"2026-11-20T")


def test_events_that_follow_the_key_too_closely_are_lost(kafka: KafkaBroker, topic: TopicFactory) -> None:
    vector = json.loads((VECTORS / "up-encrypted-small.json").read_text(encoding="utf-8"))
    keys = str(VECTORS / "test-private.pem")
    with Receiver(
        kafka.bootstrap, private_keys=keys, key_delay_milliseconds=300, topic_translations={"transfer": topic()}
    ) as receiver:
        packets = [bytes.fromhex(packet) for packet in vector["packets_hex"]]
        send(receiver.port, packets)
        assert receiver.wait_idle(quiet_seconds=0.5)["unreadable"] == {"no key": 1}
        send(receiver.port, packets[-1:])
        assert receiver.wait_idle()["written"] == 1


def test_a_partition_that_does_not_exist_loses_the_event_and_a_negative_one_ends_the_receiver(
    kafka: KafkaBroker, topic: TopicFactory
) -> None:
    name = topic(2)
    with Receiver(kafka.bootstrap) as receiver:
        send(receiver.port, [*datagrams(f"{name}_1_5", b""), *datagrams(f"{name}_2_6", b"x")])
        stats = receiver.wait_idle()
        assert (stats["written"], stats["lost_in_kafka"]) == (1, 1)
        assert [(record.key().decode(), record.value()) for record in kafka.read(name)] == [(f"{name}_1_5", b"")]
        send(receiver.port, datagrams(f"{name}_-1_6", b"x"))
        assert receiver.wait(10) == 1


@pytest.mark.alone
def test_the_default_pace_of_the_peer_is_3200_events_a_second(kafka: KafkaBroker, topic: TopicFactory) -> None:
    name = topic()
    with Receiver(kafka.bootstrap, batch_size=32) as receiver:
        began = time.monotonic()
        send(receiver.port, (datagrams(f"{name}_0_{offset}", b"x")[0] for offset in range(5000)))
        stats = receiver.wait_idle(quiet_seconds=0.1)
        seconds = time.monotonic() - began
    assert stats["written"] == 5000
    assert seconds > 5000 / 3200 * 0.95


def test_what_a_lossy_link_loses_is_what_the_detector_and_the_comparison_find(
    kafka: KafkaBroker, topic: TopicFactory
) -> None:
    name, raw, dedup, gaps = topic(2), topic(2, prefix="raw"), topic(2, prefix="dedup"), topic(prefix="gaps")
    fill_topic(kafka, name, events=6000, partitions=2, seed=3)
    detector = Detector(kafka.bootstrap, [raw], dedup_topic=dedup, gap_topic=gaps, window_size=10_000)
    with (
        Receiver(kafka.bootstrap, topic_translations={name: raw}) as receiver,
        LossyLink(receiver.port, drop=0.03, duplicate=0.02, reorder=0.02, seed=11) as link,
    ):
        sources = {(record.partition(), record.offset()): record.value() or b"" for record in kafka.read(name)}
        for (partition, offset), value in sources.items():
            send(link.port, datagrams(f"{name}_{partition}_{offset}", value))
        assert link.wait_idle().overflowed == 0
        stats = receiver.wait_idle()
        assert stats["overflowed"] == 0
        lossy = compare_topics(kafka.bootstrap, kafka.bootstrap, name, received_topic=raw)
        found = detector.drain()

        assert lossy.expected == 6000
        assert lossy.missing > 100
        assert (lossy.different, lossy.extra, lossy.not_events) == (0, 0, 0)
        tails = sum(
            last - first + 1
            for partition, counts in lossy.by_partition.items()
            for first, last in counts.missing_ranges
            if last == max(offset for number, offset in sources if number == partition)
        )
        assert found["missing"] == lossy.missing - tails
        assert {record.key().decode() for record in kafka.read(gaps)} == {f"{name}:0:0", f"{name}:1:0"}

        for partition, counts in lossy.by_partition.items():
            for first, last in counts.missing_ranges:
                for offset in range(first, last + 1):
                    packets = datagrams(f"{name}_{partition}_{offset}", sources[partition, offset])
                    send(receiver.port, packets)
        receiver.wait_idle()
    healed = compare_topics(kafka.bootstrap, kafka.bootstrap, name, received_topic=raw)
    assert healed.complete
    assert detector.drain()["missing"] == 0
    detector.close()
    clean = compare_topics(kafka.bootstrap, kafka.bootstrap, name, received_topic=dedup, empties_expected=False)
    assert clean.complete
    assert clean.duplicates == 0
    assert kafka.watermarks(gaps)[0][1] > len(kafka.read(gaps)), "the last offset is a commit marker"


def test_the_detector_reports_by_itself_in_the_background(kafka: KafkaBroker, topic: TopicFactory) -> None:
    raw, dedup, gaps = topic(), topic(prefix="dedup"), topic(prefix="gaps")
    kafka.produce(raw, [b"x"] * 3, keys=[b"transfer_0_0", b"transfer_0_2", b"no event"])
    with Detector(kafka.bootstrap, [raw], dedup_topic=dedup, gap_topic=gaps, emit_interval_seconds=0.2):
        wait_until(lambda: kafka.read(gaps), what="a gap record")
    record = kafka.read(gaps)[0]
    assert record.key() == b"transfer:0:0"
    assert record.value().hex() == "01000000000000000000000000000003e7" + "3a3000000100000000000000100000000100"
    assert {each.key() for each in kafka.read(dedup)} == {b"transfer_0_0", b"transfer_0_2", b"no event"}


@pytest.mark.parametrize("harm", ["lost", "changed", "extra", "twice"])
def test_the_comparison_sees_every_kind_of_harm(kafka: KafkaBroker, topic: TopicFactory, harm: str) -> None:
    name, raw = topic(), topic(2, prefix="raw")
    kafka.produce(name, [b"a", None, b"c"])
    received = [(f"{name}_1_0", b"a"), (f"{name}_1_1", b""), (f"{name}_1_2", b"c")]
    if harm == "lost":
        received.pop(1)
    elif harm == "changed":
        received[2] = (received[2][0], b"C")
    elif harm == "extra":
        received.append((f"{name}_1_3", b"d"))
    else:
        received.append(received[0])
    kafka.produce(raw, [value for _, value in received], keys=[key.encode() for key, _ in received], partition=1)
    verdict = compare_topics(kafka.bootstrap, kafka.bootstrap, name, received_topic=raw, partition_shift=1)
    found = (verdict.missing, verdict.different, verdict.extra, verdict.duplicates)
    expected = {"lost": (1, 0, 0, 0), "changed": (0, 1, 0, 0), "extra": (0, 0, 1, 0), "twice": (0, 0, 0, 1)}
    assert found == expected[harm]
    assert verdict.complete == (harm == "twice")


def test_the_folder_of_a_run_that_was_killed_is_removed_by_the_next_one() -> None:
    program = [
        sys.executable,
        "-c",
        "import kit.kafka.broker; b = kit.kafka.broker.KafkaBroker(); print(b.folder); input()",
    ]
    environment = {**os.environ, "PYTHONPATH": str(TESTS_FOLDER), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().decode().strip())
        KafkaBroker().close()
        assert folder.exists(), "its owner lives"
        process.kill()
    KafkaBroker().close()
    assert not folder.exists()


_SESSION = (
    "from pyspark.sql import SparkSession; import sys; "
    "session = SparkSession.builder.getOrCreate(); print(session.range(3).count()); sys.argv[1:] or session.stop()"
)


def test_one_java_serves_commands_with_spark_until_one_of_them_leaves_its_session() -> None:
    command = [sys.executable, "-c", _SESSION, "--engine=spark"]
    served = []
    for program in (command[:-1], command[:-1], command):
        java = borrow(command)
        assert java is not None
        served.append(java)
        ended = subprocess.run(program, env={**os.environ, **java.environment}, stdout=subprocess.PIPE, check=True)
        assert ended.stdout == b"3\n"
        give_back(java)
    assert served[0] is served[1] is served[2]
    assert not served[0].is_free
    with lent(command) as environment:
        assert environment["PYSPARK_GATEWAY_PORT"] != served[0].environment["PYSPARK_GATEWAY_PORT"]
    with lent(command[:-1]) as environment:
        assert not environment
