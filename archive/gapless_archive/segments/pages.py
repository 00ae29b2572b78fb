"""Owns how single values come out of a Parquet object by its pages: for few records of a row group, only their pages.

It reads exactly the pages that `writer` makes (version 1, plain, zstd, with checksum and offset index) and returns
nothing for all others, which are then read completely. No library reads single pages: pyarrow writes the offset index
and uses it for nothing.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_right
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Read = Callable[[Sequence[tuple[int, int]]], list[bytes]]
    """Reads parts of an object, each by where it begins and its length."""

_ZSTD, _DATA_PAGE, _PLAIN, _RLE = 6, 0, 0, 3
_TRAILER_BYTES = 8
_MOST_ROWS, _MOST_BYTES, _MOST_BITS = 1 << 20, (1 << 31) - 1, 63
"""Of a page, its content and a number: what claims more is damaged, and would fill the memory."""
_WORTH = 0.5
"""Above this part of a column, reading all of it is quicker than its pages."""


class OtherPagesError(Exception):
    """The pages are not such as `writer` makes, or are damaged: read the row group completely, which tells."""


class Page(NamedTuple):
    """Where values of a column are in the object."""

    start: int
    length: int
    first_row: int
    """In the row group."""


class Column(NamedTuple):
    """One column of a row group."""

    index_start: int
    """Of the list of its pages."""
    index_length: int
    stored_bytes: int
    rows: int


def columns_in(footer: bytes, name: str) -> list[Column]:
    """Where the column `name` is in each row group, given the end of an object. Raises OtherPagesError."""
    try:
        length = int.from_bytes(footer[-_TRAILER_BYTES:-4], "little")
        if length + _TRAILER_BYTES > len(footer):
            raise OtherPagesError("the end of the object is too short")
        found, _ = _struct(footer, len(footer) - _TRAILER_BYTES - length)
        return [_column(row_group, name) for row_group in found[4]]
    except (LookupError, ValueError, TypeError, RecursionError) as error:
        raise OtherPagesError(str(error)) from None


def _column(row_group: Any, name: str) -> Column:
    for chunk in row_group[1]:
        about = chunk[3]
        if about[3] == [name.encode()]:
            if about[4] != _ZSTD or 11 in about:  # a dictionary
                break
            return Column(chunk[4], chunk[5], about[7], about[5])
    raise OtherPagesError(f"no column {name} without a dictionary")


def values_at(read: Read, column: Column, rows: Sequence[int]) -> list[bytes | None]:
    """Read the values of `rows`, ascending, of a row group.

    Raises:
        OtherPagesError: the pages are others, damaged, or so many that all are better read at once.
    """
    try:
        (index,) = read([(column.index_start, column.index_length)])
        pages = [Page(page[1], page[2], page[3]) for page in _struct(index, 0)[0][1]]
        firsts = [page.first_row for page in pages]
        ends = [*firsts[1:], column.rows]
        chosen = [(number, list(some)) for number, some in groupby(rows, lambda row: bisect_right(firsts, row) - 1)]
        if sum(pages[number].length for number, _ in chosen) > _WORTH * column.stored_bytes:
            raise OtherPagesError("most of the pages are needed")
        found: list[bytes | None] = []
        contents = read([(pages[number].start, pages[number].length) for number, _ in chosen])
        for (number, some), content in zip(chosen, contents, strict=True):
            values = values_of_page(content)
            if len(values) != ends[number] - firsts[number]:
                raise OtherPagesError("a page has another number of rows")
            found += [values[row - firsts[number]] for row in some]
    except (LookupError, ValueError, TypeError, RecursionError, struct.error, pa.ArrowException, OSError) as error:
        raise OtherPagesError(str(error)) from None
    return found


def values_of_page(content: bytes) -> list[bytes | None]:
    """The values of a page, header and all. Raises OtherPagesError, or what reading beyond an end raises."""
    header, start = _struct(content, 0)
    about, packed = header[5], content[start : start + header[3]]
    if (header[1], about[2], about[3]) != (_DATA_PAGE, _PLAIN, _RLE) or 4 not in header:
        raise OtherPagesError("another kind of page")
    if not (0 <= header[2] <= _MOST_BYTES and 0 <= about[1] <= _MOST_ROWS):
        raise OtherPagesError("a page that claims too much")
    if len(packed) != header[3] or zlib.crc32(packed) != header[4] & 0xFFFFFFFF:
        raise OtherPagesError("a page does not have its checksum")
    body = pa.decompress(packed, header[2], codec="zstd", asbytes=True)
    (levels,) = struct.unpack_from("<I", body)
    present = _levels(body[4 : 4 + levels], about[1])
    at = 4 + levels
    values: list[bytes | None] = []
    for there in present:
        if not there:
            values.append(None)
            continue
        (length,) = struct.unpack_from("<I", body, at)
        values.append(body[at + 4 : at + 4 + length])
        at += 4 + length
    if at != len(body):
        raise OtherPagesError("a page has another length")
    return values


def _levels(packed: bytes, count: int) -> list[int]:
    """Unpack bits that say which values are present: runs, and groups of eight (Parquet's RLE hybrid of width 1)."""
    found: list[int] = []
    at = 0
    while len(found) < count:
        header, at = _varint(packed, at)
        if header & 1:
            for byte in packed[at : at + (header >> 1)]:
                found += [byte >> bit & 1 for bit in range(8)]
            at += header >> 1
        else:
            found += [packed[at]] * min(header >> 1, count - len(found))
            at += 1
    return found[:count]


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > _MOST_BITS:
            raise OtherPagesError("a number of more than 64 bits")


def _struct(content: bytes, at: int) -> tuple[dict[int, Any], int]:
    """Read a structure of Thrift's compact protocol, by the numbers of its fields; return where it ends, too."""
    fields: dict[int, Any] = {}
    number = 0
    while (head := content[at]) != 0:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = _integer(content, at)
        fields[number], at = _value(head & 0x0F, content, at)
    return fields, at + 1


def _integer(content: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(content, at)
    return (value >> 1) ^ -(value & 1), at


def _value(kind: int, content: bytes, at: int) -> tuple[Any, int]:  # noqa: PLR0911 -- one for each kind
    if kind in {1, 2}:  # true and false
        return kind == 1, at
    if kind == 3:
        return content[at], at + 1
    if kind in {4, 5, 6}:
        return _integer(content, at)
    if kind == 7:
        return content[at : at + 8], at + 8
    if kind == 8:
        length, at = _varint(content, at)
        return content[at : at + length], at + length
    if kind in {9, 10}:
        return _list(content, at)
    if kind == 12:
        return _struct(content, at)
    raise OtherPagesError(f"a field of kind {kind}")


def _list(content: bytes, at: int) -> tuple[list[Any], int]:
    head, at = content[at], at + 1
    count = head >> 4
    if count == 15:
        count, at = _varint(content, at)
    if count > len(content) - at:
        raise OtherPagesError("a list of more entries than there are bytes")
    entries = []
    for _ in range(count):
        entry, at = _value(head & 0x0F, content, at)
        entries.append(entry)
    return entries, at
