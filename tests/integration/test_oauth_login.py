"""Logins with OAUTHBEARER at a broker that verifies each token's signature with Kafka's own validator."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gapless_api.base.errors import SourceUnreachableError
from gapless_kafka.access.client import KafkaClient
from gapless_kafka.access.connection import KafkaConnection
from gapless_kafka.access.constructors import new_admin, new_producer
from gapless_kafka.access.oauth import OAuthLogin
from kit.certificates import Authority
from kit.kafka.broker import KafkaBroker
from kit.network.token_endpoint import AUDIENCE, ISSUER, TokenEndpoint

pytestmark = pytest.mark.integration
SECRET = "correct horse & 100% +battery"  # noqa: S105 -- of the test's own endpoint


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("oauth"), "authority of the token endpoint")


@pytest.fixture(scope="module")
def endpoint(authority: Authority) -> Iterator[TokenEndpoint]:
    with TokenEndpoint(authority.server_store(), {"gapless": SECRET}) as server:
        yield server


@pytest.fixture(scope="module")
def broker(endpoint: TokenEndpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    keys = endpoint.write_keys(tmp_path_factory.mktemp("keys") / "jwks.json").as_uri()
    listener = "listener.name.sasl_ssl."
    security = "org.apache.kafka.common.security.oauthbearer"
    config = {
        f"{listener}sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{listener}oauthbearer.sasl.jaas.config": f"{security}.OAuthBearerLoginModule required;",
        f"{listener}oauthbearer.sasl.server.callback.handler.class": f"{security}.OAuthBearerValidatorCallbackHandler",
        f"{listener}oauthbearer.connections.max.reauth.ms": "3000",
        "sasl.oauthbearer.jwks.endpoint.url": keys,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys}"
    with KafkaBroker(secured=True, config=config, jvm_options=[allowed]) as running:
        running.create_topic("oauth")
        yield running


def connection(broker: KafkaBroker, **login: Any) -> KafkaConnection:
    assert broker.authority is not None
    return KafkaConnection(
        bootstrap_servers=broker.address("SASL_SSL"),
        ca_file=broker.authority.file,
        sasl_mechanism="OAUTHBEARER",
        oauth=OAuthLogin(**login),
    ).check()


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    file = tmp_path / "client-secret"
    file.write_text(f"{SECRET}\n")
    return file


@pytest.fixture
def credentials(endpoint: TokenEndpoint, authority: Authority, secret_file: Path) -> dict[str, Any]:
    return {
        "token_endpoint": endpoint.url,
        "client_id": "gapless",
        "client_secret_file": secret_file,
        "ca_file": authority.file,
    }


def test_every_client_logs_in_with_a_token_of_the_endpoint(
    broker: KafkaBroker, endpoint: TokenEndpoint, credentials: dict[str, Any]
) -> None:
    found = connection(broker, **credentials, scope="kafka:read")
    assert "oauth" in new_admin(found).list_topics(timeout=30).topics
    assert endpoint.requests[-1]["scope"] == "kafka:read"
    producer = new_producer(found, {})
    producer.produce("oauth", b"value")
    assert producer.flush(30) == 0
    client = KafkaClient(found, {"group.id": "oauth"}, connect_timeout_seconds=30)
    client.connect()
    client.close()


def test_a_wrong_secret_is_a_refused_login(broker: KafkaBroker, credentials: dict[str, Any], secret_file: Path) -> None:
    secret_file.write_text("wrong-secret")
    client = KafkaClient(connection(broker, **credentials), {"group.id": "oauth"}, connect_timeout_seconds=5)
    with pytest.raises(SourceUnreachableError, match=r"refuses the connection \(.*token") as raised:
        client.connect()
    client.close()
    assert "invalid_client" in str(raised.value) or "401" in str(raised.value)
    assert "wrong-secret" not in str(raised.value)


def test_an_endpoint_is_verified(broker: KafkaBroker, credentials: dict[str, Any]) -> None:
    assert broker.authority is not None
    found = connection(broker, **{**credentials, "ca_file": broker.authority.file})
    client = KafkaClient(found, {"group.id": "oauth"}, connect_timeout_seconds=5)
    with pytest.raises(SourceUnreachableError, match="certificate"):
        client.connect()
    client.close()


def test_a_token_file_is_read_again(broker: KafkaBroker, endpoint: TokenEndpoint, tmp_path: Path) -> None:
    """The first token expires while the client is connected; the broker asks for a new one after three seconds."""
    file = tmp_path / "token"
    file.write_text(endpoint.token("gapless", lifetime_seconds=6) + "\n")
    first_expiry = time.monotonic() + 6
    admin = new_admin(connection(broker, token_file=file))
    assert "oauth" in admin.list_topics(timeout=30).topics
    file.write_text(endpoint.token("gapless") + "\n")
    while time.monotonic() < first_expiry + 3:
        assert "oauth" in admin.list_topics(timeout=30).topics
        time.sleep(0.5)  # the time that passes is what is tested


def test_a_token_of_another_authority_is_a_refused_login(
    broker: KafkaBroker, authority: Authority, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    with TokenEndpoint(authority.server_store("other"), {}) as other:
        file.write_text(other.token("gapless"))
    client = KafkaClient(connection(broker, token_file=file), {"group.id": "oauth"}, connect_timeout_seconds=10)
    with pytest.raises(SourceUnreachableError, match="refuses the connection"):
        client.connect()
    client.close()
