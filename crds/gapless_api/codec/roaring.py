"""Decoding 32-bit Roaring bitmaps in the portable format; must not know what the positions mean.

The format: https://github.com/RoaringBitmap/RoaringFormatSpec. No library, because a small bitmap can contain four
billion positions as a few runs: libraries return positions, this module returns ranges. Time and memory are linear in
the number of bytes, for any input.
"""

from __future__ import annotations

import re
import struct
import sys
from array import array
from collections.abc import Iterator

_COOKIE_WITHOUT_RUNS = 12346
_COOKIE_WITH_RUNS = 12347
EMPTY_BITMAP = struct.pack("<II", _COOKIE_WITHOUT_RUNS, 0)
"""The bitmap of most windows, once they are complete."""
_MIN_CONTAINERS_FOR_OFFSETS = 4
"""Bitmaps with run containers have an offset table only if they have at least this number of containers."""
_MAX_ARRAY_CARDINALITY = 4096
_BITSET_BYTES = 8192
_ONES = re.compile("1+")


class MalformedBitmapError(ValueError):
    """The bytes are not a portable Roaring bitmap; the message says which check failed."""


def bitmap_ranges(serialized: bytes) -> Iterator[tuple[int, int]]:
    """Yield the positions of a bitmap as ascending ranges (first, last), both inclusive, which may be adjacent.

    Raises:
        MalformedBitmapError: the bytes violate the format, or are followed by others.
    """
    reader = _Reader(serialized)
    count, runs = _containers(reader)
    if count > 65536:
        raise MalformedBitmapError(f"the bitmap claims {count} containers, more than 65536")
    headers = reader.shorts(2 * count, "the container table")
    positions = array("I")
    if runs is None or count >= _MIN_CONTAINERS_FOR_OFFSETS:
        positions = reader.words(count, "the table of container positions")
    previous_key = -1
    for index in range(count):
        key, cardinality = headers[2 * index], headers[2 * index + 1] + 1
        if key <= previous_key:
            raise MalformedBitmapError(f"container {index} has key {key} after key {previous_key}")
        previous_key = key
        if positions and positions[index] != reader.position:
            raise MalformedBitmapError(f"container {index} is not at the position in the table")
        if runs is not None and runs[index // 8] >> (index % 8) & 1:
            ranges = _run_container(reader, cardinality)
        elif cardinality <= _MAX_ARRAY_CARDINALITY:
            ranges = _array_container(reader, cardinality)
        else:
            ranges = _bitset_container(reader, cardinality)
        base = key << 16
        for first, last in ranges:
            yield base + first, base + last
    reader.expect_end()


def _containers(reader: _Reader) -> tuple[int, bytes | None]:
    """Read the header: the number of containers, and the flags of run containers (``None`` without run containers)."""
    (cookie,) = struct.unpack("<I", reader.take(4, "the cookie"))
    if cookie == _COOKIE_WITHOUT_RUNS:
        (count,) = struct.unpack("<I", reader.take(4, "the number of containers"))
        return count, None
    if cookie & 0xFFFF == _COOKIE_WITH_RUNS:
        count = (cookie >> 16) + 1
        return count, reader.take((count + 7) // 8, "the run flags")
    raise MalformedBitmapError(f"the bitmap begins with {cookie:#010x}, which is no Roaring cookie")


def _array_container(reader: _Reader, cardinality: int) -> Iterator[tuple[int, int]]:
    values = reader.shorts(cardinality, "an array container")
    first = last = values[0]
    for value in values[1:]:
        if value != last + 1:
            if value <= last:
                raise MalformedBitmapError(f"an array container has position {value} after {last}")
            yield first, last
            first = value
        last = value
    yield first, last


def _bitset_container(reader: _Reader, cardinality: int) -> Iterator[tuple[int, int]]:
    number = int.from_bytes(reader.take(_BITSET_BYTES, "a bitset container"), "little")
    if number.bit_count() != cardinality:
        raise MalformedBitmapError(f"a bitset container has {number.bit_count()} positions and claims {cardinality}")
    for run in _ONES.finditer(f"{number:b}"[::-1]):
        yield run.start(), run.end() - 1


def _run_container(reader: _Reader, cardinality: int) -> Iterator[tuple[int, int]]:
    (count,) = reader.shorts(1, "a run container")
    pairs = reader.shorts(2 * count, "a run container")
    previous_last, total = -2, 0
    for index in range(0, 2 * count, 2):
        first, last = pairs[index], pairs[index] + pairs[index + 1]
        if first <= previous_last + 1 or last > 0xFFFF:  # adjacent runs would be one run
            raise MalformedBitmapError(f"run {index // 2} of a run container goes from {first} to {last}")
        previous_last = last
        total += last - first + 1
        yield first, last
    if total != cardinality:
        raise MalformedBitmapError(f"a run container has {total} positions and claims {cardinality}")


class _Reader:
    """Reads bytes in order; an error names what is incomplete."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        self.position = 0

    def take(self, size: int, what: str) -> bytes:
        end = self.position + size
        if end > len(self._source):
            raise MalformedBitmapError(
                f"the bitmap of {len(self._source)} bytes ends within {what}: {size} bytes are needed "
                f"at {self.position}"
            )
        content = self._source[self.position : end]
        self.position = end
        return content

    def shorts(self, count: int, what: str) -> array[int]:
        return self._little_endian("H", 2 * count, what)

    def words(self, count: int, what: str) -> array[int]:
        return self._little_endian("I", 4 * count, what)

    def _little_endian(self, typecode: str, size: int, what: str) -> array[int]:
        numbers = array(typecode)
        numbers.frombytes(self.take(size, what))
        if sys.byteorder == "big":  # pragma: no cover -- no such machine to test on
            numbers.byteswap()
        return numbers

    def expect_end(self) -> None:
        if self.position != len(self._source):
            raise MalformedBitmapError(f"{len(self._source) - self.position} bytes follow the bitmap")
