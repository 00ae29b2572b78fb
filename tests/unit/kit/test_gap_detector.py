from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from kit.peer.gap_detector import GapDetector, GapReport, Verdict

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "gap-records.json").read_text(encoding="utf-8")
)


def fed(*ranges: range, window_size: int = 1000, max_windows: int = 5) -> GapDetector:
    detector = GapDetector(window_size, max_windows)
    for offsets in ranges:
        for offset in offsets:
            detector.check(offset)
    return detector


def reported(detector: GapDetector) -> dict[int, list[int]]:
    return {report.window_min: [report.window_min + each for each in report.missing] for report in detector.emit()}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_a_record_has_the_peers_bytes(vector: dict[str, Any]) -> None:
    missing = BitMap()
    for gap in vector["relative_gaps"]:
        missing.add_range(gap[0], gap[-1] + 1)
    report = GapReport(vector["windowMin"], vector["windowMax"], missing)
    topic, partition, _ = vector["key"].split(":")
    assert report.value().hex() == vector["value_hex"]
    assert report.key(topic, int(partition)) == vector["key"]


@pytest.mark.parametrize(
    ("name", "received"),
    [
        ("DETECTOR-lost-950-1050", (range(950), range(1051, 3000))),
        ("DETECTOR-lost-1000-2999", (range(1000), range(3000, 4000))),
        ("DETECTOR-starts-at-5499", (range(5499, 6500),)),
    ],
)
def test_what_the_peers_detector_wrote_is_what_this_one_writes(name: str, received: tuple[range, ...]) -> None:
    vector = next(each for each in VECTORS if each["name"] == name)
    by_window = {report.window_min: report.value().hex() for report in fed(*received).emit()}
    assert by_window[vector["windowMin"]] == vector["value_hex"]


def test_the_end_of_a_window_is_never_reported() -> None:
    found = reported(fed(range(950), range(1051, 2500)))
    assert found == {0: [], 1000: list(range(1000, 1051)), 2000: []}


def test_whole_windows_that_are_missing_are_never_reported() -> None:
    detector = fed(range(1000), range(3000, 4000))
    assert reported(detector) == {0: [], 3000: []}
    assert detector.missing_count() == 0


def test_the_first_offset_ever_opens_a_gap_back_to_its_windows_start_only() -> None:
    assert reported(fed(range(5499, 5501))) == {5000: list(range(5000, 5499))}


def test_verdicts_are_the_peers() -> None:
    detector = fed(range(1000, 1010))
    assert detector.check(1009) is Verdict.DUPLICATE
    assert detector.check(1015) is Verdict.NEW_HIGHEST
    assert detector.check(1012) is Verdict.GAP_FILL
    assert detector.check(1012) is Verdict.DUPLICATE


def test_below_the_oldest_window_nothing_is_remembered() -> None:
    detector = fed(range(8000), window_size=1000, max_windows=5)
    assert detector.windows == [3000, 4000, 5000, 6000, 7000]
    assert [detector.check(3), detector.check(3), detector.check(4)] == [Verdict.BELOW_RANGE] * 3


def test_a_late_window_stands_at_the_end_and_pushes_out_the_first_of_the_list() -> None:
    detector = fed(range(10), range(2000, 2010), range(3000, 3010), max_windows=3)
    assert detector.check(1000) is Verdict.GAP_FILL
    assert detector.windows == [2000, 3000, 1000]


def test_a_window_that_is_pushed_out_reports_its_gaps_once_more() -> None:
    detector = fed(range(5), range(6, 1000), max_windows=2)
    assert reported(detector) == {0: [5]}
    for offset in range(1000, 2001):
        detector.check(offset)
    purged = detector.take_purged()
    assert [(report.window_min, list(report.missing)) for report in purged] == [(0, [5])]
    assert detector.take_purged() == []
    assert 0 not in reported(detector)


def test_a_window_without_gaps_is_pushed_out_silently() -> None:
    detector = fed(range(3000), max_windows=2)
    assert detector.take_purged() == []


def test_an_empty_window_is_reported_once_until_it_has_had_gaps_again() -> None:
    detector = fed(range(10))
    assert reported(detector) == {0: []}
    assert reported(detector) == {}
    detector.check(12)
    assert reported(detector) == {0: [10, 11]}
    assert reported(detector) == {0: [10, 11]}
    detector.check(10)
    detector.check(11)
    assert reported(detector) == {0: []}
    assert reported(detector) == {}


@given(st.lists(st.integers(0, 400), max_size=200))
def test_with_room_for_all_windows_every_hole_before_a_windows_last_offset_is_found(offsets: list[int]) -> None:
    detector = fed(window_size=100, max_windows=10)
    highest_at_start: set[int] = set()
    lowest = None
    for offset in offsets:
        verdict = detector.check(offset)
        if lowest is not None and offset // 100 < lowest:
            assert verdict is Verdict.BELOW_RANGE
            continue
        assert (verdict is Verdict.DUPLICATE) == (offset in highest_at_start)
        highest_at_start.add(offset)
        lowest = offset // 100 if lowest is None else min(lowest, offset // 100)
    expected = {}
    for window in {offset // 100 for offset in highest_at_start}:
        seen = {offset for offset in highest_at_start if offset // 100 == window}
        expected[window * 100] = [each for each in range(window * 100, max(seen)) if each not in seen]
    assert reported(detector) == expected
