"""Owns which records of a gaps topic are the latest of their windows: the one definition, by bytes, for all readers.

Must not know how records are read or decoded. Latest means: of one key in one partition of the gaps topic, the highest
offset. Between partitions (the topic was given more of them) and between the two forms of a key, which hash
differently, the latest timestamp. Which keys are about one window is `gapless_api.gaps.keys`'s to say.

A task holds the latest record of each key among those that it reads, which leaves few. These meet by their identity.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from gapless_api.gaps.keys import identity_of
from gapless_spark.model.arrow_schema import arrow_schema
from gapless_spark.model.gap_windows import Age

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from confluent_kafka import Message

_BYTES_OF_A_RECORD = 600
"""What Python needs for each beside its value; one of 65,536 offsets with gaps everywhere has 8 KiB."""
_MOST_BYTES_OF_A_TASK = 64 * 1024 * 1024
"""About so much a task holds before it hands on what it has; the same window may come again then."""
_BYTES_AT_ONCE, _ROWS_AT_ONCE = 4 * 1024 * 1024, 4096

LATEST = "identity binary, timestamp long, partition int, offset long, key binary, value binary, records long"
"""What `latest_rows` yields."""


class Latest(NamedTuple):
    """The latest record of a key in one partition of the gaps topic, or of a window."""

    identity: bytes | None
    """What all keys of the window have in common; nothing for records without a key."""
    age: Age
    key: bytes | None
    value: bytes | None
    records: int
    """How many records it stands for; only counted without a key, else 1."""


class LatestOfKeys:
    """Holds the latest record of each key in each partition."""

    def __init__(self) -> None:
        self._held: defaultdict[int, dict[bytes | None, Any]] = defaultdict(dict)
        self._without_key: Counter[int] = Counter()
        self._bytes = 0

    def add(self, messages: Sequence[Any]) -> None:
        """Take further records, those of a partition in their order."""
        held = self._held
        for message in messages:  # of millions; whatever else is done for each takes seconds
            held[message.partition()][message.key()] = message
        self._bytes += _BYTES_OF_A_RECORD * len(messages) + sum(map(len, messages))
        if any(None in of_partition for of_partition in held.values()):
            self._without_key.update(message.partition() for message in messages if message.key() is None)

    def needs_more_than(self, most_bytes: int) -> bool:
        """Whether more is held than about `most_bytes`, or soon would be."""
        if self._bytes <= most_bytes:
            return False
        # Counted as if each was of another window, so it has to be counted again.
        self._bytes = sum(
            _BYTES_OF_A_RECORD * len(of_partition) + sum(map(len, of_partition.values()))
            for of_partition in self._held.values()
        )
        return self._bytes > most_bytes // 2

    def taken(self) -> Iterator[Latest]:
        """Yield what is held, and forget it."""
        held, without_key = self._held, self._without_key
        self._held, self._without_key, self._bytes = defaultdict(dict), Counter(), 0
        for partition, of_partition in held.items():
            for key, message in of_partition.items():
                value = message.value()
                if key is None:
                    identity, records = None, without_key[partition]
                else:
                    identity, records = identity_of(key), 1
                    if value is not None and b":" not in key:
                        value = b""  # No window's: other values could be large, and nobody reads them.
                yield Latest(identity, Age(message.timestamp()[1], partition, message.offset()), key, value, records)


def latest_of(records: Iterable[Latest]) -> Latest:
    """The latest of records about one window, of any partitions and forms of its key."""
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
    return (latest_of(found) if isinstance(found, list) else found for found in by_identity.values())


def latest_rows(batches: Iterable[Sequence[Message]]) -> Iterator[pa.RecordBatch]:
    """Turn records into rows of `LATEST`, one for each key, or more where they are too many to hold."""
    held = LatestOfKeys()
    for messages in batches:
        held.add(messages)
        if held.needs_more_than(_MOST_BYTES_OF_A_TASK):
            yield from _rows(held.taken())
    yield from _rows(held.taken())


def latest_in_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[Latest]:
    """Yield the latest record of each window in rows of `LATEST` that are sorted by identity."""
    for _, records in groupby(_records(batches), attrgetter("identity")):
        yield latest_of(records)


def _records(batches: Iterable[pa.RecordBatch]) -> Iterator[Latest]:
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in arrow_schema(LATEST).names)
        for identity, timestamp, partition, offset, key, value, records in zip(*columns, strict=True):
            yield Latest(identity, Age(timestamp, partition, offset), key, value, records)


def _rows(records: Iterable[Latest]) -> Iterator[pa.RecordBatch]:
    some: list[tuple[Any, ...]] = []
    size = 0
    for identity, age, key, value, count in records:
        some.append((identity, *age, key, value, count))
        size += len(value or b"")
        if size >= _BYTES_AT_ONCE or len(some) == _ROWS_AT_ONCE:
            yield _batch(some)
            some, size = [], 0
    if some:
        yield _batch(some)


def _batch(rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    import pyarrow as pa  # noqa: PLC0415 -- see `arrow_schema`

    schema, columns = arrow_schema(LATEST), zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
