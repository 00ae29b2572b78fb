"""Owns what the latest records of the gaps topic say together: per partition what is missing, and what cannot be read.

Plain records in, plain findings out. Must not know Spark, Kafka or files; whoever calls it has already left only the
latest record of each window.
"""

from __future__ import annotations

import contextlib
import heapq
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.bundle.form import PartitionGaps
from gapless_api.gaps.keys import UndecodableRecordError, decode_gap_key
from gapless_api.gaps.records import GapRecord, decode_gap_record
from gapless_api.offsets.ids import MAX_OFFSET, TopicPartition
from gapless_api.offsets.ranges import OffsetRanges, RangesBuilder
from gapless_spark.model.window_inference import complete_windows, infer, listed_window, remembered_from, silent_window

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gapless_spark.model.window_inference import WindowSpan

LISTED_UNREADABLE = 20
"""So many unreadable records are listed, the rest is counted."""


class Age(NamedTuple):
    """Which of two records about one window is the later one, when their keys or their partitions differ."""

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
    """Windows of one partition and of equal size, each behind the other, in which no holes are listed."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    """Inclusive."""
    windows: int


class Choices(NamedTuple):
    """What somebody who scans can choose."""

    infer: bool = False
    """Whether to add what follows from the records without being in one."""
    all_tails: bool = False
    """Whether to infer the end of each window, see `gapless_spark.model.window_inference.infer`."""
    skip_stale: bool = False
    """Whether to leave out what no detector will ever update."""
    remembered_windows: int = 5
    """How many windows of a partition the detector remembers."""


class Stale(NamedTuple):
    """What records list whose windows the detector has forgotten."""

    events: int
    windows: int
    """Those with holes."""


class UnreadableRecord(NamedTuple):
    """Where a record stands in the gaps topic that is none, and why."""

    partition: int
    offset: int
    reason: str


AS_REPORTED = Choices()
"""What the records list, no more and no less."""


@dataclass(frozen=True, slots=True)
class WindowFindings:
    """What the gaps topic says."""

    results: tuple[PartitionGaps, ...]
    """Every partition that has a window, in order, complete ones with no ranges."""
    inferred: tuple[PartitionGaps, ...]
    """What of the results is in no record, in order, no partition without ranges."""
    stale: tuple[Stale, ...]
    """For each of the results; they hold it, unless it was to be skipped."""
    told_of: tuple[OffsetRanges, ...]
    """For each of the results the windows that have a record which can be read."""
    choices: Choices
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


def read_windows(  # noqa: PLR0913 -- what the topic says, and what to make of it
    latest: Iterable[LatestRecord],
    complete: Iterable[CompleteWindows] = (),
    *,
    tombstones: int = 0,
    taken_back: Iterable[bytes] = (),
    further_unreadable: int = 0,
    choices: Choices = AS_REPORTED,
) -> WindowFindings:
    """Decode the latest record of each window and join the windows of each partition.

    A null value takes back whatever its key said, and so does an empty one for a window, for that is what tools write
    that cannot write null. A record without a key can neither be replaced nor taken back.

    Args:
        latest: in any order; at most one record for a window.
        complete: windows that are not in `latest`, because nothing is missing in them.
        tombstones: how many there are beyond `latest`.
        taken_back: their keys, in any form; only needed to infer something.
        further_unreadable: how many there are beyond `latest`.
        choices: what to make of it.
    """
    windows: defaultdict[TopicPartition, list[GapRecord]] = defaultdict(list)
    silent: defaultdict[TopicPartition, set[int]] = defaultdict(set)
    unreadable: list[UnreadableRecord] = []
    unreadable_count = further_unreadable
    for record in latest:
        try:
            if _takes_back(record):
                tombstones += 1
                _remember_silent(silent, record.key)
                continue
            window = decode_gap_record(record.key, record.value or b"")
        except UndecodableRecordError as error:
            unreadable_count += 1
            _remember_silent(silent, record.key)
            unreadable.append(UnreadableRecord(record.partition, record.offset, str(error)))
            if len(unreadable) > 100 * LISTED_UNREADABLE:
                unreadable = _first(unreadable)
            continue
        windows[window.topic, window.partition].append(window)
    for key in taken_back:
        _remember_silent(silent, key)
    runs: defaultdict[TopicPartition, list[CompleteWindows]] = defaultdict(list)
    for run in complete:
        runs[run.topic, run.partition].append(run)
    counted = sum(run.windows for found in runs.values() for run in found)
    partitions = [
        _joined(place, windows.get(place, ()), runs.get(place, ()), silent.get(place, set()), choices)
        for place in sorted({*windows, *runs})
    ]
    return WindowFindings(
        results=tuple(partition.gaps for partition in partitions),
        inferred=tuple(
            replace(partition.gaps, ranges=partition.inferred) for partition in partitions if len(partition.inferred)
        ),
        stale=tuple(partition.stale for partition in partitions),
        told_of=tuple(partition.told_of for partition in partitions),
        choices=choices,
        windows=sum(map(len, windows.values())) + counted,
        complete_windows=sum(not window.missing for found in windows.values() for window in found) + counted,
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


def _remember_silent(silent: defaultdict[TopicPartition, set[int]], key: bytes | None) -> None:
    with contextlib.suppress(UndecodableRecordError):
        window = decode_gap_key(key)
        silent[window.topic, window.partition].add(window.window_min)


class _Partition(NamedTuple):
    gaps: PartitionGaps
    inferred: OffsetRanges
    stale: Stale
    told_of: OffsetRanges


def _joined(
    place: TopicPartition,
    windows: Sequence[GapRecord],
    complete: Sequence[CompleteWindows],
    silent: set[int],
    choices: Choices,
) -> _Partition:
    """Join the windows of one partition."""
    together = sorted(
        [
            *(listed_window(window.window_min, window.window_max, window.missing) for window in windows),
            *(complete_windows(run.first_offset, run.last_offset, run.windows) for run in complete),
        ]
    )
    without_news = _silent_windows(together, silent) if choices.infer else []
    spans = _apart(together, without_news)
    remembered = remembered_from(spans, choices.remembered_windows)
    forgotten = [window for window in windows if window.window_min < remembered and len(window.missing)]
    stale = Stale(sum(window.missing.count for window in forgotten), len(forgotten))
    looked_from = remembered if choices.skip_stale else 0
    known = _known([window for window in windows if window.window_min >= looked_from])
    highest = max(span.last_offset for span in spans)
    inferred = OffsetRanges()
    if choices.infer:
        listed = {span.first_offset for span in spans}
        unlisted = (window for window in without_news if window.first_offset not in listed)
        everywhere = infer(sorted([*spans, *unlisted]), all_tails=choices.all_tails)
        inferred = everywhere.clip(looked_from, highest) - known
    # The peer always writes 0 for the lowest window; its resend does not look at the number.
    gaps = PartitionGaps(*place, looked_from, highest, known | inferred)
    return _Partition(gaps, inferred, stale, _covered(spans))


def _silent_windows(spans: Sequence[WindowSpan], silent: set[int]) -> list[WindowSpan]:
    """The windows between the first and the last of `spans` whose record says nothing; they begin at `silent`."""
    size = max(span.window_size for span in spans)
    lowest, highest = spans[0].first_offset, max(span.last_offset for span in spans)
    return [silent_window(first, min(size, MAX_OFFSET - first + 1)) for first in silent if lowest < first <= highest]


def _apart(spans: list[WindowSpan], silent: Sequence[WindowSpan]) -> list[WindowSpan]:
    """Each window by itself where some overlap, or overlap a silent one.

    What follows from a window must not depend on whether it came in a run.
    """
    in_order = sorted([*spans, *silent])
    if all(span.first_offset > before.last_offset for before, span in pairwise(in_order)):
        return spans
    return sorted(
        complete_windows(first, first + span.window_size - 1, 1) if span.windows > 1 else span
        for span in spans
        for first in range(span.first_offset, span.last_offset + 1, span.window_size)
    )


def _covered(spans: Sequence[WindowSpan]) -> OffsetRanges:
    """The windows of `spans`, which come in the order of their first offsets and may overlap."""
    covered = RangesBuilder()
    first, last = spans[0].first_offset, spans[0].last_offset
    for span in spans:
        if span.first_offset > last + 1:
            covered.add(first, last)
            first = span.first_offset
        last = max(last, span.last_offset)
    covered.add(first, last)
    return covered.build()


def _known(windows: Sequence[GapRecord]) -> OffsetRanges:
    """What the records of one partition list; ranges that touch across a border become one.

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
    return in_order.build() | overlapping
