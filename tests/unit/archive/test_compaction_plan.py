"""The proof that joins lose no record and repeat none, for any segments, and that the peer's settings hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.codec.canonical import moment_text
from gapless_api.offsets.ranges import OffsetRanges
from gapless_archive.catalog.entry import Segment, absent_ranges, absent_text
from gapless_archive.catalog.state import covered_ranges
from gapless_archive.compaction.plan import CompactionRules, plan_joins
from gapless_archive.compaction.sources import plan_reads
from kit.story.segments import segment_with

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
OLD = moment_text(NOW - timedelta(hours=2))
ANY = CompactionRules(min_segment_count=1, min_segment_bytes=0)


def segment(first: int, end: int, absent: Iterable[int] = (), **more: object) -> Segment:
    lacking = OffsetRanges.of_offsets(absent)
    offsets = {"first": first, "end": end, "records": end - first - lacking.count, "high_watermark": end}
    stored = {"object": f"{first}-{end}", "absent": absent_text(lacking), "stored_bytes": 10, "written_at": OLD}
    return segment_with(**(offsets | stored | more))


def records(one: Segment) -> set[int]:
    return set(range(one.first, one.end)) - offsets(absent_ranges(one.absent))


def offsets(ranges: OffsetRanges) -> set[int]:
    return {offset for first, last in ranges for offset in range(first, last + 1)}


@st.composite
def some_segments(draw: st.DrawFn) -> list[Segment]:
    """Segments that overlap, leave holes, lack offsets, are empty, too young or of another level."""
    made = []
    for number in range(draw(st.integers(0, 9))):
        first = draw(st.integers(0, 40))
        end = first + draw(st.integers(1, 15))
        absent = draw(st.sets(st.integers(first, end - 1)))
        level = draw(st.sampled_from([0, 0, 0, 1, 2]))
        age = draw(st.sampled_from([timedelta(hours=2), timedelta(hours=2), timedelta(minutes=1)]))
        written = moment_text(NOW - age)
        made.append(segment(first, end, absent, object=f"{number}", level=level, written_at=written))
    return made


@st.composite
def some_rules(draw: st.DrawFn) -> CompactionRules:
    least, low = draw(st.integers(1, 3)), draw(st.integers(0, 40))
    return CompactionRules(
        max_level=draw(st.integers(0, 2)),
        min_segment_count=least,
        min_segment_bytes=low,
        max_segment_count=least + draw(st.integers(0, 5)),
        max_segment_bytes=low + draw(st.integers(1, 60)),
    )


@given(some_segments(), some_rules())
def test_each_join_reads_each_record_of_its_inputs_once_and_in_order(
    segments: list[Segment], rules: CompactionRules
) -> None:
    joins = plan_joins(segments, rules, NOW)

    used = [id(one) for join in joins for one in join.inputs]
    assert len(used) == len(set(used))
    for join in joins:
        assert covered_ranges(join.inputs) == [(join.first, join.end)]
        read: list[int] = []
        for piece in plan_reads(join.inputs):
            read += sorted(offsets(piece.offsets) & records(piece.segment))
            assert all(piece.segment.first <= part.first and part.last < piece.segment.end for part in piece.offsets)
        assert read == sorted(set().union(*map(records, join.inputs)))


@given(some_segments(), some_rules())
def test_what_is_joined_fits_the_rules(segments: list[Segment], rules: CompactionRules) -> None:
    for join in plan_joins(segments, rules, NOW):
        assert len(join.inputs) >= rules.min_segment_count
        assert join.stored_bytes >= rules.min_segment_bytes
        assert all(0 <= one.level <= rules.max_level and one.written_at == OLD for one in join.inputs)
        assert join.level == 1 + max(one.level for one in join.inputs)
        adding = _adding(join.inputs)
        assert len(adding) <= rules.max_segment_count


def _adding(inputs: Sequence[Segment]) -> list[Segment]:
    reached, found = -1, []
    for one in inputs:
        if one.end > reached:
            found.append(one)
            reached = one.end
    return found


def test_offsets_without_a_record_never_divide() -> None:
    segments = [segment(0, 10, {8, 9}), segment(10, 20, {10, 11}), segment(20, 22, {20, 21}, object="", records=0)]
    (join,) = plan_joins(segments, ANY, NOW)
    assert (join.first, join.end, len(join.inputs)) == (0, 22, 3)


def test_what_no_segment_covers_divides_and_what_follows_is_joined() -> None:
    segments = [segment(0, 10), segment(10, 20), segment(25, 30), segment(30, 40)]
    assert [(join.first, join.end) for join in plan_joins(segments, ANY, NOW)] == [(0, 20), (25, 40)]


def test_the_end_is_the_highest_one_when_the_last_input_lies_inside_another() -> None:
    (join,) = plan_joins([segment(0, 10), segment(10, 20), segment(12, 15)], ANY, NOW)
    assert (join.first, join.end, len(join.inputs)) == (0, 20, 3)


def test_an_input_that_is_full_of_others_joins_a_full_group() -> None:
    rules = replace(ANY, max_segment_count=2)
    joins = plan_joins([segment(0, 10), segment(10, 20), segment(12, 15), segment(20, 30)], rules, NOW)
    assert [len(join.inputs) for join in joins] == [3, 1]


@pytest.mark.parametrize(
    "rules",
    [
        replace(ANY, min_segment_count=4),
        replace(ANY, min_segment_bytes=31),
        replace(ANY, min_segment_age=timedelta(hours=3)),
        replace(ANY, min_level=1, max_level=1),
    ],
)
def test_segments_wait_until_they_are_enough_and_old_enough(rules: CompactionRules) -> None:
    segments = [segment(0, 10), segment(10, 20), segment(20, 30)]
    assert plan_joins(segments, rules, NOW) == []
    assert len(plan_joins(segments, ANY, NOW)) == 1


def test_a_group_ends_when_it_is_large_enough() -> None:
    segments = [segment(start, start + 10) for start in range(0, 100, 10)]
    by_count = plan_joins(segments, replace(ANY, max_segment_count=4), NOW)
    assert [len(join.inputs) for join in by_count] == [4, 4, 2]
    by_bytes = plan_joins(segments, replace(ANY, max_segment_bytes=25), NOW)
    assert [len(join.inputs) for join in by_bytes] == [3, 3, 3, 1]


def test_a_record_counts_where_another_segment_has_none_at_its_offset() -> None:
    earlier, later = segment(0, 10, object="earlier"), segment(0, 20, {3, 4}, object="later")
    pieces = plan_reads([later, earlier])
    assert [(piece.segment.object, piece.offsets) for piece in pieces] == [
        ("later", OffsetRanges([(0, 2)])),
        ("earlier", OffsetRanges([(3, 4)])),
        ("later", OffsetRanges([(5, 19)])),
    ]
