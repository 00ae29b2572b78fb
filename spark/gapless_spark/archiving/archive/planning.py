"""Which offsets of each partition are archived next, how many at once, and when. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from gapless_archive.catalog.entry import Head, LostRange
from gapless_kafka.reading.cuts import Cut, TopicCut

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_archive.segments.row_buffer import Limits

DEFAULT_BYTES_PER_OFFSET = 1024.0
"""While nothing of a topic is archived."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When the pending offsets of a partition become a segment."""

    limits: Limits
    age_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """The offsets of a partition that are in Kafka and not in the archive."""

    topic: str
    partition: int
    first: int
    """The next offset to archive, which is in the log."""
    end: int
    """The last stable offset."""
    log_start: int
    high_watermark: int
    bytes_per_offset: float
    truncated_at: int | None = None
    """The end of the records that are still as archived, in a log that was truncated; nothing of it is pending."""

    @property
    def offsets(self) -> int:
        """How many offsets are pending."""
        return max(self.end - self.first, 0)

    @property
    def bytes(self) -> float:
        """The estimated size of their records."""
        return self.offsets * self.bytes_per_offset


@dataclass(frozen=True, slots=True)
class TopicPending:
    """The offsets of a topic that are not in the archive."""

    partitions: tuple[Pending, ...]
    lost: tuple[LostRange, ...]
    """Offsets that Kafka deleted before they were archived."""
    started: tuple[Head, ...] = ()
    """Where archiving begins, of the partitions whose archiving has not begun."""


def find_pending(
    topic: TopicCut,
    head: Callable[[int], int | None],
    bytes_per_offset: float,
    truncated: Mapping[int, int] = MappingProxyType({}),
    *,
    known_partitions: int | None = None,
) -> TopicPending:
    """Compare the offsets of a topic in Kafka with the archive.

    Args:
        topic: its current offsets, from the log starts on.
        head: returns the next offset of a partition to archive; ``None`` when its archiving has not begun.
        bytes_per_offset: the mean of the topic.
        truncated: partitions whose log no longer has what was archived last, and the end of what it still has.
        known_partitions: how many partitions of this topic ID were known when the topic was archived last; ``None`` if
            it never was. A partition that was added since begins at offset 0.
    """
    partitions, lost, started = [], [], []
    bounds = zip(topic.first_offsets, topic.end_offsets, topic.high_watermarks, strict=True)
    for number, (log_start, end, high_watermark) in enumerate(bounds):
        archived = head(number)
        is_added = known_partitions is not None and number >= known_partitions
        first = archived if archived is not None else 0 if is_added else log_start
        if archived is None:
            started.append(Head(number, first))
        truncated_at = truncated.get(number, high_watermark if first > high_watermark else None)
        if truncated_at is None and first < log_start:
            lost.append(LostRange(number, first, log_start))
            first = log_start
        partitions.append(
            Pending(
                topic=topic.topic,
                partition=number,
                first=first,
                end=end if truncated_at is None else first,
                log_start=log_start,
                high_watermark=high_watermark,
                bytes_per_offset=bytes_per_offset,
                truncated_at=truncated_at,
            )
        )
    return TopicPending(tuple(partitions), tuple(lost), tuple(started))


def select_for_cycle(pending: Iterable[Pending], max_bytes: float) -> list[Pending]:
    """Select as much of the pending offsets, in order, as a cycle may read; the last selection may be partial."""
    selected: list[Pending] = []
    remaining = max_bytes
    for partition in pending:
        if not partition.offsets:
            continue
        if remaining <= 0:
            break
        offsets = min(partition.offsets, max(int(remaining / partition.bytes_per_offset), 1))
        selected.append(replace(partition, end=partition.first + offsets))
        remaining -= offsets * partition.bytes_per_offset
        if offsets < partition.offsets:
            break
    return selected


def clip_to_end(pending: Pending, ends: Mapping[TopicPartition, int]) -> Pending:
    """Limit pending offsets to the end that was fixed for their partition; none remain if there is no end."""
    end = min(pending.end, ends.get((pending.topic, pending.partition), 0))
    return replace(pending, end=max(end, pending.first))


def build_cut(cluster_id: str, selected: Iterable[Pending], topic_ids: Mapping[str, str]) -> Cut:
    """Build the cut that reads the selected offsets. Records that expire before they are read are an error."""
    by_topic: dict[str, dict[int, Pending]] = {}
    for partition in selected:
        by_topic.setdefault(partition.topic, {})[partition.partition] = partition
    topics = []
    for topic, partitions in by_topic.items():
        bounds = [
            (partitions[number].first, partitions[number].end) if number in partitions else (0, 0)
            for number in range(max(partitions) + 1)
        ]
        firsts, ends = zip(*bounds, strict=True)
        topics.append(TopicCut(topic, firsts, ends, 0, topic_ids[topic], may_skip_expired=False))
    return Cut(cluster_id, tuple(topics))


@dataclass(slots=True)
class Waiting:
    """Since when each partition has pending records, and which of them are due."""

    since: dict[TopicPartition, float] = field(default_factory=dict)

    def due(self, pending: Iterable[Pending], thresholds: Callable[[str], Thresholds], now: float) -> list[Pending]:
        """Return the partitions to archive now, longest waiting first."""
        due: list[Pending] = []
        for partition in pending:
            topic_partition = (partition.topic, partition.partition)
            if not partition.offsets:
                self.since.pop(topic_partition, None)
                continue
            waited = now - self.since.setdefault(topic_partition, now)
            threshold = thresholds(partition.topic)
            limits = threshold.limits
            is_large = partition.offsets >= limits.records or partition.bytes >= limits.bytes
            if is_large or waited >= threshold.age_seconds:
                due.append(partition)
        return sorted(
            due,
            key=lambda partition: (
                self.since[partition.topic, partition.partition],
                partition.topic,
                partition.partition,
            ),
        )

    def reset(self, topic_partition: TopicPartition) -> None:
        """Forget since when a partition has waited, because it was archived."""
        self.since.pop(topic_partition, None)
