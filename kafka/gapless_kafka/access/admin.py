"""Owns how the admin client is asked: until a deadline, again while Kafka is busy, and what its errors mean.

The admin client answers in milliseconds and tells apart unreachable, refused, missing and denied. It creates no topic,
whatever the brokers' settings. Must not know what is asked.
"""

from __future__ import annotations

import time
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from gapless_kafka.access.errors import LOGIN, NO_TOPIC, PASSING, UNREACHABLE, TopicMissingError, fault_of, reason_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from gapless_api.base.errors import GaplessError
    from gapless_kafka.access.connection import KafkaConnection

Result = TypeVar("Result")
_AGAIN_SECONDS = 0.2


class _TryAgainError(Exception):
    """Kafka is busy with itself, such as with the choice of a leader."""


def ask(connection: KafkaConnection, question: Callable[[Admin], Result], *, timeout_seconds: float) -> Result:
    """Put a question, and put it again while Kafka is busy.

    Args:
        connection: to Kafka.
        question: asks the client, and takes the results with `Admin.answer`.
        timeout_seconds: how long all of it may take.

    Raises:
        SourceUnreachableError: Kafka does not answer within the time, or refuses us.
        TopicMissingError: a topic does not exist.
    """
    admin = Admin(connection, timeout_seconds)
    while True:
        try:
            return question(admin)
        except _TryAgainError:
            if admin.late:
                raise admin.unreachable() from None
            time.sleep(_AGAIN_SECONDS)


class Admin:
    """One admin client, used until a deadline, and the errors that it has reported."""

    def __init__(self, connection: KafkaConnection, timeout_seconds: float) -> None:
        self.timeout_seconds = timeout_seconds
        self._connection = connection
        self._deadline = time.monotonic() + timeout_seconds
        self._complaints: list[KafkaError] = []
        self.client = AdminClient(
            {**connection.librdkafka_options(), "error_cb": self._complaints.append, "log_level": 0}
        )

    @property
    def late(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() > self._deadline

    def answer(self, future: Any, what: str) -> Any:
        """Wait for a result, and end early when Kafka says that trying again is useless.

        Raises:
            SourceUnreachableError: Kafka does not answer within the time, or refuses us.
            TopicMissingError: there is no such topic.
        """
        while True:
            try:
                return future.result(timeout=0.1)
            except FutureTimeoutError:
                self.client.poll(0)
                refusal = next((error for error in self._complaints if fault_of(error.name()) is LOGIN), None)
                if refusal is not None:
                    raise LOGIN.error(self._connection.bootstrap_servers, reason=reason_in(refusal.str())) from None
                if time.monotonic() > self._deadline + 1:
                    raise self.unreachable() from None
            except KafkaException as error:
                self.client.poll(0)
                raise self._meaning(error.args[0], what) from None

    def unreachable(self) -> GaplessError:
        """The error when Kafka does not answer."""
        specific = [error for error in self._complaints if error.name() != "_ALL_BROKERS_DOWN"]
        reason = reason_in(specific[-1].str()) if specific else ""
        return UNREACHABLE.error(self._connection.bootstrap_servers, reason=reason)

    def _meaning(self, error: KafkaError, what: str) -> Exception:
        fault = fault_of(error.name())
        if fault is UNREACHABLE:
            return self.unreachable()
        if fault is PASSING:
            return _TryAgainError()
        found = fault.error(self._connection.bootstrap_servers, what, reason=reason_in(error.str()))
        return TopicMissingError(str(found)) if fault is NO_TOPIC else found
