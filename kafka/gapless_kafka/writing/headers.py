"""How records with headers are written: keys are bytes, as they were read, whatever they are.

Kafka's Python client writes keys that are text, up to the first NUL. A record with any other key is given to its C
library, as the Python client does it, so that it is sent in order with the others and has a delivery report.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Producer, cimpl

from gapless_api.base.errors import ConfigurationError

if TYPE_CHECKING:
    from gapless_kafka.reading.headers import Header

_FIRST_VERSION, _END_VERSION = (2, 12), (2, 17)
"""Of the Python client: those whose fields are the ones below."""
_HANDLE = object.__basicsize__
"""Where a producer keeps its handle in the C library."""
_TOPIC, _PARTITION, _VALUE, _KEY, _OPAQUE, _FLAGS, _TIMESTAMP, _HEADERS = 1, 3, 4, 5, 6, 7, 8, 10
_COPY = 2
_CACHED_KEYS = 4096


class ByteHeaders(list[Any]):
    """Headers that the Python client would change."""


class _Union(ctypes.Union):
    _fields_ = (
        ("text", ctypes.c_char_p),
        ("number", ctypes.c_int32),
        ("long_number", ctypes.c_int64),
        ("pointer", ctypes.c_void_p),
        ("content", ctypes.c_char_p * 2),
        ("padding", ctypes.c_char * 64),
    )


class _Argument(ctypes.Structure):
    """``rd_kafka_vu_t``."""

    _fields_ = (("kind", ctypes.c_int), ("of", _Union))


class _Content(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_char_p), ("size", ctypes.c_size_t))


class _State(ctypes.Structure):
    """What the Python client attaches to a record; it frees this after the delivery report."""

    _fields_ = (("producer", ctypes.c_void_p), ("on_delivery", ctypes.c_void_p))


def headers_for(pairs: Sequence[Header]) -> list[Any]:
    """Return headers as an argument for the function that `producing` returns."""
    headers = []
    for key, value in pairs:
        text = _text_of(key)
        if text is None:
            return ByteHeaders(pairs)
        headers.append((text, value))
    return headers


@lru_cache(_CACHED_KEYS)
def _text_of(key: bytes) -> str | None:
    try:
        return None if b"\0" in key else key.decode()
    except UnicodeDecodeError:
        return None


def producing(client: Producer) -> Callable[..., None]:
    """Return a function like `client.produce`, with positional arguments and headers that `headers_for` returned.

    It also raises ConfigurationError: keys that are not text cannot be written with this version of the client.
    """
    produce: Callable[..., None] = client.produce

    def produce_any(*arguments: Any) -> None:
        if isinstance(arguments[-1], ByteHeaders):
            _produce(client, *arguments)
        else:
            produce(*arguments)

    return produce_any


def _produce(  # noqa: PLR0913, PLR0917 -- those of `Producer.produce`
    client: Producer,
    topic: str,
    value: bytes | None,
    key: bytes | None,
    partition: int,
    on_delivery: Callable[..., None] | None,
    _: None,
    timestamp: int,
    headers: ByteHeaders,
) -> None:
    library = _library()
    handle = ctypes.c_void_p.from_address(id(client) + _HANDLE).value
    if library is None or not handle:
        raise ConfigurationError(
            f"A record for {topic}/{partition} has a header whose key is not UTF-8 text, which cannot be written with "
            f"confluent-kafka {confluent_kafka.version()}; install the version 2.15.1."
        )
    state = _new_state(client, on_delivery)
    pointer = library.rd_kafka_headers_new(len(headers))
    for name, content in headers:
        library.rd_kafka_header_add(pointer, name, len(name), content, len(content or b""))
    arguments = (_Argument * 8)()
    for argument, (kind, field, given) in zip(
        arguments,
        (
            (_TOPIC, "text", topic.encode()),
            (_PARTITION, "number", partition),
            (_FLAGS, "number", _COPY),
            (_VALUE, "content", value),
            (_KEY, "content", key),
            (_TIMESTAMP, "long_number", timestamp),
            (_HEADERS, "pointer", pointer),
            (_OPAQUE, "pointer", state),
        ),
        strict=True,
    ):
        argument.kind = kind
        if field == "content":
            content = _Content.from_buffer(argument, _Argument.of.offset)
            content.bytes, content.size = given, len(given or b"")
        else:
            setattr(argument.of, field, given)
    error = library.rd_kafka_produceva(handle, arguments, len(arguments))
    if not error:
        return
    code = library.rd_kafka_error_code(error)
    library.rd_kafka_error_destroy(error)
    library.rd_kafka_headers_destroy(pointer)
    _free_state(state, on_delivery)
    if code == KafkaError._QUEUE_FULL:  # noqa: SLF001 -- its public name
        raise BufferError("Local: Queue full")
    raise KafkaException(KafkaError(code))


def _new_state(client: Producer, on_delivery: Callable[..., None] | None) -> int:
    pointer: int = _c().calloc(1, ctypes.sizeof(_State))
    state = _State.from_address(pointer)
    state.producer = id(client)
    if on_delivery is not None:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(on_delivery))
        state.on_delivery = id(on_delivery)
    return pointer


def _free_state(pointer: int, on_delivery: Callable[..., None] | None) -> None:
    if on_delivery is not None:
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(on_delivery))
    _c().free(pointer)


@cache
def _c() -> Any:
    library = ctypes.PyDLL(None)
    library.calloc.restype, library.calloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t, ctypes.c_size_t]
    library.free.restype, library.free.argtypes = None, [ctypes.c_void_p]
    return library


@cache
def _library() -> Any:
    """Return the C library of the Python client; ``None`` if another version of the client uses it differently."""
    version = tuple(int(part) for part in confluent_kafka.version().split(".")[:2] if part.isdecimal())
    if not _FIRST_VERSION <= version < _END_VERSION:
        return None
    library: Any = ctypes.PyDLL(cimpl.__file__)
    pointer = ctypes.c_void_p
    library.rd_kafka_headers_new.restype, library.rd_kafka_headers_new.argtypes = pointer, [ctypes.c_size_t]
    text = [ctypes.c_char_p, ctypes.c_ssize_t]
    library.rd_kafka_header_add.argtypes = [pointer, *text, *text]
    library.rd_kafka_headers_destroy.restype, library.rd_kafka_headers_destroy.argtypes = None, [pointer]
    library.rd_kafka_produceva.restype = pointer
    library.rd_kafka_produceva.argtypes = [pointer, ctypes.POINTER(_Argument), ctypes.c_size_t]
    library.rd_kafka_error_code.argtypes = [pointer]
    library.rd_kafka_error_destroy.restype, library.rd_kafka_error_destroy.argtypes = None, [pointer]
    return library
