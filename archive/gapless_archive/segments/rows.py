"""The rows of a segment: their schema, and the conversion of Kafka's records to rows and back.

Null and empty are distinct in keys, values and header values. Headers keep their order, and duplicates.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from operator import methodcaller
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

HEADERS = pa.list_(pa.struct([pa.field("key", pa.binary(), nullable=False), pa.field("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.int64()),
        pa.field("timestamp_type", pa.int8()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS, nullable=False),
    ]
)
"""Timestamps are milliseconds since 1970; their type is 0 for CreateTime and 1 for LogAppendTime; both are null for a
record without timestamp. A record without headers has an empty list. The keys of headers are bytes, as in Kafka."""
CREATE_TIME, LOG_APPEND_TIME = 0, 1
RECORD_BYTES = 16
"""Overhead of each record in the size of a segment, added to key, value and headers, as kafka-replicator counts."""

_topic, _partition, _offset = methodcaller("topic"), methodcaller("partition"), methodcaller("offset")
_timestamp, _headers = methodcaller("timestamp"), methodcaller("headers")
_key, _value = methodcaller("key"), methodcaller("value")


class Message(Protocol):
    """A record as Kafka's client returns it."""

    def topic(self) -> str | None:
        """Its topic."""

    def partition(self) -> int | None:
        """Its partition."""

    def offset(self) -> int | None:
        """Its offset."""

    def timestamp(self) -> tuple[int, int]:
        """0, 1 or 2 for none, CreateTime or LogAppendTime, and milliseconds."""

    def key(self) -> Any:
        """Its key; ``None`` for none."""

    def value(self) -> Any:
        """Its value; ``None`` for a tombstone."""

    def headers(self) -> Any:
        """Pairs of key and value, both bytes, or ``None``."""


class Record(NamedTuple):
    """One record of an archive."""

    partition: int
    offset: int
    timestamp: int | None
    timestamp_type: int | None
    key: bytes | None
    value: bytes | None
    headers: list[tuple[bytes, bytes | None]]


class PartitionRows(NamedTuple):
    """Rows of one partition, by offset."""

    topic: str
    partition: int
    rows: pa.RecordBatch


def rows_by_partition(messages: Sequence[Message]) -> Iterator[PartitionRows]:
    """Convert messages, in order for each partition, to rows of each partition."""
    topics = set(map(_topic, messages))
    if len(topics) > 1:
        for topic, group in groupby(sorted(messages, key=_topic), key=_topic):
            yield from _rows_of_topic(topic, list(group))
    elif topics:
        yield from _rows_of_topic(topics.pop() or "", messages)


def _rows_of_topic(topic: str, messages: Sequence[Message]) -> Iterator[PartitionRows]:
    partitions: list[Any] = list(map(_partition, messages))
    if len(set(partitions)) == 1:
        yield PartitionRows(topic, partitions[0], rows_of(messages))
        return
    messages = sorted(messages, key=_partition)  # stable, so each partition stays in order
    rows, first = rows_of(messages), 0
    for partition, group in groupby(sorted(partitions)):
        count = sum(1 for _ in group)
        yield PartitionRows(topic, partition, rows.slice(first, count))
        first += count


def rows_of(messages: Sequence[Message]) -> pa.RecordBatch:
    """Convert messages to rows of `SCHEMA`, column by column."""
    return pa.RecordBatch.from_arrays(
        [
            _numbers(list(map(_partition, messages)), pa.int32()),
            pa.array(list(map(_offset, messages)), pa.int64()),
            *_timestamp_columns(list(map(_timestamp, messages))),
            pa.array(list(map(_key, messages)), pa.binary()),
            pa.array(list(map(_value, messages)), pa.binary()),
            _header_column(list(map(_headers, messages))),
        ],
        schema=SCHEMA,
    )


def int64_array(numbers: Iterable[int]) -> pa.Array:
    """Make a column of numbers without pyarrow's conversion of Python objects.

    That imports pandas where numpy is installed, too, which takes a third of a second and 40 MiB.
    """
    content = array("q", numbers)
    return pa.Array.from_buffers(pa.int64(), len(content), [None, pa.py_buffer(content)])


def _numbers(numbers: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Make a column, quickly if all numbers are equal."""
    if numbers and len(set(numbers)) == 1:
        return pa.repeat(pa.scalar(numbers[0], kind), len(numbers))
    return pa.array(numbers, kind)


def _timestamp_columns(stamps: Sequence[tuple[int, int]]) -> tuple[pa.Array, pa.Array]:
    """Make the columns of timestamps and their types, both null for a record without timestamp."""
    times: list[int | None] = [time for _, time in stamps]
    kinds: list[int | None] = [kind - 1 for kind, _ in stamps]
    absent = [number for number, (kind, time) in enumerate(stamps) if kind < 1 or time < 0]
    for number in absent:
        times[number] = kinds[number] = None
    return pa.array(times, pa.int64()), pa.array(kinds, pa.int8()) if absent else _numbers(kinds, pa.int8())


def _header_column(headers: Sequence[Any]) -> pa.ListArray:
    if not any(headers):
        ends = pa.repeat(pa.scalar(0, pa.int32()), len(headers) + 1)
        return pa.ListArray.from_arrays(ends, pa.array([], HEADERS.value_type), type=HEADERS)
    lists = [each or () for each in headers]
    bounds, end = [0], 0
    for each in lists:
        end += len(each)
        bounds.append(end)
    keys, values = zip(*chain.from_iterable(lists), strict=True)
    pairs = pa.StructArray.from_arrays(
        [pa.array(keys, pa.binary()), pa.array(values, pa.binary())], fields=list(HEADERS.value_type)
    )
    return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), pairs, type=HEADERS)


def with_header_keys(headers: pa.ListArray, kind: pa.DataType) -> pa.ListArray:
    """Return headers whose keys are the same bytes as `kind`, string or binary; null becomes empty."""
    keys, values = headers.flatten().flatten()
    pairs = pa.StructArray.from_arrays([keys.view(kind), values], names=["key", "value"])
    return pa.ListArray.from_arrays(list_bounds(headers), pairs)


def list_bounds(column: pa.ListArray) -> pa.Array:
    """Return the list offsets of a column, starting at 0 even if the column is a slice."""
    ends = pc.cumulative_sum(pc.cast(pc.fill_null(pc.list_value_length(column), 0), pa.int32()))
    return pa.concat_arrays([pa.array([0], pa.int32()), ends])


def records_of(rows: pa.RecordBatch) -> Iterator[Record]:
    """Convert rows of `SCHEMA` to records."""
    columns, headers = [column.to_pylist() for column in rows.columns[:-1]], rows.column("headers")
    lengths = pc.list_value_length(headers).to_pylist()
    keys, values = (part.to_pylist() for part in headers.flatten().flatten())
    first = 0
    for *row, count in zip(*columns, lengths, strict=True):
        end = first + count
        yield Record._make([*row, list(zip(keys[first:end], values[first:end], strict=True))])
        first = end


def content_bytes(rows: pa.RecordBatch) -> int:
    """Size of the records as kafka-replicator counts it: 16 bytes each, plus key, value and headers."""
    header_keys, header_values = rows.column("headers").flatten().flatten()
    parts = (rows.column("key"), rows.column("value"), header_keys, header_values)
    count: int = rows.num_rows
    lengths: list[int] = [pc.sum(pc.binary_length(part)).as_py() or 0 for part in parts]
    return RECORD_BYTES * count + sum(lengths)
