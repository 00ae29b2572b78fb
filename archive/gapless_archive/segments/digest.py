"""Owns the digest of what a segment holds: equal for equal records in equal order, however they were divided.

It covers key, value, headers and timestamp of each record, and neither offset nor partition nor timestamp type: a copy
in another topic has the same digest. Columns are hashed as they lie in memory, never record by record.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from gapless_archive.segments.rows import int64_array

if TYPE_CHECKING:
    from collections.abc import Iterator

_STREAMS = 10
_NONE = int64_array([-1])[0]
"""Stands for null among lengths, and for a record without timestamp."""
_EMPTY = pa.Array.from_buffers(pa.binary(), 1, [None, pa.py_buffer(bytes(8)), pa.py_buffer(b"")])[0]


class ContentDigest:
    """Takes records in their order. For each column there is one hash of all lengths and one of all bytes."""

    __slots__ = ("_hashes", "_records")

    def __init__(self) -> None:
        """Begin with no record."""
        self._hashes = [hashlib.sha256() for _ in range(_STREAMS)]
        self._records = 0

    def update(self, rows: pa.RecordBatch) -> None:
        """Take the next records, as rows of the segments' schema."""
        self._records += rows.num_rows
        for stream, content in zip(self._hashes, _streams(rows), strict=True):
            stream.update(content)

    def text(self) -> str:
        """``sha256:`` and 64 hexadecimal digits, for all records so far."""
        total = hashlib.sha256(self._records.to_bytes(8, "little"))
        for stream in self._hashes:
            total.update(stream.digest())
        return f"sha256:{total.hexdigest()}"


def _streams(rows: pa.RecordBatch) -> Iterator[Any]:
    yield _integers(rows.column("timestamp"))
    for name in ("key", "value"):
        yield from _texts(rows.column(name))
    headers = rows.column("headers")
    yield _integers(pc.list_value_length(headers))
    for part in headers.flatten().flatten():
        yield from _texts(part)


def _texts(column: pa.Array) -> Iterator[Any]:
    """The lengths of a column of bytes or text, and all its bytes."""
    yield _integers(pc.binary_length(column))
    if not len(column):
        yield b""
        return
    if column.null_count:
        column = pc.fill_null(column.cast(pa.binary()), _EMPTY)  # what lies below a null is not defined
    _, ends, content = column.buffers()
    places = memoryview(ends).cast("i")
    yield memoryview(content or b"")[places[column.offset] : places[column.offset + len(column)]]


def _integers(column: pa.Array) -> Any:
    """A column of integers as int64, little-endian."""
    numbers = column.cast(pa.int64())
    if numbers.null_count:
        numbers = pc.fill_null(numbers, _NONE)
    return memoryview(numbers.buffers()[1] or b"")[8 * numbers.offset : 8 * (numbers.offset + len(numbers))]
