"""The proof that a record with any header keys is handed to the C library like every other record."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import Producer

from gapless_api.base.errors import ConfigurationError
from gapless_kafka.writing import headers as writing
from gapless_kafka.writing.headers import ByteHeaders, headers_for, producing

STRANGE: list[tuple[bytes, bytes | None]] = [(b"\xff", b"1"), (b"a\0b", None), (b"", b"")]
PLAIN: list[tuple[bytes, bytes | None]] = [(b"a", b"1"), ("ü".encode(), None), (b"", b"")]


def producer(**more: Any) -> Producer:
    """A producer that reaches no broker."""
    return Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "error_cb": lambda _: None, **more})


def test_only_keys_that_the_client_would_change_need_another_way() -> None:
    assert headers_for(PLAIN) == [("a", b"1"), ("ü", None), ("", b"")]
    assert not isinstance(headers_for(PLAIN), ByteHeaders)
    for pair in STRANGE[:2]:
        assert isinstance(headers_for([*PLAIN, pair]), ByteHeaders)


def test_each_record_has_one_delivery_report_in_order() -> None:
    client, reported = producer(), []
    produce = producing(client)

    def on_delivery(error: Any, message: Any) -> None:
        reported.append((error.name(), message.partition(), message.key(), message.value()))

    before = sys.getrefcount(on_delivery)
    for number in range(30):
        given = headers_for(STRANGE if number % 3 else PLAIN)
        value = (None, b"", b"value")[number % 3]
        produce("t", value, b"%d" % number if number % 2 else None, 1, on_delivery, None, 5, given)
        produce("t", value, None, 1, None, None, 5, given)
    client.purge()
    while len(reported) < 30:
        client.poll(0.1)
    assert reported == [
        ("_PURGE_QUEUE", 1, b"%d" % number if number % 2 else None, (None, b"", b"value")[number % 3])
        for number in range(30)
    ]
    gc.collect()
    assert sys.getrefcount(on_delivery) == before


def test_a_full_queue_refuses_the_record_like_any_other() -> None:
    client, on_delivery = producer(**{"queue.buffering.max.messages": 1}), (lambda *_: None)
    produce, before = producing(client), sys.getrefcount(on_delivery)
    produce("t", b"v", None, 0, None, None, 0, headers_for(STRANGE))
    with pytest.raises(BufferError):
        produce("t", b"v", None, 0, on_delivery, None, 0, headers_for(STRANGE))
    assert sys.getrefcount(on_delivery) == before
    client.purge()


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A version of the client that was not tried."""
    writing._library.cache_clear()
    monkeypatch.setattr(confluent_kafka, "version", lambda: "9.0.0")
    yield
    writing._library.cache_clear()


@pytest.mark.usefixtures("newer")
def test_a_client_that_was_not_tried_is_refused_only_for_such_records() -> None:
    client, reported = producer(), []
    produce = producing(client)

    def on_delivery(_: Any, message: Any) -> None:
        reported.append(message.value())

    with pytest.raises(ConfigurationError, match=r"for t/0 has a header whose key .* confluent-kafka 9\.0\.0; install"):
        produce("t", b"strange", None, 0, on_delivery, None, 0, headers_for(STRANGE))
    produce("t", b"plain", None, 0, on_delivery, None, 0, headers_for(PLAIN))
    client.purge()
    while not reported:
        client.poll(0.1)
    assert reported == [b"plain"]
