"""Owns what the page says beyond the report, in bounded size; must not know HTML, Spark or Kafka."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from gapless_api.offsets.ranges import OffsetRanges
from gapless_spark.output.report_page.bins import counts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gapless_api.bundle.form import PartitionGaps

MOST_GAPS = 20
MOST_MAPS = 100
MOST_BINS = 120
"""Parts of a map as it is drawn at first."""
MOST_FINE_BINS = 24_000
"""Parts of all maps together as zooming shows them."""
MOST_EXACT_RANGES = 100
"""Up to here a map holds every range, and zooming ends at single offsets."""


def biggest_gaps(results: Sequence[PartitionGaps], inferred: Sequence[PartitionGaps]) -> list[dict[str, Any]]:
    """The ranges with the most offsets, largest first; of equal ones, those that come first."""
    guessed = {(entry.topic, entry.partition): entry.ranges for entry in inferred}

    def everything() -> Iterator[tuple[int, int, int, int]]:
        for index, entry in enumerate(results):
            for first, last in entry.ranges.pairs(0, len(entry.ranges)):
                yield first - last - 1, index, first, last

    found = []
    for negative_size, index, first, last in heapq.nsmallest(MOST_GAPS, everything()):
        entry = results[index]
        part = guessed.get((entry.topic, entry.partition), OffsetRanges()).clip(first, last)
        found.append(
            {
                "topic": entry.topic,
                "partition": entry.partition,
                "first_offset": first,
                "last_offset": last,
                "missing": -negative_size,
                "inferred": part.count,
            }
        )
    return found


def gap_map(results: Sequence[PartitionGaps], inferred: Sequence[PartitionGaps]) -> list[dict[str, Any]]:
    """Where in its offsets each partition misses how many, those that miss most first; whole partitions have no map."""
    guessed = {(entry.topic, entry.partition): entry.ranges for entry in inferred}
    gappy = [(entry, entry.ranges.count) for entry in results if len(entry.ranges)]
    drawn = sorted(gappy, key=lambda found: (-found[1], found[0].topic, found[0].partition))[:MOST_MAPS]
    fine = max(MOST_BINS, MOST_FINE_BINS // max(len(drawn), 1) // MOST_BINS * MOST_BINS)
    fine = min(fine, 64 * MOST_BINS)
    return [
        _mapped(entry, missing, guessed.get((entry.topic, entry.partition), OffsetRanges()), fine)
        for entry, missing in drawn
    ]


def _mapped(entry: PartitionGaps, missing: int, guessed: OffsetRanges, fine: int) -> dict[str, Any]:
    first = min(entry.window_min, entry.ranges.first_offset)
    last = max(entry.window_max, entry.ranges.last_offset)
    exact = len(entry.ranges) <= MOST_EXACT_RANGES and len(guessed) <= MOST_EXACT_RANGES
    return {
        "topic": entry.topic,
        "partition": entry.partition,
        "first_offset": first,
        "last_offset": last,
        "missing": missing,
        "bins": counts(entry.ranges, first, last, MOST_BINS),
        "inferred_bins": counts(guessed, first, last, MOST_BINS) if len(guessed) else None,
        "ranges": [list(pair) for pair in entry.ranges] if exact else None,
        "inferred_ranges": [list(pair) for pair in guessed] if exact else None,
        "fine_bins": None if exact else counts(entry.ranges, first, last, fine),
        "fine_inferred_bins": None if exact or not len(guessed) else counts(guessed, first, last, fine),
    }
