"""The comparison of received offsets with expected offsets, per source partition.

Plain runs of offsets in, plain findings out. Must not know Spark, bitmaps or Kafka.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple

from gapless_api.bundle.form import PartitionGaps
from gapless_api.offsets.ids import MAX_OFFSET, TopicPartition
from gapless_api.offsets.ranges import OffsetRanges
from gapless_spark.model.arrivals import BLOCK_BITS, NO_SAMPLES, Arrivals
from gapless_spark.model.expectations import Bounds, Expectation
from gapless_spark.model.expired_records import NOTHING_EXPIRED


class ReceivedBlock(NamedTuple):
    """The offsets of one source partition that were received in one block."""

    topic: str
    partition: int
    number: int
    """Blocks of a partition do not overlap, and are in the order of their numbers."""
    records: int
    offsets: int
    """The number of different offsets."""
    firsts: array[int]
    lasts: array[int]
    """First and last offset of each run, both inclusive and absolute."""
    samples: array[int] = NO_SAMPLES
    """When some of them arrived, see `arrivals`."""


@dataclass(frozen=True, slots=True)
class ReceivedPartition:
    """The received, expected and missing offsets of a source partition."""

    topic: str
    partition: int
    records: int
    received: int
    """The number of different offsets."""
    first_received: int | None
    last_received: int | None
    expected: OffsetRanges
    absent: OffsetRanges
    """Offsets without an event upstream."""
    bounds: Bounds
    """Where the expectation comes from."""
    missing: OffsetRanges
    beyond: OffsetRanges
    """Offsets that were received but not expected."""
    unknown: OffsetRanges = field(default_factory=OffsetRanges)
    """Expected offsets that may have been received in records that were deleted before an audit read them, or before
    the upstream log was found to be truncated."""
    ambiguous_from: int | None = None
    """The first offset that identified other events before the upstream log was truncated; ``None`` for none."""
    arrivals: Arrivals = field(default_factory=Arrivals)

    @property
    def unexpected(self) -> int:
        """The number of received offsets outside of the configured expectation."""
        return self.beyond.count if self.bounds is Bounds.GIVEN else 0

    @property
    def outside_inventory(self) -> int:
        """The number of received offsets older or newer than the inventory, or absent upstream; not unexpected."""
        return self.beyond.count if self.bounds is Bounds.INVENTORY else 0

    @property
    def known(self) -> OffsetRanges:
        """The offsets for which an audit knows whether they were received."""
        return (self.expected | self.beyond) - self.unknown

    @property
    def given(self) -> bool:
        """Whether an expectation is given; if not, all offsets from the lowest to the highest received are expected."""
        return self.bounds is not Bounds.SEEN

    @property
    def duplicates(self) -> int:
        """The number of records that repeat an offset."""
        return self.records - self.received

    def gaps(self, *, with_unknown: bool = False) -> PartitionGaps | None:
        """Return the partition's entry in a bundle; in its window nothing is missing except the listed ranges.

        The window has no holes: it is the last range of expected offsets whose state is known. It is empty (1 to 0) if
        nothing was expected or received. ``None`` if the last expected offset is unknown.
        """
        spans, missing = [ranges for ranges in (self.expected, self.absent) if len(ranges)], self.missing
        checked = self.expected | self.absent | self.beyond
        if not len(checked):
            return PartitionGaps(self.topic, self.partition, 1, 0, missing)
        last = max((ranges.last_offset for ranges in spans), default=checked.last_offset)
        if with_unknown:
            missing |= self.unknown
        else:
            checked -= self.unknown
        index = checked.index_reaching(last)
        if index == len(checked) or checked[index].first > last:
            return None
        first = max(checked[index].first, min((ranges.first_offset for ranges in spans), default=0))
        return PartitionGaps(self.topic, self.partition, first, last, missing)


def _none_expired(_key: TopicPartition) -> int:
    return NOTHING_EXPIRED


def compare(
    blocks: Iterable[ReceivedBlock],
    expected: Mapping[TopicPartition, Expectation],
    frontier: Callable[[TopicPartition], int] = _none_expired,
    replaced: Mapping[TopicPartition, OffsetRanges] = MappingProxyType({}),
) -> tuple[ReceivedPartition, ...]:
    """Find the missing offsets of all partitions that were received or expected, sorted by partition.

    Args:
        blocks: in any order.
        expected: the expected offsets; in a partition without an entry, all offsets from the lowest to the highest
            received are expected.
        frontier: returns the highest offset of a partition that may have been received and deleted before it was read;
            offsets up to it that were not received are unknown and not missing.
        replaced: offsets that identified other events before the upstream log was truncated, and of which was forgotten
            what was received: those that were not received again are unknown and not missing.
    """
    by_partition: defaultdict[TopicPartition, list[ReceivedBlock]] = defaultdict(list)
    for block in blocks:
        by_partition[block.topic, block.partition].append(block)
    return tuple(
        _compare_partition(
            key, by_partition.get(key, ()), expected.get(key), frontier(key), replaced.get(key, OffsetRanges())
        )
        for key in sorted({*by_partition, *expected})
    )


def _compare_partition(
    key: TopicPartition,
    blocks: Sequence[ReceivedBlock],
    given: Expectation | None,
    frontier: int,
    replaced: OffsetRanges,
) -> ReceivedPartition:
    blocks = sorted(blocks, key=attrgetter("number"))
    firsts, lasts = _runs(blocks)
    if given is None:
        # Entire arrays at once, because there may be millions of runs.
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
    ambiguous_from = given.ambiguous_from if given is not None else None
    unknown |= missing & replaced
    if ambiguous_from is not None:
        unknown |= (expected | beyond).clip(ambiguous_from, MAX_OFFSET)
    elif len(replaced):
        ambiguous_from = replaced.first_offset
    missing -= unknown
    return ReceivedPartition(
        *key,
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
        ambiguous_from=ambiguous_from,
        arrivals=Arrivals.of((block.number << BLOCK_BITS, block.samples) for block in blocks),
    )


def _runs(blocks: Sequence[ReceivedBlock]) -> tuple[array[int], array[int]]:
    """Return the first and last offset of every run; a run that continues in the next block is one run."""
    firsts, lasts = array("q"), array("q")
    for block in blocks:
        continues = bool(lasts) and bool(block.firsts) and lasts[-1] + 1 == block.firsts[0]
        if continues:
            lasts.pop()
        firsts.extend(block.firsts[1:] if continues else block.firsts)
        lasts.extend(block.lasts)
    return firsts, lasts
