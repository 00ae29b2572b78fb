"""The proof that runs name the target of every source offset, and that positions translate exactly."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_kafka.writing.offset_map import OffsetMap, Run, pack_runs, runs_in_force, runs_of, unpack_runs

steps = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), max_size=60)
starts = st.sampled_from([0, 5, 2**62])


def pairs_of(start: int, moves: list[tuple[int, int]]) -> list[tuple[int, int]]:
    old, new, found = start, 3, []
    for step, other in moves:
        old, new = old + step, new + other
        found.append((old, new))
    return found


@given(starts, steps)
def test_runs_hold_each_pair_and_no_other(start: int, moves: list[tuple[int, int]]) -> None:
    pairs = pairs_of(start, moves)
    runs = list(runs_of([old for old, _ in pairs], [new for _, new in pairs]))
    assert [(run.first + n, run.target + n) for run in runs for n in range(run.length)] == pairs
    assert unpack_runs(pack_runs(runs)) == runs
    for one, other in itertools.pairwise(runs):
        assert (one.first + one.length, one.target + one.length) != (other.first, other.target), "should be one run"


@given(starts, steps, st.integers(0, 4))
def test_a_position_is_the_record_itself_or_the_next_one(start: int, moves: list[tuple[int, int]], beside: int) -> None:
    pairs = pairs_of(start, moves)
    # Each part as its own transaction wrote it, in any order.
    found = OffsetMap(run for part in (pairs[1::2], pairs[::2]) for old, new in part for run in runs_of([old], [new]))
    for offset in (start, start + beside, *(old for old, _ in pairs), *(old + 1 for old, _ in pairs)):
        behind = [new for old, new in pairs if old >= offset]
        expected = behind[0] if behind else pairs[-1][1] + 1 if pairs else None
        assert found.position(offset) == expected


@given(st.lists(st.tuples(st.integers(0, 2**62), st.integers(0, 2**61), st.integers(0, 2**62)), max_size=20))
def test_whatever_is_encoded_is_read_whichever_side_goes_back(runs: list[tuple[int, int, int]]) -> None:
    written = [Run(*each) for each in runs]
    assert unpack_runs(pack_runs(written)) == written


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)), max_size=12), st.integers(0, 40))
def test_the_latest_write_holds_for_an_offset_that_occurs_twice(
    writes: list[tuple[int, int]], next_offset: int
) -> None:
    expected: dict[int, int] = {}
    runs, target = [], 0
    for first, length in writes:
        runs.append(Run(first, length, target))
        expected = {offset: copy for offset, copy in expected.items() if offset < first}
        expected |= {first + number: target + number for number in range(length)}
        target += length
    held = runs_in_force(runs, next_offset)
    found = [(run.first + number, run.target + number) for run in held for number in range(run.length)]
    assert found == sorted((offset, copy) for offset, copy in expected.items() if offset < next_offset)


@pytest.mark.parametrize(
    "text", ["", "x", "AAAA", pack_runs([Run(5, -1, 1)]), pack_runs([Run(-3, 1, 4)]), pack_runs([Run(3, 1, -4)])]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid packed runs"):
        unpack_runs(text)
