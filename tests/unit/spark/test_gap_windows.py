from __future__ import annotations

import json
import random
import struct
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.offsets.ranges import OffsetRanges
from gapless_spark.model.gap_windows import LISTED_UNREADABLE, CompleteWindows, LatestRecord, read_windows

VECTORS = Path(__file__).parents[1] / "vectors"


def record(key: str, window_max: int, missing: set[int], *, window_min: int | None = None) -> LatestRecord:
    first = int(key.rpartition(":")[2]) if window_min is None else window_min
    value = struct.pack(">Bqq", 1, first, window_max) + BitMap(offset - first for offset in missing).serialize()
    return LatestRecord(key.encode(), value, 0, 0)


def latest_of_vector() -> list[LatestRecord]:
    """What is left of the vector's topic: the last record of each window, a null value for the tombstone."""
    records = json.loads((VECTORS / "bundle-in-gap-topic.json").read_text())["records"]
    return list(
        {
            r["key"]: LatestRecord(r["key"].encode(), bytes.fromhex(r["value_hex"]) or None, 0, offset)
            for offset, r in enumerate(records)
        }.values()
    )


def test_the_vector_topic_gives_the_gaps_that_the_peer_writes_and_those_of_the_old_record_it_cannot_read() -> None:
    found = read_windows(latest_of_vector())
    expected = json.loads((VECTORS / "bundle-out-all.json").read_text())["results"]
    assert [
        {
            "gaps": [list(r) if r.first < r.last else [r.first] for r in result.ranges] or None,
            "partition": result.partition,
            "topic": result.topic,
            "window_max": result.window_max,
            "window_min": result.window_min,
        }
        for result in found.results
        if result.partition < 3
    ] == expected
    assert found.results[3].ranges == OffsetRanges([(1005, 1005), (1010, 1015)])
    assert (found.unreadable, found.tombstones, found.windows, found.complete_windows) == (0, 1, 6, 2)


def test_ranges_that_touch_across_a_window_border_become_one() -> None:
    windows = [record("t:0:1000", 1999, {1000, 1001}), record("t:0:0", 999, {998, 999})]
    assert list(read_windows(windows).results[0].ranges) == [(998, 1001)]


def test_windows_that_overlap_after_a_change_of_the_window_size_count_what_either_reports() -> None:
    windows = [record("t:0:0", 999, {5, 700}), record("t:0:500", 999, {600}), record("t:0:1000", 1499, {1000})]
    assert read_windows(windows).results[0].ranges == OffsetRanges.of_offsets([5, 600, 700, 1000])


def test_offsets_near_the_largest_survive() -> None:
    first = MAX_OFFSET - 999
    found = read_windows([record(f"t:0:{first}", MAX_OFFSET, {first, MAX_OFFSET - 1, MAX_OFFSET})])
    assert list(found.results[0].ranges) == [(first, first), (MAX_OFFSET - 1, MAX_OFFSET)]
    assert found.results[0].window_max == MAX_OFFSET


def test_partitions_come_in_the_order_of_topic_and_number() -> None:
    keys = ["b_x:2:0", "a:10:0", "b_x:0:0", "a:9:0"]
    found = read_windows([record(key, 9, set()) for key in keys])
    assert [(r.topic, r.partition) for r in found.results] == [("a", 9), ("a", 10), ("b_x", 0), ("b_x", 2)]


def test_a_null_value_takes_back_and_an_empty_one_only_for_a_window() -> None:
    found = read_windows(
        [
            LatestRecord(b"t:0:0", None, 0, 1),
            LatestRecord(b"t:0:1000", b"", 0, 2),
            LatestRecord(b"whatever", None, 0, 3),
            LatestRecord(b"whatever else", b"", 0, 4),
            LatestRecord(None, None, 0, 5),
        ]
    )
    assert found.tombstones == 3
    assert [(r.offset, r.reason) for r in found.first_unreadable] == [
        (4, "the key 'whatever else' is not topic:partition:windowMin"),
        (5, "the record has no key"),
    ]


def test_the_first_unreadable_records_are_listed_and_all_are_counted() -> None:
    garbage = [LatestRecord(b"?%d" % number, b"x", number % 3, number) for number in range(5000)]
    random.Random(1).shuffle(garbage)
    found = read_windows(garbage, further_unreadable=7)
    assert found.unreadable == 5007
    assert [(r.partition, r.offset) for r in found.first_unreadable] == [(0, 3 * n) for n in range(LISTED_UNREADABLE)]


def test_windows_counted_elsewhere_are_the_same_as_windows_read_here() -> None:
    gaps = [record("t:0:0", 999, {3})]
    whole = [record("t:0:1000", 1999, set()), record("t:0:2000", 2999, set()), record("t:5:0", 99, set())]
    counted = [CompleteWindows("t", 0, 1000, 2999, 2), CompleteWindows("t", 5, 0, 99, 1)]
    assert read_windows(gaps, counted) == read_windows(gaps + whole)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b_c", "d.e-f"]), st.integers(0, 3), st.integers(0, 6), st.sets(st.integers(0, 9))
        ),
        unique_by=lambda window: window[:3],
    ),
    st.randoms(use_true_random=False),
)
def test_any_windows_in_any_order_give_the_union_of_what_they_miss(
    windows: list[tuple[str, int, int, set[int]]], shuffler: random.Random
) -> None:
    records = [record(f"{t}:{p}:{10 * w}", 10 * w + 9, {10 * w + m for m in missing}) for t, p, w, missing in windows]
    shuffler.shuffle(records)
    found = read_windows(records)
    oracle: dict[tuple[str, int], set[int]] = {}
    for topic, partition, window, missing in windows:
        oracle.setdefault((topic, partition), set()).update(10 * window + m for m in missing)
    assert {
        (r.topic, r.partition): {o for f, last in r.ranges for o in range(f, last + 1)} for r in found.results
    } == oracle
    assert found.missing == sum(map(len, oracle.values()))
