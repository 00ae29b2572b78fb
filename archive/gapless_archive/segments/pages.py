"""How single values are read from a Parquet object: only the pages that contain them, not the row group.

It supports only pages as `writer` writes them (version 1, plain, zstd, with checksum and offset index) and raises for
all others, whose row groups are then read completely. No library reads single pages: pyarrow writes the offset index
but does not use it.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    Read = Callable[[Sequence[tuple[int, int]]], list[bytes]]
    """Reads ranges of an object, each given by start and length."""

_ZSTD, _DATA_PAGE, _PLAIN, _RLE = 6, 0, 0, 3
_TRAILER_BYTES = 8
_MAX_ROWS, _MAX_BYTES, _MAX_BITS = 1 << 20, (1 << 31) - 1, 63
"""Of a page, its content and a varint: a page that claims more is damaged, and would exhaust the memory."""
_MAX_SHARE = 0.5
"""For a larger share of a column, reading the complete column is quicker than reading pages."""


class UnsupportedPagesError(Exception):
    """The pages are not as `writer` writes them, or are damaged. Reading the row group shows which."""


class Page(NamedTuple):
    """The location of some values of a column."""

    start: int
    length: int
    first_row: int
    """In the row group."""


class Column(NamedTuple):
    """One column of a row group."""

    index_start: int
    """Of the offset index, which lists the pages."""
    index_length: int
    stored_bytes: int
    rows: int


def find_columns(footer: bytes, name: str) -> list[Column]:
    """Locate the column `name` in each row group, given the footer of an object. Raises UnsupportedPagesError."""
    try:
        length = int.from_bytes(footer[-_TRAILER_BYTES:-4], "little")
        if length + _TRAILER_BYTES > len(footer):
            raise UnsupportedPagesError("the footer is cut off")
        metadata, _ = _read_struct(footer, len(footer) - _TRAILER_BYTES - length)
        return [_column(row_group, name) for row_group in metadata[4]]
    except (LookupError, ValueError, TypeError, RecursionError) as error:
        raise UnsupportedPagesError(str(error)) from None


def _column(row_group: Any, name: str) -> Column:
    for chunk in row_group[1]:
        metadata = chunk[3]
        if metadata[3] == [name.encode()]:
            if metadata[4] != _ZSTD or 11 in metadata:  # a dictionary
                break
            return Column(chunk[4], chunk[5], metadata[7], metadata[5])
    raise UnsupportedPagesError(f"no column {name} without a dictionary")


def read_values_at(read: Read, column: Column, rows: Sequence[int]) -> list[bytes | None]:
    """Read the values of `rows`, ascending, of a row group.

    Raises:
        UnsupportedPagesError: the pages are unsupported or damaged, or so many that the column is better read at once.
    """
    try:
        (index,) = read([(column.index_start, column.index_length)])
        pages = [Page(page[1], page[2], page[3]) for page in _read_struct(index, 0)[0][1]]
        firsts = [page.first_row for page in pages]
        ends = [*firsts[1:], column.rows]
        needed = [(number, list(group)) for number, group in groupby(rows, lambda row: bisect_right(firsts, row) - 1)]
        if sum(pages[number].length for number, _ in needed) > _MAX_SHARE * column.stored_bytes:
            raise UnsupportedPagesError("most of the pages are needed")
        values: list[bytes | None] = []
        contents = read([(pages[number].start, pages[number].length) for number, _ in needed])
        for (number, page_rows), content in zip(needed, contents, strict=True):
            page_values = decode_page(content)
            if len(page_values) != ends[number] - firsts[number]:
                raise UnsupportedPagesError("a page has the wrong number of rows")
            values += [page_values[row - firsts[number]] for row in page_rows]
    except (LookupError, ValueError, TypeError, RecursionError, struct.error, pa.ArrowException, OSError) as error:
        raise UnsupportedPagesError(str(error)) from None
    return values


def decode_page(content: bytes) -> list[bytes | None]:
    """Decode a page, including its header. Raises UnsupportedPagesError, or what reading beyond an end raises."""
    header, start = _read_struct(content, 0)
    page, packed = header[5], content[start : start + header[3]]
    if (header[1], page[2], page[3]) != (_DATA_PAGE, _PLAIN, _RLE) or 4 not in header:
        raise UnsupportedPagesError("an unsupported kind of page")
    if not (0 <= header[2] <= _MAX_BYTES and 0 <= page[1] <= _MAX_ROWS):
        raise UnsupportedPagesError("a page claims to be too large")
    if len(packed) != header[3] or zlib.crc32(packed) != header[4] & 0xFFFFFFFF:
        raise UnsupportedPagesError("the checksum of a page is wrong")
    body = pa.decompress(packed, header[2], codec="zstd", asbytes=True)
    (levels,) = struct.unpack_from("<I", body)
    at = 4 + levels
    values: list[bytes | None] = []
    for is_present in _read_levels(body[4 : 4 + levels], page[1]):
        if not is_present:
            values.append(None)
            continue
        (length,) = struct.unpack_from("<I", body, at)
        values.append(body[at + 4 : at + 4 + length])
        at += 4 + length
    if at != len(body):
        raise UnsupportedPagesError("a page has the wrong length")
    return values


def _read_levels(packed: bytes, count: int) -> list[int]:
    """Read the definition levels, 1 for a value and 0 for null (Parquet's RLE and bit-packing hybrid, width 1)."""
    levels: list[int] = []
    at = 0
    while len(levels) < count:
        header, at = _read_varint(packed, at)
        if header & 1:
            for byte in packed[at : at + (header >> 1)]:
                levels += [byte >> bit & 1 for bit in range(8)]
            at += header >> 1
        else:
            levels += [packed[at]] * min(header >> 1, count - len(levels))
            at += 1
    return levels[:count]


def _read_varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > _MAX_BITS:
            raise UnsupportedPagesError("a varint of more than 64 bits")


def _read_struct(content: bytes, at: int) -> tuple[dict[int, Any], int]:
    """Read a struct of Thrift's compact protocol: its fields by number, and where it ends."""
    fields: dict[int, Any] = {}
    number = 0
    while (head := content[at]) != 0:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = _read_integer(content, at)
        fields[number], at = _read_value(head & 0x0F, content, at)
    return fields, at + 1


def _read_integer(content: bytes, at: int) -> tuple[int, int]:
    value, at = _read_varint(content, at)
    return (value >> 1) ^ -(value & 1), at


def _read_value(kind: int, content: bytes, at: int) -> tuple[Any, int]:  # noqa: PLR0911 -- one for each kind
    if kind in {1, 2}:  # true and false
        return kind == 1, at
    if kind == 3:
        return content[at], at + 1
    if kind in {4, 5, 6}:
        return _read_integer(content, at)
    if kind == 7:
        return content[at : at + 8], at + 8
    if kind == 8:
        length, at = _read_varint(content, at)
        return content[at : at + length], at + length
    if kind in {9, 10}:
        return _read_list(content, at)
    if kind == 12:
        return _read_struct(content, at)
    raise UnsupportedPagesError(f"a field of kind {kind}")


def _read_list(content: bytes, at: int) -> tuple[list[Any], int]:
    head, at = content[at], at + 1
    count = head >> 4
    if count == 15:
        count, at = _read_varint(content, at)
    if count > len(content) - at:
        raise UnsupportedPagesError("a list claims more entries than there are bytes")
    entries = []
    for _ in range(count):
        entry, at = _read_value(head & 0x0F, content, at)
        entries.append(entry)
    return entries, at
