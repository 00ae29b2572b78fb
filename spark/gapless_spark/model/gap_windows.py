"""How the latest records of the gaps topic become findings: what is missing per partition, and unreadable records.

Plain records in, plain findings out. Must not know Spark, Kafka or files; callers pass only the latest record of each
window.
"""

from __future__ import annotations

import contextlib
import heapq
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from gapless_api.bundle.form import PartitionGaps
from gapless_api.gaps.keys import UndecodableRecordError, decode_gap_key
from gapless_api.gaps.records import GapRecord, decode_gap_record
from gapless_api.offsets.ids import MAX_OFFSET, TopicPartition
from gapless_api.offsets.ranges import OffsetRanges, RangesBuilder
from gapless_spark.model.window_inference import (
    WindowSpan,
    complete_windows,
    first_remembered_offset,
    infer_losses,
    listed_window,
    silent_window,
)

LISTED_UNREADABLE = 20
"""How many unreadable records are listed; all are counted."""


class Age(NamedTuple):
    """The order of two records of one window whose keys or partitions differ."""

    timestamp: int
    partition: int
    """Of the gaps topic."""
    offset: int


class LatestRecord(NamedTuple):
    """The latest record of its key."""

    key: bytes | None
    value: bytes | None
    partition: int
    """Of the gaps topic, not of the events."""
    offset: int


class CompleteWindows(NamedTuple):
    """Consecutive windows of one partition, of equal size, without listed holes."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    """Inclusive."""
    windows: int


class ScanOptions(NamedTuple):
    """What a scan adds to the records, or leaves out."""

    infer: bool = False
    """Whether to add losses that are inferred and not reported."""
    all_tails: bool = False
    """Whether to infer the end of each window, see `gapless_spark.model.window_inference.infer_losses`."""
    skip_stale: bool = False
    """Whether to leave out the windows that the detector no longer updates, if any of them lists holes."""
    remembered_windows: int = 5
    """How many windows of a partition the detector remembers."""


class Stale(NamedTuple):
    """The missing events in windows that the detector no longer remembers."""

    events: int
    windows: int
    """The number of these windows with holes."""


class UnreadableRecord(NamedTuple):
    """The position in the gaps topic of a record that cannot be decoded, and the reason."""

    partition: int
    offset: int
    reason: str


AS_REPORTED = ScanOptions()
"""Exactly what the records list."""


@dataclass(frozen=True, slots=True)
class WindowFindings:
    """The content of the gaps topic."""

    results: tuple[PartitionGaps, ...]
    """Every partition with a window, in order; complete partitions have no ranges."""
    inferred: tuple[PartitionGaps, ...]
    """The part of the results that no record reports, in order, without empty partitions."""
    stale: tuple[Stale, ...]
    """For each of the results; included in them unless `ScanOptions.skip_stale` is set."""
    missing_now: tuple[OffsetRanges, ...]
    """For each of the results, its ranges without those that only stale records list."""
    reported: tuple[OffsetRanges, ...]
    """For each of the results, the windows with a readable record."""
    checked: tuple[OffsetRanges, ...]
    """For each of the results, the same without the holes in stale records that were left out: it is unknown what
    became of them."""
    options: ScanOptions
    windows: int
    complete_windows: int
    tombstones: int
    """Windows whose latest record is a tombstone."""
    unreadable: int
    first_unreadable: tuple[UnreadableRecord, ...]
    """The first ones by partition and offset."""

    @property
    def missing(self) -> int:
        """The number of missing events in all partitions."""
        return sum(result.ranges.count for result in self.results)

    @property
    def stale_events(self) -> int:
        """How many events stale records list, whether they are included or not."""
        return sum(stale.events for stale in self.stale)

    @property
    def only_stale(self) -> int:
        """How many of the missing events only stale records list."""
        return self.missing - sum(ranges.count for ranges in self.missing_now)


def read_windows(  # noqa: PLR0913 -- the content of the topic, and the options
    latest: Iterable[LatestRecord],
    complete: Iterable[CompleteWindows] = (),
    *,
    tombstones: int = 0,
    tombstone_keys: Iterable[bytes] = (),
    further_unreadable: int = 0,
    options: ScanOptions = AS_REPORTED,
) -> WindowFindings:
    """Decode the latest record of each window and combine the windows of each partition.

    A null value is a tombstone of its key. For a window an empty value is one, too, because some tools cannot write
    null. A record without a key can neither be replaced nor deleted.

    Args:
        latest: in any order; at most one record for a window.
        complete: windows that are not in `latest`, because nothing is missing in them.
        tombstones: the number of tombstones that are not in `latest`.
        tombstone_keys: their keys, in any form; only needed to infer losses.
        further_unreadable: the number of unreadable records that are not in `latest`.
        options: what to add or to leave out.
    """
    windows: defaultdict[TopicPartition, list[GapRecord]] = defaultdict(list)
    silent: defaultdict[TopicPartition, set[int]] = defaultdict(set)
    unreadable: list[UnreadableRecord] = []
    unreadable_count = further_unreadable
    for record in latest:
        try:
            if _is_tombstone(record):
                tombstones += 1
                _add_silent(silent, record.key)
                continue
            window = decode_gap_record(record.key, record.value or b"")
        except UndecodableRecordError as error:
            unreadable_count += 1
            _add_silent(silent, record.key)
            unreadable.append(UnreadableRecord(record.partition, record.offset, str(error)))
            if len(unreadable) > 100 * LISTED_UNREADABLE:
                unreadable = _first(unreadable)
            continue
        windows[window.topic, window.partition].append(window)
    for key in tombstone_keys:
        _add_silent(silent, key)
    runs: defaultdict[TopicPartition, list[CompleteWindows]] = defaultdict(list)
    for run in complete:
        runs[run.topic, run.partition].append(run)
    counted = sum(run.windows for found in runs.values() for run in found)
    partitions = [
        _combine_windows(
            partition, windows.get(partition, ()), runs.get(partition, ()), silent.get(partition, set()), options
        )
        for partition in sorted({*windows, *runs})
    ]
    return WindowFindings(
        results=tuple(partition.gaps for partition in partitions),
        inferred=tuple(
            replace(partition.gaps, ranges=partition.inferred) for partition in partitions if len(partition.inferred)
        ),
        stale=tuple(partition.stale for partition in partitions),
        missing_now=tuple(partition.missing_now for partition in partitions),
        reported=tuple(partition.reported for partition in partitions),
        checked=tuple(partition.checked for partition in partitions),
        options=options,
        windows=sum(map(len, windows.values())) + counted,
        complete_windows=sum(not window.missing for found in windows.values() for window in found) + counted,
        tombstones=tombstones,
        unreadable=unreadable_count,
        first_unreadable=tuple(_first(unreadable)),
    )


def _is_tombstone(record: LatestRecord) -> bool:
    if record.value or record.key is None:
        return False
    if record.value is not None:
        decode_gap_key(record.key)  # an empty value with the key of another program is not a tombstone
    return True


def _first(unreadable: list[UnreadableRecord]) -> list[UnreadableRecord]:
    return heapq.nsmallest(LISTED_UNREADABLE, unreadable)


def _add_silent(silent: defaultdict[TopicPartition, set[int]], key: bytes | None) -> None:
    with contextlib.suppress(UndecodableRecordError):
        window = decode_gap_key(key)
        silent[window.topic, window.partition].add(window.window_min)


class _Partition(NamedTuple):
    gaps: PartitionGaps
    inferred: OffsetRanges
    stale: Stale
    missing_now: OffsetRanges
    reported: OffsetRanges
    checked: OffsetRanges


def _combine_windows(
    partition: TopicPartition,
    windows: Sequence[GapRecord],
    complete: Sequence[CompleteWindows],
    silent: set[int],
    options: ScanOptions,
) -> _Partition:
    """Combine the windows of one partition."""
    listed_spans = sorted(
        [
            *(listed_window(window.window_min, window.window_max, window.missing) for window in windows),
            *(complete_windows(run.first_offset, run.last_offset, run.windows) for run in complete),
        ]
    )
    silent_spans = _silent_windows(listed_spans, silent) if options.infer else []
    spans = _split_overlapping(listed_spans, silent_spans)
    first_remembered = first_remembered_offset(spans, options.remembered_windows)
    forgotten = [window for window in windows if window.window_min < first_remembered and len(window.missing)]
    stale = Stale(sum(window.missing.count for window in forgotten), len(forgotten))
    leaves_out = options.skip_stale and bool(forgotten or options.infer)
    looked_from = first_remembered if leaves_out else 0
    in_stale = _listed_missing(forgotten)
    tracked = _listed_missing([window for window in windows if window.window_min >= first_remembered])
    known = tracked if leaves_out else tracked | in_stale
    highest = max(span.last_offset for span in spans)
    inferred = OffsetRanges()
    if options.infer:
        listed = {span.first_offset for span in spans}
        unlisted = (window for window in silent_spans if window.first_offset not in listed)
        inferred_all = infer_losses(sorted([*spans, *unlisted]), all_tails=options.all_tails)
        inferred = inferred_all.clip(looked_from, highest) - known
    # The peer always writes 0 for the lowest window; its resend does not look at the number.
    gaps = PartitionGaps(*partition, looked_from, highest, known | inferred)
    reported = _covered_ranges(spans)
    checked = reported - in_stale if leaves_out else reported
    return _Partition(gaps, inferred, stale, tracked | inferred, reported, checked)


def _silent_windows(spans: Sequence[WindowSpan], silent: set[int]) -> list[WindowSpan]:
    """Return the windows without a readable record, which begin at `silent`, that lie within `spans`."""
    size = max(span.window_size for span in spans)
    lowest, highest = spans[0].first_offset, max(span.last_offset for span in spans)
    return [silent_window(first, min(size, MAX_OFFSET - first + 1)) for first in silent if lowest < first <= highest]


def _split_overlapping(spans: list[WindowSpan], silent: Sequence[WindowSpan]) -> list[WindowSpan]:
    """Return `spans` with each window as a span of its own if any of them overlap, or overlap a silent one.

    What is inferred from a window must not depend on whether it is part of a run.
    """
    in_order = sorted([*spans, *silent])
    if all(span.first_offset > before.last_offset for before, span in pairwise(in_order)):
        return spans
    return sorted(
        complete_windows(first, first + span.window_size - 1, 1) if span.windows > 1 else span
        for span in spans
        for first in range(span.first_offset, span.last_offset + 1, span.window_size)
    )


def _covered_ranges(spans: Sequence[WindowSpan]) -> OffsetRanges:
    """Return the offsets of all windows of `spans`, which are in the order of their first offsets and may overlap."""
    covered = RangesBuilder()
    first, last = spans[0].first_offset, spans[0].last_offset
    for span in spans:
        if span.first_offset > last + 1:
            covered.add(first, last)
            first = span.first_offset
        last = max(last, span.last_offset)
    covered.add(first, last)
    return covered.build()


def _listed_missing(windows: Sequence[GapRecord]) -> OffsetRanges:
    """Return the missing offsets that the records of one partition list.

    Windows overlap only if the detector's window size was changed; offsets that either reports count as missing.
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
    return in_order.build() | overlapping
