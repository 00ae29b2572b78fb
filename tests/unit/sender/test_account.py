"""The proof that the account of a partition loses nothing on its way to the checkpoint and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.offsets.ranges import OffsetRanges
from gapless_sender.replay.account import BatchResult, PartitionAccount, Recheck, checked_int, totals
from gapless_sender.replay.saved_progress import Progress
from gapless_sender.source.plan import FILLED, FILTERED, NOT_REQUESTED, OUTSIDE, RETRIABLE, Reason

KINDS = (FILTERED, FILLED, OUTSIDE, NOT_REQUESTED, *map(str, Reason))


@pytest.mark.parametrize("found", [0, 1, MAX_OFFSET, MAX_OFFSET + 1])
def test_every_offset_and_the_one_behind_the_highest_are_whole_numbers(found: int) -> None:
    assert checked_int(found) == found


@pytest.mark.parametrize("found", [-1, MAX_OFFSET + 2, 1.0, "1", True, None, [1]])
def test_what_is_no_offset_is_refused(found: Any) -> None:
    with pytest.raises(ValueError, match="no integer in range"):
        checked_int(found)


def test_a_bound_of_its_own_is_the_last_number_that_is_taken() -> None:
    assert checked_int(7, 7) == 7
    with pytest.raises(ValueError, match="no integer in range"):
        checked_int(8, 7)


def test_ranges_of_a_kind_that_touch_become_one_and_others_do_not() -> None:
    step = BatchResult(20)
    for first, last in ((0, 0), (1, 4), (6, 6)):
        step.add(FILTERED, first, last)
    step.add(FILLED, 7, 7)
    assert step.exceptions == {FILTERED: [(0, 4), (6, 6)], FILLED: [(7, 7)]}
    assert step.range_count == 3


def test_an_offset_is_inserted_where_it_belongs() -> None:
    step = BatchResult(20)
    for offset in (9, 3, 6):
        step.insert(Reason.TOO_LARGE, offset)
    assert step.exceptions == {Reason.TOO_LARGE: [(3, 3), (6, 6), (9, 9)]}


def test_a_step_is_kept_under_the_names_of_the_checkpoint_and_read_again() -> None:
    step = BatchResult(12, 5, {kind: [(number, number)] for number, kind in enumerate(KINDS)})
    assert step.as_json() == {
        "cursor": 12,
        "sent": 5,
        "filtered": [(0, 0)],
        "filled": [(1, 1)],
        "outsideTimeRange": [(2, 2)],
        "notAskedFor": [(3, 3)],
        "Expired": [(4, 4)],
        "NonExistent": [(5, 5)],
        "NotYetWritten": [(6, 6)],
        "TooLarge": [(7, 7)],
        "ArchiveDamaged": [(8, 8)],
    }
    assert BatchResult.from_json(json.loads(json.dumps(step.as_json()))) == step


@pytest.mark.parametrize(
    "found",
    [{"cursor": 1}, {"sent": 1}, {"cursor": -1, "sent": 0}, {"cursor": 1, "sent": -1}, {"cursor": 1, "sent": "1"}]
    + [
        {"cursor": 9, "sent": 0, "filtered": pairs} for pairs in ([[1]], [[-1, 1]], [["1", 2]], [[1, 2.0]], [[1, 2, 3]])
    ],
)
def test_what_no_step_says_is_refused(found: dict[str, Any]) -> None:
    with pytest.raises((ValueError, KeyError)):
        BatchResult.from_json(found)


def applied(*steps: BatchResult) -> PartitionAccount:
    account = PartitionAccount()
    for step in steps:
        account.apply(step)
    return account


def test_steps_add_up_and_the_cursor_never_goes_back() -> None:
    account = applied(
        BatchResult(10, 4, {FILTERED: [(3, 5)], OUTSIDE: [(6, 8)]}), BatchResult(9, 2, {FILTERED: [(9, 9)]})
    )
    assert (account.cursor, account.sent) == (10, 6)
    assert (account.counts[FILTERED], account.counts[OUTSIDE], account.accounted) == (4, 3, 13)
    assert list(account.ranges(FILTERED)) == [(3, 5), (9, 9)]
    assert account.unavailable == 0


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_makes_an_event_unavailable(reason: Reason) -> None:
    assert applied(BatchResult(3, 0, {reason: [(0, 2)]})).unavailable == 3


PAIRS = st.lists(st.tuples(st.integers(0, 9), st.integers(2, 9)), max_size=12)


def ascending(parts: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    first = 0
    for length, hole in parts:
        yield first, first + length
        first += length + hole


@given(st.dictionaries(st.sampled_from(KINDS), PAIRS), st.integers(1, 5))
def test_the_whole_account_fits_into_steps_of_so_many_ranges(
    parts: dict[str, list[tuple[int, int]]], max_ranges: int
) -> None:
    exceptions = {kind: list(ascending(pairs)) for kind, pairs in parts.items() if pairs}
    account = applied(BatchResult(200, 17, exceptions))
    steps = list(account.as_results(max_ranges))
    assert all(step.range_count <= max_ranges for step in steps)
    assert {step.cursor for step in steps} == {200}, "the cursor of each, so that a part alone is no earlier state"
    again = applied(*steps)
    assert (again.cursor, again.sent, again.counts) == (account.cursor, account.sent, account.counts)
    assert all(again.ranges(kind) == account.ranges(kind) for kind in KINDS)


def test_no_more_steps_are_made_than_the_ranges_need() -> None:
    full = applied(BatchResult(20, 0, {FILTERED: [(0, 0), (2, 2)], FILLED: [(4, 4), (6, 6)]}))
    assert [step.range_count for step in full.as_results(4)] == [4]
    assert [step.range_count for step in full.as_results(3)] == [2, 2]
    assert [step.range_count for step in full.as_results(2)] == [2, 2]


def test_what_was_not_yet_written_at_the_end_is_wanted_again() -> None:
    account = applied(BatchResult(20, 5, {Reason.NOT_YET_WRITTEN: [(10, 19)], Reason.EXPIRED: [(0, 4)]}))
    assert account.reopen() is True
    assert (account.cursor, account.unavailable, account.accounted) == (10, 5, 10)
    assert account.reopen() is False, "nothing is left to be requested again"
    assert account.cursor == 10


def test_what_was_not_yet_written_is_not_wanted_again_when_later_offsets_are_done() -> None:
    account = applied(BatchResult(21, 6, {Reason.NOT_YET_WRITTEN: [(10, 19)]}))
    assert account.reopen() is False
    assert (account.cursor, account.unavailable) == (21, 10)
    assert applied(BatchResult(5, 5)).reopen() is False


def test_what_is_left_is_what_is_wanted_and_not_accounted_for() -> None:
    requested = OffsetRanges([(0, 9), (20, 29)])
    account = applied(
        BatchResult(10, 4, {FILTERED: [(4, 4)], FILLED: [(5, 5)], OUTSIDE: [(6, 7)], Reason.EXPIRED: [(8, 9)]})
    )
    sums = totals(requested, 20, account)
    assert (sums.planned, sums.sent, sums.filtered, sums.filled) == (18, 4, 1, 1)
    assert (sums.unavailable, sums.remaining, sums.outside_time_range) == (2, 10, 2)
    assert sums.is_balanced
    account.apply(BatchResult(30, 9, {NOT_REQUESTED: [(29, 29)]}))
    sums = totals(requested, 20, account)
    assert (sums.planned, sums.sent, sums.remaining) == (17, 13, 0)
    assert sums.is_balanced


def test_a_cursor_behind_all_that_is_wanted_leaves_nothing_over_and_a_difference_shows() -> None:
    short = totals(OffsetRanges([(0, 9)]), 10, applied(BatchResult(10, 9)))
    assert short.remaining == 0
    assert not short.is_balanced


def batch(offset: int, outcome: str, **more: Any) -> BatchResult:
    """The result of a batch of one offset."""
    result = BatchResult(offset + 1, int(outcome == "sent"), **more)
    if outcome != "sent":
        result.add(outcome, offset, offset)
    return result


def account_of(results: Iterable[BatchResult]) -> PartitionAccount:
    """The account of results that went through a file."""
    account = PartitionAccount()
    for result in results:
        account.apply(BatchResult.from_json(json.loads(json.dumps(result.as_json()))))
    return account


def check_account(account: PartitionAccount, outcomes: list[str]) -> None:
    assert (account.cursor, account.accounted) == (len(outcomes), len(outcomes))
    assert account.sent == outcomes.count("sent")
    for kind in map(str, Reason):
        expected = OffsetRanges.of_offsets(offset for offset, one in enumerate(outcomes) if one == kind)
        assert account.ranges(kind) == expected
        assert account.counts[kind] == expected.count


@given(
    st.lists(st.sampled_from(["sent", *RETRIABLE, Reason.NON_EXISTENT, FILLED]), min_size=1, max_size=30),
    st.data(),
)
def test_a_second_look_replaces_what_was_unavailable_and_survives_its_file(
    outcomes: list[str], data: st.DataObject
) -> None:
    """A run that looks again is killed after some batches; what the file then says is what was done, and no more."""
    earlier = [batch(offset, outcome) for offset, outcome in enumerate(outcomes)]
    account = account_of(earlier)
    again = [offset for offset, outcome in enumerate(outcomes) if outcome in RETRIABLE]
    assert account.recheck() == bool(again)
    assert account.recheck_done == (not again)
    later = []
    look = Recheck(account) if again else None
    for offset in again[: data.draw(st.integers(0, len(again)))]:
        outcomes[offset] = data.draw(st.sampled_from(["sent", *RETRIABLE, Reason.NON_EXISTENT]))
        later.append(batch(offset, outcomes[offset], from_archive=1))
        assert look is not None
        look.apply(later[-1])
        assert account.recheck_done == (offset == again[-1])
    looked_at = len(later)
    for outcome in ("sent", Reason.EXPIRED):  # Behind them the run goes on with what is new, before it is killed.
        later.append(batch(len(outcomes), outcome))
        account.apply(later[-1])
        outcomes.append(outcome)
    rewritten_at = data.draw(st.integers(0, len(later)))
    rewritten = account_of([*earlier, *later[:rewritten_at]]).as_results(3)
    from_file = account_of([*rewritten, *later[rewritten_at:]])
    for one in (account, from_file):
        check_account(one, outcomes)
        assert one.from_archive == looked_at
    assert not from_file.reopen()
    check_account(from_file, outcomes)


def test_an_account_that_has_looked_again_further_is_the_one_that_counts() -> None:
    one, other = PartitionAccount(), PartitionAccount()
    for account in (one, other):
        lost = BatchResult(2)
        lost.add(Reason.EXPIRED, 0, 1)
        account.apply(lost)
    other.apply(BatchResult(1, 1, recheck_from=0))
    progress, later = Progress(), Progress()
    progress.accounts["t", 0], later.accounts["t", 0] = one, other
    progress.merge(later)
    assert progress.accounts["t", 0] is other
    later.accounts["t", 0] = one
    progress.merge(later)
    assert progress.accounts["t", 0] is other
