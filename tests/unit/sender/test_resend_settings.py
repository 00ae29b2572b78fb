"""The proof that resend takes every setting of the peer under every spelling, and says what is wrong with one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.settings import Resolved, kebab, resolve
from gapless_sender.base.sharding import UNSHARDED, with_own_files
from gapless_sender.settings.resend import RESEND, ResendSettings
from gapless_sender.source.plan import Reason
from gapless_sender.workers.runtime import fill_reasons

NEEDED = {"targetIP": "10.0.0.2", "targetPort": "1234", "bootstrapServers": "kafka:9092"}
PEER: dict[str, tuple[str, str]] = {
    "id": ("ID", "name"), "nic": ("NIC", "eth0"), "targetIP": ("TARGET_IP", "10.0.0.3"),
    "targetPort": ("TARGET_PORT", "99"), "bootstrapServers": ("BOOTSTRAP_SERVERS", "k:1"), "topic": ("TOPIC", "t"),
    "groupID": ("GROUP_ID", "g"), "payloadSize": ("PAYLOAD_SIZE", "1000"), "from": ("FROM", "2026-01-01T00:00:00Z"),
    "to": ("TO", "2026-01-01T00:00:00+01:00"), "encryption": ("ENCRYPTION", "true"),
    "publicKeyFile": ("PUBLIC_KEY_FILE", "c.pem"),
    "generateNewSymmetricKeyEvery": ("GENERATE_NEW_SYMMETRIC_KEY_EVERY", "60"), "eps": ("EPS", "0.5"),
    "compressWhenLengthExceeds": ("COMPRESS_WHEN_LENGTH_EXCEEDS", "100"), "logLevel": ("LOG_LEVEL", "debug"),
    "logFileName": ("LOG_FILE_NAME", "l"), "logStatistics": ("LOG_STATISTICS", "10"), "certFile": ("CERT_FILE", "c"),
    "keyFile": ("KEY_FILE", "k"), "caFile": ("CA_FILE", "a"), "keyPasswordFile": ("KEY_PASSWORD_FILE", "p"),
    "limit": ("LIMIT", "first"), "resendFileName": ("RESULT_FILE_NAME", "b.json"),
    "partitionStartValue": ("PARTITION_START_VALUE", "10"), "partitionStopValue": ("PARTITION_STOP_VALUE", "5"),
    "inputFilterRules": ("INPUT_FILTER_RULES", "deny:x"),
    "inputFilterDefaultAction": ("INPUT_FILTER_DEFAULT_ACTION", "deny"),
    "inputFilterTimeout": ("INPUT_FILTER_TIMEOUT", "50"), "partition": ("PARTITION", "3"),
    "offsetFrom": ("OFFSET_FROM", "4"), "offsetTo": ("OFFSET_TO", "5"),
}  # fmt: skip
"""Every setting of the peer's resend with its variable and a value that is not the default."""


def told(
    tmp_path: Path, *, file: dict[str, str] | None = None, environment: dict[str, str] | None = None, **options: str
) -> Resolved:
    path = tmp_path / "resend.properties"
    path.write_text("\n".join(f"{name}={value}" for name, value in {**NEEDED, **(file or {})}.items()))
    variables = {f"AIRGAP_RESEND_{name}": value for name, value in (environment or {}).items()}
    return resolve(RESEND, file=path, environment=variables, options=dict(options))


@pytest.mark.parametrize("name", PEER)
def test_every_setting_of_the_peer_is_taken_from_file_environment_and_command_line(name: str, tmp_path: Path) -> None:
    variable, text = PEER[name]
    from_file = told(tmp_path, file={name: text}).values[name]
    assert from_file != told(tmp_path).values[name]
    assert told(tmp_path, file={kebab(name): text}).values[name] == from_file
    assert told(tmp_path, environment={variable: text}).values[name] == from_file
    assert told(tmp_path, **{name: text}).values[name] == from_file


def test_the_peers_defaults_are_ours(tmp_path: Path) -> None:
    values = told(tmp_path).values
    assert values["id"] == "Resend"
    assert values["payloadSize"] == 1400
    assert values["encryption"] is False
    assert values["eps"] == 0
    assert (values["partitionStartValue"], values["partitionStopValue"]) == (0, 0)
    assert (values["inputFilterDefaultAction"], values["inputFilterTimeout"]) == ("allow", 100)
    assert (values["partition"], values["offsetFrom"], values["offsetTo"]) == (None, None, None)
    assert (values["from"], values["to"]) == (None, None)


def test_an_empty_value_unsets_where_the_peer_dies(tmp_path: Path) -> None:
    assert told(tmp_path, file={"from": "", "eps": "", "nic": ""}).values["from"] is None


def test_the_peers_minus_one_means_not_given(tmp_path: Path) -> None:
    values = told(tmp_path, file={"partition": "-1", "offsetFrom": "-1", "offsetTo": "-1", "eps": "-1"}).values
    assert (values["partition"], values["offsetFrom"], values["offsetTo"], values["eps"]) == (None, None, None, 0)


def test_an_upstream_file_is_read_and_what_does_not_matter_is_named(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        file={
            "source": "kafka", "sendingThreads": '[{"now":0}]', "transport": "udp", "deliverFilter": "2,3",
            "tcpRetryTimes": "3", "tcpSomethingNewer": "x", "topicTranslations": '{"events":"transfer"}',
            "internalTopic": "x", "batchSize": "3",
        },
    )  # fmt: skip
    assert set(found.ignored) == {
        "source", "sendingThreads", "transport", "deliverFilter", "tcpRetryTimes", "tcpSomethingNewer", "internalTopic",
        "batchSize",
    }  # fmt: skip
    assert found.values["topicTranslations"] == {"events": "transfer"}


def test_other_names_of_the_bundle_are_known(tmp_path: Path) -> None:
    for name in ("resultFileName", "result-file-name", "bundle"):
        assert str(told(tmp_path, file={name: "x"}).values["resendFileName"]) == "x"
    for variable in ("RESULT_FILE_NAME", "RESEND_FILE_NAME"):
        assert str(told(tmp_path, environment={variable: "x"}).values["resendFileName"]) == "x"


def test_an_unknown_variable_is_named(tmp_path: Path) -> None:
    assert told(tmp_path, environment={"EPSS": "1"}).unknown_variables == ("AIRGAP_RESEND_EPSS",)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("payloadSize", "499", "500 to 65459"),
        ("payloadSize", "65460", "500 to 65459"),
        ("eps", "fast", "a number"),
        ("eps", "nan", "finite"),
        ("bitsPerSecond", "8X", "bits per second"),
        ("from", "2026-01", "RFC 3339"),
        ("from", "2026-13-01T00:00:00Z", "RFC 3339"),
        ("offsetFrom", "9223372036854775808", "9223372036854775807"),
        ("offsetTo", "-2", "-1"),
        ("targetPort", "0", "1 to 65535"),
        ("topicTranslations", "[1]", "JSON object"),
        ("topicTranslations", "{", "JSON object"),
        ("topicTranslations", '{"a":1}', "JSON object"),
        ("topicTranslations", '{"a":"x","b":"x"}', "become x, so it is unknown"),
        ("fill", "NotYetWritten", "NonExistent"),
        ("unavailable", "ignore", "report, fill"),
        ("stallTimeout", "0", "above 0"),
        ("keySettle", "-1", "0 or more"),
        ("sourceAddress", "here", "IP address"),
        ("dscp", "64", "from 0 to 63"),
        ("dscp", "AF44", "a name such as EF"),
        ("ttl", "0", "from 1 to 255"),
        ("encryption", "maybe", "true or false"),
        ("copies", "0", "1 to 100"),
    ],
)
def test_a_wrong_value_is_refused_in_a_sentence(name: str, text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        told(tmp_path, file={name: text})
    assert words in str(caught.value)
    assert f"setting {name} is" in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("payloadSize", "auto", 0),
        ("payloadSize", "0", 0),
        ("bitsPerSecond", "1.5M", 1.5e6),
        ("bitsPerSecond", "64k", 64e3),
        ("from", "1970-01-01T01:00:00.25+01:00", 250),
        ("offsetFrom", "9223372036854775807", 2**63 - 1),
        ("fill", "expired, TooLarge", ("Expired", "TooLarge")),
        ("sourceAddress", "::1", "::1"),
        ("sourceAddress", "fe80::1%eth0", "fe80::1%eth0"),
        ("dscp", "46", 46),
        ("dscp", "ef", 46),
        ("dscp", "AF21", 18),
        ("dscp", "AF43", 38),
        ("dscp", "CS1", 8),
        ("dscp", "le", 1),
        ("dscp", "0", 0),
        ("ttl", "255", 255),
    ],
)
def test_values_are_read(name: str, text: str, value: Any, tmp_path: Path) -> None:
    assert told(tmp_path, file={name: text}).values[name] == value


def test_what_may_be_filled_is_said_only_where_something_is_filled(tmp_path: Path) -> None:
    for more in (dict[str, str](), {"unavailable": "report"}):
        with pytest.raises(ConfigurationError, match="fill has an effect only with unavailable=fill"):
            ResendSettings.of(with_own_files(told(tmp_path, file={"fill": "Expired", **more}).values, UNSHARDED))
    for given, filled in ((dict[str, str](), {Reason.NON_EXISTENT}), ({"fill": "Expired"}, {Reason.EXPIRED})):
        values = told(tmp_path, file={"unavailable": "fill", **given}).values
        assert fill_reasons(ResendSettings.of(with_own_files(values, UNSHARDED)).selection) == filled
    values = told(tmp_path).values
    assert not fill_reasons(ResendSettings.of(with_own_files(values, UNSHARDED)).selection)


def test_every_setting_has_a_sentence_and_a_group() -> None:
    for setting in RESEND.settings:
        assert setting.group, setting.name
        assert setting.help.endswith("."), setting.name
