"""The proof that late segments are waited for as long as the settings say, and no explained hole is waited for."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.offsets.ranges import OffsetRanges
from gapless_spark.archiving.restore.follow import LateSegments, is_too_young, jittered, offsets_to_write, pauses
from gapless_spark.archiving.restore.following import Follower
from gapless_spark.archiving.restore.plan import PartitionPlan
from gapless_spark.archiving.restore.task import PartitionResult

if TYPE_CHECKING:
    from gapless_spark.archiving.restore.orders import Selection

PLAN = PartitionPlan(
    partition=0,
    target_partition=0,
    ranges=OffsetRanges([(0, 9), (20, 29), (40, 49)]),
    records=30,
    bytes=300,
    segments=3,
    is_at_most=False,
    explained=OffsetRanges(),
    unexplained=OffsetRanges([(10, 19), (30, 39)]),
    oldest=None,
    newest=None,
    first_written_at="2026-11-22T10:00:00Z",
    is_foreign=False,
)


def test_pauses_double_and_make_up_the_timeout() -> None:
    found = pauses(86_400, 16)
    assert [round(pause, 1) for pause in found[:5]] == [1.3, 2.6, 5.3, 10.5, 21.1]
    assert sum(found) == pytest.approx(86_400)
    assert pauses(3600, 5)[0] == pytest.approx(116.1, abs=0.1)


@given(st.floats(0.1, 1e5), st.floats(0, 1))
def test_jitter_stays_around_the_pause(pause: float, chance: float) -> None:
    assert 0.75 * pause <= jittered(pause, lambda: chance) <= 1.25 * pause


def test_an_offset_is_given_up_after_all_pauses_and_not_before() -> None:
    late = LateSegments(70, 3, lambda: 0.5)
    moments = (0, 9, 10, 29, 30, 69, 70, 71)
    assert [late.is_given_up("s", 0, 10, 100 + at) for at in moments] == [False] * 6 + [True, True]
    # Another offset is waited for from the beginning, as is the same one after it had come.
    assert not late.is_given_up("s", 0, 30, 200)
    assert late.is_given_up("s", 0, 30, 270)
    assert not late.is_given_up("s", 0, None, 271)
    assert not late.is_given_up("s", 0, 30, 272)
    # Partitions and sources wait by themselves.
    assert not late.is_given_up("s", 1, 30, 1000)
    assert not late.is_given_up("t", 0, 30, 1000)


def test_what_is_behind_a_hole_waits_for_it() -> None:
    assert offsets_to_write(PLAN, OffsetRanges()) == OffsetRanges([(0, 9)])
    # Skipped is one hole at a time: what follows on it may be late itself.
    assert offsets_to_write(PLAN, OffsetRanges([(10, 19)])) == OffsetRanges([(0, 19)])
    explained = replace(PLAN, unexplained=OffsetRanges(), explained=PLAN.unexplained)
    assert offsets_to_write(explained, OffsetRanges()) == PLAN.ranges
    # So is a segment that cannot be read, although a hole comes behind it.
    assert offsets_to_write(PLAN, OffsetRanges([(4, 6)])) == OffsetRanges([(0, 6)])


def test_one_place_that_is_given_up_does_not_give_up_others() -> None:
    told: Any = SimpleNamespace(
        on_lost="skip", lost_segment_timeout_seconds=0.0, late_segment_retries=1, first_segment_delay_seconds=None
    )
    restore: Any = SimpleNamespace(work="w", source="r/t", target="t", has_begun=lambda _: True)
    restorer: Any = SimpleNamespace(settings=told)
    follower = Follower(restorer)

    def chosen(plan: PartitionPlan) -> Selection:
        found = follower._select(restore, plan)
        assert found is not None
        return found

    first = chosen(PLAN)  # nobody knows yet that 4 to 6 cannot be read
    assert (first.ranges, first.skip_lost) == (OffsetRanges([(0, 9)]), False)
    result = PartitionResult(0, unreadable=[(4, 6)], failure="it is damaged")
    follower._store_unreadable([first], {"w": [result]})
    assert not result.unreadable, "it may be late"
    left = replace(PLAN, ranges=PLAN.ranges - OffsetRanges([(0, 3)]))
    assert not chosen(left).skip_lost
    given_up = chosen(left)
    assert (given_up.ranges, given_up.skip_lost) == (OffsetRanges([(4, 6)]), True)
    follower._store_unreadable(
        [given_up], {"w": [PartitionResult(0, skipped=3, unreadable=[(4, 6)], failure="it is damaged")]}
    )
    # The hole from 10 on is waited for by itself, and then that from 30 on.
    left = replace(PLAN, ranges=PLAN.ranges - OffsetRanges([(0, 6)]))
    assert [chosen(left).skip_lost for _ in range(2)] == [False, True]
    assert chosen(left).ranges == OffsetRanges([(7, 19)])
    left = replace(PLAN, ranges=OffsetRanges([(20, 29), (40, 49)]), unexplained=OffsetRanges([(30, 39)]))
    behind = chosen(left)
    assert (behind.ranges, behind.skip_lost) == (OffsetRanges([(20, 29)]), False)


def test_the_first_segment_becomes_old_enough_where_order_is_not_certain() -> None:
    written = datetime(2026, 11, 22, 10, tzinfo=UTC)
    foreign = replace(PLAN, is_foreign=True)

    def too_young(plan: PartitionPlan, delay: float | None, after: float, *, has_begun: bool = False) -> bool:
        return is_too_young(plan, delay, has_begun=has_begun, now=written + timedelta(seconds=after))

    assert not too_young(PLAN, None, 0)
    assert [too_young(foreign, None, after) for after in (1799, 1801)] == [True, False]
    assert [too_young(PLAN, 60, after) for after in (59, 61)] == [True, False]
    assert not too_young(foreign, None, 0, has_begun=True)
    assert not too_young(replace(foreign, first_written_at=""), None, 0)
