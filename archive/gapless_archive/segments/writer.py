"""Owns how rows become a Parquet object, row group by row group; must not know which segments they belong to.

Keys and values are compressed as they are, without dictionaries, which hardly ever help them. Every page carries a
checksum. Pages are small, so that single records can be read (`pages`), unless that would make the object much larger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.parquet as pq

from gapless_api.base.errors import LocalStorageError
from gapless_archive.catalog.entry import RowGroup
from gapless_archive.segments.rows import SCHEMA, int64_array

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

ROW_GROUP_BYTES = 6 * 1024 * 1024
"""Content of a row group that a partition fills alone; little enough that a few records are read out of it quickly."""
MOST_ROW_GROUP_BYTES = 8 * 1024 * 1024
"""Content of a row group that several partitions share."""
CODEC = "zstd"
_PAGE_BYTES = (6 * 1024, 8 * 1024, 12 * 1024, 16 * 1024, 32 * 1024)
"""Content of a page; the first of them that costs little beside the largest."""
_LARGEST_PAGE_BYTES = 64 * 1024
_LITTLE = 1.12
"""By how much compressed content may grow for the sake of small pages. Each page is compressed alone: JSON lines of 230
bytes, which shrink to a seventh, grow by a third with pages of 6 KiB and by a tenth with 16 KiB."""
_SAMPLE_BYTES = 256 * 1024
_LEAST_ROWS = 24
"""Of a page, unless it is one of the largest: each page costs 10 µs of compression beside what its content costs."""
_MOST_ROWS_PER_STEP = 64
"""A page is written in steps and ends behind one of them. Few steps are quick; with steps of many rows a page would
become large where records are much larger than the first ones."""
_LENGTH_BYTES = 4
"""What a page has for each value beside it."""
_PIECE = 2 * 1024 * 1024
"""Bytes of rows that are taken at once."""


class ParquetFile:
    """A local file that Parquet is written to.

    A step that fails closes it, so that it takes no room once it is deleted. All raise LocalStorageError then.
    """

    def __init__(self, file: Path) -> None:
        """Make the file."""
        self.file = file
        self.is_open = False
        """Whether rows can be written."""
        self._writer: Any = None
        self._stream: Any = None
        self._stream = self._guarded(lambda: pa.OSFile(str(file), "wb"))

    def open(self, schema: pa.Schema, **options: Any) -> None:
        """Begin with the options of pyarrow's writer."""
        self._writer = self._guarded(lambda: pq.ParquetWriter(self._stream, schema, **options))
        self.is_open = True

    def write(self, table: pa.Table) -> None:
        """Write a row group."""
        self._guarded(lambda: self._writer.write_table(table, row_group_size=table.num_rows))

    def close(self, metadata: Mapping[str, str] | None = None) -> int:
        """Finish the file, with key-value pairs in its footer, and return how many bytes it has."""
        if metadata is not None:
            self._writer.add_key_value_metadata(metadata)
        self._guarded(self._writer.close)
        self._guarded(self._stream.close)
        return self.file.stat().st_size

    def _guarded(self, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except OSError as error:
            if self._writer is not None:
                self._writer.is_open = False  # or it would be finished when it is forgotten
            if self._stream is not None:
                self._stream.close()
            reason = (error.strerror or str(error)).rpartition("] ")[2]  # pyarrow's has more before it
            raise LocalStorageError(
                f"The segment {self.file} cannot be written ({reason}); make room, or give another place for it."
            ) from error


class PageSize(NamedTuple):
    """How large the pages of an object are."""

    content_bytes: int
    ends_at_bytes: int
    """A page ends behind the step that reaches so much content."""
    rows_per_step: int

    @classmethod
    def of(cls, content_bytes: int, record_bytes: int) -> Self:
        """Pages of about `content_bytes`, for records of about `record_bytes`."""
        rows = -(-content_bytes // (record_bytes + _LENGTH_BYTES))
        steps = -(-rows // _MOST_ROWS_PER_STEP)
        return cls(content_bytes, content_bytes - content_bytes // steps // 2, -(-rows // steps))


class ObjectWriter:
    """Writes one object to a local file."""

    def __init__(self, file: Path) -> None:
        """Open the file. Raises LocalStorageError."""
        self.file = file
        self.bytes = 0
        """The content so far, as the caller has counted it."""
        self._row_groups = 0
        self._parquet = ParquetFile(file)

    def _open(self, pages: PageSize) -> None:
        self._parquet.open(
            SCHEMA,
            compression=CODEC,
            use_dictionary=["partition", "timestamp_type"],
            column_encoding={"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"},
            write_statistics=["partition", "offset", "timestamp"],
            write_page_checksum=True,
            write_page_index=True,
            data_page_size=pages.ends_at_bytes,
            write_batch_size=pages.rows_per_step,
        )

    def write(self, parts: Sequence[pa.RecordBatch], content: int) -> list[RowGroup]:
        """Write a row group of `parts`, each of one partition, none empty; return where each of them is.

        Args:
            parts: rows of the segments' schema.
            content: how many bytes they count together.

        Raises:
            LocalStorageError: the disk is full.
        """
        table = pa.Table.from_batches(parts, SCHEMA)
        if not self._parquet.is_open:
            self._open(page_size_for(parts[0].column("value")))
        self._parquet.write(table)
        placed, first_row = [], 0
        for rows in parts:
            offsets = rows.column("offset")
            first, last = offsets[0].as_py(), offsets[-1].as_py()
            placed.append(RowGroup(self._row_groups, first_row, rows.num_rows, first, last))
            first_row += rows.num_rows
        self._row_groups += 1
        self.bytes += content
        return placed

    def close(self) -> int:
        """Finish the file, and return how many bytes it has. Raises LocalStorageError."""
        if not self._parquet.is_open:
            self._open(PageSize.of(_LARGEST_PAGE_BYTES, 0))
        return self._parquet.close()


def page_size_for(values: pa.Array) -> PageSize:
    """The size of pages for records like the first of `values`: as small as record size and compression allow."""
    sample, records = bytearray(), 0
    for value in values:
        sample += value.as_py() or b""
        records += 1
        if len(sample) >= _SAMPLE_BYTES:
            break
    record_bytes = len(sample) // max(records, 1)
    most = _LITTLE * _compressed_bytes(sample, _LARGEST_PAGE_BYTES)
    least = _LEAST_ROWS * record_bytes
    sizes = [max(size, least) for size in _PAGE_BYTES if least < _LARGEST_PAGE_BYTES]
    content = next((size for size in sizes if _compressed_bytes(sample, size) <= most), _LARGEST_PAGE_BYTES)
    return PageSize.of(content, record_bytes)


def _compressed_bytes(content: bytearray, page_bytes: int) -> int:
    """How large `content` becomes, compressed in pages."""
    starts = range(0, len(content), page_bytes)
    return sum(len(pa.compress(bytes(content[at : at + page_bytes]), codec=CODEC, asbytes=True)) for at in starts)


def joined(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Put rows one after the other; there is one batch at least."""
    if len(parts) == 1:
        return parts[0]
    (rows,) = pa.Table.from_batches(parts, SCHEMA).combine_chunks().to_batches()
    return rows


def copied(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Like `joined`, in memory of its own."""
    rows = joined(parts)
    return rows.take(int64_array(range(rows.num_rows))) if len(parts) == 1 else rows


def divided(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Divide rows with much content, so that a row group ends near the size that it should have."""
    if rows.num_rows > 1 and rows.nbytes > _PIECE:
        half = rows.num_rows // 2
        yield from divided(rows.slice(0, half))
        yield from divided(rows.slice(half))
    else:
        yield rows
