"""The plan of a restore: which offsets of which partitions go where, and which are not in the archive. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.offsets.ranges import OffsetRange, OffsetRanges
from gapless_archive.catalog.entry import Segment, absent_ranges

if TYPE_CHECKING:
    from gapless_archive.reading import Piece, TopicArchive
    from gapless_kafka.writing.positions import Position

ALL_OFFSETS = OffsetRange(0, MAX_OFFSET)


@dataclass(frozen=True, slots=True)
class Limits:
    """The part of a topic to restore."""

    partitions: frozenset[int] | None = None
    offsets: OffsetRange = ALL_OFFSETS
    since: int | None = None
    """Milliseconds, inclusive."""
    until: int | None = None
    """Milliseconds, exclusive."""

    @property
    def by_time(self) -> bool:
        """Whether there are time limits."""
        return self.since is not None or self.until is not None

    def excludes_times(self, oldest: int | None, newest: int | None) -> bool:
        """Whether the limits exclude all timestamps from `oldest` to `newest` (``None``: no timestamps)."""
        if not self.by_time:
            return False
        if oldest is None or newest is None:
            return True
        return (self.since is not None and newest < self.since) or (self.until is not None and oldest >= self.until)

    def excludes_segment(self, segment: Segment) -> bool:
        """Whether the time limits exclude all records of a segment, as far as its manifest shows."""
        return not segment.is_listed and self.excludes_times(segment.min_timestamp, segment.max_timestamp)


@dataclass(frozen=True, slots=True)
class Source:
    """One generation of an archived topic."""

    region: str
    topic: str
    topic_id: str

    def __str__(self) -> str:
        return f"{self.region}/{self.topic}"


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """The offsets of one source partition to write."""

    partition: int
    target_partition: int
    ranges: OffsetRanges
    """The remaining offsets; some may have no record."""
    records: int
    """The number of records in `ranges`; an upper limit with time limits."""
    bytes: int
    """About the size of these records: 16 bytes each, and key, value and headers."""
    segments: int
    """The number of segments to read."""
    is_at_most: bool
    """Whether time limits may exclude some of these records."""
    explained: OffsetRanges
    """Offsets between archived ones that Kafka had deleted before they were archived."""
    unexplained: OffsetRanges
    """Offsets between archived ones that no segment covers for an unknown reason."""
    oldest: int | None
    """Timestamp in milliseconds; ``None`` if no record has one."""
    newest: int | None
    first_written_at: str
    """When the first segment was written; empty without segments."""
    is_foreign: bool
    """Whether kafka-replicator has written any of the segments."""


def work_id(source: Source, topic: str, topic_id: str, limits: Limits) -> str:
    """Return the ID of a restore of `source` to the topic with `topic_id`, which is the same in each run.

    It does not depend on limits of partitions and offsets, because positions record which offsets are done.
    """
    parts = [source.region, source.topic, source.topic_id, topic, topic_id, limits.since, limits.until]
    return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).hexdigest()[:16]


def plan_partition(
    archive: TopicArchive, partition: int, target_partition: int, limits: Limits, done: OffsetRanges
) -> PartitionPlan:
    """Plan one partition.

    Args:
        archive: of the source.
        partition: of the source.
        target_partition: of the target.
        limits: the part to restore.
        done: source offsets that are already restored.
    """
    covered = archive.covered(partition).clip(*limits.offsets)
    holes = OffsetRanges([(covered.first_offset, covered.last_offset)]) - covered if covered else OffsetRanges()
    known = OffsetRanges(
        sorted((lost.first, lost.end - 1) for lost in archive.state.lost if lost.partition == partition)
    )
    ranges = covered - done
    pieces = archive.pieces(partition, ranges)
    written = [piece for piece in pieces if not limits.excludes_segment(piece.segment)]
    counts = [count_records(piece) for piece in written]
    times = [
        (segment.min_timestamp, segment.max_timestamp)
        for segment in (piece.segment for piece, count in zip(written, counts, strict=True) if count)
        if segment.min_timestamp is not None and segment.max_timestamp is not None
    ]
    segments = archive.state.segments(partition)
    oldest, newest = min((low for low, _ in times), default=None), max((high for _, high in times), default=None)
    return PartitionPlan(
        partition=partition,
        target_partition=target_partition,
        ranges=ranges,
        records=sum(counts),
        bytes=sum(
            piece.segment.bytes * count // max(piece.segment.records, 1)
            for piece, count in zip(written, counts, strict=True)
        ),
        segments=len(written),
        is_at_most=limits.by_time,
        explained=holes & known,
        unexplained=(holes - known) - done,
        oldest=oldest if oldest is None or limits.since is None else max(oldest, limits.since),
        newest=newest if newest is None or limits.until is None else min(newest, limits.until - 1),
        first_written_at=segments[0].written_at if segments else "",
        is_foreign=any(segment.is_listed for segment in segments),
    )


def count_records(piece: Piece) -> int:
    """Return the number of records of a piece; exact if the manifest lists the offsets without a record."""
    segment = piece.segment
    absent = absent_ranges(segment.absent)
    if segment.records != segment.end - segment.first - absent.count:  # segments of kafka-replicator list none
        return min(segment.records, piece.offsets.count)
    return piece.offsets.count - (piece.offsets & absent).count


def offsets_out_of_order(plan: PartitionPlan, position: Position | None) -> OffsetRange | None:
    """Return offsets that would be written after later ones, out of order; ``None`` if there are none."""
    if position is None or not plan.ranges or plan.ranges.first_offset >= position.next_offset:
        return None
    return plan.ranges.clip(0, position.next_offset - 1)[0]


def distribute_partitions(plans: Sequence[PartitionPlan], max_slots: int) -> list[list[PartitionPlan]]:
    """Distribute partitions to at most `max_slots` slots with about equal numbers of records; no slot is empty."""
    slots: list[tuple[int, list[PartitionPlan]]] = [(0, []) for _ in range(min(max_slots, len(plans)))]
    for plan in sorted(plans, key=lambda each: (-each.records, each.partition)):
        slots.sort(key=lambda slot: slot[0])
        load, partitions = slots[0]
        slots[0] = (load + plan.records + 1, [*partitions, plan])
    return [sorted(partitions, key=lambda each: each.partition) for _, partitions in slots]
