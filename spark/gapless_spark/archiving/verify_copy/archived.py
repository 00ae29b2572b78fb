"""Copies of topics in an archive; must not know the other copy, nor how Kafka is read.

A damaged row group is reported, and reading continues after it in the same segment. If a segment is compacted while it
is read, its offsets are looked up again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gapless_api.offsets.ranges import OffsetRanges
from gapless_api.wire.copy_report import CopyAddress
from gapless_archive.catalog.catalog import find_chain, only_region
from gapless_archive.catalog.entry import Segment, absent_ranges
from gapless_archive.catalog.peer_segments import layout_note, uncommitted_note
from gapless_archive.reading import Piece, TopicArchive, open_archive
from gapless_archive.segments.peer_adoption import read_state
from gapless_archive.segments.reader import SegmentDamagedError
from gapless_archive.store.places import open_place
from gapless_kafka.topics.topic_configuration import tombstone_seconds_of
from gapless_spark.archiving.verify_copy.findings import Unreadable
from gapless_spark.archiving.verify_copy.streams import offset_at

if TYPE_CHECKING:
    from gapless_api.base.archive_bounds import ArchiveBounds
    from gapless_archive.store.access import S3Access
    from gapless_spark.archiving.verify_copy.addresses import ArchivedTopic
    from gapless_spark.archiving.verify_copy.copies import Items


@dataclass(frozen=True, slots=True)
class ArchiveCopy:
    """A topic in an archive."""

    about: CopyAddress
    address: ArchivedTopic
    """With region and topic ID."""
    access: S3Access
    covered: Mapping[int, OffsetRanges]
    """By partition."""
    tombstone_seconds: float | None = None
    """How long compaction keeps tombstones of the archived topic; ``None`` if it was not compacted, or if unknown."""
    note: str = ""
    """A note about what its layout does not store; empty for none."""

    @property
    def may_lag(self) -> bool:
        """Whether it may lag: an archive follows Kafka."""
        return True

    def answerable(self, partition: int) -> OffsetRanges:
        """Return the offsets that segments cover."""
        return self.covered.get(partition, OffsetRanges())

    def absences(self, missing: OffsetRanges, partition: int) -> Iterator[Unreadable]:  # noqa: ARG002 -- the protocol
        """Yield `missing` as not archived."""
        for first, last in missing:
            yield Unreadable(first, last, "NotArchived")

    def read(self, partition: int, ranges: OffsetRanges) -> Items:
        """Yield the records of the segments."""
        return _PartitionReader(self, partition).read(ranges)

    def check_unchanged(self) -> None:
        """Check that the archive still has the topic."""
        self.open()

    def open(self) -> TopicArchive:
        """Read the current state of the archived topic."""
        address = self.address
        place = open_place(address.place, self.access)
        return open_archive(place, address.topic, region=address.region, topic_id=address.topic_id)


class _PartitionReader:
    """Reads one partition of an archive."""

    def __init__(self, copy: ArchiveCopy, partition: int) -> None:
        self._copy = copy
        self._partition = partition
        self._archive = copy.open()
        self._damaged: set[str] = set()
        """The objects of damaged segments."""

    def read(self, ranges: OffsetRanges) -> Items:
        pieces = self._archive.pieces(self._partition, ranges)
        missing = ranges
        for piece in pieces:
            missing -= piece.offsets
        parts: list[tuple[int, Piece | Unreadable]] = [(piece.offsets.first_offset, piece) for piece in pieces]
        parts += [(first, Unreadable(first, last, "NotArchived")) for first, last in missing]
        for _, part in sorted(parts, key=lambda each: each[0]):
            if isinstance(part, Piece):
                yield from self._read(part)
            else:
                yield part

    def _read(self, piece: Piece) -> Items:
        left = piece.offsets
        while len(left):
            done = left.first_offset - 1
            try:
                for rows in self._archive.read(Piece(piece.segment, left)):
                    yield rows
                    done = offset_at(rows, -1)
            except SegmentDamagedError as error:
                bad = left.clip(done + 1, piece.segment.row_group_end(done + 1))
                yield from self._read_elsewhere(piece.segment, bad, str(error))
                left = left.clip(bad.last_offset + 1, left.last_offset)
            else:
                return

    def _read_elsewhere(self, segment: Segment, bad: OffsetRanges, problem: str) -> Items:
        """Read offsets of a damaged segment from another segment, if one covers them."""
        if segment.object not in self._damaged:
            self._damaged.add(segment.object)
            self._archive = self._copy.open()
        for piece in self._archive.pieces(self._partition, bad, without=self._damaged):
            for first, last in bad.clip(bad.first_offset, piece.offsets.first_offset - 1):
                yield _damaged(segment, first, last, problem)
            yield from self._read(piece)
            bad = bad.clip(piece.offsets.last_offset + 1, bad.last_offset)
            if not len(bad):
                return
        for first, last in bad:
            yield _damaged(segment, first, last, problem)


def _damaged(segment: Segment, first: int, last: int, problem: str) -> Unreadable:
    absent = absent_ranges(segment.absent).clip(first, last).count
    return Unreadable(first, last, "Damaged", last - first + 1 - absent, problem)


def open_archive_copy(
    address: ArchivedTopic, access: S3Access, *, region: str | None, bounds: ArchiveBounds
) -> ArchiveCopy:
    """Open a topic in an archive.

    Args:
        address: of the topic.
        access: to the store.
        region: the default for an address without a region.
        bounds: the regions and topics that may be read.

    Raises:
        ConfigurationError: the archive does not have the topic or it is not allowed, or its commits are damaged.
        StoreUnreachableError: the store does not answer.
    """
    place = open_place(address.place, access)
    chosen = only_region(place, address.region or region)
    bounds.check(chosen, [address.topic], what="The comparison")
    chain = find_chain(
        place,
        address.topic,
        region=chosen,
        topic_id=address.topic_id,
        remedy=f"choose one with {address}@ID",
    )
    archive = TopicArchive(place, chain, read_state(chain))
    state = archive.state
    about = CopyAddress(
        address=str(address),
        kind="archive",
        cluster_id=state.last.cluster_id if state.last is not None else "",
        region=chain.region,
        topic=chain.topic,
        topic_id=chain.topic_id,
        partitions=max([state.partition_count, *(partition + 1 for partition in state.partitions)]),
    )
    covered = {partition: archive.covered(partition) for partition in state.partitions}
    complete = replace(address, region=chain.region, topic_id=chain.topic_id)
    folder = address.place.folder
    if folder is not None:  # Spark tasks have another working directory
        complete = replace(complete, place=replace(address.place, folder=folder.absolute()))
    note = "; ".join(filter(None, (layout_note(chain), uncommitted_note(state))))
    return ArchiveCopy(about, complete, access, covered, tombstone_seconds_of(state.configuration), note)
