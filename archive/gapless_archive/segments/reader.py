"""Owns how records come out of a segment: only the row groups that are needed, checked, one at a time in memory.

Pages carry a checksum, so a damaged one is noticed; what is damaged is named and never guessed.
"""

from __future__ import annotations

import io
from bisect import bisect_left
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from gapless_api.base.errors import UndeliveredError
from gapless_archive.segments.pages import columns_in
from gapless_archive.segments.rows import SCHEMA, int64_array
from gapless_archive.store.object_store import MissingObjectError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gapless_api.offsets.ranges import OffsetRanges
    from gapless_archive.catalog.entry import RowGroup, Segment
    from gapless_archive.segments.pages import Column
    from gapless_archive.store.places import Place

_TRAILER_BYTES = 8
_PART_BYTES = 1024 * 1024
_END_BYTES = 16 * 1024
"""Enough for the end of most objects, where Parquet says what is in them. pyarrow alone would read four times as much,
which counts where few records are read."""


class SegmentDamagedError(UndeliveredError):
    """A segment is missing or damaged. The text names its object."""


class ObjectReader:
    """One Parquet object of an archive. It reads what is asked for and little more."""

    def __init__(self, place: Place, key: str, *, in_parts: bool = False) -> None:
        """Open it.

        Args:
            place: of the archive.
            key: of the object.
            in_parts: whether row groups are too large to be read at once; see `parts_of`.

        Raises:
            SegmentDamagedError: it is not there, or no Parquet.
            StoreUnreachableError: the store does not answer.
        """
        self._name = f"{place.name}/{key}"
        size = place.size(key)
        if size is None:
            raise SegmentDamagedError(f"{self._name} is missing; bring it back.")
        self._source = _RandomAccess(place, key, size)
        self._columns: dict[str, list[Column]] = {}
        try:
            self._file = pq.ParquetFile(
                pa.PythonFile(self._source, mode="r"),
                metadata=pq.read_metadata(pa.BufferReader(self._source.end())),
                page_checksum_verification=True,
                pre_buffer=not in_parts,
                buffer_size=_PART_BYTES if in_parts else 0,
                memory_map=False,
            )
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self.damaged(error) from None

    @property
    def bytes_read(self) -> int:
        """How many bytes were read so far."""
        return self._source.bytes_read

    @property
    def row_group_count(self) -> int:
        """How many row groups it has."""
        return int(self._file.num_row_groups)

    @property
    def metadata(self) -> dict[bytes, bytes]:
        """The key-value pairs of its footer."""
        return dict(self._file.metadata.metadata or {})

    def bounds(self, row_group: int, column: str) -> tuple[int, int] | None:
        """The least and the greatest value of a plain column in a row group; ``None`` if the file has none."""
        about = self._file.metadata.row_group(row_group)
        for number in range(about.num_columns):
            found = about.column(number)
            if found.path_in_schema == column:
                known = found.statistics
                return (int(known.min), int(known.max)) if known is not None and known.has_min_max else None
        return None

    def rows(self, row_group: int, schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
        """All rows of a row group. Raises SegmentDamagedError."""
        try:
            table = self._file.read_row_group(row_group, columns=schema.names, use_threads=False)
            batches = table.cast(schema).combine_chunks().to_batches()
        except (pa.ArrowException, OSError, ValueError, LookupError) as error:
            raise self.damaged(error) from None
        return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=schema)

    def parts_of(
        self, row_group: int, columns: Sequence[str], most_bytes: int, most_rows: int
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a row group in parts of about so many bytes; none is empty. Raises SegmentDamagedError."""
        try:
            about = self._file.metadata.row_group(row_group)
            rows = most_bytes * about.num_rows // max(about.total_byte_size, 1)
            for part in self._file.iter_batches(
                batch_size=min(max(rows, 1), most_rows),
                row_groups=[row_group],
                columns=list(columns),
                use_threads=False,
            ):
                if part.num_rows:
                    yield part
        except (pa.ArrowException, OSError, ValueError, LookupError) as error:
            raise self.damaged(error) from None

    def column(self, name: str, row_group: int) -> Column:
        """Where the pages of a column are. Raises OtherPagesError when they cannot be read alone."""
        if name not in self._columns:
            self._columns[name] = columns_in(self._source.end(), name)
        return self._columns[name][row_group]

    def has_offsets(self, group: RowGroup) -> bool:
        """Whether a row group is large enough and has the offsets of `group`, as far as the footer tells."""
        if group.number >= self.row_group_count:
            return False
        about = self._file.metadata.row_group(group.number)
        column = about.column(SCHEMA.get_field_index("offset"))
        bounds = column.statistics if column.path_in_schema == "offset" else None
        is_long = about.num_rows >= group.first_row + group.rows
        return bool(is_long and bounds is not None and bounds.min <= group.first and group.last <= bounds.max)

    def parts(self, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Parts of the object, each by where it begins and its length. Raises OSError when the object is gone."""
        return self._source.parts(spans)

    def damaged(self, reason: object) -> SegmentDamagedError:
        """The error for this object."""
        short = str(reason).partition("\n")[0][:160] or type(reason).__name__
        return SegmentDamagedError(f"{self._name} is damaged ({short}); bring it back.")


def read_segment(place: Place, segment: Segment, wanted: OffsetRanges | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the records of a segment in their order, as rows of `SCHEMA`, those of a row group at a time.

    Args:
        place: of the archive.
        segment: of the layout ``gapless``.
        wanted: the offsets to read; ``None`` for all. Row groups without any of them are not read.

    Raises:
        SegmentDamagedError: the object is missing, damaged, or holds something else than the manifest says. What was
            yielded before is right.
        StoreUnreachableError: the store does not answer.
    """
    if not segment.records:
        return
    groups = [group for group in segment.row_groups if wanted is None or has_any(wanted, group.first, group.last)]
    if not groups:
        return
    source = ObjectReader(place, segment.object)
    for group in groups:
        rows = part_of(source, segment, group, source.rows(group.number))
        chosen = rows if wanted is None else picked(rows, wanted)
        if chosen.num_rows:
            yield chosen


def read_object(place: Place, segments: Sequence[Segment]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the records of several segments of one object, each row group read once.

    Args:
        place: of the archive.
        segments: of the layout ``gapless``, with one object. What is yielded has the index of its segment here.

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
    for number, some in groupby(parts, key=itemgetter(0)):
        rows = source.rows(number)
        for _, _, index, group in some:
            yield index, part_of(source, segments[index], group, rows)


def has_any(wanted: OffsetRanges, first: int, last: int) -> bool:
    """Whether one of `wanted` is between `first` and `last`, both inclusive."""
    index = wanted.index_reaching(first)
    return index < len(wanted) and wanted[index].first <= last


def picked(rows: pa.RecordBatch, wanted: OffsetRanges) -> pa.RecordBatch:
    """The rows whose offsets are `wanted`; those of `rows` ascend."""
    if not rows.num_rows:
        return rows
    offsets: Sequence[int] = rows.column("offset").to_pylist()
    runs = []
    for first, last in wanted.clip(offsets[0], offsets[-1]):
        low, high = bisect_left(offsets, first), bisect_left(offsets, last + 1)
        if low < high:
            runs.append((low, high))
    if not runs:
        return rows.slice(0, 0)
    if len(runs) == 1:
        low, high = runs[0]
        return rows.slice(low, high - low)
    return rows.take(int64_array(row for low, high in runs for row in range(low, high)))


def part_of(source: ObjectReader, segment: Segment, group: RowGroup, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The records of a segment among all `rows` of a row group.

    Raises:
        SegmentDamagedError: they are not those that the manifest lists.
    """
    part = rows.slice(group.first_row, group.rows)
    if part.num_rows != group.rows or not part.num_rows:
        raise source.damaged(f"row group {group.number} has {part.num_rows} rows and must have {group.rows}")
    found = [part.column("offset")[at].as_py() for at in (0, group.rows - 1)]
    partition = part.column("partition")[0].as_py()
    if found != [group.first, group.last] or partition != segment.partition:
        raise source.damaged(f"row group {group.number} holds {partition}/{found[0]}-{found[1]}")
    return part


class _RandomAccess(io.RawIOBase):
    """A file of a place for pyarrow, which begins with the end of a file."""

    def __init__(self, place: Place, key: str, size: int) -> None:
        self._place, self._key, self._size = place, key, size
        self._at = 0
        self.bytes_read = 0
        self._end = b""

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
        left = max(self._size - self._at, 0)
        size = left if size is None or size < 0 else min(size, left)
        found = self._content(self._at, size)
        self._at += len(found)
        return found

    def _content(self, start: int, length: int) -> bytes:
        if not length:
            return b""
        end_at = self._size - len(self._end)
        return self._end[start - end_at : start - end_at + length] if start >= end_at else self._fetch(start, length)

    def end(self) -> bytes:
        """The end of the file, with all that Parquet says there."""
        if not self._end:
            self._end = self._fetch(max(self._size - _END_BYTES, 0), min(self._size, _END_BYTES))
            length = int.from_bytes(self._end[-_TRAILER_BYTES:-4], "little") + _TRAILER_BYTES
            if len(self._end) < length <= self._size:
                self._end = self._fetch(self._size - length, length)
        return self._end

    def parts(self, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        if any(start < 0 or length < 0 or start + length > self._size for start, length in spans):
            raise OSError("a part beyond the end of the object")
        try:
            found = self._place.read_ranges(self._key, spans)
        except MissingObjectError as error:
            raise FileNotFoundError(str(error)) from None
        self.bytes_read += sum(map(len, found))
        return found

    def _fetch(self, start: int, length: int) -> bytes:
        (found,) = self.parts([(start, length)])
        return found
