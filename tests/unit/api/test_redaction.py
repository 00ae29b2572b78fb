"""No message shows the value of a secret: of the names that librdkafka defines."""

from __future__ import annotations

import pytest

from gapless_api.base.redaction import HIDDEN, shown_value

LIBRDKAFKA = (
    "sasl.password",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.password",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.assertion.private.key.pem",
    "sasl.oauthbearer.config",
)
"""Properties of librdkafka whose values can be secrets, by its CONFIGURATION.md."""
SHOWN = (
    "bootstrap.servers",
    "client.id",
    "group.id",
    "security.protocol",
    "sasl.mechanism",
    "sasl.username",
    "ssl.endpoint.identification.algorithm",
    "topics",
    "refresh.topics.interval.seconds",
    "replication.factor",
)
"""Values of these are needed to understand a message."""


@pytest.mark.parametrize("name", LIBRDKAFKA)
def test_secrets_of_librdkafka_are_hidden(name: str) -> None:
    for written in (name, name.upper(), f"target.{name}"):
        assert shown_value(written, "hunter2") == HIDDEN


@pytest.mark.parametrize("name", SHOWN)
def test_other_values_are_shown(name: str) -> None:
    assert shown_value(name, "value") == "'value'"
