"""How requests of the admin client are sent: deadline, retries of transient errors, and what errors mean.

The admin client responds within milliseconds and distinguishes unreachable, refused, missing and denied. It never
creates a topic, whatever auto.create.topics.enable says. Must not know what is requested.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from gapless_kafka.access.answers import cluster_metadata, listed
from gapless_kafka.access.constructors import new_admin
from gapless_kafka.access.errors import LOGIN, NO_TOPIC, TRANSIENT, UNREACHABLE, TopicMissingError, fault_of, reason_in

if TYPE_CHECKING:
    from confluent_kafka.admin import ClusterMetadata

    from gapless_api.base.errors import GaplessError
    from gapless_kafka.access.connection import KafkaConnection

Result = TypeVar("Result")
_RETRY_SECONDS = 0.2
_PATIENCE_SECONDS = (1.0, 4.0)
"""How long metadata is waited for at first, and at most: neither a failed login nor a signal ends this wait."""


class _RetryError(Exception):
    """Kafka returned a transient error, such as during a leader election; its reason is the argument."""


def call_admin(connection: KafkaConnection, request: Callable[[Admin], Result], *, timeout_seconds: float) -> Result:
    """Send a request, and retry it after transient errors and when the broker that it was sent to has died.

    Args:
        connection: the cluster to connect to.
        request: calls the client, and waits for its futures with `Admin.result`.
        timeout_seconds: limit for all attempts together.

    Raises:
        SourceUnreachableError: Kafka does not respond in time, or refuses the connection.
        TopicMissingError: a topic does not exist.
    """
    admin = Admin(connection, timeout_seconds)
    while True:
        try:
            return request(admin)
        except _RetryError as error:
            if admin.is_expired:
                raise admin.unreachable(*error.args) from None
            time.sleep(_RETRY_SECONDS)


class Admin:
    """An admin client with a deadline, and the errors that it has reported."""

    def __init__(self, connection: KafkaConnection, timeout_seconds: float) -> None:
        self.timeout_seconds = timeout_seconds
        self._connection = connection
        self._deadline = time.monotonic() + timeout_seconds
        self._reported_errors: list[KafkaError] = []
        self.client = new_admin(connection, {"error_cb": self._reported_errors.append})
        self._patience_seconds = _PATIENCE_SECONDS[0]

    @property
    def is_expired(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() > self._deadline

    def metadata(self) -> ClusterMetadata:
        """Return the ID of the cluster, and its registered brokers, at least one. Raises like `result`."""
        try:
            return cluster_metadata(self.client, timeout_seconds=min(self._patience_seconds, self.timeout_seconds))
        except KafkaException as error:
            self._patience_seconds = min(2 * self._patience_seconds, _PATIENCE_SECONDS[1])
            self.client.poll(0)
            self._check_login()
            raise self._error_for(error.args[0], "the cluster") from None

    def result(self, future: Any, subject: str) -> Any:
        """Wait for the result of a request; a failed login ends the wait early.

        Args:
            future: of the request.
            subject: what the request is about, for errors.

        Raises:
            SourceUnreachableError: Kafka does not respond in time, or refuses the connection.
            TopicMissingError: the topic does not exist.
        """
        while True:
            try:
                return future.result(timeout=0.1)
            except FutureTimeoutError:
                self.client.poll(0)
                self._check_login()
                if time.monotonic() > self._deadline + 1:
                    raise self.unreachable() from None
            except KafkaException as error:
                self.client.poll(0)
                raise self._error_for(error.args[0], subject) from None

    def offset(self, future: Any, topic: str) -> Any:
        """Wait for a result of ListOffsets, for a partition of `topic`. Raises like `result`."""
        found = self.result(future, f"the topic {topic}")
        try:
            return listed(found)
        except KafkaException as error:
            raise self._error_for(error.args[0], f"the topic {topic}") from None

    def response(self, future: Any) -> Any:
        """Wait for the result of a request whose errors the caller tells apart.

        Raises:
            KafkaException: the error in the response.
            SourceUnreachableError: Kafka does not respond in time.
        """
        try:
            return future.result(timeout=self.timeout_seconds + 1)
        except FutureTimeoutError:
            raise self.unreachable() from None

    def unreachable(self, reason: str = "") -> GaplessError:
        """The error to raise when Kafka does not respond, or only with errors of that `reason`."""
        specific = [error for error in self._reported_errors if error.name() != "_ALL_BROKERS_DOWN"]
        reason = reason_in(specific[-1].str()) if specific else reason or f"no answer within {self.timeout_seconds:g} s"
        return UNREACHABLE.error(self._connection.bootstrap_servers, reason=reason)

    def _check_login(self) -> None:
        refused = next((error for error in self._reported_errors if fault_of(error.name()) is LOGIN), None)
        if refused is not None:
            raise LOGIN.error(self._connection.bootstrap_servers, reason=reason_in(refused.str())) from None

    def _error_for(self, error: KafkaError, subject: str) -> Exception:
        fault = fault_of(error.name())
        if fault is UNREACHABLE and self.is_expired:
            return self.unreachable()
        if fault in {TRANSIENT, UNREACHABLE}:
            return _RetryError(reason_in(error.str()))
        meaning = fault.error(self._connection.bootstrap_servers, subject, reason=reason_in(error.str()))
        return TopicMissingError(str(meaning)) if fault is NO_TOPIC else meaning
