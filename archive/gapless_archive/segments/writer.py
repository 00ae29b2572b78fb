"""How rows are written to a Parquet object, row group by row group; must not know to which segments they belong.

Keys and values are compressed without dictionaries, which rarely help them. Every page has a checksum. Pages are small,
so that single records can be read (`pages`), unless that would make the object much larger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.parquet as pq

from gapless_api.base.errors import LocalStorageError
from gapless_archive.catalog.entry import RowGroup
from gapless_archive.segments.rows import SCHEMA, int64_array

ROW_GROUP_BYTES = 6 * 1024 * 1024
"""Content of a row group of one partition; small enough that a few records are read from it quickly."""
MAX_ROW_GROUP_BYTES = 8 * 1024 * 1024
"""Content of a row group that several partitions share."""
CODEC = "zstd"
_PAGE_BYTES = (6 * 1024, 8 * 1024, 12 * 1024, 16 * 1024, 32 * 1024)
"""Content of a page: the first of these whose compressed size is acceptable, compared with the largest page."""
_LARGEST_PAGE_BYTES = 64 * 1024
_MAX_GROWTH = 1.12
"""By how much compressed content may grow because of small pages. Each page is compressed individually: JSON lines of
230 bytes, which shrink to a seventh, grow by a third with pages of 6 KiB and by a tenth with 16 KiB."""
_SAMPLE_BYTES = 256 * 1024
_MIN_ROWS = 24
"""Of a page, unless it is one of the largest: compressing a page costs 10 µs in addition to its content."""
_MAX_ROWS_PER_STEP = 64
"""A page is written in steps and ends after one of them. Few steps are quick; with many rows per step a page would be
too large where records are much larger than the first ones."""
_LENGTH_BYTES = 4
"""The length prefix of each value in a page."""
_MAX_BATCH_BYTES = 2 * 1024 * 1024


class ParquetFile:
    """A local Parquet file.

    An operation that fails closes the file, so that deleting it frees its space, and raises LocalStorageError.
    """

    def __init__(self, file: Path) -> None:
        """Create the file."""
        self.file = file
        self.is_open = False
        """Whether rows can be written."""
        self._writer: Any = None
        self._stream: Any = None
        self._stream = self._guarded(lambda: pa.OSFile(str(file), "wb"))

    def open(self, schema: pa.Schema, **options: Any) -> None:
        """Start writing, with options of pyarrow's writer."""
        self._writer = self._guarded(lambda: pq.ParquetWriter(self._stream, schema, **options))
        self.is_open = True

    def write(self, table: pa.Table) -> None:
        """Write a row group."""
        self._guarded(lambda: self._writer.write_table(table, row_group_size=table.num_rows))

    def close(self, metadata: Mapping[str, str] | None = None) -> int:
        """Finish the file, with key-value pairs in its footer, and return its size in bytes."""
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
                self._writer.is_open = False  # or its destructor would try to finish the file
            if self._stream is not None:
                self._stream.close()
            reason = (error.strerror or str(error)).rpartition("] ")[2]  # pyarrow prepends more text
            raise LocalStorageError(
                f"The segment {self.file} cannot be written ({reason}); free disk space, or choose another location."
            ) from error


class PageSize(NamedTuple):
    """How large the pages of an object are."""

    content_bytes: int
    ends_at_bytes: int
    """A page ends after the step that reaches so much content."""
    rows_per_step: int

    @classmethod
    def of(cls, content_bytes: int, record_bytes: int) -> Self:
        """Pages of about `content_bytes`, for records of about `record_bytes`."""
        rows = -(-content_bytes // (record_bytes + _LENGTH_BYTES))
        steps = -(-rows // _MAX_ROWS_PER_STEP)
        return cls(content_bytes, content_bytes - content_bytes // steps // 2, -(-rows // steps))


class ObjectWriter:
    """Writes one object to a local file."""

    def __init__(self, file: Path) -> None:
        """Open the file. Raises LocalStorageError."""
        self.file = file
        self.bytes = 0
        """The content that was written, as counted by the caller."""
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
        """Write a row group of `parts`, each of one partition, none empty; return where each part is.

        Args:
            parts: rows of `SCHEMA`.
            content: their size in bytes, as `content_bytes` counts it.

        Raises:
            LocalStorageError: the disk is full.
        """
        table = pa.Table.from_batches(parts, SCHEMA)
        if not self._parquet.is_open:
            self._open(page_size_for(parts[0].column("value")))
        self._parquet.write(table)
        row_groups, first_row = [], 0
        for rows in parts:
            offsets = rows.column("offset")
            first, last = offsets[0].as_py(), offsets[-1].as_py()
            row_groups.append(RowGroup(self._row_groups, first_row, rows.num_rows, first, last))
            first_row += rows.num_rows
        self._row_groups += 1
        self.bytes += content
        return row_groups

    def close(self) -> int:
        """Finish the file, and return its size in bytes. Raises LocalStorageError."""
        if not self._parquet.is_open:
            self._open(PageSize.of(_LARGEST_PAGE_BYTES, 0))
        return self._parquet.close()


def page_size_for(values: pa.Array) -> PageSize:
    """Choose the size of pages for records like the first of `values`: as small as compression permits."""
    sample, records = bytearray(), 0
    for value in values:
        sample += value.as_py() or b""
        records += 1
        if len(sample) >= _SAMPLE_BYTES:
            break
    record_bytes = len(sample) // max(records, 1)
    max_compressed = _MAX_GROWTH * _compressed_bytes(sample, _LARGEST_PAGE_BYTES)
    min_size = _MIN_ROWS * record_bytes
    sizes = [max(size, min_size) for size in _PAGE_BYTES if min_size < _LARGEST_PAGE_BYTES]
    content = next((size for size in sizes if _compressed_bytes(sample, size) <= max_compressed), _LARGEST_PAGE_BYTES)
    return PageSize.of(content, record_bytes)


def _compressed_bytes(content: bytearray, page_bytes: int) -> int:
    """The size of `content` when it is compressed in pages."""
    starts = range(0, len(content), page_bytes)
    return sum(len(pa.compress(bytes(content[at : at + page_bytes]), codec=CODEC, asbytes=True)) for at in starts)


def concat_batches(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Concatenate batches, of which there is at least one."""
    if len(parts) == 1:
        return parts[0]
    (rows,) = pa.Table.from_batches(parts, SCHEMA).combine_chunks().to_batches()
    return rows


def copy_rows(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Concatenate batches into newly allocated memory."""
    rows = concat_batches(parts)
    return rows.take(int64_array(range(rows.num_rows))) if len(parts) == 1 else rows


def split_rows(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split large batches, so that row groups end near their intended size."""
    if rows.num_rows > 1 and rows.nbytes > _MAX_BATCH_BYTES:
        half = rows.num_rows // 2
        yield from split_rows(rows.slice(0, half))
        yield from split_rows(rows.slice(half))
    else:
        yield rows
