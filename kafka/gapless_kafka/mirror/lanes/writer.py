"""Owns how records of a lane are written with the positions behind them: in one transaction, in order, each confirmed.

Records keep partition, key, value, headers and timestamp; null and empty stay apart. Kafka's client takes the timestamp
0 for "now", so a record of 1 January 1970, 00:00:00.000 gets 1 ms later; one without timestamp stays without.

A delivery report for each record would take a third of the time. Of records in a row only the first and the last are
reported: when their offsets are as far apart as they are themselves, nothing is between them. Otherwise somebody else
writes to the same partition, and the transaction is written again with a report for each.
"""

from __future__ import annotations

import time
from array import array
from collections import deque
from dataclasses import dataclass
from itertools import repeat
from operator import length_hint
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException

from gapless_api.base.errors import SourceStalledError
from gapless_kafka.mirror.lanes.provenance import NOT_LOOKED_AT
from gapless_kafka.mirror.lanes.records import map_key
from gapless_kafka.writing.faults import failure_of, is_unknown_to_client
from gapless_kafka.writing.offset_map import runs_of
from gapless_kafka.writing.transactions import NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from confluent_kafka import KafkaError, Message

    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.mirror.lanes.provenance import Provenance
    from gapless_kafka.writing.offset_map import Run
    from gapless_kafka.writing.transactions import TransactionalProducer

_NO_PART = map_key("", 0, 0)
"""The key of a part of an offset map that there never is."""
_REPORT_SECONDS = 1.0
_MOST_QUEUED = 200_000
"""Records that wait in the client."""


class InterleavedError(Exception):
    """Somebody else has written between our records: write them again with a report for each."""


@dataclass(slots=True)
class Reporting:
    """Why each record is reported, although that takes time."""

    refused: bool = False
    """Some records are refused, and it is to be known which, for now."""
    interleaved: bool = False
    """Somebody else writes to the same partitions."""


class Written:
    """Records in a row that were handed to the client."""

    __slots__ = ("bytes", "errors", "is_routed", "offsets", "place", "reported", "target", "targets")

    def __init__(self, place: TopicPartition, messages: Sequence[Message]) -> None:
        self.place = place
        """The partition of the source."""
        self.offsets = _offsets(messages)
        """Of the source; the records themselves are not kept, which the client has copies of."""
        self.bytes = 0
        self.target = ""
        """The topic of the target."""
        self.is_routed = False
        """Whether they go to another topic than that of the partition, so that its offset map leaves them out."""
        self.targets: list[int] = []
        """Target offsets: of the first and the last one, or of all."""
        self.reported = 0
        """How many reports there will be."""
        self.errors: list[KafkaError] = []

    def take(self, error: KafkaError | None, message: Any) -> None:
        """Called by the client for each report."""
        if error is None:
            self.targets.append(message.offset())
        else:
            self.errors.append(error)

    def runs(self) -> Iterator[Run]:
        """Where the records went, once all are delivered.

        Raises:
            KafkaException: one was not taken.
            InterleavedError: it cannot be told.
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
    """The offsets of some records, in little room."""
    first, last = messages[0].offset() or 0, messages[-1].offset() or 0
    if last - first == len(messages) - 1:
        return range(first, last + 1)
    return array("q", (message.offset() or 0 for message in messages))


class LaneWriter:
    """Writes transactions of one lane."""

    def __init__(
        self,
        producer: TransactionalProducer,
        control_topic: str,
        lane: int,
        provenance: Provenance = NOT_LOOKED_AT,
        reporting: Reporting | None = None,
    ) -> None:
        """`producer` is in its block; `reporting` is what was found out when the lane was opened before."""
        self._producer = producer
        self._control_topic = control_topic
        self._lane = lane
        self.provenance = provenance
        self.reporting = reporting if reporting is not None else Reporting()
        self.written: list[Written] = []
        """In the transaction that is open."""
        self.bytes = 0
        """Of their keys and values."""

    @property
    def is_open(self) -> bool:
        """Whether a transaction is."""
        return self._producer.is_open

    def begin(self) -> None:
        """Begin a transaction. Raises KafkaException."""
        self.written, self.bytes = [], 0
        self._producer.begin()

    def append(self, target: str, place: TopicPartition, messages: Sequence[Message]) -> Written:
        """Hand over records of one partition, in their order. Raises KafkaException."""
        one = Written(place, messages)
        one.target = target
        self.written.append(one)
        producer = self._producer
        while len(producer.client) + len(messages) > _MOST_QUEUED:
            producer.poll()
        every = self.reporting.refused or self.reporting.interleaved
        one.reported = len(messages) if every else min(len(messages), 2)
        columns, one.bytes = self._columns(one, messages, every=every)
        produce, first, may_ask = producer.client.produce, 0, True
        while True:
            values, keys, reports, stamps, *headers = (iter(column[first:]) for column in columns)
            calls = map(
                produce, repeat(target), values, keys, repeat(place[1]), reports, repeat(None), stamps, *headers
            )
            try:
                deque(calls, maxlen=0)
                break
            except (BufferError, KafkaException) as error:
                first = len(messages) - length_hint(values) - 1  # the record that was not taken
                if isinstance(error, BufferError):
                    producer.poll()
                elif not first and may_ask and is_unknown_to_client(error.args[0]):
                    may_ask = False
                    producer.refresh_metadata(target)
                else:
                    raise
        producer.client.poll(0)
        self.bytes += one.bytes
        return one

    def _columns(self, one: Written, messages: Sequence[Message], *, every: bool) -> tuple[list[list[Any]], int]:
        """What the client is called with for the records, by argument, and the bytes of their keys and values.

        Arguments are taken and handed over without a step of Python for each record, which took a quarter more.
        """
        kind: Any = type(messages[0])
        keys, values, headers = (list(map(call, messages)) for call in (kind.key, kind.value, kind.headers))
        size = sum(map(len, filter(None, keys))) + sum(map(len, filter(None, values)))
        # 0 means "now" to the client.
        stamps = [at if at > 0 else 1 if at == 0 else NO_TIMESTAMP for _, at in map(kind.timestamp, messages)]
        reports = [one.take if every else None] * len(messages)
        reports[0] = reports[-1] = one.take
        columns = [values, keys, reports, stamps]
        if self.provenance.adds or any(headers):
            columns.append([self.provenance.continued(pairs) or [] for pairs in headers])
        return columns, size

    def put(self, key: bytes, value: bytes | None) -> None:
        """Hand over a record of the lane in the control topic. Raises KafkaException."""
        self._producer.put(self._control_topic, self._lane, key, value)

    def touch(self) -> None:
        """Hand over a record of the lane in the control topic that says nothing. Raises KafkaException."""
        self.put(_NO_PART, None)

    def await_error(self) -> None:
        """Wait until a delivery report tells why the transaction has failed, but not for long."""
        deadline = time.monotonic() + _REPORT_SECONDS
        while not any(one.errors for one in self.written) and time.monotonic() < deadline:
            self._producer.poll()

    def flush(self) -> None:
        """Wait until every record is delivered or has failed. Raises KafkaException when the transaction has failed."""
        self._producer.flush(self.touch)

    def commit(self) -> None:
        """Commit. Raises KafkaException: nothing was committed, or nobody knows."""
        self._producer.commit()
        self.written = []

    def abort(self) -> None:
        """Give up the transaction, if one is open.

        Raises:
            SourceStalledError: a broker was away meanwhile, so that the transaction before this one may have been left
                open and is aborted, too (see `left_open`); who opens the lane again finds out.
        """
        self._producer.abort()
        self.written = []
        if self._producer.was_cut_off:
            raise SourceStalledError("A broker of the target was away; the lane finds out what is committed.")
