from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.offsets.range_accumulator import RangeAccumulator
from gapless_api.offsets.ranges import OffsetRanges

PIECES = st.lists(
    st.lists(st.tuples(st.integers(0, 80), st.integers(0, 2)).map(lambda pair: (pair[0], sum(pair))), max_size=5),
    max_size=6,
)


def listed(pieces: list[list[tuple[int, int]]]) -> RangeAccumulator:
    """What a reader makes of the pieces of one list."""
    found, previous, ascending = RangeAccumulator(), -2, True
    for piece in pieces:
        for first, last in piece:
            ascending, previous = ascending and first > previous + 1, last
        found.extend([first for first, _ in piece], [last for _, last in piece], ascending=ascending)
    return found


@given(PIECES, PIECES, st.booleans())
def test_ranges_in_any_order_become_one_set_unless_two_overlap(
    one: list[list[tuple[int, int]]],
    other: list[list[tuple[int, int]]],
    joins: bool,  # noqa: FBT001
) -> None:
    found, pairs = listed(one), [pair for piece in one for pair in piece]
    if joins:
        found.join(listed(other))
        pairs += [pair for piece in other for pair in piece]
    assert len(found) == len(pairs)
    if not joins:
        assert found.ascending == all(before[1] + 1 < after[0] for before, after in pairwise(pairs))
    if any(before[1] >= after[0] for before, after in pairwise(sorted(pairs))):
        with pytest.raises(ValueError, match=r"^\d+$"):
            found.build()
    else:
        assert found.build() == OffsetRanges(pairs)


def test_ranges_that_ascend_are_kept_when_another_list_takes_them() -> None:
    found, other = listed([[(40, 41)]]), listed([[(0, 1)], [(10, 12)]])
    found.join(other)
    assert len(found) == 3
    assert found.build() == OffsetRanges([(0, 1), (10, 12), (40, 41)])


@pytest.mark.parametrize("lowest", [0, 1])
def test_ranges_out_of_order_may_begin_at_the_lowest_offsets(lowest: int) -> None:
    found = listed([[(7, 9)], [(lowest, lowest)]])
    assert found.build() == OffsetRanges([(lowest, lowest), (7, 9)])
