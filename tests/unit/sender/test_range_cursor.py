"""The proof that a cursor through requested offsets finds each of them once, present or missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gapless_api.offsets.ranges import OffsetRanges
from gapless_sender.source.plan import FILLED, NOT_REQUESTED, PartitionPlan, Reason
from gapless_sender.source.range_cursor import RangeCursor
from gapless_sender.source.requests import MappedPartition


@dataclass(frozen=True)
class Record:
    """What a cursor asks of Kafka's messages."""

    number: int
    moment: int = 0

    def offset(self) -> int:
        return self.number

    def value(self) -> bytes | None:
        return None if self.number % 7 == 0 else b"%d" % self.number

    def timestamp(self) -> tuple[int, int]:
        return 1, self.moment


def plan(requested: OffsetRanges, **more: Any) -> PartitionPlan:
    return PartitionPlan(MappedPartition("t", 0, "t", 0), requested, **more)


@given(
    st.sets(st.integers(0, 80)),
    st.sets(st.integers(0, 80)),
    st.integers(0, 80),
    st.integers(1, 9),
    st.one_of(st.just(2**63), st.integers(1, 5)),
)
def test_every_wanted_offset_is_found_once(
    requested: set[int], existing: set[int], cursor: int, batch: int, most_hole_offsets: int
) -> None:
    ranges = RangeCursor(
        plan(OffsetRanges.of_offsets(requested)), cursor, fill=Reason, max_filled=lambda: most_hole_offsets
    )
    records = [Record(number) for number in sorted(existing) if number >= cursor]
    chunks = []
    for start in range(0, len(records), batch):
        chunks += list(ranges.select(records[start : start + batch]))  # type: ignore[arg-type]
    chunks += list(ranges.mark_absent(None, Reason.NOT_YET_WRITTEN))
    assert ranges.done
    present = [offset for chunk in chunks for offset in chunk.offsets]
    missing = [offset for chunk in chunks for first, last, _ in chunk.absent for offset in range(first, last + 1)]
    expected = {offset for offset in requested if offset >= cursor}
    assert present == sorted(expected & existing)
    assert missing == sorted(expected - existing)
    values = [value for chunk in chunks for value in chunk.values]
    assert values == [Record(offset).value() or b"" for offset in present]
    reached = -1
    for chunk in chunks:
        found = [*chunk.offsets, *(last for _, last, _ in chunk.absent)]
        assert all(reached < offset < chunk.upto for offset in found)
        assert sum(last - first + 1 for first, last, _ in chunk.absent) <= max(
            most_hole_offsets + batch * most_hole_offsets, 0
        )
        reached = max([reached, *found])


def test_only_holes_that_are_to_be_filled_are_cut() -> None:
    ranges = RangeCursor(plan(OffsetRanges([(0, 2**63 - 1)])), 0, fill={Reason.EXPIRED}, max_filled=lambda: 10)
    expired = list(ranges.mark_absent(24, Reason.EXPIRED))
    assert [chunk.absent for chunk in expired] == [
        [(0, 9, FILLED)],
        [(10, 19, FILLED)],
        [(20, 24, FILLED)],
    ]
    (rest,) = ranges.mark_absent(None, Reason.NOT_YET_WRITTEN)
    assert rest.absent == [(25, 2**63 - 1, Reason.NOT_YET_WRITTEN)]


def test_times_are_inclusive_and_what_is_outside_is_told() -> None:
    ranges = RangeCursor(plan(OffsetRanges([(0, 9)])), 0, first_ms=3, last_ms=5)
    (chunk,) = ranges.select([Record(offset, moment=offset) for offset in range(10)])  # type: ignore[misc]
    assert chunk.offsets == [3, 4, 5]
    assert [first for first, _ in chunk.outside] == [0, 1, 2, 6, 7, 8, 9]
    assert chunk.upto == 10


def test_reach_ends_before_a_large_hole_and_looks_no_further_than_needed() -> None:
    ranges = RangeCursor(plan(OffsetRanges([(0, 5), (10, 12), (1000, 1001)])), 0)
    assert ranges.end_of_read(0, 100, 10_000) == 12
    assert ranges.end_of_read(0, 1000, 10_000) == 1001
    assert ranges.end_of_read(0, 1000, 4) == 5


def test_a_hole_of_a_thousand_million_offsets_takes_no_time() -> None:
    ranges = RangeCursor(plan(OffsetRanges([(0, 10**9)])), 0)
    (chunk,) = ranges.mark_absent(10**9 - 1, Reason.EXPIRED)
    assert chunk.absent == [(0, 10**9 - 1, Reason.EXPIRED)]
    assert ranges.target == 10**9


def test_what_becomes_of_an_absent_offset_follows_from_its_reason_the_plan_and_what_is_filled() -> None:
    open_end = plan(OffsetRanges([(0, 9)]), open_from=4, numbered=OffsetRanges([(8, 8)]))
    records: Any = [Record(1), Record(5)]
    asked = RangeCursor(open_end, 0)
    (chunk,) = asked.select(records)
    missing, unwanted = Reason.NON_EXISTENT, NOT_REQUESTED
    assert (chunk.offsets, chunk.absent) == ([1, 5], [(0, 0, missing), (2, 3, missing), (4, 4, unwanted)])
    (end,) = asked.mark_absent(8, Reason.NON_EXISTENT)
    assert sorted(end.absent) == [(6, 7, unwanted), (8, 8, missing)]
    (rest,) = asked.mark_absent(None, Reason.NOT_YET_WRITTEN)
    assert rest.absent == [(9, 9, Reason.NOT_YET_WRITTEN)]
    (filled,) = RangeCursor(open_end, 0, fill={Reason.NON_EXISTENT}).select(records)
    assert filled.absent == [(0, 0, FILLED), (2, 4, FILLED)]
