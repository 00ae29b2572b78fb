"""Owns what the latest records of the gaps topic say together: per partition what is missing, and what cannot be read.

Plain records in, plain findings out. Must not know Spark, Kafka or files; whoever calls it has already left only the
latest record of each window.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.bundle_form import PartitionGaps
from gapless_api.gap_records import GapRecord, UndecodableRecordError, decode_gap_key, decode_gap_record
from gapless_api.offsets import OffsetRanges, RangesBuilder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LISTED_UNREADABLE = 20
"""So many unreadable records are listed, the rest is counted."""


class LatestRecord(NamedTuple):
    """The latest record of its key."""

    key: bytes | None
    value: bytes | None
    partition: int
    """Of the gaps topic, not of the events."""
    offset: int


class CompleteWindows(NamedTuple):
    """The windows of one partition in which nothing is missing, when somebody has counted them already."""

    topic: str
    partition: int
    window_max: int
    """The highest of them, inclusive."""
    windows: int


class UnreadableRecord(NamedTuple):
    """Where a record stands in the gaps topic that is none, and why."""

    partition: int
    offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class WindowFindings:
    """What the gaps topic says."""

    results: tuple[PartitionGaps, ...]
    """Every partition that has a window, in order, complete ones with no ranges."""
    windows: int
    complete_windows: int
    tombstones: int
    """Windows whose latest record takes them back."""
    unreadable: int
    first_unreadable: tuple[UnreadableRecord, ...]
    """The first ones by partition and offset."""

    @property
    def missing(self) -> int:
        """How many events are missing, in all partitions together."""
        return sum(result.ranges.count for result in self.results)


def read_windows(
    latest: Iterable[LatestRecord],
    complete: Iterable[CompleteWindows] = (),
    *,
    tombstones: int = 0,
    further_unreadable: int = 0,
) -> WindowFindings:
    """Decode the latest record of each window and join the windows of each partition.

    A null value takes back whatever its key said, and so does an empty one for a window, for that is what tools write
    that cannot write null. A record without a key can neither be replaced nor taken back.

    Args:
        latest: in any order; at most one record for a window.
        complete: windows that are not in `latest`, because nothing is missing in them.
        tombstones: how many there are beyond `latest`.
        further_unreadable: how many there are beyond `latest`.
    """
    windows: defaultdict[tuple[str, int], list[GapRecord]] = defaultdict(list)
    unreadable: list[UnreadableRecord] = []
    unreadable_count = further_unreadable
    for record in latest:
        try:
            if _takes_back(record):
                tombstones += 1
                continue
            window = decode_gap_record(record.key, record.value or b"")
        except UndecodableRecordError as error:
            unreadable_count += 1
            unreadable.append(UnreadableRecord(record.partition, record.offset, str(error)))
            if len(unreadable) > 100 * LISTED_UNREADABLE:
                unreadable = _first(unreadable)
            continue
        windows[window.topic, window.partition].append(window)
    whole = {(found.topic, found.partition): found for found in complete}
    return WindowFindings(
        results=tuple(_joined(place, windows.get(place, ()), whole.get(place)) for place in sorted({*windows, *whole})),
        windows=sum(map(len, windows.values())) + sum(found.windows for found in whole.values()),
        complete_windows=sum(not window.missing for found in windows.values() for window in found)
        + sum(found.windows for found in whole.values()),
        tombstones=tombstones,
        unreadable=unreadable_count,
        first_unreadable=tuple(_first(unreadable)),
    )


def _takes_back(record: LatestRecord) -> bool:
    if record.value or record.key is None:
        return False
    if record.value is not None:
        decode_gap_key(record.key)  # an empty value under a foreign key is no tombstone of ours
    return True


def _first(unreadable: list[UnreadableRecord]) -> list[UnreadableRecord]:
    return heapq.nsmallest(LISTED_UNREADABLE, unreadable)


def _joined(place: tuple[str, int], windows: Sequence[GapRecord], complete: CompleteWindows | None) -> PartitionGaps:
    """Join the windows of one partition; ranges that touch across a border become one.

    Windows overlap only when the detector's window size was changed; then what either reports counts as missing.
    """
    in_order, overlapping = RangesBuilder(), OffsetRanges()
    reached = -1
    for window in sorted(windows, key=attrgetter("window_min", "window_max")):
        if window.window_min > reached:
            for first, last in window.missing:
                in_order.add(first, last)
        else:
            overlapping |= window.missing
        reached = max(reached, window.window_max)
    highest = max(reached, complete.window_max if complete else -1)
    # The peer always writes 0 for the lowest window; its resend does not look at the number.
    return PartitionGaps(*place, 0, highest, in_order.build() | overlapping)
