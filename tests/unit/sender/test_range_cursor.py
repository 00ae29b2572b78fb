"""Owns the proof that a walk through wanted offsets finds each of them once, present or missing."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from gapless_api.offsets.ranges import OffsetRanges
from gapless_sender.source.plan import Reason
from gapless_sender.source.range_cursor import RangeCursor


@dataclass(frozen=True)
class Record:
    """What a walk asks of Kafka's messages."""

    number: int
    moment: int = 0

    def offset(self) -> int:
        return self.number

    def value(self) -> bytes | None:
        return None if self.number % 7 == 0 else b"%d" % self.number

    def timestamp(self) -> tuple[int, int]:
        return 1, self.moment


@given(
    st.sets(st.integers(0, 80)),
    st.sets(st.integers(0, 80)),
    st.integers(0, 80),
    st.integers(1, 9),
    st.one_of(st.just(2**63), st.integers(1, 5)),
)
def test_every_wanted_offset_is_found_once(
    wanted: set[int], existing: set[int], cursor: int, batch: int, most_hole_offsets: int
) -> None:
    walk = RangeCursor(OffsetRanges.of_offsets(wanted), cursor, None, None, dict.fromkeys(Reason, most_hole_offsets))
    records = [Record(number) for number in sorted(existing) if number >= cursor]
    chunks = []
    for start in range(0, len(records), batch):
        chunks += list(walk.take(records[start : start + batch]))  # type: ignore[arg-type]
    chunks += list(walk.pass_over(None, Reason.NOT_YET_WRITTEN))
    assert walk.done
    present = [offset for chunk in chunks for offset in chunk.offsets]
    missing = [offset for chunk in chunks for first, last, _ in chunk.holes for offset in range(first, last + 1)]
    expected = {offset for offset in wanted if offset >= cursor}
    assert present == sorted(expected & existing)
    assert missing == sorted(expected - existing)
    values = [value for chunk in chunks for value in chunk.values]
    assert values == [Record(offset).value() or b"" for offset in present]
    reached = -1
    for chunk in chunks:
        found = [*chunk.offsets, *(last for _, last, _ in chunk.holes)]
        assert all(reached < offset < chunk.upto for offset in found)
        assert sum(last - first + 1 for first, last, _ in chunk.holes) <= max(
            most_hole_offsets + batch * most_hole_offsets, 0
        )
        reached = max([reached, *found])


def test_only_holes_that_are_to_be_filled_are_cut() -> None:
    walk = RangeCursor(OffsetRanges([(0, 2**63 - 1)]), 0, None, None, {Reason.EXPIRED: 10})
    expired = list(walk.pass_over(24, Reason.EXPIRED))
    assert [chunk.holes for chunk in expired] == [
        [(0, 9, Reason.EXPIRED)],
        [(10, 19, Reason.EXPIRED)],
        [(20, 24, Reason.EXPIRED)],
    ]
    (rest,) = walk.pass_over(None, Reason.NOT_YET_WRITTEN)
    assert rest.holes == [(25, 2**63 - 1, Reason.NOT_YET_WRITTEN)]


def test_times_are_inclusive_and_what_is_outside_is_told() -> None:
    walk = RangeCursor(OffsetRanges([(0, 9)]), 0, 3, 5)
    (chunk,) = walk.take([Record(offset, moment=offset) for offset in range(10)])  # type: ignore[misc]
    assert chunk.offsets == [3, 4, 5]
    assert [first for first, _ in chunk.outside] == [0, 1, 2, 6, 7, 8, 9]
    assert chunk.upto == 10


def test_reach_ends_before_a_large_hole_and_looks_no_further_than_needed() -> None:
    walk = RangeCursor(OffsetRanges([(0, 5), (10, 12), (1000, 1001)]), 0, None, None)
    assert walk.reach(0, 100, 10_000) == 12
    assert walk.reach(0, 1000, 10_000) == 1001
    assert walk.reach(0, 1000, 4) == 5


def test_a_hole_of_a_thousand_million_offsets_takes_no_time() -> None:
    walk = RangeCursor(OffsetRanges([(0, 10**9)]), 0, None, None)
    (chunk,) = walk.pass_over(10**9 - 1, Reason.EXPIRED)
    assert chunk.holes == [(0, 10**9 - 1, Reason.EXPIRED)]
    assert walk.target == 10**9
