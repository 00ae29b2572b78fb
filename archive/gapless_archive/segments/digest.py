"""The digest of a segment's content: equal for equal records in equal order, however they were batched.

It covers key, value, headers and timestamp of each record, but not offset, partition or timestamp type: a copy in
another topic has the same digest. Columns are hashed as they are in memory, never record by record.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gapless_archive.segments.rows import int64_array

_STREAMS = 10
_NULL = int64_array([-1])[0]
"""Stands for null among lengths, and for a record without timestamp."""
_EMPTY = pa.Array.from_buffers(pa.binary(), 1, [None, pa.py_buffer(bytes(8)), pa.py_buffer(b"")])[0]


class ContentDigest:
    """Hashes records in order. Each column has one hash of all lengths and one of all bytes."""

    __slots__ = ("_hashes", "_records")

    def __init__(self) -> None:
        """Start without records."""
        self._hashes = [hashlib.sha256() for _ in range(_STREAMS)]
        self._records = 0

    def update(self, rows: pa.RecordBatch) -> None:
        """Add the next records, as rows of `SCHEMA`."""
        self._records += rows.num_rows
        for stream, content in zip(self._hashes, _streams(rows), strict=True):
            stream.update(content)

    def text(self) -> str:
        """Return ``sha256:`` and 64 hexadecimal digits for all records so far."""
        total = hashlib.sha256(self._records.to_bytes(8, "little"))
        for stream in self._hashes:
            total.update(stream.digest())
        return f"sha256:{total.hexdigest()}"


def _streams(rows: pa.RecordBatch) -> Iterator[Any]:
    yield _int64_bytes(rows.column("timestamp"))
    for name in ("key", "value"):
        yield from _hashed_bytes(rows.column(name))
    headers = rows.column("headers")
    yield _int64_bytes(pc.list_value_length(headers))
    for part in headers.flatten().flatten():
        yield from _hashed_bytes(part)


def _hashed_bytes(column: pa.Array) -> Iterator[Any]:
    """The lengths of a column of bytes or text, and all its bytes."""
    yield _int64_bytes(pc.binary_length(column))
    if not len(column):
        yield b""
        return
    if column.null_count:
        column = pc.fill_null(column.cast(pa.binary()), _EMPTY)  # the bytes below a null are undefined
    _, ends, content = column.buffers()
    bounds = memoryview(ends).cast("i")
    yield memoryview(content or b"")[bounds[column.offset] : bounds[column.offset + len(column)]]


def _int64_bytes(column: pa.Array) -> Any:
    """A column of integers as int64, little-endian."""
    numbers = column.cast(pa.int64())
    if numbers.null_count:
        numbers = pc.fill_null(numbers, _NULL)
    return memoryview(numbers.buffers()[1] or b"")[8 * numbers.offset : 8 * (numbers.offset + len(numbers))]
