"""How requests of the admin client are sent: deadline, retries of transient errors, and what errors mean.

The admin client responds within milliseconds and distinguishes unreachable, refused, missing and denied. It never
creates a topic, whatever auto.create.topics.enable says. Must not know what is requested.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from gapless_kafka.access.answers import cluster_metadata, listed
from gapless_kafka.access.constructors import new_admin
from gapless_kafka.access.errors import LOGIN, NO_TOPIC, TRANSIENT, UNREACHABLE, TopicMissingError, fault_of, reason_in

if TYPE_CHECKING:
    from confluent_kafka.admin import ClusterMetadata, TopicMetadata

    from gapless_api.base.errors import GaplessError
    from gapless_kafka.access.connection import KafkaConnection

Result = TypeVar("Result")
ELECTION_SECONDS = 30.0
"""How long Kafka may take to elect leaders: the controller finds a broker dead after 9 s by default."""
_RETRY_SECONDS = 0.2
_FIRST_ATTEMPT_SECONDS = 1.0
_SHORTEST_SECONDS = 0.1
_BLOCKING_SECONDS = 4.0
"""The longest wait for metadata at once: neither a failed login nor a signal ends it."""


class _RetryError(Exception):
    """Kafka returned a transient error, such as during a leader election; its reason is the argument."""


def call_admin(
    connection: KafkaConnection,
    request: Callable[[Admin], Result],
    *,
    timeout_seconds: float,
    election_seconds: float = ELECTION_SECONDS,
) -> Result:
    """Send a request, and retry it after transient errors and when the broker that it was sent to does not answer.

    Kafka's client waits for the broker that it has chosen, also when another one could answer by now. So each attempt
    takes twice as long as the one before, `Admin.request_seconds`.

    Args:
        connection: the cluster to connect to.
        request: calls the client, and waits for its futures with `Admin.result`.
        timeout_seconds: limit for all attempts together.
        election_seconds: the same limit, if it is longer, once any broker answers: other leaders will be elected.

    Raises:
        SourceUnreachableError: Kafka does not respond in time, or refuses the connection.
        TopicMissingError: a topic does not exist.
    """
    admin = Admin(connection, timeout_seconds, election_seconds)
    while True:
        try:
            return request(admin)
        except _RetryError as error:
            if admin.is_expired:
                raise admin.unreachable(*error.args) from None
            admin.prepare_retry()


class Admin:
    """An admin client with a deadline, and the errors that it has reported."""

    def __init__(self, connection: KafkaConnection, timeout_seconds: float, election_seconds: float = 0) -> None:
        self.timeout_seconds = timeout_seconds
        self._election_seconds = election_seconds
        self._connection = connection
        self._start = time.monotonic()
        self._deadline = self._start + timeout_seconds
        self._attempt_seconds = _FIRST_ATTEMPT_SECONDS
        self._reported_errors: list[KafkaError] = []
        self.client = new_admin(connection, {"error_cb": self._reported_errors.append})

    @property
    def is_expired(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() > self._deadline

    @property
    def request_seconds(self) -> float:
        """How long one broker may take to answer, before it, or another one, is asked again."""
        return max(min(self._attempt_seconds, self._deadline - time.monotonic()), _SHORTEST_SECONDS)

    def prepare_retry(self) -> None:
        """Wait a moment, and give the brokers twice as long to answer; extend the deadline if one of them answers."""
        time.sleep(_RETRY_SECONDS)
        self._attempt_seconds = min(2 * self._attempt_seconds, self.timeout_seconds)
        with suppress(KafkaException):
            cluster_metadata(self.client, timeout_seconds=_FIRST_ATTEMPT_SECONDS)
            self._deadline = max(self._deadline, self._start + self._election_seconds)

    def metadata(self) -> ClusterMetadata:
        """Return the ID of the cluster, and its registered brokers, at least one. Raises like `result`."""
        seconds = min(self.request_seconds, _BLOCKING_SECONDS)
        return self._blocking(lambda: cluster_metadata(self.client, timeout_seconds=seconds), "the cluster")

    def topics(self) -> Mapping[str, TopicMetadata]:
        """Return all visible topics, by name. Raises like `result`."""
        seconds = self.request_seconds
        found = self._blocking(lambda: self.client.list_topics(timeout=seconds), "the list of topics")
        topics: Mapping[str, TopicMetadata] = found.topics
        return topics

    def _blocking(self, ask: Callable[[], ClusterMetadata], subject: str) -> ClusterMetadata:
        try:
            return ask()
        except KafkaException as error:
            self.client.poll(0)
            self._check_login()
            raise self._error_for(error.args[0], subject) from None

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

    def offset(self, future: Any, partition: TopicPartition) -> Any:
        """Wait for the result of ListOffsets for a partition. Raises like `result`."""
        found = self.result(future, f"the topic {partition.topic}")
        try:
            return listed(found)
        except KafkaException:
            raise _RetryError(f"the leader of {partition.topic}/{partition.partition} does not answer") from None

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
        if specific:
            reason = reason_in(specific[-1].str())
        reason = reason or f"no answer within {self._deadline - self._start:g} s"
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
