"""The creation of Kafka's clients: the only place that calls the constructors of confluent-kafka.

librdkafka reads certificates and keys when a client is created, and may refuse what `KafkaConnection.check` accepted,
such as a key that is too short for OpenSSL. Here that becomes one sentence for every program.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import confluent_kafka
from confluent_kafka import Consumer, KafkaException, Producer

from gapless_api.base.errors import ConfigurationError
from gapless_kafka.access.errors import BAD_SETTINGS, reason_in

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from gapless_kafka.access.connection import KafkaConnection

FOLLOW_BROKERS = {"topic.metadata.refresh.interval.ms": 2000, "reconnect.backoff.max.ms": 1000}
"""A waiting request is sent to another broker when metadata names one, and when a connection is tried again."""
_NO_PROVIDER = "No provider for SASL mechanism "
"""How librdkafka says that it was built without Cyrus SASL."""


def new_consumer(connection: KafkaConnection, options: Mapping[str, Any]) -> Consumer:
    """Create a consumer with `options` in addition to those of the connection.

    It verifies the checksum of each batch, which librdkafka does not do by default: altered bytes would be carried on.
    After a wrong one the client returns the error ``_BAD_MSG`` and continues at a random offset, so the partition must
    be dropped at the error. It does not log; errors in the background are ignored without the option ``error_cb``.

    Raises:
        ConfigurationError: librdkafka rejects the options, or a file of the connection cannot be used.
    """
    return _new(Consumer, connection, {"check.crcs": True, **options})


def new_producer(connection: KafkaConnection, options: Mapping[str, Any]) -> Producer:
    """Create a producer like `new_consumer`. Raises ConfigurationError."""
    return _new(Producer, connection, options)


def new_admin(connection: KafkaConnection, options: Mapping[str, Any] | None = None) -> AdminClient:
    """Create an admin client like `new_consumer`, which uses another broker a few seconds after one has died.

    librdkafka sends most requests to the broker that its metadata names as the controller, which is any of them with
    KRaft. It does not ask for other metadata when that one does not answer, only every five minutes by default.

    Raises:
        ConfigurationError: like `new_consumer`.
    """
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415 -- slow to load, and often not needed

    return _new(AdminClient, connection, {**FOLLOW_BROKERS, **(options or {})})


def _new(client: Callable[..., Any], connection: KafkaConnection, options: Mapping[str, Any]) -> Any:
    quiet = logging.getLogger("gapless.librdkafka")
    quiet.propagate = False
    quiet.setLevel(logging.CRITICAL + 1)
    if connection.sasl_mechanism == "GSSAPI":
        connection.kerberos.prepare_process()
    token = connection.token_callback()
    login = {} if token is None else {"oauth_cb": token}
    all_options = {"log_level": 0, "error_cb": _ignore, **connection.librdkafka_options(), **login, **options}
    try:
        return client(all_options, logger=quiet)
    except KafkaException as error:
        reason = reason_in(error.args[0].str())
        if _NO_PROVIDER in reason:
            raise ConfigurationError(
                f"The Kafka client of this installation, confluent-kafka {confluent_kafka.version()}, is built without "
                f"{connection.sasl_mechanism}; the images of Gapless have a client with it, and "
                f"docs/procedures/kerberos-logins.md says how a host gets one."
            ) from None
        raise BAD_SETTINGS.error(connection.bootstrap_servers, reason=reason) from None


def _ignore(_error: Any) -> None:
    """Ignore errors in the background; requests return them too."""
