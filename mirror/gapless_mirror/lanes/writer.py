"""How records of a lane are written: with the new positions in one transaction, in order, and each one confirmed.

Records keep partition, key, value, headers and timestamp; null and empty stay distinct. Kafka's client replaces the
timestamp 0 by the current time, so a record of 1 January 1970, 00:00:00.000 gets the timestamp 1 ms; a record without
timestamp is written without one.

A delivery report for each record would take a third of the time, so only the first and the last of a batch are
reported. When their target offsets are as far apart as their indexes, the batch is contiguous. Otherwise another
producer writes to the same partition, and the transaction is written again with a report for each record. What
`gapless_kafka.writing.faults.not_written` is about begins with the first record of a partition in a transaction.
"""

from __future__ import annotations

import time
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import length_hint
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, Message

from gapless_api.base.errors import GaplessError, SourceStalledError
from gapless_kafka.writing.faults import failure_of, is_purged, is_unknown_to_client, not_written
from gapless_kafka.writing.headers import headers_for, producing
from gapless_kafka.writing.offset_map import Run, runs_of
from gapless_kafka.writing.transactions import NO_TIMESTAMP, TransactionalProducer
from gapless_mirror.lanes.provenance import NO_PROVENANCE, Provenance
from gapless_mirror.lanes.records import NOOP_KEY
from gapless_mirror.lanes.unexpected import ConversionError, each

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_mirror.lanes.parking import Parked

_REPORT_SECONDS = 1.0
_COLUMNS = 4
"""Without headers."""
_MAX_QUEUED_RECORDS = 200_000
"""In the queue of the client."""


class InterleavedError(Exception):
    """Another producer has written between our records: they must be written again with a report for each."""


@dataclass(slots=True)
class Reporting:
    """The reasons for a delivery report for each record."""

    refused: bool = False
    """The target refuses some records, and the reports show which ones."""
    interleaved: bool = False
    """Another producer writes to the same partitions."""


class Written:
    """A batch of records that was added to the transaction."""

    __slots__ = (
        "bytes",
        "errors",
        "is_routed",
        "offsets",
        "parked",
        "reported",
        "target",
        "targets",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition, messages: Sequence[Message]) -> None:
        self.topic_partition = topic_partition
        """Of the source."""
        self.offsets = _offsets(messages)
        """Of the source. The records are not kept: the client has copies."""
        self.bytes = 0
        self.target = ""
        """The topic of the target."""
        self.parked: Parked | None = None
        """How the record is written to the parking topic; it is not a copy."""
        self.is_routed = False
        """Whether `target` is not the topic of the partition; such records are not in the offset map."""
        self.targets: list[int] = []
        """Target offsets: of the first and the last record, or of all."""
        self.reported = 0
        """The number of expected delivery reports."""
        self.errors: list[KafkaError] = []

    def on_delivery(self, error: KafkaError | None, message: Any) -> None:
        """Store a delivery report; called by the client."""
        if error is not None or (offset := message.offset()) is None:
            self.errors.append(not_written(error))
        else:
            self.targets.append(offset)

    def runs(self) -> Iterator[Run]:
        """Return the target offsets of the records, once all are delivered.

        Raises:
            KafkaException: Kafka rejected a record.
            InterleavedError: the target offsets are unknown.
        """
        if self.errors:
            raise KafkaException(failure_of(self.errors))
        count = len(self.offsets)
        if len(self.targets) != self.reported:
            raise RuntimeError(f"{self.reported} reports were expected and {len(self.targets)} came")
        if self.targets[-1] - self.targets[0] == count - 1:
            return runs_of(self.offsets, range(self.targets[0], self.targets[0] + count))
        if self.reported != count:
            raise InterleavedError
        return runs_of(self.offsets, self.targets)


def _offsets(messages: Sequence[Message]) -> Sequence[int]:
    """Return the offsets of records in a compact form."""
    first, last = messages[0].offset() or 0, messages[-1].offset() or 0
    if last - first == len(messages) - 1:
        return range(first, last + 1)
    return array("q", (message.offset() or 0 for message in messages))


class LaneWriter:
    """Writes the transactions of one lane."""

    def __init__(
        self,
        producer: TransactionalProducer,
        control_topic: str,
        lane: int,
        provenance: Provenance = NO_PROVENANCE,
        reporting: Reporting | None = None,
    ) -> None:
        """`producer` has been entered; `reporting` is kept while the lane is reopened."""
        self._producer = producer
        self._control_topic = control_topic
        self._lane = lane
        self.provenance = provenance
        self.reporting = reporting if reporting is not None else Reporting()
        self.written: list[Written] = []
        """In the open transaction."""
        self.bytes = 0
        """Of their keys and values."""

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open."""
        return self._producer.is_open

    def begin(self) -> None:
        """Begin a transaction. Raises KafkaException."""
        self.written, self.bytes = [], 0
        self._producer.begin()

    def append(
        self, target: str, topic_partition: TopicPartition, messages: Sequence[Message], parked: Parked | None = None
    ) -> Written:
        """Write records of one partition, in their order.

        Args:
            target: the topic.
            topic_partition: of the source.
            messages: its records.
            parked: if the only record is parked instead.

        Raises:
            KafkaException: Kafka or its client rejects a record.
            ConversionError: a record cannot be converted. Nothing was written, unless the error says so.
        """
        written = Written(topic_partition, messages)
        partition, written.parked = topic_partition[1], parked
        if parked is not None:
            target, partition = parked.topic, parked.partition
        written.target = target
        every = self.reporting.refused or self.reporting.interleaved
        written.reported = len(messages) if every else min(len(messages), 2)
        columns, written.bytes = self._convert(written, messages, every=every)
        self.written.append(written)
        producer = self._producer
        while len(producer.client) + len(messages) > _MAX_QUEUED_RECORDS:
            producer.poll()
        produce, first, may_refresh = producer.client.produce, 0, True
        if len(columns) > _COLUMNS:
            produce = producing(producer.client)
        while True:
            values, keys, reports, stamps, *headers = (iter(column[first:]) for column in columns)
            calls = map(
                produce,
                repeat(target),
                values,
                keys,
                repeat(partition),
                reports,
                repeat(None),
                stamps,
                *headers,
            )
            try:
                deque(calls, maxlen=0)
                break
            except (BufferError, KafkaException) as error:
                first = len(messages) - length_hint(values) - 1  # the record that was rejected
                if isinstance(error, BufferError):
                    producer.poll()
                elif not first and may_refresh and is_unknown_to_client(error.args[0]):
                    may_refresh = False
                    producer.refresh_metadata(target)
                else:
                    raise
            except GaplessError:
                raise
            except Exception as error:
                failed = messages[len(messages) - length_hint(values) - 1].offset() or 0
                raise ConversionError(failed, error, is_partly_written=True) from error
        producer.client.poll(0)
        self.bytes += written.bytes
        return written

    def _convert(self, written: Written, messages: Sequence[Message], *, every: bool) -> tuple[list[list[Any]], int]:
        """Return the result of `_columns`. Raises ConversionError and GaplessError."""
        try:
            return self._columns(written, messages, every=every)
        except (ConversionError, GaplessError):
            raise
        except Exception as error:  # of no record alone
            raise ConversionError(written.offsets[0], error) from error

    def _columns(self, written: Written, messages: Sequence[Message], *, every: bool) -> tuple[list[list[Any]], int]:
        """Return the arguments of `produce` for all records, and the bytes of their keys and values.

        They are columns, for `map`: a loop in Python over the records took a quarter more time.
        """
        kind: Any = type(messages[0])
        keys, values, headers = (each(call, messages, messages) for call in (kind.key, kind.value, kind.headers))
        size = sum(map(len, filter(None, keys))) + sum(map(len, filter(None, values)))
        # The client would replace 0 by the current time.
        stamps = [
            at if at > 0 else 1 if at == 0 else NO_TIMESTAMP for _, at in each(kind.timestamp, messages, messages)
        ]
        reports = [written.on_delivery if every else None] * len(messages)
        reports[0] = reports[-1] = written.on_delivery
        columns: list[list[Any]] = [values, keys, reports, stamps]
        topic = written.topic_partition[0]
        if written.parked is not None:
            columns.append([headers_for((*(headers[0] or ()), written.parked.header))])
        elif self.provenance.adds(topic) or any(headers):
            extend = self.provenance.extend
            columns.append(each(lambda pairs: headers_for(extend(pairs, topic) or ()), headers, messages))
        return columns, size

    def put(self, key: bytes, value: bytes | None) -> None:
        """Write a record to the lane's partition of the control topic. Raises KafkaException."""
        self._producer.put(self._control_topic, self._lane, key, value)

    def touch(self) -> None:
        """Write a record without meaning to the control topic. Raises KafkaException."""
        self.put(NOOP_KEY, None)

    def await_error(self) -> None:
        """Wait a moment for a delivery report with the reason why the transaction has failed.

        A record that the client purged does not name it. It is only sure to come with a report for each record.
        """
        deadline = time.monotonic() + _REPORT_SECONDS
        while time.monotonic() < deadline:
            errors = [error for written in self.written for error in written.errors]
            if errors and not (self.reporting.refused and all(map(is_purged, errors))):
                return
            self._producer.poll()

    def flush(self) -> None:
        """Wait until every record is delivered or has failed. Raises KafkaException when the transaction has failed."""
        self._producer.flush(self.touch)

    def commit(self) -> None:
        """Commit. Raises KafkaException: nothing was committed, or the commit is unconfirmed."""
        self._producer.commit()
        self.written = []

    def abort(self) -> None:
        """Abort the open transaction, if there is one.

        Raises:
            SourceStalledError: a broker was unreachable meanwhile. The previous transaction may hang, and be aborted
                with this one (see `hanging_transaction`); the lane must be reopened to find out.
        """
        self._producer.abort()
        self.written = []
        if self._producer.was_cut_off:
            raise SourceStalledError(
                "A broker of the target was unreachable; the lane reopens to read what was committed."
            )
