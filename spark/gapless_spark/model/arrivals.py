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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from gapless_api.codec.canonical import moment_text

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
        """Yield the hours in which events arrived: their beginning, and the offsets from their first sample on.

        The offsets end before the first sample of the next hour, which is ``None`` for the last one.
        """
        starts: list[tuple[int, int]] = []
        for offset, time in zip(self.offsets, self.times, strict=True):
            hour = time - time % HOUR_MILLISECONDS
            if not starts or starts[-1][0] != hour:
                starts.append((hour, offset))
        for index, (hour, first) in enumerate(starts):
            yield hour, first, starts[index + 1][1] if index + 1 < len(starts) else None


class LostHour(NamedTuple):
    """The losses of one hour."""

    begin: int
    """In milliseconds since 1970."""
    missing: int
    expected: int

    def members(self) -> dict[str, Any]:
        """Return the members of the report."""
        percent = round(100 * self.missing / self.expected, 2) if self.expected else None
        return {"hour": time_text(self.begin), "missing": self.missing, "expected": self.expected, "percent": percent}


def lost_members(arrivals: Arrivals, missing: OffsetRanges) -> dict[str, str | None]:
    """Return the members of the report that say between which times the missing offsets of a partition were lost."""
    first, last = (missing.first_offset, missing.last_offset) if len(missing) else (None, None)
    after, before = (None, None) if first is None or last is None else arrivals.around(first, last)
    return {"lost_after": time_text(after), "lost_before": time_text(before)}


def time_text(milliseconds: int | None) -> str | None:
    """Return a time as text, such as 2026-11-20T10:00:00Z."""
    return None if milliseconds is None else moment_text(datetime.fromtimestamp(milliseconds / 1000, UTC))


def lost_hours(partitions: Iterable[tuple[OffsetRanges, OffsetRanges, Arrivals]]) -> list[LostHour]:
    """Return the hours in which events were lost, ascending.

    An offset belongs to the hour of the last sample before it, so a loss can count for the hour before its own. Offsets
    before the first sample of a partition count for none.

    Args:
        partitions: the missing offsets of a partition, the expected ones, and when its events arrived.
    """
    missing, expected = Counter[int](), Counter[int]()
    for gaps, wanted, arrivals in partitions:
        if not len(gaps):
            continue
        for hour, first, end in arrivals.hours():
            last = max(gaps.last_offset, wanted.last_offset) if end is None else end - 1
            missing[hour] += gaps.clip(first, last).count
            expected[hour] += wanted.clip(first, last).count
    return [LostHour(hour, count, expected[hour]) for hour, count in sorted(missing.items()) if count]
