"""Owns one client of librdkafka: how it connects, how often a question is asked again, and what its errors mean.

Must not know what is asked nor what is read.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException

from gapless_kafka.access.errors import BAD_SETTINGS, LOGIN, OTHER, UNREACHABLE, fault_of
from gapless_kafka.access.stall_clock import STALLED_AFTER_SECONDS, StallClock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka.admin import ClusterMetadata

    from gapless_api.base.errors import GaplessError
    from gapless_kafka.access.connection import KafkaConnection

ANSWER_SECONDS = 10.0
"""How long one question may take."""
_PAUSE_SECONDS = 0.1
_GENERAL = frozenset({KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT})  # noqa: SLF001
"""Errors that say less than any other one."""


class KafkaClient:
    """A consumer and what it complained of. `connect` before anything else, `close` at the end."""

    def __init__(
        self,
        connection: KafkaConnection,
        options: Mapping[str, Any],
        *,
        connect_timeout_seconds: float = 10.0,
        stall_timeout_seconds: float = STALLED_AFTER_SECONDS,
        pulse: Callable[[], None] = lambda: None,
    ) -> None:
        """Remember how to connect.

        Args:
            connection: where Kafka is and who we are.
            options: properties of librdkafka beside those of the connection.
            connect_timeout_seconds: how long the first answer may take.
            stall_timeout_seconds: how long answers may be missing later.
            pulse: is called whenever we wait for Kafka; it may raise to end the work.
        """
        self.connection = connection
        self.stall_timeout_seconds = stall_timeout_seconds
        self.pulse = pulse
        self.on_error: Callable[[], None] = lambda: None
        """Is called for each error that Kafka's client tells on its own."""
        self._options = options
        self._connect_timeout_seconds = connect_timeout_seconds
        self._complaints: dict[str, KafkaError] = {}
        self._consumer: Consumer = None

    @property
    def consumer(self) -> Consumer:
        """The client of confluent-kafka, after `connect`."""
        return self._consumer

    def connect(self) -> None:
        """Reach a broker.

        Raises:
            SourceUnreachableError: none answers in time, or it refuses us.
            ConfigurationError: librdkafka refuses the settings, or a broker is at a local address and may not be.
        """
        self.connection.check_bootstrap_servers()
        quiet = logging.getLogger("gapless.librdkafka")
        quiet.propagate = False
        quiet.setLevel(logging.CRITICAL)
        options = {**self._options, **self.connection.librdkafka_options(), "error_cb": self.note}
        try:
            self._consumer = Consumer(options, logger=quiet)
        except KafkaException as error:
            raise BAD_SETTINGS.error(self.connection.bootstrap_servers, reason=_text(error)) from None
        deadline = time.monotonic() + self._connect_timeout_seconds
        while True:
            self.pulse()
            left = deadline - time.monotonic()
            try:
                found = self._consumer.list_topics("", timeout=max(min(left, 1.0), 0.1))
            except KafkaException as error:
                self._consumer.poll(0)
                hopeless = any(fault_of(name) is LOGIN for name in self._complaints)
                if hopeless or left <= 1.0:
                    self._give_up(error)
            else:
                self._complaints.clear()
                self.check_brokers(found)
                return

    def check_brokers(self, cluster: ClusterMetadata) -> None:
        """Look at the brokers that Kafka names, before anything connects to them. Raises ConfigurationError."""
        self.connection.check_brokers((broker.host, broker.port) for broker in cluster.brokers.values())

    def ask(self, question: Callable[[Consumer], Any]) -> Any:
        """Put `question` again while Kafka gives no answer, for as long as a stall may last.

        Raises:
            SourceUnreachableError: Kafka does not answer, or refuses to.
        """
        clock = StallClock(self.stall_timeout_seconds)
        while True:
            clock.ask()
            try:
                return question(self._consumer)
            except KafkaException as error:
                reported: KafkaError = error.args[0]
                if not fault_of(reported.name()).passes:
                    raise self.refusal("", reported) from None
                clock.waited(heard=False, longest_seconds=ANSWER_SECONDS)
                if clock.is_stalled:
                    self._give_up(error)
                self.note(reported)
            self.pulse()
            clock.ask()
            time.sleep(_PAUSE_SECONDS)
            clock.waited(heard=False)

    def note(self, error: KafkaError) -> None:
        """Remember `error` as a reason for what may fail later."""
        self._complaints[error.name()] = error
        self.on_error()

    def complaint(self) -> str:
        """What librdkafka complained of, the most telling first; empty for nothing."""
        known = sorted(self._complaints.values(), key=lambda error: error.code() in _GENERAL)
        return str(known[0].str()) if known else ""

    def refusal(self, topic: str, error: KafkaError | None) -> GaplessError:
        """The error to raise when Kafka refuses `topic`, or us if that is empty."""
        fault = fault_of(error.name()) if error is not None else OTHER
        return fault.error(
            self.connection.bootstrap_servers,
            f"the topic {topic}" if topic else "us",
            reason=error.str() if error is not None else "no reason given",
            hint=", or give topicTranslations if events carry another name than Kafka's",
        )

    def _give_up(self, error: KafkaException) -> None:
        reason = self.complaint() or _text(error)
        fault = LOGIN if any(fault_of(name) is LOGIN for name in self._complaints) else UNREACHABLE
        raise fault.error(self.connection.bootstrap_servers, reason=reason) from None

    def close(self) -> None:
        """Let the connection go."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


def _text(error: KafkaException) -> str:
    return str(error.args[0].str())
