"""How records and the position after them are written: in one transaction, in order, each one acknowledged.

A transaction is retried when Kafka aborts it for a transient reason. Records keep partition, key, value, headers and
timestamp; null and empty stay distinct. Kafka's client takes the timestamp 0 for "now", so a record of
1 January 1970, 00:00:00.000 gets 1 ms more; a record without a timestamp stays without.

Records are given as columns, and each has a delivery report. The lanes of a mirror write messages as they are read,
with fewer reports: see `gapless_mirror.lanes.writer`. Both use `TransactionalProducer`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any, Self

from confluent_kafka import KafkaError, KafkaException

from gapless_api.base.errors import GaplessError
from gapless_api.base.unexpected import describe
from gapless_kafka.writing.faults import (
    RecordsRefusedError,
    Refusal,
    failure_of,
    is_fenced,
    is_purged,
    is_record_refusal,
    is_transaction_failed,
    not_written,
    refusal_cause,
    stops_partition,
)
from gapless_kafka.writing.headers import headers_for, producing
from gapless_kafka.writing.offset_map import pack_runs, runs_of
from gapless_kafka.writing.positions import (
    MAP,
    MAPS,
    POSITION,
    POSITIONS,
    REFUSED,
    MapPart,
    WorkPartition,
    content,
    map_key,
    position_key,
    refused_key,
)
from gapless_kafka.writing.transactions import MAX_BATCH_BYTES, NO_TIMESTAMP, ProducerOptions, TransactionalProducer

if TYPE_CHECKING:
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.writing.portions import Portion

_MAX_ATTEMPTS = 3
_RETRY_SECONDS = 1.0
_REPORT_SECONDS = 1.0
_NOOP_KEY = map_key(WorkPartition("", "", 0), 0)
"""The key of a part of an offset map that never exists."""
_MAX_RUNS = 10_000
"""Maximum runs in one part of an offset map, so that it fits into a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterOptions:
    """Settings of a writer."""

    control_topic: str
    compression: str = "lz4"
    batch_bytes: int = MAX_BATCH_BYTES
    """The maximum size of a batch, before compression; a larger record is sent alone."""
    transactional: bool = True
    """Otherwise positions are written after their records: nothing is lost, but records may be repeated."""
    epoch: int = 0


class PortionWriter:
    """Writes portions with one producer. Use it in a ``with`` block, which aborts an open transaction at its end."""

    def __init__(
        self,
        connection: KafkaConnection,
        transactional_id: str,
        options: WriterOptions,
        *,
        pulse: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare a writer; nothing is sent before the block begins.

        Args:
            connection: to the cluster.
            transactional_id: earlier producers with this ID are fenced, and their transactions aborted.
            options: settings of the writer.
            pulse: called while waiting for Kafka; it may raise to cancel the work.
        """
        self._options = options
        self._pulse = pulse
        self._producer = TransactionalProducer(
            connection,
            transactional_id if options.transactional else None,
            ProducerOptions(compression=options.compression, batch_bytes=options.batch_bytes),
            pulse=pulse,
        )

    def __enter__(self) -> Self:
        """Connect, fence earlier producers with this ID, and abort their transactions. Raises GaplessError."""
        try:
            self._producer.__enter__()
        except KafkaException as error:
            raise self._producer.error_for(error.args[0], self._options.control_topic) from None
        return self

    def __exit__(self, *_: object) -> None:
        """Abort an open transaction; if Kafka is unreachable, it aborts the transaction after the timeout."""
        self._producer.__exit__()

    def write(self, portions: Sequence[Portion]) -> None:
        """Write portions of different partitions and the positions after them, all or nothing.

        Raises:
            TakenOverError: a later run has started; nothing was written.
            RecordsRefusedError: records of the named partitions cannot be written; those of others can.
            ConfigurationError: Kafka refuses all records of a topic.
            SourceUnreachableError: Kafka denies the write, does not respond, or returns errors.
        """
        for attempt in range(1, _MAX_ATTEMPTS + 1):
            try:
                self._attempt(portions)
            except KafkaException as error:
                reported: KafkaError = error.args[0]
                self._producer.abort()
                # Records that are produced right after an abort may be purged together with those before it.
                may_retry = reported.txn_requires_abort() or reported.retriable() or is_purged(reported)
                may_retry = may_retry or is_transaction_failed(reported)
                if is_fenced(reported) or reported.fatal() or not may_retry or attempt == _MAX_ATTEMPTS:
                    raise self._producer.error_for(reported, portions[0].position.topic) from None
                self._sleep(_RETRY_SECONDS)
            except BaseException:
                self._producer.abort()
                raise
            else:
                return

    def put(self, partition: int, key: bytes, value: bytes | None) -> int:
        """Write one record to the control topic, in a transaction of its own, and return its offset.

        Raises like `write`.
        """
        topic = self._options.control_topic
        try:
            self._producer.begin()
            self._producer.put(topic, partition, key, value)
            self._producer.commit()
        except KafkaException as error:
            self._producer.abort()
            raise self._producer.error_for(error.args[0], topic) from None
        return self._producer.put_offset

    def put_mark(self) -> int:
        """Write a record without a meaning, and return its offset: what was written earlier is before it."""
        return self.put(POSITIONS, _NOOP_KEY, None)

    def _attempt(self, portions: Sequence[Portion]) -> None:
        producer, control_topic = self._producer, self._options.control_topic
        producer.begin()
        all_reports = [_DeliveryReports() for _ in portions]
        failed: KafkaException | None = None
        try:
            for portion, reports in zip(portions, all_reports, strict=True):
                self._produce(portion, reports)
            producer.flush(self._probe)
        except KafkaException as error:
            if not is_transaction_failed(error.args[0]):
                raise
            failed = error  # reports have the reason
            self._await_error(all_reports)
        self._check_refusals(portions, all_reports)
        if failed is not None:
            raise failed
        for portion, reports in zip(portions, all_reports, strict=True):
            reports.check(len(portion.columns.offsets))
        for portion, reports in zip(portions, all_reports, strict=True):
            for key, value in _map_records(portion, reports.offsets):
                producer.put(control_topic, MAPS, key, value)
            if (refused := portion.refused) is not None:
                key, value = refused_key(portion.partition, refused.first), content(REFUSED, refused)
                producer.put(control_topic, POSITIONS, key, value)
            key, value = position_key(portion.partition), content(POSITION, portion.position)
            producer.put(control_topic, POSITIONS, key, value)
        producer.commit()

    def _probe(self) -> None:
        """Find out whether the transaction has failed, which the client says only when it is given a record."""
        if self._options.transactional:
            self._producer.put(self._options.control_topic, POSITIONS, _NOOP_KEY, None)

    def _await_error(self, all_reports: Sequence[_DeliveryReports]) -> None:
        """Wait a moment for the delivery report with the reason why the transaction has failed."""
        deadline = time.monotonic() + _REPORT_SECONDS
        while not any(reports.errors for reports in all_reports) and time.monotonic() < deadline:
            self._producer.poll()

    def _check_refusals(self, portions: Sequence[Portion], all_reports: Sequence[_DeliveryReports]) -> None:
        """Raise RecordsRefusedError if records of some partitions are refused, and others can be written."""
        refusals: dict[WorkPartition, Refusal] = {}
        for portion, reports in zip(portions, all_reports, strict=True):
            if reports.errors and stops_partition(error := failure_of(reports.errors)):
                sentence = str(self._producer.error_for(error, portion.position.topic))
                refusals[portion.partition] = Refusal(is_record_refusal(error), refusal_cause(error), sentence)
        if refusals:
            raise RecordsRefusedError(refusals)

    def _produce(self, portion: Portion, reports: _DeliveryReports) -> None:
        client, position, on_delivery = self._producer.client, portion.position, reports.add
        produce, produce_with_headers = client.produce, producing(client)
        topic, target, columns = position.topic, position.target_partition, portion.columns
        headers = columns.headers if columns.headers is not None else repeat(None)
        rows = zip(columns.keys, columns.values, columns.timestamps, headers, strict=False)
        for key, value, timestamp, pairs in rows:
            # 0 means "now" to the client.
            timestamp_ms = (timestamp or 1) if timestamp is not None else NO_TIMESTAMP
            while True:
                try:
                    if pairs:
                        headers_given = headers_for(pairs)
                        produce_with_headers(topic, value, key, target, on_delivery, None, timestamp_ms, headers_given)
                    else:
                        produce(topic, value, key, target, on_delivery, None, timestamp_ms)
                    break
                except BufferError:
                    self._producer.poll()
                except KafkaException as error:
                    if not stops_partition(error.args[0]):
                        raise
                    reports.errors.append(error.args[0])  # its client refuses it
                    return
                except (GaplessError, MemoryError):
                    raise
                except Exception as error:
                    raise RecordsRefusedError({portion.partition: _unexpected_refusal(error)}) from error

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._pulse()
            time.sleep(0.05)


class _DeliveryReports:
    """The delivery reports of a portion's records, in their order."""

    __slots__ = ("errors", "offsets")

    def __init__(self) -> None:
        self.offsets: list[int] = []
        """Target offsets."""
        self.errors: list[KafkaError] = []

    def add(self, error: KafkaError | None, message: Any) -> None:
        """Add the report of one record."""
        if error is not None or (offset := message.offset()) is None:
            self.errors.append(not_written(error))
        else:
            self.offsets.append(offset)

    def check(self, count: int) -> None:
        """Check that all `count` records were delivered. Raises KafkaException."""
        if self.errors:
            raise KafkaException(failure_of(self.errors))
        if len(self.offsets) != count:
            raise RuntimeError(f"{count} records were produced, but Kafka's client reported {len(self.offsets)}")


def _unexpected_refusal(error: Exception) -> Refusal:
    sentence = f"an unexpected error in Gapless ({describe(error)}); report a bug."
    return Refusal(may_skip=False, cause=describe(error), sentence=sentence, is_unexpected=True)


def _map_records(portion: Portion, targets: Sequence[int]) -> Iterator[tuple[bytes, bytes]]:
    runs = list(runs_of(portion.columns.offsets, targets))
    position = portion.position
    for start in range(0, len(runs), _MAX_RUNS):
        chunk = runs[start : start + _MAX_RUNS]
        part = MapPart(topic=position.topic, target_partition=position.target_partition, runs=pack_runs(chunk))
        yield map_key(portion.partition, chunk[0].first), content(MAP, part)
