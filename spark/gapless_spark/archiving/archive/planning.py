"""Owns what of each partition is archived next: which offsets, how many at once, and when. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gapless_archive.catalog.entry import LostRange
from gapless_kafka.reading.cuts import Cut, TopicCut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gapless_api.offsets.ids import TopicPartition
    from gapless_archive.segments.level_zero import Limits

GUESSED_BYTES = 1024.0
"""Of an offset, while nothing of its topic is archived."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When what is pending of a partition becomes a segment."""

    limits: Limits
    age_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """What of a partition is in Kafka and not in the archive."""

    topic: str
    partition: int
    first: int
    """The next offset to archive, which is in the log."""
    end: int
    """The last stable offset."""
    log_start: int
    high_watermark: int
    bytes_per_offset: float

    @property
    def offsets(self) -> int:
        """How many there are at most."""
        return max(self.end - self.first, 0)

    @property
    def bytes(self) -> float:
        """About how much they hold."""
        return self.offsets * self.bytes_per_offset


@dataclass(frozen=True, slots=True)
class TopicPending:
    """What of a topic is not in the archive."""

    partitions: tuple[Pending, ...]
    lost: tuple[LostRange, ...]
    """What Kafka has deleted before it was archived."""
    truncated: tuple[int, ...]
    """Partitions that end before the offset up to which they are archived."""


def pending_of(topic: TopicCut, head: Callable[[int], int | None], bytes_per_offset: float) -> TopicPending:
    """Compare a topic with how far it is archived.

    Args:
        topic: as Kafka has it now, from its log starts on.
        head: the next offset to archive of a partition; ``None`` when nothing of it was.
        bytes_per_offset: the mean of the topic.
    """
    partitions, lost, truncated = [], [], []
    bounds = zip(topic.first_offsets, topic.end_offsets, topic.high_watermarks, strict=True)
    for number, (log_start, end, high_watermark) in enumerate(bounds):
        archived = head(number)
        first = log_start if archived is None else archived
        if first < log_start:
            lost.append(LostRange(number, first, log_start))
            first = log_start
        if first > high_watermark:
            truncated.append(number)
        partitions.append(
            Pending(
                topic=topic.topic,
                partition=number,
                first=first,
                end=end,
                log_start=log_start,
                high_watermark=high_watermark,
                bytes_per_offset=bytes_per_offset,
            )
        )
    return TopicPending(tuple(partitions), tuple(lost), tuple(truncated))


def chosen_for_cycle(pending: Iterable[Pending], most_bytes: float) -> list[Pending]:
    """Of what is pending, in its order, as much as one cycle may read; the last one may be cut short."""
    chosen: list[Pending] = []
    left = most_bytes
    for one in pending:
        if not one.offsets:
            continue
        if left <= 0:
            break
        offsets = min(one.offsets, max(int(left / one.bytes_per_offset), 1))
        chosen.append(replace(one, end=one.first + offsets))
        left -= offsets * one.bytes_per_offset
        if offsets < one.offsets:
            break
    return chosen


def within(pending: Pending, ends: Mapping[TopicPartition, int]) -> Pending:
    """What is pending before the end that was fixed for its partition; nothing if there is none."""
    end = min(pending.end, ends.get((pending.topic, pending.partition), 0))
    return replace(pending, end=max(end, pending.first))


def cut_of(cluster_id: str, chosen: Iterable[Pending], topic_ids: Mapping[str, str]) -> Cut:
    """The cut that reads what was chosen. A record that expires before it is read is an error, never passed over."""
    by_topic: dict[str, dict[int, Pending]] = {}
    for one in chosen:
        by_topic.setdefault(one.topic, {})[one.partition] = one
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
    """Since when records wait in each partition, and which have waited long enough."""

    since: dict[TopicPartition, float] = field(default_factory=dict)

    def due(self, pending: Iterable[Pending], thresholds: Callable[[str], Thresholds], now: float) -> list[Pending]:
        """Those that are to be archived now, those that wait longest first."""
        due: list[Pending] = []
        for one in pending:
            place = (one.topic, one.partition)
            if not one.offsets:
                self.since.pop(place, None)
                continue
            waited = now - self.since.setdefault(place, now)
            limit = thresholds(one.topic)
            enough = one.offsets >= limit.limits.records or one.bytes >= limit.limits.bytes
            if enough or waited >= limit.age_seconds:
                due.append(one)
        return sorted(due, key=lambda one: (self.since[one.topic, one.partition], one.topic, one.partition))

    def archived(self, place: TopicPartition) -> None:
        """What has waited is archived; what comes begins to wait when it is seen."""
        self.since.pop(place, None)
