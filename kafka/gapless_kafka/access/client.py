"""One client of librdkafka: how it connects, how it retries requests, and what its errors mean.

Must not know what is requested or read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from confluent_kafka import Consumer, KafkaError, KafkaException

from gapless_kafka.access.answers import cluster_metadata
from gapless_kafka.access.constructors import new_consumer
from gapless_kafka.access.errors import LOGIN, OTHER, UNREACHABLE, fault_of
from gapless_kafka.access.stall_clock import STALLED_AFTER_SECONDS, StallClock

if TYPE_CHECKING:
    from confluent_kafka.admin import ClusterMetadata

    from gapless_api.base.errors import GaplessError
    from gapless_kafka.access.connection import KafkaConnection

REQUEST_TIMEOUT_SECONDS = 10.0
"""Timeout of one request."""
_RETRY_SECONDS = 0.1
_GENERAL = frozenset({KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT})  # noqa: SLF001
"""Errors that are less specific than all others."""


class KafkaClient:
    """A consumer and the errors that it has reported. Call `connect` first and `close` at the end."""

    def __init__(
        self,
        connection: KafkaConnection,
        options: Mapping[str, Any],
        *,
        connect_timeout_seconds: float = 10.0,
        stall_timeout_seconds: float = STALLED_AFTER_SECONDS,
        pulse: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare a client; nothing is sent before `connect`.

        Args:
            connection: the cluster to connect to, and the credentials.
            options: properties of librdkafka in addition to those of the connection.
            connect_timeout_seconds: limit for the first response.
            stall_timeout_seconds: limit for waiting without a response later.
            pulse: called during each wait for Kafka; it may raise to cancel the work.
        """
        self.connection = connection
        self.stall_timeout_seconds = stall_timeout_seconds
        self.pulse = pulse
        self.on_error: Callable[[], None] = lambda: None
        """Called for each error that librdkafka reports in the background."""
        self._options = options
        self._connect_timeout_seconds = connect_timeout_seconds
        self._reported_errors: dict[str, KafkaError] = {}
        self._consumer: Consumer = None

    @property
    def consumer(self) -> Consumer:
        """The client of confluent-kafka, after `connect`."""
        return self._consumer

    def connect(self) -> None:
        """Connect to a broker.

        Raises:
            SourceUnreachableError: no broker responds in time, or the brokers refuse the connection.
            ConfigurationError: librdkafka rejects the settings, or a broker is at a forbidden local address.
        """
        self.connection.check_bootstrap_servers()
        self._consumer = new_consumer(self.connection, {**self._options, "error_cb": self.record_error})
        deadline = time.monotonic() + self._connect_timeout_seconds
        while True:
            self.pulse()
            remaining = deadline - time.monotonic()
            try:
                cluster = cluster_metadata(self._consumer, timeout_seconds=max(min(remaining, 1.0), 0.1))
            except KafkaException as error:
                self._consumer.poll(0)
                if self._is_login_refused() or remaining <= 1.0:
                    self._raise_unreachable(error)
                time.sleep(_RETRY_SECONDS)
            else:
                self._reported_errors.clear()
                self.check_brokers(cluster)
                return

    def check_brokers(self, cluster: ClusterMetadata) -> None:
        """Check the advertised addresses of the brokers before connecting to them. Raises ConfigurationError."""
        self.connection.check_brokers((broker.host, broker.port) for broker in cluster.brokers.values())

    def call(self, request: Callable[[Consumer], Any]) -> Any:
        """Send a request, and retry it after transient errors until the stall timeout.

        Raises:
            SourceUnreachableError: Kafka does not respond, or refuses the request.
        """
        clock = StallClock(self.stall_timeout_seconds)
        while True:
            clock.start_wait()
            try:
                return request(self._consumer)
            except KafkaException as error:
                reported: KafkaError = error.args[0]
                if not fault_of(reported.name()).is_transient:
                    raise self.error_for("", reported) from None
                clock.end_wait(progress=False, max_seconds=REQUEST_TIMEOUT_SECONDS)
                if clock.is_stalled:
                    self._raise_unreachable(error)
                self.record_error(reported)
            self.pulse()
            clock.start_wait()
            time.sleep(_RETRY_SECONDS)
            clock.end_wait(progress=False)

    def record_error(self, error: KafkaError) -> None:
        """Keep `error` as the reason of a later failure."""
        self._reported_errors[error.name()] = error
        self.on_error()

    def reported_reason(self) -> str:
        """The most specific error that librdkafka has reported; empty for none."""
        by_detail = sorted(self._reported_errors.values(), key=lambda error: error.code() in _GENERAL)
        return str(by_detail[0].str()) if by_detail else ""

    def error_for(self, topic: str, error: KafkaError | None) -> GaplessError:
        """The error to raise when Kafka refuses access to `topic`, or the request if that is empty."""
        fault = fault_of(error.name()) if error is not None else OTHER
        return fault.error(
            self.connection.bootstrap_servers,
            f"the topic {topic}" if topic else "the cluster",
            reason=error.str() if error is not None else "no reason given",
            hint=", or give topicTranslations if events carry another topic name than Kafka",
        )

    def _is_login_refused(self) -> bool:
        return any(fault_of(name) is LOGIN for name in self._reported_errors)

    def _raise_unreachable(self, error: KafkaException) -> NoReturn:
        reason = self.reported_reason() or _text(error)
        fault = LOGIN if self._is_login_refused() else UNREACHABLE
        raise fault.error(self.connection.bootstrap_servers, reason=reason) from None

    def close(self) -> None:
        """Close the connection."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


def _text(error: KafkaException) -> str:
    return str(error.args[0].str())
