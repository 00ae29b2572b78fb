"""How the headers of records are read: as bytes, exactly as they are in Kafka, for every program.

To Kafka the key of a header is bytes. Kafka's Python client decodes it as UTF-8, fails if it is not, and cuts it at its
first NUL. Its C library keeps all bytes, so they are copied from there, before the Python client decodes them.
`gapless_kafka.writing.headers` writes them.

Where the client keeps a header is not part of its interface. So it is checked once per process with headers of our own;
if the check fails, records with headers are refused, rather than changed.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import confluent_kafka
from confluent_kafka import Message, cimpl

from gapless_api.base.errors import ConfigurationError

Header = tuple[bytes, bytes | None]
"""Key and value."""

_WORD_BYTES = 8
_WORD_COUNT = 2**44
"""Of the address space of a process."""
_FIRST_FIELD = object.__basicsize__
_FIELDS = ("topic", "value", "key", "headers")
"""The first fields of a message. The next one points to headers that are not decoded yet."""
_POINTER = _FIRST_FIELD + len(_FIELDS) * _WORD_BYTES
_NAME = 4 * _WORD_BYTES
"""Where the key begins in a header: after its size, those of value and key, and the address of the value."""
_SAMPLE: tuple[Header, ...] = (
    (b"plain", b"value"),
    (b"plain", None),
    (b"", b""),
    (b"n\0l", b"\0\xff"),
    (b"\xff\xfe", b"x" * 300),
)


def keep_header_bytes(messages: Sequence[Any]) -> None:
    """Let `headers` of each message return pairs of bytes, instead of decoding the keys.

    Args:
        messages: as the client returned them; `headers` was not called yet.

    Raises:
        ConfigurationError: a record has headers, and this version of the client keeps them in an unknown way.
    """
    memory = _known_memory()
    if memory is None:
        if any(map(_has_headers, messages)):
            raise ConfigurationError(
                f"The headers of records cannot be read without loss with confluent-kafka {confluent_kafka.version()}; "
                f"install the version 2.15.1."
            )
        return
    pointers = memory.pointers(messages)
    if any(pointers):  # the usual case costs no loop over the records
        for message, pointer in zip(messages, pointers, strict=True):
            if pointer:
                message.set_headers(memory.headers_at(pointer))


class _Memory:
    """The memory of this process. A view of it costs a tenth of a call by ctypes for each header."""

    def __init__(self) -> None:
        self._words = _view(_WORD_BYTES).cast("Q")
        self._pointers = _view(_POINTER).cast("Q")
        self._names = _view(_NAME)

    def pointers(self, messages: Sequence[Any]) -> list[int]:
        """Return where the client keeps the headers of each message; 0 for none."""
        pointers = self._pointers
        return [pointers[address >> 3] for address in map(id, messages)]

    def headers_at(self, pointer: int) -> list[Header]:
        """Return the headers that the client keeps at `pointer`."""
        words, names = self._words, self._names
        first = (pointer >> 3) - 1
        count, items = words[first] >> 32, (words[first + 1] >> 3) - 1
        headers: list[Header] = []
        for address in words[items : items + count]:
            at = address >> 3
            value_size, key_size, value = words[at : at + 3]
            value -= _NAME
            headers.append(
                (
                    names[address : address + key_size].tobytes(),
                    names[value : value + value_size].tobytes() if value > 0 else None,
                )
            )
        return headers


def _view(first: int) -> memoryview:
    """The bytes of this process from the address `first` on."""
    return memoryview((ctypes.c_uint64 * (_WORD_COUNT - 16)).from_address(first)).cast("B")


@cache
def _known_memory() -> _Memory | None:
    """Return the memory if the client keeps headers as expected, otherwise ``None``."""
    if ctypes.sizeof(ctypes.c_void_p) != _WORD_BYTES or sys.byteorder != "little":
        return None
    try:
        return _checked(_Memory())
    except (TypeError, AttributeError, OSError, ValueError):
        return None


def _checked(memory: _Memory) -> _Memory | None:
    content: dict[str, Any] = {"topic": "a topic", "value": b"a value", "key": b"a key", "headers": [("key", b"value")]}
    complete, empty = Message(**content), Message(topic="a topic")
    fields = [_word(complete, _FIRST_FIELD + number * _WORD_BYTES).value for number in range(len(_FIELDS) + 1)]
    if fields != [*(id(content[name]) for name in _FIELDS), None] or _word(empty, _POINTER).value:
        return None
    # The client must decode and release what it finds there; only then may it get keys that it cannot decode.
    _word(empty, _POINTER).value = _c_headers(_SAMPLE[:3])
    decoded = empty.headers()
    if _word(empty, _POINTER).value:
        _word(empty, _POINTER).value = None
        return None
    strange = Message(topic="a topic")
    _word(strange, _POINTER).value = _c_headers(_SAMPLE)
    is_known = (
        decoded == [(key.decode(), value) for key, value in _SAMPLE[:3]]
        and memory.headers_at(memory.pointers([strange])[0]) == list(_SAMPLE)
        and memory.pointers([complete]) == [0]
    )
    return memory if is_known else None


def _word(message: Message, offset: int) -> ctypes.c_void_p:
    return ctypes.c_void_p.from_address(id(message) + offset)


def _c_headers(headers: Sequence[Header]) -> int:
    """Make headers with the C library that the Python client uses, and return their address."""
    library = ctypes.PyDLL(cimpl.__file__)
    create, add = library.rd_kafka_headers_new, library.rd_kafka_header_add
    create.restype, create.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    add.argtypes = [ctypes.c_void_p, *(ctypes.c_char_p, ctypes.c_ssize_t) * 2]
    pointer: int = create(len(headers))
    for key, value in headers:
        add(pointer, key, len(key), value, len(value or b""))
    return pointer


def _has_headers(message: Any) -> bool:
    try:
        return bool(message.headers())
    except (UnicodeDecodeError, SystemError):
        return True
