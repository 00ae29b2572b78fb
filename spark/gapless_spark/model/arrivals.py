"""Owns when events arrived, at samples of the offsets of a partition, and so when missing events were lost.

Must not know Kafka, bitmaps or reports. A sample is an offset of a received event and the timestamp of its record,
which the receiver wrote. Only the earliest sample of each 2^10 offsets is kept, as one number: the time in
milliseconds, followed by 20 bits for the position in the block.

An event that arrives later than one with a higher offset was sent again, or was late; it does not tell when its
neighbours were due, so its sample is not used.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.codec.canonical import moment_text
from gapless_api.wire.lost_times import LostHour, LostTimes

if TYPE_CHECKING:
    from gapless_api.offsets.ranges import OffsetRanges

BLOCK_BITS = 20
"""A block has 2^20 offsets."""
_POSITION = (1 << BLOCK_BITS) - 1
_PART_BITS = 10
_END_OF_TIME = 1 << (63 - BLOCK_BITS)
"""The year 2248: later times are errors of a clock, and do not fit."""
_FIRST_TIME = 1_293_840_000_000
"""2011, when there was no Kafka yet: a machine that has started without a clock. One such time would make all before it
late."""
HOUR_MILLISECONDS = 3_600_000
_MAX_EMPTY_HOURS = 10_000


class Samples:
    """The earliest sample of each part of a block, while a block is read or merged."""

    def __init__(self, packed: Iterable[int] = ()) -> None:
        self._earliest: dict[int, int] = {}
        self.update(packed)

    def add(self, position: int, time: int) -> None:
        """Add a sample: the position of an event in its block, and when it arrived, in milliseconds."""
        if _FIRST_TIME <= time < _END_OF_TIME:
            self.update((time << BLOCK_BITS | position,))

    def update(self, packed: Iterable[int]) -> None:
        """Add what `pack` of others has returned."""
        for sample in packed:
            part = (sample & _POSITION) >> _PART_BITS
            known = self._earliest.get(part)
            if known is None or sample < known:
                self._earliest[part] = sample

    def pack(self) -> array[int]:
        """Return the samples, one number each, ascending by position."""
        return array("q", [self._earliest[part] for part in sorted(self._earliest)])


NO_SAMPLES = Samples().pack()


def merge_samples(some: array[int], others: array[int]) -> array[int]:
    """Return the earliest samples of both."""
    if not some or not others:
        return some or others
    merged = Samples(some)
    merged.update(others)
    return merged.pack()


def samples_below(samples: array[int], end: int) -> array[int]:
    """Return the samples at positions below `end`."""
    return array("q", [sample for sample in samples if sample & _POSITION < end])


def _hour_of(time: int) -> int:
    return time - time % HOUR_MILLISECONDS


@dataclass(frozen=True, slots=True)
class Arrivals:
    """When events of a partition arrived for the first time; both columns are ascending and equally long."""

    offsets: Sequence[int] = ()
    times: Sequence[int] = ()
    """In milliseconds since 1970."""

    @classmethod
    def of(cls, blocks: Iterable[tuple[int, array[int]]]) -> Arrivals:
        """Unpack the samples of blocks.

        Args:
            blocks: the first offset of each block, ascending, and its samples.
        """
        samples = [
            (first_offset + (sample & _POSITION), sample >> BLOCK_BITS)
            for first_offset, packed in blocks
            for sample in packed
        ]
        offsets, times, earliest = array("q"), array("q"), _END_OF_TIME
        for offset, time in reversed(samples):
            if time <= earliest:
                offsets.append(offset)
                times.append(time)
                earliest = time
        return cls(offsets[::-1], times[::-1])

    def around(self, first: int, last: int) -> tuple[int | None, int | None]:
        """Return when the nearest events before `first` and after `last` arrived; ``None`` where none is known."""
        before, after = bisect_left(self.offsets, first), bisect_right(self.offsets, last)
        return (
            self.times[before - 1] if before else None,
            self.times[after] if after < len(self.offsets) else None,
        )

    def hours(self) -> Iterator[tuple[int, int, int | None]]:
        """Yield the hours from the first to the last sample: their beginning, and the offsets that were due in them.

        Between two samples, offsets are taken to be due at equal intervals. An end is exclusive; it is ``None`` for the
        last hour.
        """
        if not self.offsets:
            return
        begin, first = _hour_of(self.times[0]), self.offsets[0]
        for (offset, time), (following, next_time) in pairwise(zip(self.offsets, self.times, strict=True)):
            next_hour, last_hour = begin + HOUR_MILLISECONDS, _hour_of(next_time)
            if last_hour - next_hour > _MAX_EMPTY_HOURS * HOUR_MILLISECONDS:
                next_hour = last_hour  # whatever was lost in years without an event counts for their first hour
            for hour in range(next_hour, last_hour + 1, HOUR_MILLISECONDS):
                due = offset + -(-(following - offset) * (hour - time) // (next_time - time))
                yield begin, first, due
                begin, first = hour, due
        yield begin, first, None


def lost_members(arrivals: Arrivals, missing: OffsetRanges) -> dict[str, str | None]:
    """Return the members of the report that say between which times the missing offsets of a partition were lost."""
    first, last = (missing.first_offset, missing.last_offset) if len(missing) else (None, None)
    after, before = (None, None) if first is None or last is None else arrivals.around(first, last)
    return {"lost_after": time_text(after), "lost_before": time_text(before)}


def time_text(milliseconds: int | None) -> str | None:
    """Return a time as text, such as 2026-11-20T10:00:00Z."""
    return None if milliseconds is None else moment_text(datetime.fromtimestamp(milliseconds / 1000, UTC))


class Losses(NamedTuple):
    """A partition with missing offsets, and when its events arrived."""

    missing: OffsetRanges
    """At least one."""
    expected: OffsetRanges
    arrivals: Arrivals


def lost_times(losses: Sequence[Losses], *, max_hours: int) -> LostTimes:
    """Return when the missing offsets of all partitions were lost.

    Offsets before the first sample of a partition count for no hour, and those after the last one for the last hour.

    Args:
        losses: the partitions with missing offsets.
        max_hours: how many hours are named, the newest ones.
    """
    missing, expected = Counter[int](), Counter[int]()
    bounds = [each.arrivals.around(each.missing.first_offset, each.missing.last_offset) for each in losses]
    for each in losses:
        for hour, first, end in each.arrivals.hours():
            last = max(each.missing.last_offset, each.expected.last_offset) if end is None else end - 1
            missing[hour] += each.missing.clip(first, last).count
            expected[hour] += each.expected.clip(first, last).count
    hours = sorted(hour for hour, count in missing.items() if count)
    return LostTimes(
        after=time_text(_known(min, [after for after, _ in bounds])),
        before=time_text(_known(max, [before for _, before in bounds])),
        hours=tuple(
            LostHour(
                hour=str(time_text(hour)),
                missing=missing[hour],
                expected=expected[hour],
                percent=round(100 * missing[hour] / expected[hour], 2) if expected[hour] else None,
            )
            for hour in hours[-max_hours:]
        ),
        hours_omitted=max(len(hours) - max_hours, 0),
    )


def _known(outermost: Callable[[list[int]], int], times: Sequence[int | None]) -> int | None:
    """Return the outermost time, if all are known."""
    known = [time for time in times if time is not None]
    return outermost(known) if known and len(known) == len(times) else None
