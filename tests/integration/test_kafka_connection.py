from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from gapless_api.base.errors import ConfigurationError
from gapless_kafka.access.connection import KafkaConnection
from kit.certificates import Authority
from kit.kafka.cluster import USERS

if TYPE_CHECKING:
    from kit.kafka.broker import KafkaBroker

pytestmark = pytest.mark.integration


def names_of_topics(connection: KafkaConnection) -> set[str]:
    """What a real client sees through `connection`."""
    options: dict[str, Any] = connection.check().librdkafka_options()
    return set(AdminClient({**options, "log_level": 0}).list_topics(timeout=10).topics)


@pytest.fixture(scope="module")
def seen(secure_kafka: KafkaBroker) -> str:
    return secure_kafka.create_topic("connections")


@pytest.fixture(scope="module")
def password_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("login") / "password"
    path.write_text(f" {USERS['alice']}\n")
    return path


def test_a_plain_line(secure_kafka: KafkaBroker, seen: str) -> None:
    assert seen in names_of_topics(KafkaConnection(bootstrap_servers=secure_kafka.address()))


def test_tls_with_an_authority_only(secure_kafka: KafkaBroker, seen: str) -> None:
    assert secure_kafka.authority is not None
    connection = KafkaConnection(bootstrap_servers=secure_kafka.address("SSL"), ca_file=secure_kafka.authority.file)
    assert seen in names_of_topics(connection)


def test_tls_with_the_systems_authorities_does_not_trust_a_private_one(secure_kafka: KafkaBroker) -> None:
    with pytest.raises(KafkaException):
        names_of_topics(KafkaConnection(bootstrap_servers=secure_kafka.address("SSL"), tls=True))


def test_tls_with_the_systems_authorities_where_the_environment_says(
    secure_kafka: KafkaBroker, seen: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert secure_kafka.authority is not None
    connection = KafkaConnection(bootstrap_servers=secure_kafka.address("SSL"), tls=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(secure_kafka.authority.file))
    assert seen in names_of_topics(connection)
    plain = KafkaConnection(bootstrap_servers=secure_kafka.address())
    assert seen in names_of_topics(plain), "the variable alone does not turn TLS on"
    other = Authority(tmp_path / "other").file
    given = replace(connection, ca_file=secure_kafka.authority.file)
    monkeypatch.setenv("SSL_CERT_FILE", str(other))
    assert seen in names_of_topics(given), "caFile has precedence"
    with pytest.raises(KafkaException):
        names_of_topics(connection)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none"))
    with pytest.raises(ConfigurationError, match="SSL_CERT_FILE"):
        connection.check()


@pytest.mark.parametrize("form", ["key", "key_encrypted", "key_encrypted_legacy"])
def test_mutual_tls_with_a_key_in_every_form(secure_kafka: KafkaBroker, seen: str, form: str) -> None:
    files = secure_kafka.client_files
    assert secure_kafka.authority is not None
    assert files is not None
    connection = KafkaConnection(
        bootstrap_servers=secure_kafka.address("MTLS"),
        ca_file=secure_kafka.authority.file,
        cert_file=files.certificate,
        key_file=getattr(files, form),
        key_password_file=files.password_file,
    )
    assert seen in names_of_topics(connection)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_login_with_and_without_tls(
    secure_kafka: KafkaBroker, seen: str, mechanism: Any, listener: str, password_file: Path
) -> None:
    assert secure_kafka.authority is not None
    connection = KafkaConnection(
        bootstrap_servers=secure_kafka.address(listener),
        ca_file=secure_kafka.authority.file if listener == "SASL_SSL" else None,
        sasl_mechanism=mechanism,
        sasl_username="alice",
        sasl_password_file=password_file,
    )
    assert connection.security_protocol == listener
    assert seen in names_of_topics(connection)
