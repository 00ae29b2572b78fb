from __future__ import annotations

import base64
import json
import os
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_api.v1alpha1.kafka_connection import KafkaConnectionSpec
from gapless_kafka.access.connection import KafkaConnection, unchecked_connection_from
from gapless_kafka.access.oauth import FileToken, OAuthLogin
from gapless_kafka.access.settings import KAFKA_SETTINGS
from gapless_operator.common.access import kafka_secrets, kafka_settings

URL = "https://login.example.org/realms/kafka/token"


def jwt(**claims: Any) -> str:
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in ({}, claims)]
    return ".".join([*parts, "c2ln"])


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "secret"
    file.write_text("geheim\n")
    return file


def connection(**changed: Any) -> KafkaConnection:
    return KafkaConnection(bootstrap_servers="kafka:9092", **{"sasl_mechanism": "OAUTHBEARER", **changed})


def test_client_credentials_become_options(secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    login = OAuthLogin(token_endpoint=URL, client_id="gapless", client_secret_file=secret, scope="kafka")
    options = connection(oauth=login).check().librdkafka_options()
    assert options["sasl.mechanism"] == "OAUTHBEARER"
    assert options["sasl.oauthbearer.client.secret"] == "geheim"
    assert options["https.ca.location"] == "probe"
    assert "sasl.username" not in options
    assert "geheim" not in repr(connection(oauth=login))


@pytest.mark.parametrize(
    ("login", "words"),
    [
        ({}, "needs oauthTokenFile, or oauthTokenEndpoint"),
        ({"token_endpoint": URL}, "give oauthClientId, oauthClientSecretFile"),
        ({"token_endpoint": "login.example.org/token", "client_id": "a"}, "is not a URL"),
        ({"token_endpoint": "https://user:hunter2@login/token", "client_id": "a"}, "is not a URL"),
        ({"token_endpoint": "https://login:70000/token", "client_id": "a"}, "is not a URL"),
    ],
)
def test_an_incomplete_login_is_refused(secret: Path, login: dict[str, Any], words: str) -> None:
    if "client_id" in login:
        login = {**login, "client_secret_file": secret}
    with pytest.raises(ConfigurationError, match=words) as raised:
        connection(oauth=OAuthLogin(**login)).check()
    assert "hunter2" not in str(raised.value)


def test_the_two_kinds_of_logins_are_not_mixed(secret: Path) -> None:
    with pytest.raises(ConfigurationError, match="without saslMechanism OAUTHBEARER"):
        connection(sasl_mechanism=None, oauth=OAuthLogin(token_file=secret)).check()
    with pytest.raises(ConfigurationError, match="without saslMechanism OAUTHBEARER"):
        connection(
            sasl_mechanism="PLAIN", sasl_username="a", sasl_password_file=secret, oauth=OAuthLogin(scope="x")
        ).check()
    with pytest.raises(ConfigurationError, match="has no user name and password"):
        connection(sasl_username="a", oauth=OAuthLogin(token_file=secret)).check()
    with pytest.raises(ConfigurationError, match="oauthTokenFile and oauthScope are given"):
        connection(oauth=OAuthLogin(token_file=secret, scope="x")).check()


@pytest.fixture
def aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the only AWS credentials of this process: two profiles in a file."""
    file = tmp_path / "credentials"
    keys = "aws_access_key_id = {}\naws_secret_access_key = geheim\n"
    file.write_text(f"[default]\n{keys.format('AKIADEFAULT')}[night]\n{keys.format('AKIANIGHT')}")
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return tmp_path


def signed(token: str) -> dict[str, list[str]]:
    """The query of the request that a token for Amazon MSK holds, which is a URL in base64."""
    url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    assert url.hostname == "kafka.eu-north-1.amazonaws.com"
    return parse_qs(url.query)


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize(("profile", "key"), [(None, "AKIADEFAULT"), ("night", "AKIANIGHT")])
def test_tokens_for_amazon_msk_are_signed_each_time(profile: str | None, key: str) -> None:
    login = OAuthLogin(msk_region="eu-north-1", msk_profile=profile)
    found = connection(oauth=login).check()
    callback = found.token_callback()
    assert callback is not None
    token, expiry = callback("")
    query = signed(token)
    assert query["Action"] == ["kafka-cluster:Connect"]
    assert query["X-Amz-Credential"][0].startswith(f"{key}/")
    assert "/eu-north-1/kafka-cluster/aws4_request" in query["X-Amz-Credential"][0]
    assert len(query["X-Amz-Signature"][0]) == 64
    assert 600 < expiry - time.time() <= 900
    assert "geheim" not in token + repr(found)
    assert found.librdkafka_options().keys().isdisjoint({"sasl.oauthbearer.method", "sasl.username"})


@pytest.mark.parametrize(
    ("login", "words"),
    [
        ({"msk_profile": "night"}, "oauthMskProfile is given without oauthMskRegion"),
        ({"msk_region": "Stockholm"}, "'Stockholm' is not a region"),
        ({"msk_region": "eu-north-1", "scope": "a"}, "oauthMskRegion and oauthScope are given"),
        ({"msk_region": "eu-north-1", "msk_profile": "absent"}, r"No token can be signed for Amazon MSK .*absent"),
    ],
)
def test_an_unusable_login_at_amazon_msk_is_refused(aws: Path, login: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        connection(oauth=OAuthLogin(**login)).check()
    (aws / "credentials").unlink()
    with pytest.raises(ConfigurationError, match="No token can be signed"):
        connection(oauth=OAuthLogin(msk_region="eu-north-1")).check()


def test_without_the_signer_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    with pytest.raises(ConfigurationError, match=r"the extra msk of gapless brings"):
        connection(oauth=OAuthLogin(msk_region="eu-north-1")).check()


def test_a_token_file_is_read_each_time(tmp_path: Path) -> None:
    file = tmp_path / "token"
    soon = int(time.time()) + 5
    file.write_text(jwt(exp=soon) + "\n")
    callback = connection(oauth=OAuthLogin(token_file=file)).check().token_callback()
    assert callback is not None
    assert callback("") == (jwt(exp=soon), soon)
    file.write_text("\ufeffopaque-token\r\n", encoding="utf-8")
    token, expiry = callback("")
    assert token == "opaque-token"  # noqa: S105
    assert soon < expiry <= time.time() + 20


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (jwt(exp=1_000_000_000), "expired at 2001-09-09T01:46:40Z"),
        ('"quoted"', "holds no bearer token"),
        ("a b", "holds no bearer token"),
        ('{"access_token":"a"}', "holds no bearer token"),
        ("", "is empty"),
    ],
)
def test_a_file_without_a_usable_token_is_refused(tmp_path: Path, content: str, words: str) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    with pytest.raises(ConfigurationError, match=words) as raised:
        FileToken(file).read()
    assert not content or content not in str(raised.value)


@pytest.mark.parametrize("exp", [None, True, "soon", float("inf"), -1, 1 << 50])
def test_a_token_with_a_strange_expiry_is_not_judged(tmp_path: Path, exp: Any) -> None:
    file = tmp_path / "token"
    file.write_text(jwt(exp=exp))
    assert FileToken(file)("")[1] <= time.time() + 20


def test_local_token_endpoints_are_refused_in_pods(secret: Path) -> None:
    url = "https://127.0.0.1:8443/token"
    login = OAuthLogin(token_endpoint=url, client_id="a", client_secret_file=secret)
    with pytest.raises(ConfigurationError, match=r"The token endpoint 127.0.0.1:8443"):
        connection(oauth=login, refuses_local=True).check_bootstrap_servers()


def spec(**oauth: Any) -> dict[str, Any]:
    sasl = {"mechanism": "OAUTHBEARER", "oauth": oauth}
    return {"bootstrapServers": "kafka:9092", "allowedTopics": ("*",), "sasl": sasl}


CLIENT = {"tokenEndpoint": URL, "clientId": "gapless", "clientSecret": {"name": "login"}}


@pytest.mark.parametrize(
    "oauth", [{**CLIENT, "scope": "kafka", "caSecret": {"name": "ca"}}, {"tokenSecret": {"name": "t"}}]
)
def test_a_pod_gets_the_settings_and_files_of_its_connection(oauth: dict[str, Any], tmp_path: Path) -> None:
    """The settings that the operator writes, with the files that it mounts, are a connection."""
    kafka = KafkaConnectionSpec.model_validate(spec(**oauth))
    settings = kafka_settings(kafka, str(tmp_path))
    mounted = {str(tmp_path / file) for _, file, _ in kafka_secrets(kafka)}
    assert mounted == {text for name, text in settings.items() if name.endswith("File")}
    by_name = {setting.name: setting for setting in KAFKA_SETTINGS}
    values = {name: by_name[name].parse(text) for name, text in settings.items()}
    found = unchecked_connection_from(values)
    assert found.oauth.is_given
    assert found.sasl_mechanism == "OAUTHBEARER"


@pytest.mark.parametrize(
    ("oauth", "words"),
    [
        ({}, "give tokenSecret, or tokenEndpoint with"),
        ({**CLIENT, "tokenSecret": {"name": "t"}}, "give tokenSecret, or tokenEndpoint with"),
        ({"tokenEndpoint": URL, "clientId": "a"}, "give tokenSecret, or tokenEndpoint with"),
        ({"tokenSecret": {"name": "t"}, "scope": "a"}, "are for a token endpoint"),
        ({**CLIENT, "tokenEndpoint": "http://login.example.org/token"}, "https:// URL"),
        ({**CLIENT, "tokenEndpoint": "https://169.254.169.254/token"}, "metadata addresses are refused"),
        ({**CLIENT, "tokenEndpoint": "https://localhost/token"}, "metadata addresses are refused"),
    ],
)
def test_a_spec_that_cannot_work_is_refused(oauth: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        KafkaConnectionSpec.model_validate(spec(**oauth))


@pytest.mark.parametrize(
    "sasl",
    [
        {"mechanism": "OAUTHBEARER"},
        {"mechanism": "OAUTHBEARER", "oauth": CLIENT, "username": "a"},
        {"username": "a", "passwordSecret": {"name": "a"}, "oauth": CLIENT},
        {"username": "a"},
        {},
    ],
)
def test_a_spec_of_mixed_logins_is_refused(sasl: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"OAUTHBEARER requires|PLAIN and SCRAM require"):
        KafkaConnectionSpec.model_validate({**spec(), "sasl": sasl})
