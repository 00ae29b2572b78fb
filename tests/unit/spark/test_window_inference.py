"""What a scan makes of the records of the kit's detector, against what was really sent, lost and received."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.offsets.ranges import OffsetRanges
from gapless_spark.model.gap_windows import CompleteWindows, LatestRecord, ScanOptions, WindowFindings, read_windows
from kit.machine.examples import examples
from kit.peer.detector_run import DetectorRun as Stream
from kit.peer.gap_detector import GapReport

SIZE = 10


def records(stream: Stream) -> list[LatestRecord]:
    return [LatestRecord(key, value, 0, 0) for key, value in stream.records("t", 0)]


def scan(stream: Stream, **chosen: bool | int) -> WindowFindings:
    return read_windows(records(stream), options=ScanOptions(**chosen))  # type: ignore[arg-type]


def offsets(ranges: OffsetRanges) -> set[int]:
    return {offset for first, last in ranges for offset in range(first, last + 1)}


def known_and_inferred(stream: Stream, **chosen: bool | int) -> tuple[set[int], set[int]]:
    found = scan(stream, infer=True, **chosen)
    everything = offsets(found.results[0].ranges) if found.results else set()
    inferred = offsets(found.inferred[0].ranges) if found.inferred else set()
    assert inferred <= everything
    return everything - inferred, inferred


def received(lost: set[int], count: int) -> Stream:
    """All but `lost`, with a report after every hundredth event, so that each window has a record."""
    arrived = [offset for offset in range(count) if offset not in lost]
    return Stream(arrived, frozenset(range(0, count, 100))).run(window_size=1000)


def ranges(stream: Stream, **chosen: bool | int) -> list[tuple[int, int]]:
    found = scan(stream, infer=True, **chosen)
    return [tuple(each) for entry in found.inferred for each in entry.ranges]  # type: ignore[misc]


def test_a_loss_across_a_windows_end_is_inferred_from_behind_the_last_offset_that_is_certain() -> None:
    stream = received({20, *range(950, 1051)}, 2000)
    assert scan(stream).results[0].ranges == OffsetRanges([(20, 20), (1000, 1050)])
    assert not scan(stream).inferred
    assert ranges(stream) == [(22, 999)]


def test_lost_windows_are_inferred_with_the_end_of_the_window_before_them() -> None:
    stream = received({900, *range(1000, 3000)}, 4000)
    assert scan(stream).results[0].ranges == OffsetRanges([(900, 900)])
    assert ranges(stream) == [(902, 2999)]


def test_nothing_is_inferred_where_every_window_begins_well() -> None:
    assert ranges(received({5, 500, 1500, 1999}, 4000)) == []


def test_a_loss_that_ends_with_its_window_leaves_no_trace_unless_all_tails_are_inferred() -> None:
    stream = received(set(range(950, 1000)), 2500)
    assert ranges(stream) == []
    assert ranges(stream, all_tails=True) == [(1, 999), (1001, 1999)]


def test_nothing_is_inferred_before_the_first_window_and_behind_the_last_one() -> None:
    stream = received({*range(2500), *range(3400, 4000)}, 4000)
    assert scan(stream, infer=True, all_tails=True).results[0].ranges == OffsetRanges([(2000, 2499), (2501, 2999)])


def test_a_window_that_somebody_took_back_or_that_cannot_be_read_says_nothing_and_is_not_inferred() -> None:
    stream = received({*range(1000, 4000)}, 5000)
    key = [b"t:0:1000", b"t_0:2000"]
    unreadable = LatestRecord(b"t:0:3000", b"\x09", 0, 0)
    found = read_windows(
        [*records(stream), unreadable], tombstone_keys=key, options=ScanOptions(infer=True, all_tails=True)
    )
    assert found.results[0].ranges == OffsetRanges([(1, 999)])
    assert (found.unreadable, found.tombstones) == (1, 0)
    tombstones = [LatestRecord(each, None, 0, 0) for each in (*key, b"t:0:3000")]
    assert not read_windows([*records(stream), *tombstones], options=ScanOptions(infer=True)).inferred


@pytest.mark.parametrize(
    "options", [ScanOptions(infer=True), ScanOptions(infer=True, all_tails=True), ScanOptions(skip_stale=True)]
)
def test_windows_in_a_run_say_what_they_say_one_by_one_also_where_others_overlap_them(options: ScanOptions) -> None:
    options = options._replace(remembered_windows=2)
    run = [CompleteWindows("t", 0, 0, 19, 2)]
    apart = [CompleteWindows("t", 0, 0, 9, 1), CompleteWindows("t", 0, 10, 19, 1)]
    for other in (CompleteWindows("t", 0, 5, 24, 1), CompleteWindows("t", 0, 20, 29, 1)):
        found, expected = (read_windows([], [*windows, other], options=options) for windows in (run, apart))
        assert found == expected


@pytest.mark.parametrize("silent", [b"t:0:5", b"t:0:10", b"t:0:15", b"t:0:25"])
def test_windows_in_a_run_say_what_they_say_one_by_one_also_where_a_silent_one_overlaps_them(silent: bytes) -> None:
    options = ScanOptions(infer=True, all_tails=True)
    run = [CompleteWindows("t", 0, 0, 29, 3)]
    apart = [CompleteWindows("t", 0, first, first + 9, 1) for first in (0, 10, 20)]
    for others in ([], [CompleteWindows("t", 0, 1000, 1099, 1)]):
        found, expected = (
            read_windows([], [*windows, *others], tombstone_keys=[silent], options=options) for windows in (run, apart)
        )
        assert found == expected


def test_a_key_that_was_taken_back_far_away_makes_nothing_missing_up_to_there() -> None:
    stream = received(set(), 3000)
    for far in (b"t:0:9000000", b"t:0:9223372036854775807", b"nonsense"):
        assert not read_windows(records(stream), tombstone_keys=[far], options=ScanOptions(infer=True)).inferred


def test_windows_of_another_size_are_not_inferred_where_either_speaks() -> None:
    small, large = received({5}, 1000), Stream([*range(500, 999), *range(2000, 2005)]).run(window_size=500)
    both = [*records(small), *records(large)]
    found = read_windows(both, options=ScanOptions(infer=True))
    assert found.results[0].ranges == OffsetRanges([(5, 5), (501, 1999)])
    assert found.inferred[0].ranges == OffsetRanges([(501, 1999)])
    every = read_windows(both, [CompleteWindows("t", 0, 0, 3999, 4)], options=ScanOptions(infer=True, all_tails=True))
    assert every.results[0].ranges.count > 1000


def test_offsets_near_the_largest_are_inferred() -> None:
    first = MAX_OFFSET - 9
    whole = [CompleteWindows("t", 0, first - 40, first - 21, 2), CompleteWindows("t", 0, first, MAX_OFFSET, 1)]
    found = read_windows([], whole, options=ScanOptions(infer=True))
    assert list(found.inferred[0].ranges) == [(first - 29, first - 1)]


def test_records_of_forgotten_windows_are_counted_as_stale_and_left_out_on_request() -> None:
    stream = received({5, 6, 1500, 7005}, 8000)
    found = scan(stream)
    assert (found.stale[0].events, found.stale[0].windows) == (3, 2)
    assert found.results[0].ranges == OffsetRanges([(5, 6), (1500, 1500), (7005, 7005)])
    skipped = scan(stream, skip_stale=True)
    assert skipped.results[0].ranges == OffsetRanges([(7005, 7005)])
    assert (skipped.results[0].window_min, skipped.results[0].window_max) == (3000, 7999)
    assert skipped.stale == found.stale


def test_a_detector_that_remembers_more_makes_less_stale() -> None:
    stream = received({5, 6, 1500, 7005}, 8000)
    assert scan(stream, remembered_windows=6).stale[0].events == 3
    assert scan(stream, remembered_windows=7).stale[0].events == 2
    assert scan(stream, remembered_windows=8).stale[0].events == 0
    assert scan(stream, remembered_windows=8, skip_stale=True).results[0].window_min == 0


def test_what_would_be_inferred_of_forgotten_windows_is_left_out_with_them() -> None:
    stream = received({*range(950, 2050), *range(5950, 6050)}, 9000)
    assert ranges(stream) == [(1, 1999), (5001, 5999)]
    assert ranges(stream, skip_stale=True) == [(5001, 5999)]


def test_counted_windows_infer_what_their_records_do() -> None:
    stream = received({*range(2000, 4000), 5500}, 8000)
    runs = [
        CompleteWindows("t", 0, 0, 1999, 2),
        CompleteWindows("t", 0, 4000, 4999, 1),
        CompleteWindows("t", 0, 6000, 7999, 2),
    ]
    rest = [r for r in records(stream) if r.key == b"t:0:5000"]
    for chosen in (
        ScanOptions(infer=True),
        ScanOptions(infer=True, all_tails=True),
        ScanOptions(infer=True, skip_stale=True),
    ):
        every = [*rest, *(_empty(first) for first in (0, 1000, 4000, 6000, 7000))]
        assert read_windows(rest, runs, options=chosen) == read_windows(every, options=chosen)


def _empty(first: int) -> LatestRecord:
    report = GapReport(first, first + 999, set())
    return LatestRecord(report.key("t", 0).encode(), report.value(), 0, 0)


@st.composite
def streams(draw: st.DrawFn, *, reordered: bool) -> Stream:
    """Bursts across the borders of windows, whole windows, single events, duplicates; a start and an end anywhere."""
    first = draw(st.integers(0, 3 * SIZE))
    count = draw(st.integers(1, 14 * SIZE))
    lost: set[int] = set()
    for _ in range(draw(st.integers(0, 5))):
        border = draw(st.integers(0, 17)) * SIZE
        begin = border + draw(st.integers(-SIZE, SIZE))
        lost |= set(range(begin, begin + draw(st.integers(1, 3 * SIZE))))
    lost |= draw(st.sets(st.integers(0, 17 * SIZE), max_size=12))
    arrived = [offset for offset in range(first, first + count) if offset not in lost]
    if draw(st.booleans()):
        arrived += draw(st.lists(st.sampled_from(arrived), max_size=10)) if arrived else []
    if reordered:
        late = draw(st.lists(st.integers(0, 3 * SIZE), min_size=len(arrived), max_size=len(arrived)))
        arrived = [offset for _, offset in sorted(zip(map(sum, zip(arrived, late, strict=True)), arrived, strict=True))]
    ticks = draw(st.frozensets(st.integers(0, count), max_size=8))
    return Stream(arrived, ticks).run(window_size=SIZE)


SLOW = settings(max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@SLOW
@given(stream=streams(reordered=False))
def test_with_all_tails_nothing_that_was_lost_between_the_first_and_the_last_certain_offset_is_missed(
    stream: Stream,
) -> None:
    known, inferred = known_and_inferred(stream, all_tails=True)
    arrived = set(stream.arrived)
    if not stream.latest:
        assert not arrived
        return
    windows = sorted(stream.latest)
    last = stream.latest[windows[-1]]
    last_certain = windows[-1] + (max(last.missing) + 1 if last.missing else 0)
    lost = set(range(windows[0], last_certain + 1)) - arrived
    assert lost <= known | inferred


@SLOW
@given(stream=streams(reordered=False))
def test_by_default_only_losses_that_end_with_their_window_are_missed(stream: Stream) -> None:
    known, inferred = known_and_inferred(stream)
    arrived = set(stream.arrived)
    windows = sorted(stream.latest)
    for window, following in pairwise(windows):
        lost = set(range(window, following)) - arrived
        if following in arrived and following == window + SIZE:
            # The records cannot tell whether the last events of the window were lost.
            lost -= set(range(max((o for o in arrived if o < following), default=0), following))
        assert lost <= known | inferred


@SLOW
@given(stream=streams(reordered=True))
def test_what_was_reported_is_missing_unless_its_window_was_forgotten(stream: Stream) -> None:
    known, inferred = known_and_inferred(stream)
    wrong = known & set(stream.arrived)
    if stream.windows_were_created_in_order_and_once:
        forgotten = set(stream.latest) - set(stream.remembered)
        assert {offset // SIZE * SIZE for offset in wrong} <= forgotten
    for offset in inferred:
        report = stream.latest.get(offset // SIZE * SIZE)
        assert report is None or offset > report.window_min + max(report.missing, default=-1) + 1


@SLOW
@given(stream=streams(reordered=True))
def test_what_is_stale_is_forgotten_when_windows_are_created_in_order(stream: Stream) -> None:
    if not stream.windows_were_created_in_order_and_once:
        return
    found = scan(stream, skip_stale=True)
    for result in found.results:
        stale = {first for first in stream.latest if first < result.window_min}
        assert not stale & set(stream.remembered)
        listed = {first: report for first, report in stream.latest.items() if report.missing and first in stale}
        assert found.stale[0] == (sum(len(report.missing) for report in listed.values()), len(listed))
        kept = {o for o in offsets(scan(stream).results[0].ranges) if o >= result.window_min}
        assert offsets(result.ranges) == kept
        assert not set(stream.arrived) & kept


@SLOW
@given(stream=streams(reordered=True), all_tails=st.booleans())
def test_runs_of_complete_windows_say_what_their_records_say(stream: Stream, all_tails: bool) -> None:  # noqa: FBT001
    complete = sorted(first for first, report in stream.latest.items() if not report.missing)
    runs: list[CompleteWindows] = []
    for first in complete:
        if runs and runs[-1].last_offset + 1 == first and first % (3 * SIZE):
            runs[-1] = runs[-1]._replace(last_offset=first + SIZE - 1, windows=runs[-1].windows + 1)
        else:
            runs.append(CompleteWindows("t", 0, first, first + SIZE - 1, 1))
    rest = [r for r, report in zip(records(stream), stream.latest.values(), strict=True) if report.missing]
    options = ScanOptions(infer=True, all_tails=all_tails)
    assert read_windows(rest, runs, options=options) == read_windows(records(stream), options=options)
