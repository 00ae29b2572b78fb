"""Datagrams change places only as far as the receiving side's gap detector can follow."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from gapless_sender.replay import DISORDER_OFFSETS, stretches
from kit.gap_detector import GapDetector, Verdict


@given(st.sets(st.integers(0, 20_000)), st.integers(1, 5_000))
def test_stretches_cover_every_offset_once_and_span_no_more_than_asked(offsets: set[int], most: int) -> None:
    ordered = sorted(offsets)
    slices = [ordered[start:end] for start, end in stretches(ordered, most)]
    assert [offset for each in slices for offset in each] == ordered
    assert all(each and each[-1] - each[0] < most for each in slices)


@settings(max_examples=30)
@given(st.integers(0, 5_000), st.integers(0, 2**32))
def test_a_detector_of_five_windows_sees_no_gap_when_stretches_arrive_in_any_inner_order(first: int, seed: int) -> None:
    detector = GapDetector(1000, 5)
    shuffler = random.Random(seed)
    offsets = list(range(first, first + 9_000))
    verdicts = set()
    for start, end in stretches(offsets, DISORDER_OFFSETS, opening=True):
        stretch = offsets[start:end]
        shuffler.shuffle(stretch)
        verdicts |= {detector.check(offset) for offset in stretch}
    assert Verdict.BELOW_RANGE not in verdicts
    reports = [*detector.take_purged(), *detector.emit()]
    assert [
        report.window_min + gap for report in reports for gap in report.missing if report.window_min + gap >= first
    ] == []
