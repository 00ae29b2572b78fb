"""Owns how a lane reads the rows that the SQL of a mirror returns. Must not know where the rows come from.

The rows of a cut arrive once, in the order of each partition, and cannot be read again: a lane that has to go back
ends, and the next cut begins at its position.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from confluent_kafka import KafkaError

from gapless_api.base.errors import ConfigurationError, SourceStalledError
from gapless_archive.segments.rows import with_header_keys
from gapless_kafka.reading.log_truncation import LogPosition, find_truncated, truncation_error
from gapless_kafka.reading.topic_offsets import read_cut
from gapless_mirror.lanes.reader import BEFORE_ROWS, NO_EPOCHS, Batch, LaneReader, Reading

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.reading.cuts import Slice

_TIMEOUT_SECONDS = 30.0


class SqlMessage:
    """A record with the methods of `confluent_kafka.Message`."""

    __slots__ = ("_at", "_headers", "_key", "_offset", "_value")

    def __init__(self, offset: int, at: int | None, key: Any, value: Any, headers: Any) -> None:
        self._offset, self._at, self._key, self._value = offset, at, key, value
        self._headers = headers

    def offset(self) -> int:
        """Return the source offset."""
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        """Return a type, which has no meaning here, and the timestamp in milliseconds; -1 for none."""
        return (0, -1) if self._at is None else (1, self._at)

    def key(self) -> Any:
        """Return the key, or ``None``."""
        return self._key

    def value(self) -> Any:
        """Return the value; ``None`` for a tombstone."""
        return self._value

    def headers(self) -> Any:
        """Return pairs of key and value, or ``None``."""
        return self._headers


def _no_epochs(_ends: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, tuple[int, int]]:
    return NO_EPOCHS


class SqlReader:
    """Reads the rows of a turn for one lane, instead of a `LaneReader`."""

    can_go_back = False

    def __init__(
        self,
        rows: Iterator[pa.RecordBatch],
        slices: Iterable[Slice],
        targets: Collection[str],
        connection: KafkaConnection,
        epochs_at: Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, tuple[int, int]]] = _no_epochs,
    ) -> None:
        """Nothing is read yet.

        Args:
            rows: with the columns of `transform.RESULT`.
            slices: the offsets that the statement was applied to.
            targets: the topics to which records may be sent, besides that of their partition.
            connection: to the source, to look up log ranges.
            epochs_at: returns the leader epochs in which the source logs have the given ends: rows have none.
        """
        self._rows = rows
        self._slices = {(each.topic, each.partition): each for each in slices}
        self._targets = targets
        self._connection = connection
        self._epochs_at = epochs_at
        self._first_offsets: dict[TopicPartition, int] = {}
        """By partition: the first offset to return."""
        self._end_offsets: dict[TopicPartition, int] = {}
        """By partition: the offset after the last row."""
        self._before_slice: list[TopicPartition] = []
        """Partitions that should be read from an offset before their slice."""
        self._truncated: dict[TopicPartition, int] = {}
        """The ends of source logs that were truncated below what is known of their leader epochs."""
        self._is_exhausted = False
        self._ahead: pa.RecordBatch | None = None
        """Rows that were taken from `rows` early, to know which ones are the last."""
        self._has_begun = False

    def add(
        self, offsets: Mapping[TopicPartition, int], epochs: Mapping[TopicPartition, tuple[int, int]] = NO_EPOCHS
    ) -> None:
        """Read these partitions from the given offsets; leader epochs are checked before the rows are read.

        Raises:
            SourceStalledError: rows would have to be read again.
        """
        known = [
            LogPosition(*topic_partition, end, epoch)
            for topic_partition, (epoch, end) in epochs.items()
            if topic_partition in self._slices and not self._is_exhausted
        ]
        self._truncated |= find_truncated(self._connection, known)
        for topic_partition, offset in offsets.items():
            if self._end_offsets.get(topic_partition, 0) > offset or (
                self._is_exhausted and topic_partition in self._slices
            ):
                raise SourceStalledError(
                    f"The records of {topic_partition[0]}/{topic_partition[1]} must be read again, in the next turn."
                )
            self._first_offsets[topic_partition] = offset
            if topic_partition in self._slices and offset < self._slices[topic_partition].first_offset:
                self._before_slice.append(topic_partition)

    def drop(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Stop reading these partitions."""
        for topic_partition in topic_partitions:
            self._first_offsets.pop(topic_partition, None)

    def log_range(self, topic_partition: TopicPartition, *, timeout_seconds: float = 10.0) -> tuple[int, int]:
        """Return the start and the end of a partition's log. Raises KafkaException."""
        reader = LaneReader(self._connection)
        try:
            return reader.log_range(topic_partition, timeout_seconds=timeout_seconds)
        finally:
            reader.close()

    def read(self, max_records: int, timeout_seconds: float) -> Reading:  # noqa: ARG002 -- Spark sets the batch size
        """Return the next rows, and after the last ones the ends of all slices."""
        reading = Reading([], {}, [])
        if self._truncated:
            reading.errors.extend(
                (topic_partition, truncation_error(end)) for topic_partition, end in self._truncated.items()
            )
            self.drop(self._truncated)
            self._truncated = {}
            return reading
        if self._before_slice:
            expired = KafkaError(KafkaError._AUTO_OFFSET_RESET, BEFORE_ROWS)  # noqa: SLF001
            reading.errors.extend((topic_partition, expired) for topic_partition in self._before_slice)
            self._before_slice = []
            return reading
        rows = self._take_rows()
        ends = {each: self._slices[each].end_offset for each in self._first_offsets if each in self._slices}
        if rows is None:
            self._is_exhausted = True
            reading.ends.update(ends)
            return reading._replace(epochs=self._epochs_at(ends))
        reading.batches.extend(self._batches(rows))
        if self._ahead is None:
            # With these rows partitions may be done and committed, and nothing more is read.
            return reading._replace(epochs=self._epochs_at(ends))
        return reading

    def _take_rows(self) -> pa.RecordBatch | None:
        if not self._has_begun:
            self._ahead, self._has_begun = next(self._rows, None), True
        rows = self._ahead
        self._ahead = next(self._rows, None) if rows is not None else None
        return rows

    def _batches(self, rows: pa.RecordBatch) -> Iterator[Batch]:
        *others, spark_headers, routes = rows.columns
        pairs_column = with_header_keys(spark_headers, pa.binary())  # Spark's strings may hold any bytes
        columns: Sequence[list[Any]] = [column.to_pylist() for column in (*others, pairs_column, routes)]
        messages: list[SqlMessage] = []
        current: tuple[TopicPartition, str | None] | None = None
        for topic, partition, offset, at, key, value, headers, target in zip(*columns, strict=True):
            topic_partition = (topic, partition)
            self._end_offsets[topic_partition] = offset + 1
            if offset < self._first_offsets.get(topic_partition, 2**63):
                continue
            if current != (topic_partition, target):
                if target is not None and target not in self._targets:
                    raise ConfigurationError(
                        f"The transform sends the record {topic}/{partition}/{offset} to a topic that is not in "
                        f"transformTopics (its name is not shown, because it may be the content of a record); add it "
                        f"there, or correct the statement."
                    )
                if current is not None and messages:
                    yield Batch(current[0], messages, current[1])
                current, messages = (topic_partition, target), []
            pairs = [(header["key"], header["value"]) for header in headers] if headers else None
            messages.append(SqlMessage(offset, at, key, value, pairs))
        if current is not None and messages:
            yield Batch(current[0], messages, current[1])

    def close(self) -> None:
        """Do nothing: there is no connection."""


def epochs_at(connection: KafkaConnection, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, int]]:
    """Return the current leader epochs of logs that reach the given ends, with the ends. Raises GaplessError."""
    topics = sorted({topic for topic, _ in ends})
    cuts = read_cut(connection, topics, timeout_seconds=_TIMEOUT_SECONDS).topics if topics else ()
    found = {cut.topic: cut for cut in cuts}
    return {
        (topic, partition): (found[topic].leader_epochs[partition], end)
        for (topic, partition), end in ends.items()
        if end <= found[topic].end_offsets[partition] and found[topic].leader_epochs[partition] >= 0
    }
