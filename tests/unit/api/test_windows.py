from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.base.errors import ConfigurationError
from gapless_api.offsets.ids import MAX_PARTITION
from gapless_api.offsets.windows import PartitionWindow, check_disjoint

WINDOWS = st.builds(PartitionWindow, st.integers(0, 12), st.integers(0, 5))


@given(WINDOWS, st.integers(0, 40))
def test_mapping_there_and_back_gives_the_same_partition(window: PartitionWindow, upstream: int) -> None:
    assert window.to_upstream(window.to_downstream(upstream)) == upstream


@given(WINDOWS, WINDOWS)
def test_two_windows_overlap_exactly_when_a_partition_is_in_both(one: PartitionWindow, other: PartitionWindow) -> None:
    ends = [60 if window.last is None else window.last + 1 for window in (one, other)]
    shared = set(range(one.start, ends[0])) & set(range(other.start, ends[1]))
    assert one.overlaps(other) is other.overlaps(one) is bool(shared)


@given(st.lists(WINDOWS, max_size=4))
def test_windows_are_disjoint_exactly_when_no_partition_is_claimed_twice(windows: list[PartitionWindow]) -> None:
    claims = [
        {p for p in range(60) if p >= window.start and (window.count == 0 or p < window.start + window.count)}
        for window in windows
    ]
    disjoint = sum(map(len, claims)) == len(set().union(*claims))
    named = {f"cluster{index}": window for index, window in enumerate(windows)}
    if disjoint:
        check_disjoint(named)
    else:
        with pytest.raises(ConfigurationError, match="overlap"):
            check_disjoint(named)


def test_an_overlap_names_both_clusters_and_what_to_do() -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_disjoint({"south": PartitionWindow(4, 2), "north": PartitionWindow(0, 0)})
    assert "north (0…)" in str(caught.value)
    assert "south (4…5)" in str(caught.value)
    assert "give north a count" in str(caught.value)


def test_a_partition_below_an_endless_window_is_an_error_that_names_both_numbers() -> None:
    window = PartitionWindow(6)
    assert window.handles(3)
    with pytest.raises(ConfigurationError, match=r"partition 3 .* partitionStartValue 6"):
        window.to_upstream(3)


def test_a_window_with_a_count_skips_what_is_outside() -> None:
    window = PartitionWindow(6, 3)
    assert [p for p in range(12) if window.handles(p)] == [6, 7, 8]
    assert window.last == 8


@pytest.mark.parametrize(("start", "count"), [(-1, 0), (0, -1), (MAX_PARTITION, 2)])
def test_an_impossible_window_is_refused(start: int, count: int) -> None:
    with pytest.raises(ConfigurationError, match="is invalid"):
        PartitionWindow(start, count)
