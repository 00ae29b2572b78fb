"""The proof of how the doctor connects to brokers, with a server of TLS in place of one."""

from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path

import pytest

from gapless_kafka.access.connection import KafkaConnection
from gapless_mirror.doctor.observed import Broker
from gapless_mirror.doctor.observing.brokers import connections_to
from kit.certificates import Authority


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("encrypted", [False, True])
def test_a_broker_that_requires_our_certificate_is_reached(
    tmp_path: Path,
    version: ssl.TLSVersion,
    encrypted: bool,  # noqa: FBT001
) -> None:
    authority = Authority(tmp_path)
    ours = authority.client("doctor")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.server_store())
    context.load_verify_locations(authority.file)
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = context.maximum_version = version

    def serve() -> None:
        line, _ = listening.accept()
        with line, context.wrap_socket(line, server_side=True) as trusted:
            trusted.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = threading.Thread(target=serve, daemon=True)
        server.start()
        connection = KafkaConnection(
            bootstrap_servers="localhost:9092",
            ca_file=authority.file,
            cert_file=ours.certificate,
            key_file=ours.key_encrypted if encrypted else ours.key,
            key_password_file=ours.password_file if encrypted else None,
        )
        broker = Broker(1, "127.0.0.1", listening.getsockname()[1])
        (found,) = connections_to([broker], connection, timeout_seconds=5)
        server.join(5)
    assert (found.problem, found.distrust) == ("", "")
    assert [one.subject for one in found.certificates][:1] == ["CN=localhost"]
