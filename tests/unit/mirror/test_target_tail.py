"""The proof that a position is found by the last records of the target, or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_mirror.lanes.target_tail import Content, FoundRecord, TailNotFoundError, find_after


def content(value: int) -> Content:
    return Content(None, b"%d" % value, 1, ())


def source_of(values: list[int]) -> list[FoundRecord]:
    return [FoundRecord(10 + 2 * at, content(value)) for at, value in enumerate(values)]


@given(st.lists(st.integers(0, 2), min_size=1, max_size=12), st.integers(1, 12), st.integers(1, 12), st.integers(0, 11))
def test_a_position_is_the_right_one_or_none(values: list[int], copied: int, kept: int, expired: int) -> None:
    """The target has the copies of the first records; both sides have expired some of them, but not the last copy."""
    copies = values[:copied]
    tail = [content(value) for value in copies[-kept:]]
    source = source_of(values)[min(expired, len(copies) - 1) :]
    try:
        found = find_after(tail, source)
    except TailNotFoundError:
        assert values.count(copies[-1]) > 1, "a single record is found"
    else:
        assert found == 10 + 2 * (len(copies) - 1) + 1


def test_records_of_others_are_not_taken_for_copies() -> None:
    with pytest.raises(TailNotFoundError, match="does not have its last record"):
        find_after([content(1), content(9)], source_of([1, 2, 3]))


def test_equal_records_are_told_apart_by_those_before_them() -> None:
    assert find_after([content(2), content(1)], source_of([3, 1, 2, 1, 3])) == 10 + 2 * 3 + 1
    with pytest.raises(TailNotFoundError, match="several times"):
        find_after([content(1)], source_of([1, 2, 1]))
