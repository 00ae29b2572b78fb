"""Datagrams change places only as far as the receiving side's gap detector can follow."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from gapless_sender.link.transmitter import Transmitter
from gapless_sender.link.udp_link import UdpLink
from gapless_sender.pace.pacing import Pace, wire_bits
from gapless_sender.replay.replay import DISORDER_OFFSETS, offset_spans
from kit.machine.examples import examples
from kit.peer.gap_detector import GapDetector, Verdict


@given(st.sets(st.integers(0, 20_000)), st.integers(1, 5_000))
def test_stretches_cover_every_offset_once_and_span_no_more_than_asked(offsets: set[int], most: int) -> None:
    ordered = sorted(offsets)
    slices = [ordered[start:end] for start, end in offset_spans(ordered, most)]
    assert [offset for each in slices for offset in each] == ordered
    assert all(each and each[-1] - each[0] < most for each in slices)


@settings(max_examples=examples(30))
@given(st.integers(0, 5_000), st.integers(0, 2**32))
def test_a_detector_of_five_windows_sees_no_gap_when_stretches_arrive_in_any_inner_order(first: int, seed: int) -> None:
    detector = GapDetector(1000, 5)
    shuffler = random.Random(seed)
    offsets = list(range(first, first + 9_000))
    verdicts = set()
    for start, end in offset_spans(offsets, DISORDER_OFFSETS, first_batch=True):
        stretch = offsets[start:end]
        shuffler.shuffle(stretch)
        verdicts |= {detector.check(offset) for offset in stretch}
    assert Verdict.BELOW_RANGE not in verdicts
    reports = [*detector.take_purged(), *detector.emit()]
    assert [
        report.window_min + gap for report in reports for gap in report.missing if report.window_min + gap >= first
    ] == []


@given(
    st.lists(st.integers(1, 1500), min_size=1, max_size=300),
    st.floats(0.5, 1e6),
    st.one_of(st.none(), st.floats(1e4, 1e9)),
)
def test_bursts_hold_every_datagram_in_its_place_and_no_more_than_the_pace_lets_out_at_once(
    sizes: list[int], events_per_second: float, bits_per_second: float | None
) -> None:
    pace = Pace(events_per_second, bits_per_second)
    with UdpLink.open("127.0.0.1", 9) as link:
        runs = link.arrange([bytes(size) for size in sizes])
        bursts = list(Transmitter(link, pace, 1, on_send=lambda: None)._bursts(runs, 1.0))
        header_bytes = link.header_bytes
    sent = [datagram for burst in bursts for run in burst.batches for datagram in run.datagrams]
    assert sent == [datagram for run in runs for datagram in run.datagrams]
    for burst in bursts:
        datagrams = [datagram for run in burst.batches for datagram in run.datagrams]
        assert burst.payload_bytes == sum(map(len, datagrams))
        assert burst.events == len(datagrams)
        parts = [
            len(run.datagrams) / pace.largest_burst(1.0, wire_bits(run.size, 1, header_bytes)) for run in burst.batches
        ]
        assert sum(parts) <= 1.000001
