"""One transactional producer: fencing, the start and end of transactions, and what errors mean.

Must not know what is written. Without a transactional ID it is an idempotent producer with the same methods.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from confluent_kafka import KafkaError, KafkaException

from gapless_kafka.access.constructors import new_producer
from gapless_kafka.access.errors import UNREACHABLE, reason_in
from gapless_kafka.writing.control_topic import MAX_TRANSACTION_SECONDS
from gapless_kafka.writing.faults import not_written, writing_error

if TYPE_CHECKING:
    from gapless_api.base.errors import GaplessError
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.topics.target_topics import TopicDescription

_ABORT_SECONDS = 30.0
"""Limit for aborting a transaction."""
_WAIT_SECONDS = 0.2
_METADATA_SECONDS = 5.0
_PROBE_SECONDS = 2.0
NO_TIMESTAMP = -1
"""The client's timestamp for a record without one."""
MAX_BATCH_BYTES = 1_000_000
_BATCH_OVERHEAD_BYTES = 1024
_LINGER_MS = 100
"""A full batch is sent at once, and `flush` sends all. With 10 ms, the client's thread used a sixth more CPU time."""


def batch_bytes(topics: Iterable[TopicDescription]) -> int:
    """Return the batch size, before compression, that all `topics` accept: max.message.bytes limits batches."""
    limits = [int(topic.configuration.get("max.message.bytes", MAX_BATCH_BYTES)) for topic in topics]
    return max(min([MAX_BATCH_BYTES, *(limit - _BATCH_OVERHEAD_BYTES for limit in limits)]), _BATCH_OVERHEAD_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions:
    """Settings of a producer."""

    compression: str = "lz4"
    batch_bytes: int = MAX_BATCH_BYTES
    """The maximum size of a batch, before compression; a larger record is sent alone."""
    transaction_seconds: float = MAX_TRANSACTION_SECONDS
    """``transaction.timeout.ms``: Kafka then aborts the transaction of a dead producer."""


class TransactionalProducer:
    """One producer. Use it in a ``with`` block, which aborts an open transaction at its end."""

    def __init__(
        self,
        connection: KafkaConnection,
        transactional_id: str | None,
        options: ProducerOptions,
        *,
        pulse: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare a producer; nothing is sent before the block begins.

        Args:
            connection: to the cluster.
            transactional_id: earlier producers with this ID are fenced, and their transactions aborted; ``None`` to
                write without transactions.
            options: settings of the producer.
            pulse: called while waiting for Kafka; it may raise to cancel the work.
        """
        self._connection = connection
        self._id = transactional_id
        self._options = options
        self._pulse = pulse
        self._background_error: KafkaError | None = None
        self._put_error: KafkaError | None = None
        """Why a record of `put` was not delivered."""
        self.put_offset = -1
        """The offset of the last record of `put` that was delivered."""
        self.client: Any = None
        """The producer of confluent-kafka, within the block."""
        self.is_open = False
        """Whether a transaction is open."""

    @property
    def was_cut_off(self) -> bool:
        """Whether a broker could not be reached since the block began."""
        return self._background_error is not None

    def __enter__(self) -> Self:
        """Connect, fence earlier producers with this ID, and abort their transactions.

        Raises:
            KafkaException: Kafka denies it or does not respond; see `error_for`.
            ConfigurationError: the client rejects the settings.
        """
        self.client = new_producer(self._connection, self._client_options())
        if self._id is not None:
            self._retry(self.client.init_transactions)
        return self

    def __exit__(self, *_: object) -> None:
        """Abort an open transaction; if Kafka is unreachable, it aborts the transaction after the timeout."""
        self.abort(timeout_seconds=5.0)
        with suppress(KafkaException):  # of a fenced producer
            self.client.purge()
        # The client may call delivery reports of a fenced producer while an exception is set, which Python raises as
        # a SystemError; the reports no longer matter.
        with suppress(KafkaException, SystemError):
            self.client.flush(1.0)
        self.client = None

    def begin(self) -> None:
        """Begin a transaction. Raises KafkaException."""
        self._put_error = None
        if self._id is not None:
            self.client.begin_transaction()
        self.is_open = True

    def put(self, topic: str, partition: int, key: bytes, value: bytes | None) -> None:
        """Produce one record; `commit` fails if it is not delivered. Raises KafkaException."""
        while True:
            try:
                self.client.produce(topic, value, key, partition, self._record_put_error)
                break
            except BufferError:
                self.poll()

    def commit(self) -> None:
        """Commit all records since `begin`.

        Raises:
            KafkaException: nothing was committed, or the result is unknown; the next producer with this ID resolves it.
        """
        self.flush()
        if self._put_error is not None:
            raise KafkaException(self._put_error)
        if self._id is not None:
            self._retry(self.client.commit_transaction)
        self.is_open = False

    def abort(self, *, timeout_seconds: float = _ABORT_SECONDS) -> None:
        """Abort the transaction if one is open; if Kafka is unreachable, it does so after the transaction timeout."""
        if not self.is_open:
            return
        self.is_open = False
        with suppress(KafkaException):
            if self._id is None:
                self.client.purge()
                self.client.flush(1.0)
            else:
                self.client.abort_transaction(timeout_seconds)

    def flush(self, probe: Callable[[], None] = lambda: None) -> None:
        """Wait until every record is delivered or has failed.

        Args:
            probe: produces a record; called every few seconds while nothing is delivered. After a transaction has
                failed, the client sends no more records, and reports that only for a new record.
        """
        queued, since = len(self.client), time.monotonic()
        while self.client.flush(_WAIT_SECONDS):
            self._pulse()
            if len(self.client) == queued:
                if time.monotonic() - since <= _PROBE_SECONDS:
                    continue
                probe()
            queued, since = len(self.client), time.monotonic()

    def poll(self, seconds: float = 0.1) -> None:
        """Serve delivery reports."""
        self.client.poll(seconds)
        self._pulse()

    def refresh_metadata(self, topic: str) -> None:
        """Refresh the metadata of a topic, which the client does by itself once a minute."""
        with suppress(KafkaException):
            self.client.list_topics(topic, timeout=_METADATA_SECONDS)

    def error_for(self, error: KafkaError, topic: str) -> GaplessError:
        """The error to raise for an error of Kafka about writing to `topic`."""
        servers = self._connection.bootstrap_servers
        if self._background_error is not None and error.name() in {"_TIMED_OUT", "_MSG_TIMED_OUT", "_PURGE_QUEUE"}:
            return UNREACHABLE.error(servers, reason=reason_in(self._background_error.str()))
        return writing_error(error, servers, topic, transactional_id=self._id or "")

    def _retry(self, call: Callable[[float], None]) -> None:
        """Repeat a call while its error is retriable, for up to `MAX_TRANSACTION_SECONDS`."""
        deadline = time.monotonic() + MAX_TRANSACTION_SECONDS
        while True:
            try:
                return call(_WAIT_SECONDS * 5)
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise
            self._pulse()

    def _client_options(self) -> dict[str, Any]:
        options: dict[str, Any] = {
            "enable.idempotence": True,  # implies acks=all and at most five requests in flight
            "linger.ms": _LINGER_MS,
            "batch.size": self._options.batch_bytes,
            "batch.num.messages": 100_000,
            "message.max.bytes": 1_000_000_000,  # the brokers have limits of their own, after compression
            "compression.type": self._options.compression,
            "queue.buffering.max.messages": 500_000,
            "topic.metadata.refresh.interval.ms": 60_000,
            "reconnect.backoff.max.ms": 2000,
            "error_cb": self._record_background_error,
        }
        if self._id is not None:
            options["transactional.id"] = self._id
            options["transaction.timeout.ms"] = int(self._options.transaction_seconds * 1000)
        return options

    def _record_put_error(self, error: KafkaError | None, message: Any) -> None:
        if error is not None or message.offset() is None:
            self._put_error = not_written(error)
        else:
            self.put_offset = message.offset()

    def _record_background_error(self, error: KafkaError) -> None:
        self._background_error = error
