"""Owns the comparison of what was received with what was expected, per source partition.

Plain runs of offsets in, plain findings out. Must not know Spark, bitmaps or Kafka.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.bundle_form import PartitionGaps
from gapless_api.offsets import OffsetRanges, RangesBuilder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class ReceivedBlock(NamedTuple):
    """What was received of one source partition in one block of offsets."""

    topic: str
    partition: int
    number: int
    """Blocks of a partition do not overlap and rise with their number."""
    records: int
    offsets: int
    """How many different ones."""
    firsts: Sequence[int]
    lasts: Sequence[int]
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
    given: bool
    """Whether somebody said what is expected; else it is everything from the lowest to the highest received."""
    missing: OffsetRanges
    unexpected: int
    """How many of the received offsets nobody expected."""

    @property
    def duplicates(self) -> int:
        """How many records repeat an offset."""
        return self.records - self.received

    def gaps(self) -> PartitionGaps:
        """What a bundle says of it."""
        expected = self.expected
        return PartitionGaps(self.topic, self.partition, expected.first_offset, expected.last_offset, self.missing)


def compare(
    blocks: Iterable[ReceivedBlock], expected: Mapping[tuple[str, int], OffsetRanges]
) -> tuple[ReceivedPartition, ...]:
    """Find what is missing in every partition that was received or expected, in their order.

    Args:
        blocks: in any order.
        expected: the offsets that should be there; a partition that is not named is expected to hold everything
            between the lowest and the highest offset received.
    """
    by_place: defaultdict[tuple[str, int], list[ReceivedBlock]] = defaultdict(list)
    for block in blocks:
        by_place[block.topic, block.partition].append(block)
    places = sorted({*by_place, *expected})
    return tuple(_compared(place, by_place.get(place, ()), expected.get(place)) for place in places)


def _compared(place: tuple[str, int], blocks: Sequence[ReceivedBlock], given: OffsetRanges | None) -> ReceivedPartition:
    received = RangesBuilder()
    for block in sorted(blocks, key=lambda block: block.number):
        for first, last in zip(block.firsts, block.lasts, strict=True):
            received.add(first, last)
    ranges = received.build()
    expected = given if given is not None else OffsetRanges([(ranges.first_offset, ranges.last_offset)])
    return ReceivedPartition(
        *place,
        records=sum(block.records for block in blocks),
        received=sum(block.offsets for block in blocks),
        first_received=ranges.first_offset if len(ranges) else None,
        last_received=ranges.last_offset if len(ranges) else None,
        expected=expected,
        given=given is not None,
        missing=expected - ranges,
        unexpected=(ranges - expected).count if given is not None else 0,
    )
