"""How a cut is split_offsets: every offset belongs to one part, parts are even, and no part reads a partition twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gapless_kafka.reading.cuts import Cut, Slice, TopicCut, distribute_partitions, slices_of, split_offsets

spans = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=6)


def cut_of(topics: list[list[tuple[int, int]]]) -> Cut:
    return Cut(
        "cluster",
        tuple(
            TopicCut(f"t{number}", tuple(first for first, _ in spans), tuple(first + size for first, size in spans), 0)
            for number, spans in enumerate(topics)
        ),
    )


def offsets_of(slices: list[Slice]) -> list[tuple[str, int, int]]:
    return [(one.topic, one.partition, offset) for one in slices for offset in range(one.first_offset, one.end_offset)]


@given(st.lists(spans, max_size=3), st.integers(1, 12))
def test_every_offset_is_in_one_part_and_parts_are_even(topics: list[list[tuple[int, int]]], parts: int) -> None:
    cut = cut_of(topics)
    found = split_offsets(cut, parts)
    assert len(found) == min(parts, cut.offsets)
    assert offsets_of([one for part in found for one in part]) == offsets_of(list(slices_of(cut)))
    sizes = [len(offsets_of(list(part))) for part in found]
    assert max(sizes, default=0) - min(sizes, default=0) <= 1
    for part in found:
        assert len({(one.topic, one.partition) for one in part}) == len(part)


@given(st.lists(spans, max_size=3), st.integers(1, 12))
def test_partitions_that_stay_undivided_are_distributed(topics: list[list[tuple[int, int]]], parts: int) -> None:
    cut = cut_of(topics)
    found = distribute_partitions(cut, parts)
    assert len(found) == min(parts, len(slices_of(cut)))
    assert all(found)
    assert {one for part in found for one in part} == set(slices_of(cut))
    sizes = [len(offsets_of(list(part))) for part in found]
    largest = max((one.end_offset - one.first_offset for one in slices_of(cut)), default=0)
    assert max(sizes, default=0) - min(sizes, default=0) <= largest


def test_a_hot_partition_is_cut_and_small_ones_share_a_part() -> None:
    cut = cut_of([[(100, 80), (0, 5), (0, 0), (7, 15)]])
    assert [[(one.partition, one.first_offset, one.end_offset) for one in part] for part in split_offsets(cut, 5)] == [
        [(0, 100, 120)], [(0, 120, 140)], [(0, 140, 160)], [(0, 160, 180)], [(1, 0, 5), (3, 7, 22)]
    ]  # fmt: skip
