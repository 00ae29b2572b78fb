"""The proof that absent offsets are found as Kafka's reader tells of them, whatever happens meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gapless_api.base.errors import ConfigurationError, SourceStalledError
from gapless_api.inventory.form import PartitionOffsets
from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.offsets.ranges import OffsetRanges
from gapless_sender.inventory.partition_offsets import AbsentOffsetReader
from gapless_sender.source.plan import Reason
from gapless_sender.source.range_cursor import Chunk, RangeCursor
from gapless_sender.source.requests import MappedPartition

PARTITION = MappedPartition("t", 3, "up", 1)


class Scripted:
    """Stands where the reader of Kafka does: its cursor is the real one, and what Kafka holds is said in a list."""

    def __init__(self, *steps: tuple[int, Reason]) -> None:
        """Each step passes over the offsets up to one, inclusive, for a reason; the rest was there."""
        self._steps = steps
        self.begun_at: list[int] = []

    def read(self, _partition: MappedPartition, ranges: RangeCursor) -> Iterator[Chunk]:
        self.begun_at.append(ranges.target)
        for last, reason in self._steps:
            yield from ranges.mark_absent(last, reason)


def absences(source: Scripted, *known: PartitionOffsets, max_ranges: int = 100) -> AbsentOffsetReader:
    named: dict[tuple[str, int], PartitionOffsets] = {(entry.topic, entry.partition): entry for entry in known}
    reader: Any = source
    return AbsentOffsetReader(reader, named, max_ranges=max_ranges)


def entry(first: int, last: int | None, *absent: tuple[int, int], looked: bool = True) -> PartitionOffsets:
    return PartitionOffsets("t", 3, first, last, OffsetRanges(absent) if looked else None)


def test_what_retention_takes_while_we_read_is_cut_off() -> None:
    source = Scripted((14, Reason.EXPIRED), (16, Reason.NON_EXISTENT))
    moved: list[int] = []
    assert absences(source).read(PARTITION, entry(10, 16, looked=False), moved.append) == PartitionOffsets(
        "t", 3, 15, 16, OffsetRanges([(15, 16)])
    )
    assert sum(moved) == 7
    gone = Scripted((16, Reason.EXPIRED))
    assert absences(gone).read(PARTITION, entry(10, 16, looked=False), moved.append) == entry(17, None)


def test_a_partition_that_ends_before_its_end_is_no_inventory() -> None:
    source = Scripted((12, Reason.NON_EXISTENT), (16, Reason.NOT_YET_WRITTEN))
    with pytest.raises(SourceStalledError, match=r"had offset 16 of t/3 \(upstream up/1\) and now ends at 13"):
        absences(source).read(PARTITION, entry(10, 16, looked=False), lambda _: None)


@pytest.mark.parametrize(
    ("known", "begins_at", "absent"),
    [
        (entry(0, 9, (2, 3), (8, 9)), 10, [(8, 9), (19, 19)]),
        (entry(0, 4, (2, 3)), 5, [(5, 5), (19, 19)]),
        (entry(4, None), 5, [(5, 5), (19, 19)]),
        (entry(0, 9, looked=False), 5, [(5, 5), (19, 19)]),
        (entry(0, 30, (7, 7)), 5, [(5, 5), (19, 19)]),
        (entry(6, 9, (7, 7)), 5, [(5, 5), (19, 19)]),
        (entry(0, 19, (7, 7)), None, [(7, 7)]),
    ],
    ids=[
        "goes on", "the log begins later now", "was empty", "nobody had looked", "the topic was made anew",
        "began later", "nothing new",
    ],
)  # fmt: skip
def test_what_an_older_inventory_has_looked_at_is_not_read_again(
    known: PartitionOffsets, begins_at: int | None, absent: list[tuple[int, int]]
) -> None:
    class Holes(Scripted):
        def read(self, _partition: MappedPartition, ranges: RangeCursor) -> Iterator[Chunk]:
            self.begun_at.append(ranges.target)
            missing = [(low, high, Reason.NON_EXISTENT) for low, high in ((5, 5), (19, 19)) if low >= ranges.target]
            yield Chunk([], [], missing, [], ranges.remaining(MAX_OFFSET).last_offset + 1)

    source = Holes()
    looking = absences(source, known)
    now = entry(5, 19, looked=False)
    assert looking.count_offsets([now]) == (0 if begins_at is None else 20 - begins_at)
    found = looking.read(PARTITION, now, lambda _: None)
    assert found.absent is not None
    assert [tuple(one) for one in found.absent] == absent
    assert source.begun_at == ([] if begins_at is None else [begins_at])


def test_more_ranges_than_memory_is_given_for_are_refused() -> None:
    source = Scripted((12, Reason.NON_EXISTENT))
    looking = absences(source, max_ranges=1)
    looking.read(PARTITION, entry(10, 12, looked=False), lambda _: None)
    with pytest.raises(ConfigurationError, match=r"more than 1 ranges .* raise absentLimit"):
        looking.read(PARTITION, entry(10, 12, looked=False), lambda _: None)
