"""The members of a report about missing offsets, in bounded size for the page; must not know HTML or Kafka."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gapless_api.offsets.ranges import OffsetRanges
from gapless_api.page.bins import counts

if TYPE_CHECKING:
    from gapless_api.bundle.form import PartitionGaps
    from gapless_api.offsets.ids import TopicPartition

MAX_GAPS = 20
MAX_MAPS = 100
MAX_BINS = 120
"""Parts of a map before zooming."""
MAX_FINE_BINS = 24_000
"""Parts of all maps together, for zooming."""
MAX_EXACT_RANGES = 100
"""A map with no more ranges than this contains all of them, and zooming ends at single offsets."""


def missing_row(topic: str, partition: int, ranges: OffsetRanges) -> dict[str, Any]:
    """Return the members that describe the missing offsets of a partition in the report."""
    return {
        "topic": topic,
        "partition": partition,
        "missing": ranges.count,
        "ranges": len(ranges),
        "first_missing": ranges.first_offset if len(ranges) else None,
        "last_missing": ranges.last_offset if len(ranges) else None,
    }


LostBetween = Callable[["TopicPartition", OffsetRanges], Mapping[str, str | None] | None]
"""Returns ``lost_after`` and ``lost_before`` of missing offsets of a partition; ``None`` if that is not known."""


def never_known(_topic_partition: TopicPartition, _missing: OffsetRanges) -> None:
    """Return that it is not known when offsets were lost."""


def biggest_gaps(
    results: Sequence[PartitionGaps], inferred: Sequence[PartitionGaps], lost_between: LostBetween = never_known
) -> list[dict[str, Any]]:
    """Return the largest ranges, largest first; ranges of equal size in the order of the results."""
    inferred_ranges = {(entry.topic, entry.partition): entry.ranges for entry in inferred}

    def everything() -> Iterator[tuple[int, int, int, int]]:
        for index, entry in enumerate(results):
            for first, last in entry.ranges.pairs(0, len(entry.ranges)):
                yield first - last - 1, index, first, last

    found = []
    for negative_size, index, first, last in heapq.nsmallest(MAX_GAPS, everything()):
        entry = results[index]
        part = inferred_ranges.get((entry.topic, entry.partition), OffsetRanges()).clip(first, last)
        found.append(
            {
                "topic": entry.topic,
                "partition": entry.partition,
                "first_offset": first,
                "last_offset": last,
                "missing": -negative_size,
                "inferred": part.count,
                **(lost_between((entry.topic, entry.partition), OffsetRanges([(first, last)])) or {}),
            }
        )
    return found


def gap_map(results: Sequence[PartitionGaps], inferred: Sequence[PartitionGaps]) -> list[dict[str, Any]]:
    """Return how many offsets are missing in each part of a partition, for those with the most missing offsets."""
    inferred_ranges = {(entry.topic, entry.partition): entry.ranges for entry in inferred}
    incomplete = [(entry, entry.ranges.count) for entry in results if len(entry.ranges)]
    mapped = sorted(incomplete, key=lambda found: (-found[1], found[0].topic, found[0].partition))[:MAX_MAPS]
    fine = max(MAX_BINS, MAX_FINE_BINS // max(len(mapped), 1) // MAX_BINS * MAX_BINS)
    fine = min(fine, 64 * MAX_BINS)
    return [
        _map_of(entry, missing, inferred_ranges.get((entry.topic, entry.partition), OffsetRanges()), fine)
        for entry, missing in mapped
    ]


def _map_of(entry: PartitionGaps, missing: int, inferred_ranges: OffsetRanges, fine: int) -> dict[str, Any]:
    first = min(entry.window_min, entry.ranges.first_offset)
    last = max(entry.window_max, entry.ranges.last_offset)
    exact = len(entry.ranges) <= MAX_EXACT_RANGES and len(inferred_ranges) <= MAX_EXACT_RANGES
    return {
        "topic": entry.topic,
        "partition": entry.partition,
        "first_offset": first,
        "last_offset": last,
        "missing": missing,
        "bins": counts(entry.ranges, first, last, MAX_BINS),
        "inferred_bins": counts(inferred_ranges, first, last, MAX_BINS) if len(inferred_ranges) else None,
        "ranges": [list(pair) for pair in entry.ranges] if exact else None,
        "inferred_ranges": [list(pair) for pair in inferred_ranges] if exact else None,
        "fine_bins": None if exact else counts(entry.ranges, first, last, fine),
        "fine_inferred_bins": None if exact or not len(inferred_ranges) else counts(inferred_ranges, first, last, fine),
    }
