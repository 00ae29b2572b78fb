"""How segments of a partition are joined into one: read, written, read back and checked, not committed.

Several joins whose inputs share row groups, as those of quiet partitions do, are carried out together, so that each row
group is read once.
"""

from __future__ import annotations

import contextlib
import heapq
import secrets
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.base.errors import GaplessError
from gapless_archive.catalog.entry import RowGroup, Segment
from gapless_archive.compaction.output import SegmentOutput
from gapless_archive.compaction.peer_join import InputDamagedError, write_peer_join
from gapless_archive.compaction.read_back import ContentMismatchError, ExpectedRecords, read_back
from gapless_archive.compaction.sources import covers_segment, plan_reads
from gapless_archive.segments.check import SegmentCheck, check_segment
from gapless_archive.segments.digest import ContentDigest
from gapless_archive.segments.reader import ObjectReader, SegmentDamagedError, intersects, select_rows, slice_row_group

if TYPE_CHECKING:
    import pyarrow as pa

    from gapless_api.offsets.ranges import OffsetRanges
    from gapless_archive.compaction.plan import Join
    from gapless_archive.store.places import Place


@dataclass(frozen=True, slots=True)
class DamagedInput:
    """Why a join was not carried out."""

    message: str
    index: int | None
    """Which of its inputs is missing or damaged; ``None`` when that is unknown."""


def write_joins(
    place: Place,
    prefix: str,
    joins: Sequence[Join],
    *,
    max_row_group_records: int | None = None,
    check_stopped: Callable[[], None] = lambda: None,
) -> list[Segment | DamagedInput]:
    """Write the new segments of joins and return their manifests; nothing is committed.

    Object names end with a random word, so that two programs never write the same object. In the layout of
    kafka-replicator they may, with the same records.

    Args:
        place: of the archive.
        prefix: of the topic's objects, without a slash at its end.
        joins: of one topic, preferably a group that `group_joins` returned.
        max_row_group_records: of a row group; ``None`` for as many as its size permits.
        check_stopped: is called before each row group, and raises to end the work.

    Returns:
        For each join its segment, or why there is none.

    Raises:
        GaplessError: the place does not take an object, or does not answer. No object is left behind, except in the
            layout of kafka-replicator, where another program may have committed it.
    """
    if any(segment.layout == "kafka-replicator" for join in joins for segment in join.inputs):
        return [_join_peer_segments(place, prefix, join, max_row_group_records, check_stopped) for join in joins]
    results: list[Segment | DamagedInput] = []
    with place.scratch() as folder:
        works = [
            _JoinWork(place, folder / f"{number}.parquet", join, max_row_group_records)
            for number, join in enumerate(joins)
        ]
        _read_inputs(place, works, check_stopped)
        try:
            for work in works:
                results.append(work.failure or _store(place, prefix, work))  # noqa: PERF401 -- read below after an error
        except GaplessError:
            for result in results:
                if isinstance(result, Segment):
                    discard(place, result)
            raise
    return results


def discard(place: Place, segment: Segment) -> None:
    """Delete the object of a segment that is not committed; if that fails, it is removed later as an orphan."""
    if segment.object:
        with contextlib.suppress(GaplessError):
            place.delete(segment.object)


def _join_peer_segments(
    place: Place, prefix: str, join: Join, max_row_group_records: int | None, check_stopped: Callable[[], None]
) -> Segment | DamagedInput:
    with place.scratch() as folder:
        try:
            return write_peer_join(
                place,
                prefix,
                join,
                folder / "0.parquet",
                max_row_group_records=max_row_group_records,
                check_stopped=check_stopped,
            )
        except InputDamagedError as error:
            return DamagedInput(str(error), next(n for n, each in enumerate(join.inputs) if each is error.segment))
        except SegmentDamagedError as error:
            return DamagedInput(str(error), None)


def _store(place: Place, prefix: str, work: _JoinWork) -> Segment | DamagedInput:
    """Store a finished segment and read it back."""
    join = work.join
    covered = f"{join.first:020d}-{join.end - 1:020d}"
    name = f"{prefix}/{join.partition}/{join.level}/{covered}-{secrets.token_hex(4)}.parquet"
    try:
        segment = work.output.finish(name)
    except SegmentDamagedError as error:
        return DamagedInput(str(error), None)
    if not segment.records:
        return replace(segment, digest=ContentDigest().text())
    try:
        place.put(segment.object, work.output.file)
        return read_back(place, segment, work.expected)
    except SegmentDamagedError as error:
        discard(place, segment)
        return DamagedInput(str(error), None)
    except ContentMismatchError as error:
        discard(place, segment)
        return _explain_mismatch(place, work, segment, error)
    except GaplessError:
        discard(place, segment)
        raise


def _explain_mismatch(place: Place, work: _JoinWork, segment: Segment, error: ContentMismatchError) -> DamagedInput:
    """Find out whether an input is damaged, or only the new segment."""
    origin = error.expected.origin
    if origin is not None:
        try:
            check_segment(place, origin)
        except SegmentDamagedError as damage:
            return work.damaged_input(damage, origin)
    return DamagedInput(f"{place.name}/{segment.object} was not what was written ({error}); run this again.", None)


class _Source(NamedTuple):
    """A row group. Sources sort by the age of their objects, so that joins that need the same one meet there."""

    written_at: str
    object: str
    number: int


class _Read(NamedTuple):
    """The rows of an input in one row group."""

    segment: Segment
    group: RowGroup
    offsets: OffsetRanges | None
    """``None`` for all records of the segment, which are then compared with its manifest."""
    is_first: bool
    is_last: bool


class _JoinWork:
    """A join in progress."""

    def __init__(self, place: Place, file: Path, join: Join, max_row_group_records: int | None) -> None:
        self.join = join
        self.output = SegmentOutput(file, join, max_row_group_records)
        self.failure: DamagedInput | None = None
        self.expected: list[ExpectedRecords] = []
        """What the output must contain."""
        self._place_name = place.name
        self._reads: deque[_Read] = deque()
        self._check: SegmentCheck | None = None
        for piece in plan_reads(join.inputs):
            offsets = None if covers_segment(piece) else piece.offsets
            groups = [
                each
                for each in piece.segment.row_groups
                if offsets is None or intersects(offsets, each.first, each.last)
            ]
            if offsets is None and not groups:
                self._check_empty(piece.segment)
            for number, group in enumerate(groups):
                self._reads.append(_Read(piece.segment, group, offsets, number == 0, number == len(groups) - 1))

    @property
    def source(self) -> _Source | None:
        """The row group to read next; ``None`` when nothing remains."""
        if not self._reads or self.failure is not None:
            return None
        read = self._reads[0]
        return _Source(read.segment.written_at, read.segment.object, read.group.number)

    def add(self, source: ObjectReader, rows: pa.RecordBatch) -> None:
        """Add the rows of a row group that belong to this join."""
        read = self._reads[0]
        try:
            part = slice_row_group(source, read.segment, read.group, rows)
            if read.offsets is None:
                self._compare(read, part)
            else:
                part = select_rows(part, read.offsets)
                self._expect(part)
        except SegmentDamagedError as error:
            self.fail(error)
            return
        self._reads.popleft()
        try:
            if part.num_rows:
                self.output.add(part)
        except SegmentDamagedError as error:
            self.failure = DamagedInput(str(error), None)

    def fail(self, error: SegmentDamagedError, segment: Segment | None = None) -> None:
        """Record that an input is damaged: `segment`, or the one that is read next."""
        self.failure = self.damaged_input(error, segment if segment is not None else self._reads[0].segment)

    def damaged_input(self, error: SegmentDamagedError, segment: Segment) -> DamagedInput:
        """Describe a damaged input."""
        index = next(number for number, each in enumerate(self.join.inputs) if each is segment)
        return DamagedInput(str(error), index)

    def _expect(self, part: pa.RecordBatch) -> None:
        """Record what the output must contain of an input that is not read completely."""
        if part.num_rows:
            digest = ContentDigest()
            digest.update(part)
            self.expected.append(ExpectedRecords(part.num_rows, digest.text(), None))

    def _check_empty(self, segment: Segment) -> None:
        try:
            SegmentCheck(self._place_name, segment).finish()
        except SegmentDamagedError as error:
            self.fail(error, segment)

    def _compare(self, read: _Read, part: pa.RecordBatch) -> None:
        if read.is_first or self._check is None:
            self._check = SegmentCheck(self._place_name, read.segment, with_digest=False)
        self._check.add(part)
        if read.is_last:
            self._check.finish()
            self.expected.append(ExpectedRecords(read.segment.records, read.segment.digest, read.segment))


def _read_inputs(place: Place, works: Sequence[_JoinWork], check_stopped: Callable[[], None]) -> None:
    """Read what the joins need: each row group once, unless joins need them in different orders."""
    waiting = [(source, number) for number, work in enumerate(works) if (source := work.source) is not None]
    heapq.heapify(waiting)
    reader: ObjectReader | None = None
    opened = ""
    while waiting:
        check_stopped()
        source = waiting[0][0]
        numbers = []
        while waiting and waiting[0][0] == source:
            numbers.append(heapq.heappop(waiting)[1])
        try:
            if reader is None or opened != source.object:
                reader, opened = ObjectReader(place, source.object), source.object
            rows = reader.read_row_group(source.number)
        except SegmentDamagedError as error:
            for number in numbers:
                works[number].fail(error)
            continue
        for number in numbers:
            works[number].add(reader, rows)
            if (following := works[number].source) is not None:
                heapq.heappush(waiting, (following, number))
