"""Owns how rows that come out of the SQL of a mirror become what a lane reads. Must not know where the rows come from.

The rows of a cut come once, in the order of each partition, and cannot be read again: a lane that wants to go back
ends, and the next cut begins where it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError

from gapless_api.base.errors import ConfigurationError, SourceStalledError
from gapless_kafka.mirror.lanes.reader import Batch, LaneReader, Reading

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.reading.cuts import Slice


class SqlMessage:
    """A record, with the calls of Kafka's client."""

    __slots__ = ("_at", "_headers", "_key", "_offset", "_value")

    def __init__(self, offset: int, at: int | None, key: Any, value: Any, headers: Any) -> None:
        self._offset, self._at, self._key, self._value = offset, at, key, value
        self._headers = headers

    def offset(self) -> int:
        """In the source."""
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        """Its type does not matter here, and milliseconds; -1 for none."""
        return (0, -1) if self._at is None else (1, self._at)

    def key(self) -> Any:
        """``None`` for none."""
        return self._key

    def value(self) -> Any:
        """``None`` for a tombstone."""
        return self._value

    def headers(self) -> Any:
        """Pairs of key and value, or ``None``."""
        return self._headers


class SqlReader:
    """Reads the rows of a turn for one lane, in place of a `LaneReader`."""

    def __init__(
        self,
        rows: Iterator[pa.RecordBatch],
        slices: Iterable[Slice],
        targets: Collection[str],
        connection: KafkaConnection,
    ) -> None:
        """Nothing is read yet.

        Args:
            rows: with the columns of `transform.RESULT`.
            slices: which offsets the rows are of, before any was left out.
            targets: to which topics records may be sent beside that of their partition.
            connection: to the source, for what the rows do not tell.
        """
        self._rows = rows
        self._slices = {(one.topic, one.partition): one for one in slices}
        self._targets = targets
        self._connection = connection
        self._wanted: dict[TopicPartition, int] = {}
        """From which offset on."""
        self._passed: dict[TopicPartition, int] = {}
        """The offset behind the last row of a partition."""
        self._absent: list[TopicPartition] = []
        """Partitions that are wanted from before their slice."""
        self._is_over = False

    def add(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read further partitions, each from an offset.

        Raises:
            SourceStalledError: rows are wanted again that are gone.
        """
        for place, offset in offsets.items():
            if self._passed.get(place, 0) > offset or (self._is_over and place in self._slices):
                raise SourceStalledError(
                    f"The records of {place[0]}/{place[1]} must be read again; the next turn does."
                )
            self._wanted[place] = offset
            if place in self._slices and offset < self._slices[place].first_offset:
                self._absent.append(place)

    def drop(self, places: Iterable[TopicPartition]) -> None:
        """Read some partitions no more."""
        for place in places:
            self._wanted.pop(place, None)

    def log_range(self, place: TopicPartition, *, timeout_seconds: float = 10.0) -> tuple[int, int]:
        """The start of a partition's log, and its end. Raises KafkaException."""
        reader = LaneReader(self._connection)
        try:
            return reader.log_range(place, timeout_seconds=timeout_seconds)
        finally:
            reader.close()

    def read(self, most: int, timeout_seconds: float) -> Reading:  # noqa: ARG002 -- rows come as Spark gives them
        """Take the next rows; at the end, the ends of all slices."""
        reading = Reading([], {}, [])
        if self._absent:
            reading.errors.extend((place, KafkaError(KafkaError._AUTO_OFFSET_RESET)) for place in self._absent)  # noqa: SLF001
            self._absent = []
            return reading
        rows = next(self._rows, None)
        if rows is None:
            self._is_over = True
            reading.ends.update(
                {place: self._slices[place].end_offset for place in self._wanted if place in self._slices}
            )
        else:
            reading.batches.extend(self._batches(rows))
        return reading

    def _batches(self, rows: pa.RecordBatch) -> Iterator[Batch]:
        columns: Sequence[list[Any]] = [column.to_pylist() for column in rows.columns]
        some: list[SqlMessage] = []
        current: tuple[TopicPartition, str | None] | None = None
        for topic, partition, offset, at, key, value, headers, target in zip(*columns, strict=True):
            place = (topic, partition)
            self._passed[place] = offset + 1
            if offset < self._wanted.get(place, 2**63):
                continue
            if current != (place, target):
                if target is not None and target not in self._targets:
                    raise ConfigurationError(
                        f"The transform sends a record of {topic}/{partition} to the topic {target!r}, which is not in "
                        f"transformTopics; add it there, or correct the statement."
                    )
                if current is not None and some:
                    yield Batch(current[0], some, current[1])
                current, some = (place, target), []
            pairs = [(one["key"], one["value"]) for one in headers] if headers else None
            some.append(SqlMessage(offset, at, key, value, pairs))
        if current is not None and some:
            yield Batch(current[0], some, current[1])

    def close(self) -> None:
        """Nothing is to be let go."""
