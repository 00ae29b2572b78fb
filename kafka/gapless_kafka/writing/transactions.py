"""Owns one transactional producer: how it is fenced in, how its transactions begin and end, and what its errors mean.

Must not know what is written. Without a transactional ID it is a plain idempotent producer with the same calls.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from confluent_kafka import KafkaException, Producer

from gapless_kafka.access.errors import BAD_SETTINGS, UNREACHABLE, reason_in
from gapless_kafka.writing.control_topic import MAX_TRANSACTION_SECONDS
from gapless_kafka.writing.faults import writing_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import KafkaError

    from gapless_api.base.errors import GaplessError
    from gapless_kafka.access.connection import KafkaConnection

_CALL_SECONDS = 30.0
"""How long a call may take before it is made again; the client goes on meanwhile."""
_WAIT_SECONDS = 0.2
_METADATA_SECONDS = 5.0
_PROBE_SECONDS = 2.0
NO_TIMESTAMP = -1
"""How the client is told that a record has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions:
    """How a producer sends."""

    compression: str = "lz4"
    batch_bytes: int = 1_000_000
    """Records are sent in batches of at most so much, before compression; a larger record is sent alone."""
    linger_ms: int = 10
    transaction_seconds: float = MAX_TRANSACTION_SECONDS
    """After which Kafka aborts the transaction of a program that is dead."""


class TransactionalProducer:
    """One producer. Use it in a ``with`` block, which aborts what is not committed."""

    def __init__(
        self,
        connection: KafkaConnection,
        transactional_id: str | None,
        options: ProducerOptions,
        *,
        pulse: Callable[[], None] = lambda: None,
    ) -> None:
        """Nothing is sent before the block begins.

        Args:
            connection: to the cluster.
            transactional_id: whose older transactions are aborted, and whose older producers can write no more;
                ``None`` to write without transactions.
            options: see there.
            pulse: called while Kafka is waited for; it may raise to end the work.
        """
        self._connection = connection
        self._id = transactional_id
        self._options = options
        self._pulse = pulse
        self._complaint: KafkaError | None = None
        self._untaken: KafkaError | None = None
        """Why a record of `put` was not taken."""
        self.client: Any = None
        """The producer of confluent-kafka, in the block."""
        self.is_open = False
        """Whether a transaction is."""

    @property
    def was_cut_off(self) -> bool:
        """Whether a broker could not be reached since the block began."""
        return self._complaint is not None

    def __enter__(self) -> Self:
        """Connect, and end what an earlier producer with this ID has left.

        Raises:
            KafkaException: Kafka denies it or does not answer; see `meaning`.
            ConfigurationError: the client refuses the settings.
        """
        quiet = logging.getLogger("gapless.librdkafka")
        quiet.propagate = False
        quiet.setLevel(logging.CRITICAL + 1)
        try:
            self.client = Producer(self._client_options(), logger=quiet)
        except KafkaException as error:
            reason = reason_in(error.args[0].str())
            raise BAD_SETTINGS.error(self._connection.bootstrap_servers, reason=reason) from None
        if self._id is not None:
            self._call(self.client.init_transactions)
        return self

    def __exit__(self, *_: object) -> None:
        """Abort what is not committed; Kafka does it later where it cannot be reached."""
        self.abort(timeout_seconds=5.0)
        with suppress(KafkaException):  # which a fenced producer answers with
            self.client.purge()
        # The client may call delivery reports of a fenced producer with its own exception set, which Python reports
        # as a SystemError; what they report no longer matters.
        with suppress(KafkaException, SystemError):
            self.client.flush(1.0)
        self.client = None

    def begin(self) -> None:
        """Begin a transaction. Raises KafkaException."""
        self._untaken = None
        if self._id is not None:
            self.client.begin_transaction()
        self.is_open = True

    def put(self, topic: str, partition: int, key: bytes, value: bytes | None) -> None:
        """Hand over one record, without which `commit` fails. Raises KafkaException."""
        while True:
            try:
                self.client.produce(topic, value, key, partition, self._note)
                break
            except BufferError:
                self.poll()

    def commit(self) -> None:
        """Commit all that was produced since `begin`; a record of `put` that was not taken makes it fail.

        Raises:
            KafkaException: nothing was committed, or nobody knows; the next producer of this ID finds out.
        """
        self.flush()
        if self._untaken is not None:
            raise KafkaException(self._untaken)
        if self._id is not None:
            self._call(self.client.commit_transaction)
        self.is_open = False

    def abort(self, *, timeout_seconds: float = _CALL_SECONDS) -> None:
        """Give up the transaction, if one is open. Kafka does it later where it cannot be reached."""
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
            probe: adds a record; called now and then while nothing is delivered. Of a transaction that has failed the
                client sends no more records, and tells that only who adds one.
        """
        waiting, since = len(self.client), time.monotonic()
        while self.client.flush(_WAIT_SECONDS):
            self._pulse()
            if len(self.client) == waiting and time.monotonic() - since > _PROBE_SECONDS:
                probe()
            elif len(self.client) == waiting:
                continue
            waiting, since = len(self.client), time.monotonic()

    def poll(self, seconds: float = 0.1) -> None:
        """Serve delivery reports."""
        self.client.poll(seconds)
        self._pulse()

    def refresh_metadata(self, topic: str) -> None:
        """Ask for the partitions of a topic, which the client does by itself once a minute."""
        with suppress(KafkaException):
            self.client.list_topics(topic, timeout=_METADATA_SECONDS)

    def error_for(self, error: KafkaError, topic: str) -> GaplessError:
        """The error of the product for one of Kafka's, about what is written to `topic`."""
        servers = self._connection.bootstrap_servers
        if self._complaint is not None and error.name() in {"_TIMED_OUT", "_MSG_TIMED_OUT", "_PURGE_QUEUE"}:
            return UNREACHABLE.error(servers, reason=reason_in(self._complaint.str()))
        return writing_error(error, servers, topic, transactional_id=self._id or "")

    def _call(self, call: Callable[[float], None]) -> None:
        """Make a call of the transaction again while the client asks for that, as long as a transaction may last."""
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
            **self._connection.librdkafka_options(),
            "enable.idempotence": True,  # with acks=all, and at most five requests at once
            "linger.ms": self._options.linger_ms,
            "batch.size": self._options.batch_bytes,
            "batch.num.messages": 100_000,
            "message.max.bytes": 1_000_000_000,  # the brokers have limits of their own, for what is left by compression
            "compression.type": self._options.compression,
            "queue.buffering.max.messages": 500_000,
            "topic.metadata.refresh.interval.ms": 60_000,
            "reconnect.backoff.max.ms": 2000,
            "log_level": 0,
            "error_cb": self._complain,
        }
        if self._id is not None:
            options["transactional.id"] = self._id
            options["transaction.timeout.ms"] = int(self._options.transaction_seconds * 1000)
        return options

    def _note(self, error: KafkaError | None, _message: Any) -> None:
        if error is not None:
            self._untaken = error

    def _complain(self, error: KafkaError) -> None:
        self._complaint = error
