"""Which records of a gaps topic are the latest of their windows: the only definition, for all readers, on bytes.

Must not know how records are read or decoded. The latest record of a key in one partition of the gaps topic has the
highest offset. Between partitions (partitions were added to the topic) and between the two forms of a key, which hash
differently, it has the latest timestamp. `gapless_api.gaps.keys` defines which keys belong to one window.

A task keeps only the latest record of each key that it reads. These few records are then grouped by identity.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from gapless_api.gaps.keys import identity_of
from gapless_spark.model.arrow_schema import arrow_schema
from gapless_spark.model.gap_windows import Age

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka import Message

_RECORD_OVERHEAD_BYTES = 600
"""What Python needs for a record in addition to its value; the value of a window with gaps everywhere has 8 KiB."""
_MAX_TASK_BYTES = 64 * 1024 * 1024
"""A task that holds about this much emits its records; the same window may occur again later."""
_BATCH_BYTES, _BATCH_ROWS = 4 * 1024 * 1024, 4096

LATEST = "identity binary, timestamp long, partition int, offset long, key binary, value binary, records long"
"""The columns that `latest_rows` yields."""


class Latest(NamedTuple):
    """The latest record of a key in one partition of the gaps topic, or of a window."""

    identity: bytes | None
    """The same for all keys of a window; ``None`` for records without a key."""
    age: Age
    key: bytes | None
    value: bytes | None
    records: int
    """How many records it stands for; 1 unless they have no key."""


class LatestOfKeys:
    """Holds the latest record of each key in each partition."""

    def __init__(self) -> None:
        self._held: defaultdict[int, dict[bytes | None, Any]] = defaultdict(dict)
        self._without_key: Counter[int] = Counter()
        self._bytes = 0

    def add(self, messages: Sequence[Any]) -> None:
        """Add further records; those of a partition in order."""
        latest = self._held
        for message in messages:  # millions of them: any further work per message takes seconds
            latest[message.partition()][message.key()] = message
        self._bytes += _RECORD_OVERHEAD_BYTES * len(messages) + sum(map(len, messages))
        if any(None in of_partition for of_partition in latest.values()):
            self._without_key.update(message.partition() for message in messages if message.key() is None)

    def needs_more_than(self, max_bytes: int) -> bool:
        """Whether this takes more memory than about `max_bytes`, or soon will."""
        if self._bytes <= max_bytes:
            return False
        # Replaced records are still counted, so count again.
        self._bytes = sum(
            _RECORD_OVERHEAD_BYTES * len(of_partition) + sum(map(len, of_partition.values()))
            for of_partition in self._held.values()
        )
        return self._bytes > max_bytes // 2

    def drain(self) -> Iterator[Latest]:
        """Yield the records, and start again without any."""
        latest, without_key = self._held, self._without_key
        self._held, self._without_key, self._bytes = defaultdict(dict), Counter(), 0
        for partition, of_partition in latest.items():
            for key, message in of_partition.items():
                value = message.value()
                if key is None:
                    identity, records = None, without_key[partition]
                else:
                    identity, records = identity_of(key), 1
                    if value is not None and b":" not in key:
                        value = b""  # not the key of a window: the value may be large, and is not read
                yield Latest(identity, Age(message.timestamp()[1], partition, message.offset()), key, value, records)


def latest_record(records: Iterable[Latest]) -> Latest:
    """Return the latest record of one window, from any partitions and forms of its key."""
    by_key: dict[tuple[int, bytes | None], Latest] = {}
    count = 0
    for record in records:
        of_key = record.age.partition, record.key
        if of_key not in by_key or record.age.offset > by_key[of_key].age.offset:
            by_key[of_key] = record
        count += record.records
    latest = max(by_key.values(), key=attrgetter("age"))
    return latest if latest.key is not None else latest._replace(records=count)


def latest_of_windows(records: Iterable[Latest]) -> Iterator[Latest]:
    """Yield the latest record of each window; `records` come in any order."""
    by_identity: dict[bytes | None, Latest | list[Latest]] = {}
    for record in records:
        other = by_identity.setdefault(record.identity, record)
        if other is not record:
            if isinstance(other, list):
                other.append(record)
            else:
                by_identity[record.identity] = [other, record]
    return (latest_record(each) if isinstance(each, list) else each for each in by_identity.values())


def latest_rows(batches: Iterable[Sequence[Message]]) -> Iterator[pa.RecordBatch]:
    """Turn records into rows of `LATEST`, one per key, or more if they do not fit in memory."""
    latest = LatestOfKeys()
    for messages in batches:
        latest.add(messages)
        if latest.needs_more_than(_MAX_TASK_BYTES):
            yield from _rows(latest.drain())
    yield from _rows(latest.drain())


def merge_sorted_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[Latest]:
    """Yield the latest record of each window in rows of `LATEST` that are sorted by identity."""
    for _, records in groupby(_records(batches), attrgetter("identity")):
        yield latest_record(records)


def _records(batches: Iterable[pa.RecordBatch]) -> Iterator[Latest]:
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in arrow_schema(LATEST).names)
        for identity, timestamp, partition, offset, key, value, records in zip(*columns, strict=True):
            yield Latest(identity, Age(timestamp, partition, offset), key, value, records)


def _rows(records: Iterable[Latest]) -> Iterator[pa.RecordBatch]:
    batch: list[tuple[Any, ...]] = []
    size = 0
    for identity, age, key, value, count in records:
        batch.append((identity, *age, key, value, count))
        size += len(value or b"")
        if size >= _BATCH_BYTES or len(batch) == _BATCH_ROWS:
            yield _batch(batch)
            batch, size = [], 0
    if batch:
        yield _batch(batch)


def _batch(rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    import pyarrow as pa  # noqa: PLC0415 -- see `arrow_schema`

    schema, columns = arrow_schema(LATEST), zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
