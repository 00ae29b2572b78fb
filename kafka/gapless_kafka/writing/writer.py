"""Owns how records and the position behind them are written: in one transaction, in order, each of them confirmed.

A transaction is written again when Kafka aborts it for a reason that passes. Records keep partition, key, value,
headers and timestamp; null and empty stay apart. Kafka's client takes the timestamp 0 for "now", so a record of
1 January 1970, 00:00:00.000 gets 1 ms later; one without timestamp stays without.

Records come as columns and go to any topic, each with a report. The lanes of a mirror write messages of one cluster as
they are read, with few reports: see `gapless_kafka.mirror.lanes.writer`. Both use one `TransactionalProducer`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any, Self

from confluent_kafka import KafkaException

from gapless_kafka.writing.faults import failure_of, is_fenced, is_purged
from gapless_kafka.writing.offset_map import pack_runs, runs_of
from gapless_kafka.writing.positions import MAP, MAPS, POSITION, POSITIONS, MapPart, content, map_key, position_key
from gapless_kafka.writing.transactions import NO_TIMESTAMP, ProducerOptions, TransactionalProducer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from confluent_kafka import KafkaError

    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.writing.portions import Portion

_TRIES = 3
_PAUSE_SECONDS = 1.0
_LINGER_MS = 5
_MOST_RUNS = 10_000
"""In one part of an offset map, so that it fits into a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterOptions:
    """How a writer writes."""

    control_topic: str
    compression: str = "lz4"
    batch_bytes: int = 1_000_000
    """Records are sent in batches of at most so much, before compression; a larger record is sent alone."""
    transactional: bool = True
    """Otherwise positions follow on the records that they stand for: nothing is lost, and something may be repeated."""
    keeps_map: bool = True
    """Whether it is kept where each record went."""
    epoch: int = 0


class PortionWriter:
    """Writes portions with one producer. Use it in a ``with`` block, which aborts what is not committed."""

    def __init__(
        self,
        connection: KafkaConnection,
        transactional_id: str,
        options: WriterOptions,
        *,
        pulse: Callable[[], None] = lambda: None,
    ) -> None:
        """Nothing is sent before the block begins.

        Args:
            connection: to the cluster.
            transactional_id: whose older transactions are aborted, and whose older producers can write no more.
            options: see there.
            pulse: called while Kafka is waited for; it may raise to end the work.
        """
        self._options = options
        self._pulse = pulse
        sending = ProducerOptions(
            compression=options.compression, batch_bytes=options.batch_bytes, linger_ms=_LINGER_MS
        )
        own_id = transactional_id if options.transactional else None
        self._producer = TransactionalProducer(connection, own_id, sending, pulse=pulse)

    def __enter__(self) -> Self:
        """Connect, and end what an earlier producer with this ID has left. Raises GaplessError."""
        try:
            self._producer.__enter__()
        except KafkaException as error:
            raise self._producer.error_for(error.args[0], self._options.control_topic) from None
        return self

    def __exit__(self, *_: object) -> None:
        """Abort what is not committed; Kafka does it later where it cannot be reached."""
        self._producer.__exit__()

    def write(self, portions: Sequence[Portion]) -> None:
        """Write some portions, no two of them of one partition, and the positions behind them: all or nothing.

        Raises:
            TakenOverError: a later run has begun; nothing was written.
            ConfigurationError: Kafka refuses a record.
            SourceUnreachableError: Kafka denies it, does not answer, or answers with errors.
        """
        for number in range(1, _TRIES + 1):
            try:
                self._attempt(portions)
            except KafkaException as error:
                reported: KafkaError = error.args[0]
                self._producer.abort()
                # Records that are handed over right after an abort may still be given up with those before it.
                passes = reported.txn_requires_abort() or reported.retriable() or is_purged(reported)
                if is_fenced(reported) or reported.fatal() or not passes or number == _TRIES:
                    raise self._producer.error_for(reported, portions[0].position.topic) from None
                self._sleep(_PAUSE_SECONDS)
            except BaseException:
                self._producer.abort()
                raise
            else:
                return

    def put(self, partition: int, key: bytes, value: bytes | None) -> None:
        """Write one record to the control topic, in a transaction of its own. Raises like `write`."""
        topic = self._options.control_topic
        try:
            self._producer.begin()
            self._producer.put(topic, partition, key, value)
            self._producer.commit()
        except KafkaException as error:
            self._producer.abort()
            raise self._producer.error_for(error.args[0], topic) from None

    def _attempt(self, portions: Sequence[Portion]) -> None:
        producer, control_topic = self._producer, self._options.control_topic
        producer.begin()
        reports = [_Reports() for _ in portions]
        for portion, delivered in zip(portions, reports, strict=True):
            self._produce(portion, delivered)
        producer.flush()
        for portion, delivered in zip(portions, reports, strict=True):
            delivered.check(len(portion.columns.offsets))
        for portion, delivered in zip(portions, reports, strict=True):
            if self._options.keeps_map:
                for key, value in _map_records(portion, delivered.offsets):
                    producer.put(control_topic, MAPS, key, value)
            key, value = position_key(portion.partition), content(POSITION, portion.position)
            producer.put(control_topic, POSITIONS, key, value)
        producer.commit()

    def _produce(self, portion: Portion, delivered: _Reports) -> None:
        produce, position, taken = self._producer.client.produce, portion.position, delivered.take
        topic, target, columns = position.topic, position.target_partition, portion.columns
        headers = columns.headers if columns.headers is not None else repeat(None)
        rows = zip(columns.keys, columns.values, columns.timestamps, headers, strict=False)
        for key, value, timestamp, pairs in rows:
            # 0 means "now" to the client.
            at = (timestamp or 1) if timestamp is not None else NO_TIMESTAMP
            while True:
                try:
                    if pairs:
                        produce(topic, value, key, target, taken, None, at, list(pairs))
                    else:
                        produce(topic, value, key, target, taken, None, at)
                    break
                except BufferError:
                    self._producer.poll()

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._pulse()
            time.sleep(0.05)


class _Reports:
    """What Kafka reports about the records of a portion, in their order."""

    __slots__ = ("errors", "offsets")

    def __init__(self) -> None:
        self.offsets: list[int] = []
        """In the target."""
        self.errors: list[KafkaError] = []

    def take(self, error: KafkaError | None, message: Any) -> None:
        """Called by the client for each record."""
        if error is None:
            self.offsets.append(message.offset())
        else:
            self.errors.append(error)

    def check(self, count: int) -> None:
        """Make sure that all `count` records are written. Raises KafkaException."""
        if self.errors:
            raise KafkaException(failure_of(self.errors))
        if len(self.offsets) != count:
            raise RuntimeError(f"{count} records were handed to Kafka's client, which reported {len(self.offsets)}")


def _map_records(portion: Portion, targets: Sequence[int]) -> Iterator[tuple[bytes, bytes]]:
    runs = list(runs_of(portion.columns.offsets, targets))
    position = portion.position
    for first in range(0, len(runs), _MOST_RUNS):
        some = runs[first : first + _MOST_RUNS]
        part = MapPart(topic=position.topic, target_partition=position.target_partition, runs=pack_runs(some))
        yield map_key(portion.partition, some[0].first), content(MAP, part)
