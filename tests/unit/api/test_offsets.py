from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import pairwise
from unittest.mock import ANY

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.offsets import ranges as offsets_module
from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.offsets.ranges import OffsetRange, OffsetRanges, RangesBuilder


@pytest.fixture(autouse=True, params=[2, 1024], ids=["small blocks", "blocks"], scope="module")
def block_ranges(request: pytest.FixtureRequest) -> Iterator[int]:
    """How many ranges are in a block: in small ones the tests' sets go over many borders."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(offsets_module, "_BLOCK_RANGES", request.param)
        yield request.param


# Near both ends of what Kafka can give, so that every test meets the largest offset.
BASES = st.sampled_from([0, 2**32 - 30, 2**53 - 30, MAX_OFFSET - 60])
OFFSETS = st.sets(st.integers(0, 60), max_size=40)


@st.composite
def two_sets(draw: st.DrawFn) -> tuple[set[int], set[int]]:
    base = draw(BASES)
    return {base + o for o in draw(OFFSETS)}, {base + o for o in draw(OFFSETS)}


def expanded(ranges: OffsetRanges) -> set[int]:
    return {offset for first, last in ranges for offset in range(first, last + 1)}


def assert_canonical(ranges: OffsetRanges) -> None:
    pairs = list(ranges)
    assert all(first <= last for first, last in pairs)
    assert all(one.last + 1 < other.first for one, other in pairwise(pairs))


@given(two_sets())
def test_the_algebra_is_that_of_sets(both: tuple[set[int], set[int]]) -> None:
    ours, theirs = map(OffsetRanges.of_offsets, both)
    mine, other = both
    for result, wanted in ((ours | theirs, mine | other), (ours & theirs, mine & other), (ours - theirs, mine - other)):
        assert expanded(result) == wanted
        assert result.count == len(wanted)
        assert result == OffsetRanges.of_offsets(wanted)
        assert_canonical(result)


@given(two_sets(), st.integers(-1, 61), st.integers(-1, 61))
def test_clip_membership_and_search_are_those_of_sets(both: tuple[set[int], set[int]], low: int, high: int) -> None:
    mine = both[0]
    ranges = OffsetRanges.of_offsets(mine)
    base = min(mine | both[1], default=0)
    assert expanded(ranges.clip(base + low, base + high)) == {o for o in mine if base + low <= o <= base + high}
    for offset in range(max(base - 1, 0), base + 62):
        assert (offset in ranges) == (offset in mine)
        reaching = ranges.index_reaching(offset)
        assert [r for r in ranges if r.last >= offset] == list(ranges)[reaching:]


@pytest.mark.parametrize(("first", "last"), [(6, 5), (9, 1), (1, 0)])
def test_a_clip_that_ends_before_it_begins_is_empty_also_within_a_range(first: int, last: int) -> None:
    assert OffsetRanges([(0, 10), (20, 30)]).clip(first, last) == OffsetRanges()


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 20)), max_size=30))
def test_pairs_in_any_order_overlapping_or_touching_become_one_canonical_set(pairs: list[tuple[int, int]]) -> None:
    ranges = OffsetRanges((first, first + more) for first, more in pairs)
    assert expanded(ranges) == {o for first, more in pairs for o in range(first, first + more + 1)}
    assert_canonical(ranges)


@pytest.mark.parametrize("pair", [(-1, 0), (5, 4), (0, MAX_OFFSET + 1), (MAX_OFFSET + 1, MAX_OFFSET + 1)])
def test_a_range_that_no_kafka_offset_can_have_is_refused(pair: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="not a range within"):
        OffsetRanges([pair])


def test_the_whole_of_all_offsets_is_one_range() -> None:
    everything = OffsetRanges([(0, MAX_OFFSET)])
    assert everything.count == 2**63
    assert list(everything - OffsetRanges([(MAX_OFFSET, MAX_OFFSET)])) == [(0, MAX_OFFSET - 1)]
    assert list(everything - OffsetRanges([(0, 0)])) == [(1, MAX_OFFSET)]
    assert (everything & everything) == everything == (everything | everything)
    assert not list(everything - everything)


def test_a_builder_refuses_what_does_not_ascend_and_is_empty_after_building() -> None:
    builder = RangesBuilder()
    builder.add(5, 9)
    with pytest.raises(ValueError, match="comes after"):
        builder.add(4, 4)
    builder.add(10, 10)
    assert list(builder.build()) == [OffsetRange(5, 10)]
    assert len(builder) == 0
    assert not list(builder.build())


def test_canonical_columns_are_taken_and_handed_out_in_slices() -> None:
    ranges = OffsetRanges.of_canonical(array("q", [1, 5, 9]), array("q", [2, 5, MAX_OFFSET]))
    assert ranges == OffsetRanges([(1, 2), (5, 5), (9, MAX_OFFSET)])
    assert list(ranges.pairs(1, 3)) == [(5, 5), (9, MAX_OFFSET)]
    assert ranges.head(1) == [OffsetRange(1, 2)]


@given(st.lists(st.sampled_from([0, 1, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**59]), max_size=12))
def test_distances_of_every_width_come_back(steps: list[int]) -> None:
    """Ranges and the holes between them may be of any length."""
    pairs, offset = [], 0
    for index, step in enumerate(steps):
        if index % 2:
            pairs.append((offset, offset + step))
        offset += step + 2
    ranges = OffsetRanges(pairs)
    assert list(ranges) == pairs == [ranges[index] for index in range(len(pairs))]
    assert [ranges[index] for index in range(-len(pairs), 0)] == pairs
    assert ranges.count == sum(last - first + 1 for first, last in pairs)
    for low in range(len(pairs) + 1):
        assert list(ranges.pairs(low, low + 3)) == pairs[low : low + 3]
    for outside in (len(pairs), -len(pairs) - 1):
        with pytest.raises(IndexError):
            ranges[outside]


@given(st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=30))
def test_what_is_added_one_by_one_and_in_columns_is_the_same(parts: list[tuple[int, bool]]) -> None:
    builder, offset, expected = RangesBuilder(), 0, []
    for ranges, in_columns in parts:
        pairs = [(offset + 3 * number, offset + 3 * number + 1) for number in range(ranges)]
        offset += 3 * ranges
        expected += pairs
        if in_columns:
            builder.extend([first for first, _ in pairs], [last for _, last in pairs])
        else:
            for pair in pairs:
                builder.add(*pair)
        assert len(builder) == len(expected)
    assert list(builder.build()) == expected


def test_what_is_added_behind_a_full_block_of_columns_is_still_merged_with_its_last_range(block_ranges: int) -> None:
    pairs = [(first, first) for first in range(0, 3 * block_ranges, 3)]
    builder = RangesBuilder()
    builder.extend([first for first, _ in pairs], [last for _, last in pairs])
    with pytest.raises(ValueError, match="comes after"):
        builder.add(pairs[-1][0] - 1, pairs[-1][0] - 1)
    builder.add(pairs[-1][0] + 1, pairs[-1][0] + 1)
    assert list(builder.build()) == [*pairs[:-1], (pairs[-1][0], pairs[-1][0] + 1)]


def test_ten_thousand_small_ranges_take_two_bytes_each(block_ranges: int) -> None:
    ranges = OffsetRanges.of_canonical(*[range(2**62, 2**62 + 50_000, 5)] * 2)
    taken = sum(block.steps.itemsize * len(block.steps) for block in ranges._blocks)
    assert taken < 2 * len(ranges) == 20_000
    assert len(ranges._blocks) == -(-10_000 // block_ranges)


def test_a_long_set_has_a_short_text() -> None:
    assert repr(OffsetRanges([(1, 1), (3, 5)])) == "OffsetRanges(1, 3-5)"
    assert len(repr(OffsetRanges.of_offsets(range(0, 1000, 2)))) < 80


def test_sets_compare_with_their_like_and_cannot_be_keys() -> None:
    assert OffsetRanges() != "nothing"
    assert OffsetRanges() == ANY, "the other may know better"
    assert OffsetRanges([(1, 2)]) != OffsetRanges([(1, 3)])
    assert OffsetRanges([(1, 2)]) != OffsetRanges([(1, 2), (5, 5)])
    with pytest.raises(TypeError):
        hash(OffsetRanges())


@given(st.sets(st.integers(2**32 - 30, 2**32 + 30)))
def test_ranges_collected_so_far_are_those_that_are_built(offsets: set[int]) -> None:
    builder = RangesBuilder()
    for offset in sorted(offsets):
        builder.add(offset, offset)
    shown = builder.so_far
    assert expanded(shown) == offsets
    assert shown == builder.build()
    assert len(builder) == 0


@given(two_sets())
def test_a_clip_that_takes_nothing_away_is_no_copy(both: tuple[set[int], set[int]]) -> None:
    ranges = OffsetRanges.of_offsets(both[0])
    if len(ranges):
        assert ranges.clip(0, MAX_OFFSET) is ranges
        assert ranges.clip(ranges.first_offset, ranges.last_offset) is ranges


@pytest.mark.parametrize(
    ("step", "bytes_each"),
    [(16, 1), (255, 1), (256, 2), (32, 1), (65_535, 2), (65_536, 4), (2**32 - 1, 4), (2**32, 8), (2**62, 8)],
)
def test_distances_take_as_many_bytes_as_the_longest_needs(step: int, bytes_each: int) -> None:
    (block,) = OffsetRanges([(3, 3 + step)])._blocks
    assert block.steps.itemsize == bytes_each


def test_a_range_has_both_its_ends() -> None:
    assert OffsetRange(7, 7).size == 1
    assert OffsetRange(0, MAX_OFFSET).size == 2**63


def test_blocks_are_equal_when_begin_and_distances_are() -> None:
    (block,), (same,), (later,), (longer,) = (OffsetRanges([pair])._blocks for pair in ((3, 5), (3, 5), (4, 6), (3, 6)))
    assert block == same
    assert block not in (later, longer)
    assert block != "block"


def test_what_is_no_number_is_in_no_set() -> None:
    assert "3" not in OffsetRanges([(3, 3)])
    assert None not in OffsetRanges([(3, 3)])
    assert 3 not in OffsetRanges()


def test_the_text_of_a_set_names_eight_ranges() -> None:
    eight = "0, 2, 4, 6, 8, 10, 12, 14"
    assert repr(OffsetRanges.of_offsets(range(0, 16, 2))) == f"OffsetRanges({eight})"
    assert repr(OffsetRanges.of_offsets(range(0, 18, 2))) == f"OffsetRanges({eight}, …)"
    assert repr(OffsetRanges()) == "OffsetRanges()"


def test_an_empty_set_has_no_ends_and_reaches_nothing() -> None:
    assert OffsetRanges().index_reaching(5) == 0
    assert OffsetRanges().clip(0, MAX_OFFSET) == OffsetRanges()
    for end in ("first_offset", "last_offset"):
        with pytest.raises(IndexError):
            getattr(OffsetRanges(), end)
