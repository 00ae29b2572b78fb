"""The proof of what an audit says about when events were lost."""

from __future__ import annotations

import io
from array import array
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gapless_api.offsets.ranges import OffsetRanges
from gapless_api.page.pages import page_members, write_page
from gapless_api.wire.lost_times import LostHour
from gapless_spark.audit.command import bitmaps_of
from gapless_spark.model.arrivals import HOUR_MILLISECONDS, Arrivals, Losses, Samples, lost_times, merge_samples
from gapless_spark.model.audit_outcome import OtherRecords, conclude_audit
from gapless_spark.model.bitmaps import collect_blocks, decode_blocks, encode_blocks, merge_bitmaps, received_block
from gapless_spark.model.event_keys import Block
from gapless_spark.model.gap_detection import compare
from gapless_spark.output.tables import show_results

if TYPE_CHECKING:
    from gapless_spark.model.outcome import Conclusion

DAY = 1_796_083_200_000
"""2026-12-01T00:00:00Z."""


class Message:
    """A record of the audited topic, as far as an audit looks at it."""

    def __init__(self, offset: int, time: int) -> None:
        self._key, self._time = f"t_0_{offset}".encode(), time

    def key(self) -> bytes:
        """The ID of the event."""
        return self._key

    def timestamp(self) -> tuple[int, int]:
        """Kind and milliseconds."""
        return 1, self._time


def audited(*polls: list[tuple[int, int]]) -> Conclusion:
    """What an audit says of events with offset and time; each list is an answer of Kafka."""
    rows: Any = [[Message(*event) for event in poll] for poll in polls]
    blocks = collect_blocks(bitmaps_of(rows))
    return conclude_audit(["raw"], compare([received_block(*pair) for pair in blocks.items()], {}), OtherRecords())


def arrivals_of(*samples: tuple[int, int]) -> Arrivals:
    kept = Samples()
    for offset, time in samples:
        kept.add(offset, time)
    return Arrivals.of([(0, kept.pack())])


@settings(deadline=None)
@given(st.lists(st.integers(0, 5000), max_size=30), st.sets(st.integers(0, 30), max_size=10), st.integers(0, 2**20))
def test_a_loss_is_between_the_arrivals_of_its_neighbours(steps: list[int], resent: set[int], late: int) -> None:
    # Each event is due one millisecond after the one before; some arrive later instead, as if they were sent again.
    offsets = [sum(steps[: number + 1]) + number for number in range(len(steps))]
    samples = [(offset, DAY + offset + (late if number in resent else 0)) for number, offset in enumerate(offsets)]
    arrivals = arrivals_of(*samples)
    assert list(arrivals.times) == sorted(arrivals.times)
    for before, after in pairwise(offsets):
        if after - before > 1:
            lost_after, lost_before = arrivals.around(before + 1, after - 1)
            assert lost_after is None or lost_after <= DAY + before + late
            assert lost_before is None or lost_before >= DAY + after
            if not resent or not late:
                assert lost_after is None or lost_after <= DAY + before


@given(st.lists(st.tuples(st.integers(0, 2**20 - 1), st.integers(DAY, 2**43 - 1))), st.integers(0, 100))
def test_samples_are_the_same_in_whatever_parts_they_are_read(found: list[tuple[int, int]], cut: int) -> None:
    def packed(some: list[tuple[int, int]]) -> array[int]:
        samples = Samples()
        for position, time in some:
            samples.add(position, time)
        return samples.pack()

    whole = packed(found)
    assert merge_samples(packed(found[:cut]), packed(found[cut:])) == whole
    assert len(whole) == len({position >> 10 for position, _ in found})


def test_times_that_no_clock_shows_are_no_samples() -> None:
    reset = 946_684_800_000  # 2000-01-01, as after a start without a battery
    assert arrivals_of((1, -1), (2000, 0), (4000, 2**43), (6000, reset)) == Arrivals(array("q"), array("q"))
    assert arrivals_of((1, DAY), (2000, reset), (4000, DAY + 9)).around(3000, 3000) == (DAY, DAY + 9)


def test_the_report_says_when_and_how_much_was_lost() -> None:
    # Two events a second for two hours; the second one loses 30 minutes, of which the first event was sent again.
    events = [(offset, DAY + offset * 500) for offset in range(14_400) if not 9000 < offset < 12_600]
    polls = [events[begin : begin + 100] for begin in range(0, len(events), 100)]
    concluded = audited(*polls, [(9001, DAY + 48 * HOUR_MILLISECONDS)])
    (row,) = concluded.partitions
    assert (row["missing"], row["first_missing"], row["last_missing"]) == (3598, 9002, 12_599)
    assert "2026-12-01T01:00:00Z" <= row["lost_after"] <= "2026-12-01T01:15:00Z"
    assert "2026-12-01T01:45:00Z" <= row["lost_before"] <= "2026-12-01T02:00:00Z"
    lost = concluded.details["lost"]
    assert (lost["after"], lost["before"]) == (row["lost_after"], row["lost_before"])
    (hour,) = lost["hours"]
    assert (hour["hour"], hour["missing"]) == ("2026-12-01T01:00:00Z", 3598)
    assert abs(hour["expected"] - 7200) < 1024
    assert abs(hour["percent"] - 50) < 5


def test_a_loss_at_the_end_has_no_later_neighbour() -> None:
    arrivals, expected = arrivals_of((0, DAY), (2000, DAY + 5000)), OffsetRanges([(0, 2999)])
    assert arrivals.around(2500, 2999) == (DAY + 5000, None)
    lost = OffsetRanges([(2500, 2999)])
    found = lost_times([Losses(lost, expected, arrivals)], max_hours=1)
    assert (found.after, found.before) == ("2026-12-01T00:00:05Z", None)
    assert found.hours == (LostHour(hour="2026-12-01T00:00:00Z", missing=500, expected=3000, percent=16.67),)
    unknown = lost_times([Losses(lost, expected, arrivals), Losses(lost, expected, Arrivals())], max_hours=1)
    assert (unknown.after, unknown.before, unknown.hours) == (None, None, found.hours)


def test_the_losses_of_an_outage_belong_to_the_hours_in_which_they_were_due() -> None:
    # 1,000 events each 20 minutes; from 00:20 until 03:10 nothing arrives.
    samples = [(0, DAY), (1000, DAY + 1_200_000), (9500, DAY + 11_400_000)]
    lost, expected = OffsetRanges([(1001, 9499)]), OffsetRanges([(0, 9500)])
    found = lost_times([Losses(lost, expected, arrivals_of(*samples))], max_hours=9)
    hours = [(hour.hour[11:13], hour.missing, hour.expected) for hour in found.hours]
    assert hours == [("00", 1999, 3000), ("01", 3000, 3000), ("02", 3000, 3000), ("03", 500, 501)]
    assert sum(hour.missing for hour in found.hours) == lost.count


def test_years_without_an_event_are_not_counted_hour_by_hour() -> None:
    arrivals = arrivals_of((0, DAY), (9_000, 2**43 - 1), (20_000, 2**43 - 1))
    lost = OffsetRanges([(10, 8_999)])
    found = lost_times([Losses(lost, OffsetRanges([(0, 9_000)]), arrivals)], max_hours=9)
    assert sum(hour.missing for hour in found.hours) == lost.count


@given(st.lists(st.tuples(st.integers(0, 2**20 - 1), st.integers(0, 9 * HOUR_MILLISECONDS)), min_size=1))
@example([(1023, HOUR_MILLISECONDS - 1), (1024, 2 * HOUR_MILLISECONDS)])
def test_each_offset_after_the_first_sample_is_in_one_hour(samples: list[tuple[int, int]]) -> None:
    arrivals = arrivals_of(*((offset, DAY + time) for offset, time in samples))
    hours = list(arrivals.hours())
    assert [begin for begin, _, _ in hours] == list(range(hours[0][0], hours[-1][0] + 1, HOUR_MILLISECONDS))
    assert [end for _, _, end in hours[:-1]] == [first for _, first, _ in hours[1:]]
    assert hours[0][1] == arrivals.offsets[0]
    for offset, time in zip(arrivals.offsets, arrivals.times, strict=True):
        (begin,) = (begin for begin, first, end in hours if first <= offset and (end is None or offset < end))
        assert begin <= time < begin + HOUR_MILLISECONDS


def test_the_newest_hours_are_named() -> None:
    arrivals = arrivals_of(*((2048 * hour, DAY + hour * HOUR_MILLISECONDS) for hour in range(9)))
    lost = OffsetRanges([(2048 * hour + 5, 2048 * hour + 6) for hour in range(9)])
    found = lost_times([Losses(lost, OffsetRanges([(0, 20_000)]), arrivals)], max_hours=2)
    assert [hour.hour for hour in found.hours] == ["2026-12-01T07:00:00Z", "2026-12-01T08:00:00Z"]
    assert found.hours_omitted == 7


def test_a_state_keeps_the_samples_and_one_of_before_has_none() -> None:
    polls: Any = [[Message(offset, DAY + offset) for offset in range(0, 5000, 7)]]
    rows = list(bitmaps_of(polls))
    ((block, received),) = decode_blocks(merge_bitmaps(rows))
    assert block == Block("t", 0, 0)
    assert len(received.samples) == 5
    assert list(decode_blocks(encode_blocks([(block, received)]))) == [(block, received)]
    older = [row.drop_columns(["samples"]) for row in encode_blocks([(block, received)])]
    ((_, without),) = decode_blocks(older)
    assert (without.positions, list(without.samples)) == (received.positions, [])
    assert isinstance(older[0], pa.RecordBatch)


def test_what_is_kept_grows_with_the_losses_and_not_with_the_events() -> None:
    lost = {500_000, *range(700_000, 701_500)}
    polls: Any = [
        [Message(offset, DAY + offset) for offset in range(begin, begin + 64) if offset not in lost]
        for begin in range(0, 2**21, 64)
    ]
    blocks = collect_blocks(bitmaps_of(polls))
    kept = {block.number: len(received.samples) for block, received in blocks.items()}
    assert kept[1] == 2, "it is complete"
    assert 5 <= kept[0] <= 12
    (partition,) = compare([received_block(*pair) for pair in blocks.items()], {})
    for first, last in ((500_000, 500_000), (700_000, 701_499)):
        after, before = partition.arrivals.around(first, last)
        assert after is not None
        assert before is not None
        assert first - 2048 <= after - DAY < first
        assert last < before - DAY <= last + 2048


def test_the_table_and_the_page_show_when_events_were_lost(tmp_path: Path) -> None:
    concluded = audited([(offset, DAY + offset) for offset in (*range(3000), *range(4000, 9000))])
    stream = io.StringIO()
    show_results(concluded, stream, read_by=None, with_sentence=True)
    lines = [line.split() for line in stream.getvalue().splitlines()]
    assert ["2026-12-01T00:00:00Z", "1,000", "9,000", "11.11"] in lines
    assert lines[0][6:8] == ["lost", "after"]
    assert lines[1][6] == "2026-12-01T00:00:02Z"
    report = {
        "command": "audit",
        "created": "2026-12-01T03:04:05Z",
        "topics": ["raw"],
        "outcome": concluded.outcome,
        "exit_code": 0,
        "message": concluded.sentence,
        "missing": concluded.missing,
        **concluded.details,
        "partitions": concluded.partitions,
        "bundle": {"file": "bundle.json", "id": "b", "sha256": "0" * 64},
        **page_members(concluded.results, concluded.inferred, concluded.lost_between),
    }
    assert report["biggest_gaps"][0]["lost_after"] == "2026-12-01T00:00:02Z"
    write_page(report, tmp_path / "page.html", "kafka:9092")
    page = (tmp_path / "page.html").read_text()
    assert "When events were lost" in page
    assert page.count("2026-12-01T00:00:02Z") == 2
