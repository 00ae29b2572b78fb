"""Parked records keep every byte, in any number of messages, and nothing else is read as one."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.wire.form import WireError
from gapless_api.wire.parked_records import ParkedRecord, describe_parked, parked_messages, read_parked

SAMPLE = ParkedRecord(
    topic="orders",
    topic_id="abc",
    partition=3,
    offset=44_176_697,
    timestamp=0,
    timestamp_type=1,
    key=b"\xff\0",
    value=b"v" * 300_000,
    headers=((b"\xff\xfe", b"x"), (b"", None), (b"n\0l", b"")),
    reason="TargetRefuses",
    message="It is too large.",
    program="mirror",
    parked_at="2026-11-20T10:00:00Z",
)
_bytes = st.none() | st.binary(max_size=60_000)
_times = st.none() | st.integers(0, 2**60)
SMALLEST = 17 * 1024


@given(
    topic=st.text(min_size=1, max_size=249),
    key=_bytes,
    value=_bytes,
    times=_times,
    headers=st.lists(st.tuples(st.binary(max_size=300), st.none() | st.binary(max_size=9000)), max_size=200),
    message=st.text(max_size=3000),
    most=st.integers(SMALLEST, 200_000),
)
def test_every_byte_is_kept_in_messages_of_limited_size(  # noqa: PLR0917 -- members of a record
    topic: str,
    key: bytes | None,
    value: bytes | None,
    times: int | None,
    headers: list[tuple[bytes, bytes | None]],
    message: str,
    most: int,
) -> None:
    record = replace(
        SAMPLE, topic=topic, key=key, value=value, timestamp=times, headers=tuple(headers), message=message
    )
    messages = parked_messages(record, most)
    assert max(map(len, messages)) <= most
    assert all(b"\n" not in each for each in messages)  # they are lines of a file
    (again,) = read_parked(messages)
    assert replace(again, message="") == replace(record, message="")
    assert again.message[:1000] == message[:1000]


def test_messages_of_several_records_may_be_mixed_and_repeated() -> None:
    records = [SAMPLE, replace(SAMPLE, offset=7, value=None), replace(SAMPLE, partition=0)]
    messages = [each for record in records for each in parked_messages(record, SMALLEST)]
    assert len(messages) > 80
    read = list(read_parked([*messages[::-1], *messages[1:]]))
    assert sorted(read, key=repr) == sorted(records, key=repr)


def test_a_missing_message_names_the_record() -> None:
    messages = parked_messages(SAMPLE, SMALLEST)
    with pytest.raises(WireError, match=r"1 of .* parts of the record orders/3 offset 44,176,697 are missing"):
        list(read_parked(messages[1:]))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"gaplessParkedRecord": 2}, "version 2"),
        ({"part": 5, "parts": 5}, "part 6 of 5"),
        ({"content": "{}"}, "content of a parked record"),
        ({"parkedAt": "yesterday"}, "not a valid time"),
    ],
)
def test_anything_else_is_refused(change: dict[str, object], problem: str) -> None:
    (message,) = parked_messages(replace(SAMPLE, value=b""))
    with pytest.raises(WireError, match=problem):
        list(read_parked([json.dumps(json.loads(message) | change).encode()]))


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b"null", b'{"gaplessParkedRecord":1}'])
def test_other_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(WireError):
        list(read_parked([content]))


def test_too_small_messages_are_refused() -> None:
    with pytest.raises(ValueError, match="needs messages of"):
        parked_messages(SAMPLE, 100)


def test_a_listing_names_record_and_reason() -> None:
    assert describe_parked(SAMPLE) == (
        "orders/3 offset 44,176,697: TargetRefuses (2 bytes of key, 300,000 of value, 3 headers; mirror at "
        "2026-11-20T10:00:00Z). It is too large."
    )
