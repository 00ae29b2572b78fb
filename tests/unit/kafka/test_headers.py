"""The proof that headers are read as bytes, whatever they are, and refused where that is not known to work."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.base.errors import ConfigurationError
from gapless_kafka.reading import headers as reading
from gapless_kafka.reading.headers import Header, keep_header_bytes

_header_lists = st.lists(st.tuples(st.binary(max_size=20), st.none() | st.binary(max_size=300)), max_size=5)


def consumed(headers: list[Header]) -> Message:
    """A message as the client makes it of a record: its headers are in the C library."""
    message = Message(topic="t", value=b"v")
    if headers:
        reading._word(message, reading._POINTER).value = reading._c_headers(headers)
    return message


@given(st.lists(_header_lists, max_size=5))
def test_headers_are_the_bytes_of_the_record(records: list[list[Header]]) -> None:
    messages = [consumed(headers) for headers in records]
    keep_header_bytes(messages)
    for _ in range(2):
        assert [message.headers() or [] for message in messages] == records
    del messages
    gc.collect()


def test_this_client_is_known() -> None:
    assert reading._known_memory() is not None


@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A client that keeps headers elsewhere."""
    reading._known_memory.cache_clear()
    monkeypatch.setattr(reading, "_POINTER", reading._POINTER - 8)
    yield
    reading._known_memory.cache_clear()


def test_an_unknown_client_is_refused_only_for_records_with_headers(unknown: None) -> None:  # noqa: ARG001
    assert reading._known_memory() is None
    plain: list[Any] = [Message(topic="t", value=b"v")]
    keep_header_bytes(plain)
    with pytest.raises(ConfigurationError, match=r"headers of records cannot be read without loss .* install"):
        keep_header_bytes([*plain, Message(topic="t", headers=[("a", b"1")])])
