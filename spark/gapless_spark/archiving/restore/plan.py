"""Owns what a restore writes: which offsets of which partitions, to where, and what of them is not there. Pure."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.offsets.ranges import OffsetRange, OffsetRanges
from gapless_archive.catalog.entry import absent_ranges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gapless_archive.catalog.entry import Segment
    from gapless_archive.reading import Piece, TopicArchive
    from gapless_kafka.writing.positions import Position

ALL_OFFSETS = OffsetRange(0, MAX_OFFSET)


@dataclass(frozen=True, slots=True)
class Limits:
    """What of a topic is restored."""

    partitions: frozenset[int] | None = None
    offsets: OffsetRange = ALL_OFFSETS
    since: int | None = None
    """Milliseconds, inclusive."""
    until: int | None = None
    """Milliseconds, exclusive."""

    @property
    def by_time(self) -> bool:
        """Whether timestamps decide."""
        return self.since is not None or self.until is not None

    def is_outside(self, least: int | None, most: int | None) -> bool:
        """Whether no record with a timestamp from `least` to `most` is restored; ``None`` for no timestamp at all."""
        if not self.by_time:
            return False
        if least is None or most is None:
            return True
        return (self.since is not None and most < self.since) or (self.until is not None and least >= self.until)

    def leaves_out(self, segment: Segment) -> bool:
        """Whether no record of a segment is restored, as far as its times are known."""
        return not segment.is_listed and self.is_outside(segment.min_timestamp, segment.max_timestamp)


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
    """What is written of one source partition."""

    partition: int
    target_partition: int
    ranges: OffsetRanges
    """The offsets that are left to do; some may hold no record."""
    records: int
    """How many records there are in these; with limits of time, at most."""
    bytes: int
    """Of these records, about; 16 for each, its key, value and headers."""
    segments: int
    """From how many these are read."""
    is_at_most: bool
    """Whether limits of time leave out some of these records."""
    explained: OffsetRanges
    """Offsets between those that are archived which Kafka had deleted before they were archived."""
    unexplained: OffsetRanges
    """Offsets between those that are archived which no segment covers and nobody knows why."""
    oldest: int | None
    """Timestamp in milliseconds; ``None`` without records that have one."""
    newest: int | None
    first_written_at: str
    """When the first segment was written; empty without segments."""
    is_foreign: bool
    """Whether there are segments that kafka-replicator has written."""


def work_id(source: Source, topic: str, topic_id: str, limits: Limits) -> str:
    """The identity of a restore of `source` to the topic with `topic_id`: the same for each run of it.

    Limits of partitions and offsets do not belong to it, because positions tell which offsets are done.
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
        limits: what is restored.
        done: source offsets that are behind us.
    """
    chosen = archive.covered(partition).clip(*limits.offsets)
    between = OffsetRanges([(chosen.first_offset, chosen.last_offset)]) - chosen if chosen else OffsetRanges()
    known = OffsetRanges(
        sorted((lost.first, lost.end - 1) for lost in archive.state.lost if lost.partition == partition)
    )
    ranges = chosen - done
    pieces = archive.pieces(partition, ranges)
    written = [piece for piece in pieces if not limits.leaves_out(piece.segment)]
    counts = [records_in(piece) for piece in written]
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
        explained=between & known,
        unexplained=(between - known) - done,
        oldest=oldest if oldest is None or limits.since is None else max(oldest, limits.since),
        newest=newest if newest is None or limits.until is None else min(newest, limits.until - 1),
        first_written_at=segments[0].written_at if segments else "",
        is_foreign=any(segment.is_listed for segment in segments),
    )


def records_in(piece: Piece) -> int:
    """How many records a piece has; exact where the manifest lists the offsets without a record."""
    segment = piece.segment
    absent = absent_ranges(segment.absent)
    if segment.records != segment.end - segment.first - absent.count:  # segments of kafka-replicator list none
        return min(segment.records, piece.offsets.count)
    return piece.offsets.count - (piece.offsets & absent).count


def order_conflict(plan: PartitionPlan, position: Position | None) -> OffsetRange | None:
    """Offsets that would be written behind later ones, so that the order were lost; ``None`` when there are none."""
    if position is None or not plan.ranges or plan.ranges.first_offset >= position.next_offset:
        return None
    return plan.ranges.clip(0, position.next_offset - 1)[0]


def slots_of(plans: Sequence[PartitionPlan], most: int) -> list[list[PartitionPlan]]:
    """Distribute partitions to at most so many slots, of about as many records each; no slot is empty."""
    slots: list[tuple[int, list[PartitionPlan]]] = [(0, []) for _ in range(min(most, len(plans)))]
    for plan in sorted(plans, key=lambda each: (-each.records, each.partition)):
        slots.sort(key=lambda slot: slot[0])
        load, held = slots[0]
        slots[0] = (load + plan.records + 1, [*held, plan])
    return [sorted(held, key=lambda each: each.partition) for _, held in slots]
