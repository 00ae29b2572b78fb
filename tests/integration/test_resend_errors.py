"""The proof that what is wrong ends in one sentence, the right exit code, and nothing on the link."""

from __future__ import annotations

import socket
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AclOperation

from kit.kafka.cluster import USERS
from kit.story.resending import Ended, Resend

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker
    from kit.network.listener import Listener

pytestmark = pytest.mark.integration


def is_one_sentence(ended: Ended) -> str:
    lines = [line for line in ended.stderr.splitlines() if line.startswith("gapless: ")]
    assert len(lines) == 1, ended.stderr
    assert lines[0].endswith(".")
    assert "Traceback" not in ended.stderr
    return lines[0]


@pytest.fixture
def one(kafka: KafkaBroker, topic: TopicFactory) -> dict[str, Any]:
    name = topic()
    kafka.produce(name, [b"one"])
    return {"topic": name, "partition": 0, "offsetFrom": 0, "offsetTo": 0}


def test_an_unreachable_broker_is_given_up_long_before_a_stall(
    one: dict[str, Any], resend: Resend, listener: Listener
) -> None:
    ended = resend.run(**one, bootstrapServers="127.0.0.1:1", stallTimeout=3600, timeout_seconds=90)
    assert ended.exit_code == 3
    assert "127.0.0.1:1 cannot be reached" in is_one_sentence(ended)
    assert "refused" in ended.stderr
    assert ended.report is not None
    assert ended.report["outcome"] == "Failed"
    assert listener.settled() == []


def own_address() -> str:
    """An address of this machine that others reach, too; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has a loopback address only")
        return str(asking.getsockname()[0])


@contextmanager
def relay(address: str, to: tuple[str, int]) -> Iterator[int]:
    """Pass TCP connections to a port of `address` on, as a proxy before Kafka does."""

    class Passing(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.create_connection(to) as behind:
                back = threading.Thread(target=pump, args=(behind, self.request), daemon=True)
                back.start()
                pump(self.request, behind)

    def pump(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)

    with socketserver.ThreadingTCPServer((address, 0), Passing) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def test_brokers_that_kafka_itself_names_are_refused_on_the_machine_itself_where_that_is_asked_for(
    kafka: KafkaBroker, one: dict[str, Any], resend: Resend, listener: Listener
) -> None:
    address = own_address()
    host, _, port = kafka.bootstrap.partition(":")
    with relay(address, (host, int(port))) as entrance:
        way = {"bootstrapServers": f"{address}:{entrance}"}
        ended = resend.run(**one, **way, refuseLocalBrokers="true")
        assert ended.exit_code == 2
        assert f"The broker {host}:{port} resolves to 127.0.0.1" in is_one_sentence(ended)
        assert listener.settled() == []
        assert resend.run(**one, **way).exit_code == 0, "on a shell brokers may be there"


def test_a_missing_topic_and_partition_are_named(
    kafka: KafkaBroker, one: dict[str, Any], resend: Resend, listener: Listener
) -> None:
    ended = resend.run(**one | {"topic": "nowhere"})
    assert ended.exit_code == 2
    assert (
        "does not have the topic nowhere; correct the name or the bootstrap servers, or give topicTranslations"
        in is_one_sentence(ended)
    )
    assert "nowhere" not in kafka.admin().list_topics(timeout=10).topics, "and it was not created by asking"
    ended = resend.run(**one | {"partition": 7})
    assert ended.exit_code == 2
    assert "Partition 7" in is_one_sentence(ended)
    assert "has 1 (0 to 0)" in ended.stderr
    assert listener.settled() == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"nic": "nothere0"}, "'nothere0' does not exist"),
        ({"targetIP": "no-such-host.invalid"}, "'no-such-host.invalid' cannot be resolved"),
        ({"targetPort": "many"}, "targetPort is 'many'"),
        ({"payloadSize": 20}, "500 to 65459"),
        ({"encryption": True}, "publicKeyFile is missing"),
        ({"encryption": True, "publicKeyFile": "/nowhere.pem"}, "/nowhere.pem"),
        ({"inputFilterRules": "deny:("}, "rule 1 of inputFilterRules"),
        ({"offsetTo": 3, "offsetFrom": 4}, "below"),
        ({"offsetFrom": -7}, "offsetFrom is '-7'"),
        ({"from": "yesterday"}, "RFC 3339"),
        ({"partitionStartValue": 4}, "negative upstream partition with partitionStartValue 4"),
        ({"topicTranslations": '{"a":"x","b":"x"}'}, "b become x"),
        ({"checkpoint": "/nowhere/checkpoint"}, "/nowhere/checkpoint"),
        ({"report": "/nowhere/report"}, "/nowhere/report"),
        ({"resendFileName": "/nowhere/bundle"}, "/nowhere/bundle"),
        ({"verifyKey": "/nowhere/key"}, "verifyKey"),
    ],
)
def test_a_wrong_setting_is_refused_before_anything_is_sent(
    settings: dict[str, Any], words: str, one: dict[str, Any], resend: Resend, listener: Listener
) -> None:
    ended = resend.run(**one | settings)
    assert ended.exit_code == 2, ended.stderr
    assert words in is_one_sentence(ended)
    assert listener.datagrams == []


def test_unknown_options_and_keys_are_named_with_what_was_perhaps_meant(resend: Resend) -> None:
    ended = resend.run(ep_s=5)
    assert ended.exit_code == 2
    assert "--ep_s" in is_one_sentence(ended)
    file = resend.folder / "resend.properties"
    file.write_text("payloadsize=1400\n")
    command = [*resend.command(), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "did you mean payload-size?" in done.stderr


@pytest.fixture
def secure(secure_kafka: KafkaBroker, listener: Listener, tmp_path: Path) -> Resend:
    settings = {"targetIP": "127.0.0.1", "targetPort": listener.port, "partition": 0, "offsetFrom": 0, "offsetTo": 0}
    settings["bootstrapServers"] = secure_kafka.address("SASL_SSL")
    (tmp_path / "password").write_text(USERS["alice"])
    return Resend(
        tmp_path,
        settings
        | {
            "caFile": secure_kafka.authority.file,
            "saslMechanism": "SCRAM-SHA-512",
            "saslUsername": "alice",
            "saslPasswordFile": tmp_path / "password",
        },
    )


@pytest.fixture(scope="module")
def guarded(secure_kafka: KafkaBroker) -> str:
    secure_kafka.create_topic("guarded")
    secure_kafka.produce("guarded", [b"secret"])
    return "guarded"


def test_tls_and_login_work(guarded: str, secure: Resend) -> None:
    ended = secure.run(topic=guarded)
    assert ended.exit_code == 0, ended.stderr


def test_a_broker_with_a_strange_certificate_is_not_trusted(guarded: str, secure: Resend) -> None:
    ended = secure.run(topic=guarded, caFile=None, tls=True, stallTimeout=3600, timeout_seconds=90)
    assert ended.exit_code == 3
    assert "certificate verify failed" in is_one_sentence(ended)


def test_a_wrong_password_is_said(guarded: str, secure: Resend) -> None:
    (secure.folder / "password").write_text("wrong")
    ended = secure.run(topic=guarded)
    assert ended.exit_code == 3
    assert "uthentication" in is_one_sentence(ended)
    assert "wrong" not in ended.stderr


def test_a_denied_topic_names_the_permission_that_is_missing(secure_kafka: KafkaBroker, secure: Resend) -> None:
    for operation in (AclOperation.ALL, AclOperation.READ):
        name = secure_kafka.create_topic(f"denied-{operation.name.lower()}")
        secure_kafka.produce(name, [b"secret"])
        secure_kafka.deny(name, "alice", operation)
        ended = secure.run(topic=name)
        assert ended.exit_code == 3, ended.stderr
        assert f"denies access to the topic {name}" in is_one_sentence(ended)
        assert "Read and Describe" in ended.stderr


def test_a_file_that_is_no_certificate_is_refused(guarded: str, secure: Resend) -> None:
    bad = secure.folder / "bad.pem"
    bad.write_text("not a certificate")
    ended = secure.run(topic=guarded, caFile=bad)
    assert ended.exit_code == 2
    assert "bad.pem" in is_one_sentence(ended)


def test_a_bundle_that_was_cut_is_refused(one: dict[str, Any], resend: Resend) -> None:
    bundle = resend.bundle({(one["topic"], 0): [[0]]})
    bundle.write_text(bundle.read_text()[:-5])
    ended = resend.run(resendFileName=bundle)
    assert ended.exit_code == 2
    is_one_sentence(ended)
