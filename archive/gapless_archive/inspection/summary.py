"""The summary of each partition of an archive; must not know how it is shown."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapless_archive.catalog.state import TopicState, covered_ranges

if TYPE_CHECKING:
    from gapless_archive.catalog.chain import Chain
    from gapless_archive.catalog.order import GenerationOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSummary:
    """The archived offsets of one partition of a topic generation; the fields are those of the JSON output."""

    region: str
    topic: str
    topic_id: str
    partition: int
    segments: int
    levels: tuple[int, ...]
    """Levels of the segments, ascending."""
    records: int
    bytes: int
    """Of the records."""
    stored_bytes: int
    covered: tuple[tuple[int, int], ...]
    """Ranges of offsets, both ends inclusive: each offset has a record, or will never have one."""
    uncommitted: tuple[tuple[int, int], ...]
    """Ranges of offsets in segments of kafka-replicator that no commit names, both ends inclusive."""
    lost: tuple[tuple[int, int], ...]
    """Ranges of offsets that Kafka deleted before they were archived, both ends inclusive."""
    next_offset: int | None
    """The next offset to archive."""
    newest_timestamp: int | None
    """In milliseconds."""
    held: bool
    """Whether the topic is on hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationSummary:
    """One generation of a topic; the fields are those of the JSON output."""

    region: str
    topic: str
    topic_id: str
    """Empty for segments of kafka-replicator, which does not store it."""
    newest: bool | None
    """Whether all other generations precede this one; null when no commit proves which one is the newest."""
    predecessors: tuple[str, ...]
    """The generations that provably precede this one."""
    cluster_id: str
    commits: int
    records: int
    """In the commits."""
    archived_at: str
    """By the clock of the archiving program, which does not decide which generation is the newest."""


def generation_summaries(order: GenerationOrder) -> Iterator[GenerationSummary]:
    """Summarize the generations of a topic, the oldest first."""
    for each in order.generations:
        chain, state = each
        yield GenerationSummary(
            region=chain.region,
            topic=chain.topic,
            topic_id=chain.topic_id,
            newest=None if order.newest is None else each is order.newest,
            predecessors=tuple(other.chain.topic_id for other in order.generations if other.precedes(each)),
            cluster_id=state.last.cluster_id if state.last is not None else "",
            commits=state.sequence,
            records=sum(segment.records for segment in state.all_segments()),
            archived_at=state.archived_at,
        )


def summaries(
    chain: Chain, state: TopicState, *, partitions: Collection[int] | None = None
) -> Iterator[PartitionSummary]:
    """Summarize the partitions of a topic, ascending.

    Args:
        chain: of the topic.
        state: of the chain.
        partitions: those that are summarized; ``None`` for all.
    """
    for partition in state.partitions:
        if partitions is not None and partition not in partitions:
            continue
        segments = state.segments(partition)
        times = [segment.max_timestamp for segment in segments if segment.max_timestamp is not None]
        yield PartitionSummary(
            region=chain.region,
            topic=chain.topic,
            topic_id=chain.topic_id,
            partition=partition,
            segments=len(segments),
            levels=tuple(sorted({segment.level for segment in segments})),
            records=sum(segment.records for segment in segments),
            bytes=sum(segment.bytes for segment in segments),
            stored_bytes=sum(segment.stored_bytes for segment in segments),
            covered=tuple((first, end - 1) for first, end in covered_ranges(segments) if first < end),
            uncommitted=tuple(
                (first, end - 1)
                for first, end in covered_ranges(each for each in state.uncommitted if each.partition == partition)
            ),
            lost=tuple((lost.first, lost.end - 1) for lost in state.lost if lost.partition == partition),
            next_offset=state.head(partition),
            newest_timestamp=max(times, default=None),
            held=state.is_held,
        )
