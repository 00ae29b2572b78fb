"""Owns the comparison of what was received with what was expected, per source partition.

Plain runs of offsets in, plain findings out. Must not know Spark, bitmaps or Kafka.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.bundle.form import PartitionGaps
from gapless_api.offsets.ranges import OffsetRanges
from gapless_spark.model.expectations import Bounds
from gapless_spark.model.expired_records import NOTHING_EXPIRED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gapless_api.offsets.ids import TopicPartition
    from gapless_spark.model.expectations import Expectation


class ReceivedBlock(NamedTuple):
    """What was received of one source partition in one block of offsets."""

    topic: str
    partition: int
    number: int
    """Blocks of a partition do not overlap and rise with their number."""
    records: int
    offsets: int
    """How many different ones."""
    firsts: array[int]
    lasts: array[int]
    """First and last offset of each run, both inclusive and absolute."""


@dataclass(frozen=True, slots=True)
class ReceivedPartition:
    """How complete a source partition is."""

    topic: str
    partition: int
    records: int
    received: int
    """How many different offsets."""
    first_received: int | None
    last_received: int | None
    expected: OffsetRanges
    absent: OffsetRanges
    """What is known to be no events."""
    bounds: Bounds
    """Who said what is expected."""
    missing: OffsetRanges
    beyond: OffsetRanges
    """What was received although it was not expected."""
    unknown: OffsetRanges = field(default_factory=OffsetRanges)
    """What was expected and perhaps received, in records that were deleted before an audit read them."""

    @property
    def unexpected(self) -> int:
        """How many of the received offsets nobody expected, where somebody should have."""
        return self.beyond.count if self.bounds is Bounds.GIVEN else 0

    @property
    def outside_inventory(self) -> int:
        """How many are older or newer than the inventory, or absent upstream: neither missing nor unexpected."""
        return self.beyond.count if self.bounds is Bounds.INVENTORY else 0

    @property
    def known(self) -> OffsetRanges:
        """The offsets of which an audit can say whether they are there."""
        return (self.expected | self.beyond) - self.unknown

    @property
    def given(self) -> bool:
        """Whether somebody said what is expected; else it is everything from the lowest to the highest received."""
        return self.bounds is not Bounds.SEEN

    @property
    def duplicates(self) -> int:
        """How many records repeat an offset."""
        return self.records - self.received

    def gaps(self, *, with_unknown: bool = False) -> PartitionGaps | None:
        """What a bundle says of it; its window is where nothing is missing but what it lists.

        A window has no holes: it is the last part of what was expected, of which everything is known. It is empty (1 to
        0) where nothing was expected or received. ``None`` where what was expected in that part is unknown.
        """
        spans, missing = [ranges for ranges in (self.expected, self.absent) if len(ranges)], self.missing
        told = self.expected | self.absent | self.beyond
        if not len(told):
            return PartitionGaps(self.topic, self.partition, 1, 0, missing)
        last = max((ranges.last_offset for ranges in spans), default=told.last_offset)
        if with_unknown:
            missing |= self.unknown
        else:
            told -= self.unknown
        index = told.index_reaching(last)
        if index == len(told) or told[index].first > last:
            return None
        first = max(told[index].first, min((ranges.first_offset for ranges in spans), default=0))
        return PartitionGaps(self.topic, self.partition, first, last, missing)


def _none_expired(_place: TopicPartition) -> int:
    return NOTHING_EXPIRED


def compare(
    blocks: Iterable[ReceivedBlock],
    expected: Mapping[TopicPartition, Expectation],
    frontier: Callable[[TopicPartition], int] = _none_expired,
) -> tuple[ReceivedPartition, ...]:
    """Find what is missing in every partition that was received or expected, in their order.

    Args:
        blocks: in any order.
        expected: the offsets that should be there; a partition that is not named is expected to hold everything
            between the lowest and the highest offset received.
        frontier: the highest offset of a partition that may have been received and deleted before it was read; what is
            not there up to it is unknown and not missing.
    """
    by_place: defaultdict[TopicPartition, list[ReceivedBlock]] = defaultdict(list)
    for block in blocks:
        by_place[block.topic, block.partition].append(block)
    places = sorted({*by_place, *expected})
    return tuple(_compared(place, by_place.get(place, ()), expected.get(place), frontier(place)) for place in places)


def _compared(
    place: TopicPartition, blocks: Sequence[ReceivedBlock], given: Expectation | None, frontier: int
) -> ReceivedPartition:
    firsts, lasts = _runs(sorted(blocks, key=lambda block: block.number))
    if given is None:
        # Whole arrays at a time: there may be millions of runs.
        holes = array("q", (last + 1 for last in lasts[:-1])), array("q", (first - 1 for first in firsts[1:]))
        expected, missing = OffsetRanges([(firsts[0], lasts[-1])]), OffsetRanges.of_canonical(*holes)
        beyond = OffsetRanges()
    else:
        ranges = OffsetRanges.of_canonical(firsts, lasts)
        expected = given.offsets
        missing, beyond = expected - ranges, ranges - expected
    unknown = OffsetRanges()
    if frontier != NOTHING_EXPIRED:
        unknown = missing.clip(0, frontier)
        missing -= unknown
    return ReceivedPartition(
        *place,
        records=sum(block.records for block in blocks),
        received=sum(block.offsets for block in blocks),
        first_received=firsts[0] if firsts else None,
        last_received=lasts[-1] if lasts else None,
        expected=expected,
        absent=given.absent if given is not None else OffsetRanges(),
        bounds=given.bounds if given is not None else Bounds.SEEN,
        missing=missing,
        beyond=beyond,
        unknown=unknown,
    )


def _runs(blocks: Sequence[ReceivedBlock]) -> tuple[array[int], array[int]]:
    """First and last offset of every run; one that goes on in the next block is one run."""
    firsts, lasts = array("q"), array("q")
    for block in blocks:
        goes_on = bool(lasts) and bool(block.firsts) and lasts[-1] + 1 == block.firsts[0]
        if goes_on:
            lasts.pop()
        firsts.extend(block.firsts[1:] if goes_on else block.firsts)
        lasts.extend(block.lasts)
    return firsts, lasts
