"""How records of a segment are read: only the row groups that are needed, one at a time, and checked.

Pages have checksums, so damage is detected. Damaged objects are reported, never repaired.
"""

from __future__ import annotations

import io
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from gapless_api.base.errors import UndeliveredError
from gapless_archive.segments.pages import Column, find_columns
from gapless_archive.segments.rows import SCHEMA, int64_array
from gapless_archive.store.object_store import MissingObjectError

if TYPE_CHECKING:
    from gapless_api.offsets.ranges import OffsetRanges
    from gapless_archive.catalog.entry import RowGroup, Segment
    from gapless_archive.store.places import Place

_TRAILER_BYTES = 8
_PART_BYTES = 1024 * 1024
_FOOTER_BYTES = 16 * 1024
"""Enough for the footers of most objects. pyarrow itself would read four times as much, which matters when few records
are read."""


class SegmentDamagedError(UndeliveredError):
    """A segment is missing or damaged. The message names its object."""


class ObjectReader:
    """One Parquet object of an archive. It reads what is requested and little more."""

    def __init__(self, place: Place, key: str, *, in_parts: bool = False) -> None:
        """Open it.

        Args:
            place: of the archive.
            key: of the object.
            in_parts: whether row groups are too large to be read at once, as with `iter_batches`.

        Raises:
            SegmentDamagedError: it is missing, or not a Parquet file.
            StoreUnreachableError: the store does not answer.
        """
        self._name = f"{place.name}/{key}"
        size = place.size(key)
        if size is None:
            raise SegmentDamagedError(f"{self._name} is missing; restore it from a backup.")
        self._source = _ObjectFile(place, key, size)
        self._columns: dict[str, list[Column]] = {}
        try:
            self._file = pq.ParquetFile(
                pa.PythonFile(self._source, mode="r"),
                metadata=pq.read_metadata(pa.BufferReader(self._source.footer())),
                page_checksum_verification=True,
                pre_buffer=not in_parts,
                buffer_size=_PART_BYTES if in_parts else 0,
                memory_map=False,
            )
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self.damaged(error) from None

    @property
    def bytes_read(self) -> int:
        """How many bytes were read."""
        return self._source.bytes_read

    @property
    def row_group_count(self) -> int:
        """How many row groups the object has."""
        return int(self._file.num_row_groups)

    @property
    def metadata(self) -> dict[bytes, bytes]:
        """The key-value pairs in the footer."""
        return dict(self._file.metadata.metadata or {})

    def bounds(self, row_group: int, column: str) -> tuple[int, int] | None:
        """The lowest and highest value of a plain column in a row group; ``None`` if the file does not store them."""
        metadata = self._file.metadata.row_group(row_group)
        for number in range(metadata.num_columns):
            chunk = metadata.column(number)
            if chunk.path_in_schema == column:
                statistics = chunk.statistics
                if statistics is None or not statistics.has_min_max:
                    return None
                return int(statistics.min), int(statistics.max)
        return None

    def read_row_group(self, row_group: int, schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
        """Read all rows of a row group. Raises SegmentDamagedError."""
        try:
            table = self._file.read_row_group(row_group, columns=schema.names, use_threads=False)
            batches = table.cast(schema).combine_chunks().to_batches()
        except (pa.ArrowException, OSError, ValueError, LookupError) as error:
            raise self.damaged(error) from None
        return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=schema)

    def iter_batches(
        self, row_group: int, columns: Sequence[str], batch_bytes: int, max_rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a row group in batches of about `batch_bytes`, none empty. Raises SegmentDamagedError."""
        try:
            metadata = self._file.metadata.row_group(row_group)
            rows = batch_bytes * metadata.num_rows // max(metadata.total_byte_size, 1)
            for batch in self._file.iter_batches(
                batch_size=min(max(rows, 1), max_rows),
                row_groups=[row_group],
                columns=list(columns),
                use_threads=False,
            ):
                if batch.num_rows:
                    yield batch
        except (pa.ArrowException, OSError, ValueError, LookupError) as error:
            raise self.damaged(error) from None

    def locate_column(self, name: str, row_group: int) -> Column:
        """Locate a column in a row group. Raises UnsupportedPagesError when its pages cannot be read individually."""
        if name not in self._columns:
            self._columns[name] = find_columns(self._source.footer(), name)
        return self._columns[name][row_group]

    def has_offsets(self, group: RowGroup) -> bool:
        """Whether the footer permits that the object has the rows of `group`."""
        if group.number >= self.row_group_count:
            return False
        metadata = self._file.metadata.row_group(group.number)
        column = metadata.column(SCHEMA.get_field_index("offset"))
        bounds = column.statistics if column.path_in_schema == "offset" else None
        is_long = metadata.num_rows >= group.first_row + group.rows
        return bool(is_long and bounds is not None and bounds.min <= group.first and group.last <= bounds.max)

    def read_ranges(self, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read ranges of the object, each given by start and length. Raises OSError when the object was deleted."""
        return self._source.read_ranges(spans)

    def damaged(self, reason: object) -> SegmentDamagedError:
        """Return the error for damage in this object."""
        short = str(reason).partition("\n")[0][:160] or type(reason).__name__
        return SegmentDamagedError(f"{self._name} is damaged ({short}); restore it from a backup.")


def read_segment(place: Place, segment: Segment, offsets: OffsetRanges | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the records of a segment in order, as rows of `SCHEMA`, one batch for each row group.

    Args:
        place: of the archive.
        segment: of the layout ``gapless``.
        offsets: those to read; ``None`` for all. Row groups without any of them are not read.

    Raises:
        SegmentDamagedError: the object is missing, damaged, or differs from the manifest. What was yielded before is
            valid.
        StoreUnreachableError: the store does not answer.
    """
    if not segment.records:
        return
    groups = [group for group in segment.row_groups if offsets is None or intersects(offsets, group.first, group.last)]
    if not groups:
        return
    source = ObjectReader(place, segment.object)
    for group in groups:
        rows = slice_row_group(source, segment, group, source.read_row_group(group.number))
        selected = rows if offsets is None else select_rows(rows, offsets)
        if selected.num_rows:
            yield selected


def read_object(place: Place, segments: Sequence[Segment]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the records of several segments of one object, each row group read once.

    Args:
        place: of the archive.
        segments: of the layout ``gapless``, in the same object. Each batch is yielded with the index of its segment.

    Raises:
        SegmentDamagedError: as `read_segment` does.
        StoreUnreachableError: the store does not answer.
    """
    parts = sorted(
        (
            (group.number, group.first_row, index, group)
            for index, segment in enumerate(segments)
            for group in segment.row_groups
        ),
        key=itemgetter(0, 1),
    )
    if not parts:
        return
    source = ObjectReader(place, segments[0].object)
    for number, group_parts in groupby(parts, key=itemgetter(0)):
        rows = source.read_row_group(number)
        for _, _, index, group in group_parts:
            yield index, slice_row_group(source, segments[index], group, rows)


def intersects(offsets: OffsetRanges, first: int, last: int) -> bool:
    """Whether any of `offsets` is between `first` and `last`, both inclusive."""
    index = offsets.index_reaching(first)
    return index < len(offsets) and offsets[index].first <= last


def select_rows(rows: pa.RecordBatch, offsets: OffsetRanges) -> pa.RecordBatch:
    """Select the rows at `offsets`; the offsets of `rows` ascend."""
    if not rows.num_rows:
        return rows
    row_offsets: Sequence[int] = rows.column("offset").to_pylist()
    slices = []
    for first, last in offsets.clip(row_offsets[0], row_offsets[-1]):
        low, high = bisect_left(row_offsets, first), bisect_left(row_offsets, last + 1)
        if low < high:
            slices.append((low, high))
    if not slices:
        return rows.slice(0, 0)
    if len(slices) == 1:
        low, high = slices[0]
        return rows.slice(low, high - low)
    return rows.take(int64_array(row for low, high in slices for row in range(low, high)))


def slice_row_group(source: ObjectReader, segment: Segment, group: RowGroup, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of a segment out of all `rows` of a row group.

    Raises:
        SegmentDamagedError: they are not those of the manifest.
    """
    part = rows.slice(group.first_row, group.rows)
    if part.num_rows != group.rows or not part.num_rows:
        raise source.damaged(f"row group {group.number} has {part.num_rows} rows and must have {group.rows}")
    first, last = (part.column("offset")[index].as_py() for index in (0, group.rows - 1))
    partition = part.column("partition")[0].as_py()
    if (first, last) != (group.first, group.last) or partition != segment.partition:
        raise source.damaged(f"row group {group.number} holds {partition}/{first}-{last}")
    return part


class _ObjectFile(io.RawIOBase):
    """An object as a seekable file for pyarrow. Its footer, which is read first, is cached."""

    def __init__(self, place: Place, key: str, size: int) -> None:
        self._place, self._key, self._size = place, key, size
        self._at = 0
        self.bytes_read = 0
        self._footer = b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        remaining = max(self._size - self._at, 0)
        size = remaining if size is None or size < 0 else min(size, remaining)
        content = self._content(self._at, size)
        self._at += len(content)
        return content

    def _content(self, start: int, length: int) -> bytes:
        if not length:
            return b""
        footer_start = self._size - len(self._footer)
        if start < footer_start:
            return self._fetch(start, length)
        return self._footer[start - footer_start : start - footer_start + length]

    def footer(self) -> bytes:
        """The end of the file, with at least the complete Parquet footer."""
        if not self._footer:
            self._footer = self._fetch(max(self._size - _FOOTER_BYTES, 0), min(self._size, _FOOTER_BYTES))
            length = int.from_bytes(self._footer[-_TRAILER_BYTES:-4], "little") + _TRAILER_BYTES
            if len(self._footer) < length <= self._size:
                self._footer = self._fetch(self._size - length, length)
        return self._footer

    def read_ranges(self, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        if any(start < 0 or length < 0 or start + length > self._size for start, length in spans):
            raise OSError("a range beyond the end of the object")
        try:
            contents = self._place.read_ranges(self._key, spans)
        except MissingObjectError as error:
            raise FileNotFoundError(str(error)) from None
        self.bytes_read += sum(map(len, contents))
        return contents

    def _fetch(self, start: int, length: int) -> bytes:
        (content,) = self.read_ranges([(start, length)])
        return content
