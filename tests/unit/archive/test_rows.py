"""The proof that rows hold exactly what records hold, and that the digest sees all of it and nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_archive.segments.digest import ContentDigest
from gapless_archive.segments.rows import SCHEMA, Record, content_bytes, records_of, rows_by_partition, rows_of

if TYPE_CHECKING:
    import random

NONE, CREATED, APPENDED = 0, 1, 2


@dataclass(frozen=True)
class Message:
    """What Kafka's client gives for a record."""

    offset_: int = 0
    partition_: int = 0
    topic_: str = "orders"
    timestamp_: tuple[int, int] = (CREATED, 1_700_000_000_000)
    key_: bytes | None = None
    value_: bytes | None = b""
    headers_: list[tuple[bytes, bytes | None]] | None = field(default=None)

    def offset(self) -> int:
        return self.offset_

    def partition(self) -> int:
        return self.partition_

    def topic(self) -> str:
        return self.topic_

    def timestamp(self) -> tuple[int, int]:
        return self.timestamp_

    def key(self) -> bytes | None:
        return self.key_

    def value(self) -> bytes | None:
        return self.value_

    def headers(self) -> list[tuple[bytes, bytes | None]] | None:
        return self.headers_


_bytes = st.none() | st.binary(max_size=8)
_header_lists = st.none() | st.lists(
    st.tuples(st.sampled_from([b"", b"a", b"b", "ü".encode(), b"\xff", b"a\0b"]), _bytes), min_size=1, max_size=4
)
_times = st.sampled_from([(NONE, -1), (CREATED, -1)]) | st.tuples(
    st.sampled_from([CREATED, APPENDED]), st.integers(0, 2**62)
)
messages_made = st.builds(
    Message,
    offset_=st.integers(2**62 - 5, 2**62 + 5),
    partition_=st.integers(0, 3),
    timestamp_=_times,
    key_=_bytes,
    value_=_bytes,
    headers_=_header_lists,
)


def record(message: Message) -> Record:
    kind, time = message.timestamp_
    has_time = kind != NONE and time >= 0
    return Record(
        message.partition_,
        message.offset_,
        time if has_time else None,
        kind - 1 if has_time else None,
        message.key_,
        message.value_,
        message.headers_ or [],
    )


def digest_of(batches: Sequence[pa.RecordBatch]) -> str:
    digest = ContentDigest()
    for batch in batches:
        digest.update(batch)
    return digest.text()


@given(st.lists(messages_made, max_size=20))
def test_rows_give_the_records_back(messages: list[Message]) -> None:
    rows = rows_of(messages)
    assert rows.schema == SCHEMA
    rows.validate(full=True)
    assert list(records_of(rows)) == [record(message) for message in messages]
    assert list(records_of(rows.slice(len(messages) // 2))) == [
        record(message) for message in messages[len(messages) // 2 :]
    ]


@given(st.lists(messages_made, max_size=20))
def test_runs_keep_every_record_with_its_topic_and_partition_in_order(messages: list[Message]) -> None:
    messages = [replace(message, topic_=f"t{message.offset_ % 2}") for message in messages]
    runs = list(rows_by_partition(messages))
    places = [(run.topic, run.partition) for run in runs]
    assert len(set(places)) == len(places)
    for run in runs:
        assert list(records_of(run.rows)) == [
            record(message) for message in messages if (message.topic_, message.partition_) == run[:2]
        ]
    assert sum(run.rows.num_rows for run in runs) == len(messages)


@given(st.lists(messages_made, max_size=20), st.randoms(use_true_random=False))
def test_the_digest_does_not_depend_on_how_records_are_divided(messages: list[Message], chance: random.Random) -> None:
    rows = rows_of(messages)
    cuts = sorted(chance.choices(range(len(messages) + 1), k=3))
    pieces = [rows.slice(first, end - first) for first, end in zip([0, *cuts], [*cuts, len(messages)], strict=True)]
    assert digest_of(pieces) == digest_of([rows])
    assert digest_of([rows_of([message]) for message in messages]) == digest_of([rows])


FIRST, SECOND = Message(1, key_=b"a", value_=b"b"), Message(2, key_=b"ab", value_=b"")
CHANGED = {
    "the other order": [SECOND, FIRST],
    "one record less": [FIRST],
    "one record twice": [FIRST, SECOND, SECOND],
    "a byte that moved from one key to the next": [replace(FIRST, key_=b"aa"), replace(SECOND, key_=b"b")],
    "a byte that moved from value to key": [replace(FIRST, key_=b"ab", value_=b""), SECOND],
    "null for empty": [FIRST, replace(SECOND, value_=None)],
    "another timestamp": [FIRST, replace(SECOND, timestamp_=(CREATED, 1))],
    "no timestamp": [FIRST, replace(SECOND, timestamp_=(NONE, -1))],
    "a header": [FIRST, replace(SECOND, headers_=[(b"", b"")])],
    "a null header": [FIRST, replace(SECOND, headers_=[(b"", None)])],
    "two headers": [FIRST, replace(SECOND, headers_=[(b"a", b"1"), (b"a", b"2")])],
    "two headers in the other order": [FIRST, replace(SECOND, headers_=[(b"a", b"2"), (b"a", b"1")])],
    "a header at the other record": [replace(FIRST, headers_=[(b"", b"")]), SECOND],
}


def test_the_digest_tells_every_difference() -> None:
    digests = {name: digest_of([rows_of(messages)]) for name, messages in CHANGED.items()}
    digests["as it was"] = digest_of([rows_of([FIRST, SECOND])])
    assert len(set(digests.values())) == len(digests)


def test_the_digest_is_that_of_a_copy_elsewhere() -> None:
    copy = [replace(message, offset_=message.offset_ + 7, partition_=5) for message in (FIRST, SECOND)]
    assert digest_of([rows_of(copy)]) == digest_of([rows_of([FIRST, SECOND])])


def test_the_digest_ignores_what_lies_below_a_null() -> None:
    rows = rows_of([replace(FIRST, value_=None), SECOND])
    hidden = pa.Array.from_buffers(
        pa.binary(), 2, [pa.py_buffer(b"\x02"), pa.py_buffer(b"\0\0\0\0\3\0\0\0\3\0\0\0"), pa.py_buffer(b"xyz")]
    )
    other = rows.set_column(5, SCHEMA.field(5), hidden)
    assert digest_of([other]) == digest_of([rows])


def by_definition(records: Sequence[Record]) -> str:
    """The digest, byte by byte: a hash for each column's lengths and one for its bytes."""
    times = b"".join(_number(-1 if one.timestamp is None else one.timestamp) for one in records)
    header_keys = [key for one in records for key, _ in one.headers]
    header_values = [value for one in records for _, value in one.headers]
    counts = b"".join(_number(len(one.headers)) for one in records)
    streams = [times]
    for column in ([one.key for one in records], [one.value for one in records], None, header_keys, header_values):
        if column is None:
            streams.append(counts)
            continue
        streams.append(b"".join(_number(-1 if text is None else len(text)) for text in column))
        streams.append(b"".join(text or b"" for text in column))
    whole = _number(len(records)) + b"".join(hashlib.sha256(stream).digest() for stream in streams)
    return f"sha256:{hashlib.sha256(whole).hexdigest()}"


def _number(number: int) -> bytes:
    return number.to_bytes(8, "little", signed=True)


@given(st.lists(messages_made, max_size=10))
def test_the_digest_is_what_its_definition_says(messages: list[Message]) -> None:
    assert digest_of([rows_of(messages)]) == by_definition([record(message) for message in messages])


@pytest.mark.parametrize(
    ("message", "size"),
    [
        (Message(value_=None), 16),
        (Message(key_=b"12", value_=b"345"), 21),
        (Message(headers_=[("ü".encode(), b"123"), (b"", None)]), 21),
    ],
)
def test_the_size_counts_what_the_peer_counts(message: Message, size: int) -> None:
    assert content_bytes(rows_of([message])) == size
    assert content_bytes(rows_of([Message(value_=b"xxx"), message, message]).slice(1)) == 2 * size
