"""When events arrived, at samples of the offsets of a partition, and so when missing events were lost.

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
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.codec.canonical import moment_text
from gapless_api.wire.lost_times import LostHour, LostTimes

if TYPE_CHECKING:
    from gapless_api.offsets.ranges import OffsetRanges

BLOCK_BITS = 20
"""A block has 2^20 offsets."""
_POSITION = (1 << BLOCK_BITS) - 1
PART_SIZE = 1 << 10
"""Of so many offsets, one sample is kept."""
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
            part = position_of_sample(sample) // PART_SIZE
            known = self._earliest.get(part)
            if known is None or sample < known:
                self._earliest[part] = sample

    def pack(self) -> array[int]:
        """Return the samples, one number each, ascending by position."""
        return array("q", [self._earliest[part] for part in sorted(self._earliest)])


NO_SAMPLES = Samples().pack()


def position_of_sample(sample: int) -> int:
    """Return the position in its block."""
    return sample & _POSITION


def merge_samples(some: array[int], others: array[int]) -> array[int]:
    """Return the earliest samples of both."""
    if not some or not others:
        return some or others
    merged = Samples(some)
    merged.update(others)
    return merged.pack()


def samples_below(samples: array[int], end: int) -> array[int]:
    """Return the samples at positions below `end`."""
    return array("q", [sample for sample in samples if position_of_sample(sample) < end])


def _beginning_of_hour(time: int) -> int:
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
            (first_offset + position_of_sample(sample), sample >> BLOCK_BITS)
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

    def hours(self, offset: int = 0) -> Iterator[tuple[int, int, int | None]]:
        """Yield the hours from that of `offset` on: their beginning, and the offsets that were due in them.

        Between two samples, offsets are taken to be due at equal intervals. An end is exclusive; it is ``None`` for the
        hour of the last sample. Offsets before the first sample are in no hour.
        """
        hour = self._hour_of(offset) if self.offsets else None
        while hour is not None:
            following = self._hour_after(hour)
            yield hour, self.due(hour), None if following is None else self.due(following)
            hour = following

    def due(self, hour: int) -> int:
        """Return the first offset that was due from `hour` on, which must not be after the last sample."""
        index = bisect_left(self.times, hour)
        if index == 0:
            return self.offsets[0]
        before, time = self.offsets[index - 1], self.times[index - 1]
        return before - -(self.offsets[index] - before) * (hour - time) // (self.times[index] - time)

    def _hour_of(self, offset: int) -> int:
        index = bisect_right(self.offsets, offset) - 1
        if index < 0 or index == len(self.offsets) - 1:
            return _beginning_of_hour(self.times[max(index, 0)])
        before, time = self.offsets[index], self.times[index]
        passed = (offset - before) * (self.times[index + 1] - time) // (self.offsets[index + 1] - before)
        hour, begin = _beginning_of_hour(time + passed), _beginning_of_hour(time)
        following = self._hour_after(begin)
        return begin if following is None or hour < following else hour

    def _hour_after(self, hour: int) -> int | None:
        following = hour + HOUR_MILLISECONDS
        if following > self.times[-1]:
            return None
        next_sample = _beginning_of_hour(self.times[bisect_left(self.times, following)])
        # Whatever was lost in years without an event counts for their first hour.
        return next_sample if next_sample - following > _MAX_EMPTY_HOURS * HOUR_MILLISECONDS else following


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
    missing = Counter[int]()
    bounds = [each.arrivals.around(each.missing.first_offset, each.missing.last_offset) for each in losses]
    for each in losses:
        for hour, count in _missing_by_hour(each.missing, each.arrivals):
            missing[hour] += count
    hours = sorted(missing)
    named = hours[-max_hours:]
    expected = {hour: sum(_expected_in(hour, each.expected, each.arrivals) for each in losses) for hour in named}
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
            for hour in named
        ),
        hours_omitted=max(len(hours) - max_hours, 0),
    )


def _missing_by_hour(missing: OffsetRanges, arrivals: Arrivals) -> Iterator[tuple[int, int]]:
    """Yield the hours with missing offsets, and how many; a state knows of years, and few of their hours have any."""
    offset = missing.next_offset(arrivals.offsets[0]) if arrivals.offsets else None
    while offset is not None:
        hour, _, end = next(arrivals.hours(offset))
        yield hour, missing.clip(offset, missing.last_offset if end is None else end - 1).count
        offset = None if end is None else missing.next_offset(end)


def _expected_in(hour: int, expected: OffsetRanges, arrivals: Arrivals) -> int:
    """Return how many of the expected offsets of a partition were due in an hour."""
    if not arrivals.times or not _beginning_of_hour(arrivals.times[0]) <= hour <= arrivals.times[-1]:
        return 0
    begin, first, end = next(arrivals.hours(arrivals.due(hour)))
    if begin != hour:  # nothing was due in it
        return 0
    return expected.clip(first, expected.last_offset if end is None else end - 1).count


def _known(outermost: Callable[[list[int]], int], times: Sequence[int | None]) -> int | None:
    """Return the outermost time, if all are known."""
    known = [time for time in times if time is not None]
    return outermost(known) if known and len(known) == len(times) else None
