"""Owns how segments of a partition become one: read, written, read back and checked; must not know who commits that.

Several joins whose inputs share row groups, as those of quiet partitions do, are carried out together, so that each row
group is read once.
"""

from __future__ import annotations

import contextlib
import heapq
import secrets
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.base.errors import GaplessError
from gapless_archive.catalog.entry import Segment
from gapless_archive.compaction.output import SegmentOutput
from gapless_archive.compaction.peer_join import InputDamagedError, write_peer_join
from gapless_archive.compaction.read_back import OtherContentError, Stretch, read_back
from gapless_archive.compaction.sources import reads_all, sources_of
from gapless_archive.segments.check import SegmentCheck, check_segment
from gapless_archive.segments.digest import ContentDigest
from gapless_archive.segments.reader import ObjectReader, SegmentDamagedError, has_any, part_of, picked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import pyarrow as pa

    from gapless_api.offsets.ranges import OffsetRanges
    from gapless_archive.catalog.entry import RowGroup
    from gapless_archive.compaction.plan import Join
    from gapless_archive.store.places import Place


@dataclass(frozen=True, slots=True)
class DamagedInput:
    """Why a join was not carried out."""

    sentence: str
    index: int | None
    """Which of its inputs is missing or damaged; ``None`` when no single one is known to be."""


def _go_on() -> None:
    """Do nothing."""


def write_joins(
    place: Place,
    prefix: str,
    joins: Sequence[Join],
    *,
    most_records: int | None = None,
    go_on: Callable[[], None] = _go_on,
) -> list[Segment | DamagedInput]:
    """Write the new segments of joins and return their manifests; nothing is committed.

    The object's name ends with a random word, so that two programs that do the same never write the same object. In the
    layout of kafka-replicator they do, with the same records.

    Args:
        place: of the archive.
        prefix: of the topic's objects, without a slash at its end.
        joins: of one topic; better those of a group that `group_joins` has made.
        most_records: of a row group; ``None`` for as many as its size permits.
        go_on: is called before each row group, and raises to end the work.

    Returns:
        For each join its segment, or why there is none.

    Raises:
        GaplessError: the place does not take an object, or does not answer. No object is left behind, but in the layout
            of kafka-replicator, where another program may have committed it.
    """
    if any(segment.layout == "kafka-replicator" for join in joins for segment in join.inputs):
        return [_peer_join(place, prefix, join, most_records, go_on) for join in joins]
    found: list[Segment | DamagedInput] = []
    with place.scratch() as folder:
        works = [_Work(place, folder / f"{number}.parquet", join, most_records) for number, join in enumerate(joins)]
        _read_all(place, works, go_on)
        try:
            for work in works:
                found.append(work.failure or _kept(place, prefix, work))  # noqa: PERF401 -- what is made must be known
        except GaplessError:
            for made in found:
                if isinstance(made, Segment):
                    discard(place, made)
            raise
    return found


def discard(place: Place, segment: Segment) -> None:
    """Delete the object of a segment that is not committed; what cannot be deleted now is found as an orphan later."""
    if segment.object:
        with contextlib.suppress(GaplessError):
            place.delete(segment.object)


def _peer_join(
    place: Place, prefix: str, join: Join, most_records: int | None, go_on: Callable[[], None]
) -> Segment | DamagedInput:
    with place.scratch() as folder:
        try:
            return write_peer_join(place, prefix, join, folder / "0.parquet", most_records=most_records, go_on=go_on)
        except InputDamagedError as error:
            return DamagedInput(str(error), next(n for n, each in enumerate(join.inputs) if each is error.segment))
        except SegmentDamagedError as error:
            return DamagedInput(str(error), None)


def _kept(place: Place, prefix: str, work: _Work) -> Segment | DamagedInput:
    """Put a finished segment in its place and read it back."""
    join = work.join
    covered = f"{join.first:020d}-{join.end - 1:020d}"
    name = f"{prefix}/{join.partition}/{join.level}/{covered}-{secrets.token_hex(4)}.parquet"
    try:
        segment = work.output.segment(name)
    except SegmentDamagedError as error:
        return DamagedInput(str(error), None)
    if not segment.records:
        return replace(segment, digest=ContentDigest().text())
    try:
        place.put(segment.object, work.output.file)
        return read_back(place, segment, work.stretches)
    except SegmentDamagedError as error:
        discard(place, segment)
        return DamagedInput(str(error), None)
    except OtherContentError as error:
        discard(place, segment)
        return _damaged_input(place, work, segment, error)
    except GaplessError:
        discard(place, segment)
        raise


def _damaged_input(place: Place, work: _Work, segment: Segment, error: OtherContentError) -> DamagedInput:
    """Say why a new segment does not hold what an input must hold: that one is damaged, or the new one was."""
    origin = error.stretch.origin
    if origin is not None:
        try:
            check_segment(place, origin)
        except SegmentDamagedError as damage:
            return work.damaged(damage, origin)
    return DamagedInput(f"{place.name}/{segment.object} was not what was written ({error}); run this again.", None)


class _Source(NamedTuple):
    """Where a row group is. Objects sort by age, so that joins that need the same one come to it together."""

    written_at: str
    object: str
    number: int


class _Read(NamedTuple):
    """A row group of an input."""

    segment: Segment
    group: RowGroup
    wanted: OffsetRanges | None
    """``None`` for all records of the segment, which are then compared with its manifest."""
    is_first: bool
    is_last: bool


class _Work:
    """A join that is carried out."""

    def __init__(self, place: Place, file: Path, join: Join, most_records: int | None) -> None:
        self.join = join
        self.output = SegmentOutput(file, join, most_records)
        self.failure: DamagedInput | None = None
        self.stretches: list[Stretch] = []
        """What the output must hold."""
        self._place_name = place.name
        self._reads: deque[_Read] = deque()
        self._check: SegmentCheck | None = None
        for piece in sources_of(join.inputs):
            wanted = None if reads_all(piece) else piece.wanted
            groups = [
                each for each in piece.segment.row_groups if wanted is None or has_any(wanted, each.first, each.last)
            ]
            if wanted is None and not groups:
                self._check_empty(piece.segment)
            for number, group in enumerate(groups):
                self._reads.append(_Read(piece.segment, group, wanted, number == 0, number == len(groups) - 1))

    @property
    def source(self) -> _Source | None:
        """What is to be read next; ``None`` for nothing."""
        if not self._reads or self.failure is not None:
            return None
        read = self._reads[0]
        return _Source(read.segment.written_at, read.segment.object, read.group.number)

    def take(self, source: ObjectReader, rows: pa.RecordBatch) -> None:
        """Take what belongs to this join of a row group."""
        read = self._reads[0]
        try:
            part = part_of(source, read.segment, read.group, rows)
            if read.wanted is None:
                self._compare(read, part)
            else:
                part = picked(part, read.wanted)
                self._note(part)
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
        """Note that an input is damaged: `segment`, or the one that is read next."""
        self.failure = self.damaged(error, segment if segment is not None else self._reads[0].segment)

    def damaged(self, error: SegmentDamagedError, segment: Segment) -> DamagedInput:
        """Say which input is damaged."""
        index = next(number for number, each in enumerate(self.join.inputs) if each is segment)
        return DamagedInput(str(error), index)

    def _note(self, part: pa.RecordBatch) -> None:
        """Note what the output must hold of an input that is not read completely."""
        if part.num_rows:
            digest = ContentDigest()
            digest.update(part)
            self.stretches.append(Stretch(part.num_rows, digest.text(), None))

    def _check_empty(self, segment: Segment) -> None:
        try:
            SegmentCheck(self._place_name, segment).finish()
        except SegmentDamagedError as error:
            self.fail(error, segment)

    def _compare(self, read: _Read, part: pa.RecordBatch) -> None:
        if read.is_first or self._check is None:
            self._check = SegmentCheck(self._place_name, read.segment, with_digest=False)
        self._check.take(part)
        if read.is_last:
            self._check.finish()
            self.stretches.append(Stretch(read.segment.records, read.segment.digest, read.segment))


def _read_all(place: Place, works: Sequence[_Work], go_on: Callable[[], None]) -> None:
    """Read what the joins need, each row group once unless they need them in another order."""
    waiting = [(source, number) for number, work in enumerate(works) if (source := work.source) is not None]
    heapq.heapify(waiting)
    reader: ObjectReader | None = None
    opened = ""
    while waiting:
        go_on()
        source = waiting[0][0]
        numbers = []
        while waiting and waiting[0][0] == source:
            numbers.append(heapq.heappop(waiting)[1])
        try:
            if reader is None or opened != source.object:
                reader, opened = ObjectReader(place, source.object), source.object
            rows = reader.rows(source.number)
        except SegmentDamagedError as error:
            for number in numbers:
                works[number].fail(error)
            continue
        for number in numbers:
            works[number].take(reader, rows)
            if (following := works[number].source) is not None:
                heapq.heappush(waiting, (following, number))
