"""The proof that a restore plans what the archive has and the target lacks, and names what neither has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.base.quantities import duration, partition_numbers
from gapless_api.offsets.ranges import OffsetRange, OffsetRanges
from gapless_archive.catalog.entry import Entry, LostRange, Segment, absent_text
from gapless_archive.catalog.state import TopicState
from gapless_archive.reading import TopicArchive
from gapless_kafka.writing.positions import Position
from gapless_spark.archiving.restore.plan import (
    Limits,
    PartitionPlan,
    Source,
    distribute_partitions,
    offsets_out_of_order,
    plan_partition,
    work_id,
)
from gapless_spark.archiving.restore.values import (
    IDENTITY,
    Remapping,
    SourceTopic,
    offset_range,
    remapping,
    sources,
)
from kit.story.segments import segment_with


def segment(first: int, end: int, *absent: int, times: tuple[int, int] | None = None) -> Segment:
    records = end - first - len(absent)
    return segment_with(
        first=first,
        end=end,
        absent=absent_text(OffsetRanges.of_offsets(absent)),
        records=records,
        bytes=100 * records,
        min_timestamp=times[0] if times else None,
        max_timestamp=times[1] if times else None,
    )


def archive(*segments: Segment, lost: tuple[tuple[int, int], ...] = ()) -> TopicArchive:
    state = TopicState()
    entry = Entry(
        sequence=1,
        epoch=1,
        writer="w",
        at="2026-11-22T10:00:00Z",
        action="archive",
        region="r",
        topic="t",
        topic_id="i",
        cluster_id="c",
        partitions=1,
        added=segments,
        lost=tuple(LostRange(0, first, end) for first, end in lost),
    )
    state.apply(entry)
    chain: Any = None
    place: Any = None
    return TopicArchive(place, chain, state)


def plan(found: TopicArchive, limits: Limits | None = None, done: OffsetRanges | None = None) -> PartitionPlan:
    return plan_partition(found, 0, 0, limits or Limits(), done or OffsetRanges())


def test_what_is_left_is_counted_without_offsets_that_hold_no_record() -> None:
    found = archive(segment(10, 20, 13, 19), segment(20, 30))
    everything = plan(found)
    assert (everything.ranges, everything.records, everything.bytes) == (OffsetRanges([(10, 29)]), 18, 1800)
    rest = plan(found, done=OffsetRanges([(10, 14)]))
    assert (rest.ranges, rest.records) == (OffsetRanges([(15, 29)]), 14)
    some = plan(found, Limits(offsets=OffsetRange(12, 20)))
    assert (some.ranges, some.records) == (OffsetRanges([(12, 20)]), 7)
    assert not plan(found, done=OffsetRanges([(0, 99)])).ranges


def test_a_hole_is_lost_only_when_nobody_knows_why() -> None:
    found = archive(segment(0, 10), segment(20, 30), segment(40, 50), lost=((8, 22),))
    planned = plan(found)
    assert (planned.explained, planned.unexplained) == (OffsetRanges([(10, 19)]), OffsetRanges([(30, 39)]))
    assert planned.ranges == OffsetRanges([(0, 9), (20, 29), (40, 49)])
    # What was skipped once is not lost again, and what is outside of the limits is not missed.
    assert not plan(found, done=OffsetRanges([(0, 45)])).unexplained
    assert not plan(found, Limits(offsets=OffsetRange(0, 29))).unexplained


def test_segments_outside_of_the_time_are_not_read() -> None:
    found = archive(segment(0, 10, times=(100, 200)), segment(10, 20, times=(150, 300)), segment(20, 30))
    limited = plan(found, Limits(since=201, until=250))
    assert (limited.ranges.count, limited.records, limited.is_at_most) == (30, 10, True)
    assert (limited.oldest, limited.newest) == (201, 249)
    assert plan(found, Limits(until=100)).records == 0
    assert plan(found, Limits(since=300)).records == 10
    whole = plan(found)
    assert (whole.oldest, whole.newest, whole.is_at_most) == (100, 300, False)


def test_records_are_never_put_behind_later_ones() -> None:
    position = Position(topic="t", topic_id="T", target_partition=0, source_id="S", epoch=1)
    behind = position.advance(OffsetRanges([(20, 24)]))
    found = archive(segment(10, 30))
    assert offsets_out_of_order(plan(found, done=behind.ranges), behind) == OffsetRange(10, 19)
    rest = plan(found, Limits(offsets=OffsetRange(20, 29)), behind.ranges)
    assert offsets_out_of_order(rest, behind) is None
    assert offsets_out_of_order(plan(found), None) is None


def test_the_identity_of_the_work_is_what_would_repeat_records() -> None:
    source = Source("r", "t", "i")
    known = work_id(source, "b", "B", Limits())
    assert known == work_id(source, "b", "B", Limits(frozenset({1}), OffsetRange(3, 4)))
    others = [
        work_id(source, "b", "C", Limits()),
        work_id(Source("r", "t", "j"), "b", "B", Limits()),
        work_id(Source("s", "t", "i"), "b", "B", Limits()),
        work_id(source, "b", "B", Limits(since=1)),
        work_id(source, "b", "B", Limits(until=1)),
    ]
    assert len({known, *others}) == 6


@given(st.lists(st.integers(0, 1000), max_size=30), st.integers(1, 8))
def test_every_partition_is_in_one_slot_and_slots_are_even(sizes: list[int], most: int) -> None:
    found = archive(segment(0, 1))
    plans = [replace(plan(found), partition=number, records=size) for number, size in enumerate(sizes)]
    slots = distribute_partitions(plans, most)
    assert sorted(one.partition for slot in slots for one in slot) == list(range(len(sizes)))
    assert len(slots) == min(most, len(sizes))
    assert all(slots)
    loads = [sum(one.records + 1 for one in slot) for slot in slots]
    assert max(loads, default=0) - min(loads, default=0) <= max(sizes, default=0) + 1


@pytest.mark.parametrize(
    ("parse", "text", "expected"),
    [
        (duration(0), "24h", 86400),
        (duration(0), "1h30m", 5400),
        (duration(0), "1d", 86400),
        (duration(0), "90", 90),
        (duration(0), "1.5s", 1.5),
        (partition_numbers, "0,4-6", {0, 4, 5, 6}),
        (offset_range, "5-9", (5, 9)),
        (offset_range, "5-", (5, 2**63 - 1)),
        (offset_range, "7", (7, 7)),
        (offset_range, "0-9223372036854775807", (0, 2**63 - 1)),
        (remapping, "modulo", Remapping(is_modulo=True)),
        (remapping, "6:0,7:1", Remapping(pairs=((6, 0), (7, 1)))),
        (sources, "a/t,b/t=u", (SourceTopic("a", "t"), SourceTopic("b", "t", "u"))),
    ],
)
def test_values_are_read(parse: Callable[[str], object], text: str, expected: object) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (duration(0), "h"),
        (duration(0), "-1s"),
        (partition_numbers, "4-2"),
        (partition_numbers, "0-2147483648"),
        (partition_numbers, "x"),
        (offset_range, "9-5"),
        (offset_range, "5-9223372036854775808"),
        (offset_range, "-5"),
        (remapping, "1:2,1:3"),
        (remapping, "1"),
        (sources, "t"),
        (sources, "a/b/c"),
        (sources, "/t"),
    ],
)
def test_values_that_mean_nothing_are_refused(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse(text)


def test_partitions_are_mapped_by_rule() -> None:
    assert [IDENTITY.target(number, 2) for number in (0, 5)] == [0, 5]
    assert [Remapping(is_modulo=True).target(number, 2) for number in (0, 5)] == [0, 1]
    assert [Remapping(pairs=((5, 0),)).target(number, 2) for number in (0, 1, 5)] == [0, 1, 0]
