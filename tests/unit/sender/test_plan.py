"""The proof that settings and bundles become the requested offsets of the right partitions."""

from __future__ import annotations

from typing import Any

import pytest

from gapless_api.base.errors import ConfigurationError
from gapless_api.bundle.form import Bundle, BundleKind, PartitionGaps
from gapless_api.offsets.ranges import OffsetRanges
from gapless_api.offsets.windows import PartitionWindow
from gapless_api.wire.resend_report import SkippedEntry
from gapless_sender.base.sharding import Shard
from gapless_sender.settings.selection import SelectionSettings
from gapless_sender.source import plan
from gapless_sender.source.plan import (
    Mode,
    PartitionPlan,
    Reason,
    Selection,
    plan_partition,
    requests_of_all_partitions,
    requests_of_shard,
)
from gapless_sender.source.requests import MappedPartition, PartitionRequest, distribute

NOTHING: dict[str, Any] = {
    "partitionStartValue": 0, "partitionStopValue": 0, "topicTranslations": {}, "from": None, "to": None,
    "topic": None, "partition": None, "offsetFrom": None, "offsetTo": None, "resendFileName": None,
    "unavailable": "report", "fill": None, "plan": False, "verifyKey": None, "trustedKeys": None, "bundleSha256": None,
}  # fmt: skip


def select(values: dict[str, Any], found: Bundle | None, **more: Any) -> Selection:
    return plan.select(SelectionSettings.of(values), found, **more)


def test_1970_is_no_bound() -> None:
    selection = select({**NOTHING, "topic": "t", "from": 0}, None)
    assert selection.first_timestamp_ms is None
    assert selection.all_partitions_of is not None
    assert select({**NOTHING, "topic": "t", "from": 1}, None).first_timestamp_ms == 1


def bundle(*entries: tuple[str, int, list[tuple[int, int]]], kind: BundleKind = BundleKind.ALL) -> Bundle:
    results = tuple(PartitionGaps(topic, number, 0, 999, OffsetRanges(ranges)) for topic, number, ranges in entries)
    return Bundle(kind, results, None)


def test_a_bundle_comes_before_offsets_and_offsets_before_times() -> None:
    everything = NOTHING | {"topic": "t", "partition": 1, "offsetFrom": 5, "from": 3}
    assert select(everything, bundle(("a", 0, [(1, 1)]))).mode is Mode.BUNDLE
    assert select(everything, None).mode is Mode.OFFSETS
    assert select(everything | {"offsetFrom": None}, None).mode is Mode.TIME


def test_nothing_chosen_and_half_chosen_are_errors() -> None:
    for given, words in (
        ({}, "No events are selected"),
        ({"topic": "t"}, "No events are selected"),
        ({"topic": "t", "offsetFrom": 3}, "partition is missing"),
        ({"offsetTo": 3}, "topic and partition and offsetFrom are missing"),
        ({"topic": "t", "from": 5, "to": 4}, "before"),
        ({"topic": "t", "partition": 0, "offsetFrom": 5, "offsetTo": 4}, "below"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            select(NOTHING | given, None)


def test_partitions_are_downstream_numbers_and_topics_are_names_on_the_wire() -> None:
    shifted = NOTHING | {"partitionStartValue": 10, "topicTranslations": {"events": "transfer"}}
    (request,) = select(shifted, bundle(("transfer", 12, [(1, 5)]))).requests
    assert request.partition == MappedPartition("transfer", 12, "events", 2)
    (request,) = select(shifted | {"topic": "transfer", "partition": 12, "offsetFrom": 0, "offsetTo": 1}, None).requests
    assert request.partition == MappedPartition("transfer", 12, "events", 2)


@pytest.mark.parametrize(
    ("given", "wire", "upstream"),
    [("events", "transfer", "events"), ("transfer", "transfer", "events"), ("b", "b", "a")],
)
def test_a_topic_of_the_live_senders_file_is_sent_under_its_name_on_the_wire(
    given: str, wire: str, upstream: str
) -> None:
    translated = NOTHING | {"topicTranslations": {"events": "transfer", "a": "b", "b": "c"}, "topic": given}
    (request,) = select(translated | {"partition": 0, "offsetFrom": 1, "offsetTo": 2}, None).requests
    assert (request.partition.topic, request.partition.upstream_topic) == (wire, upstream)
    every = select(translated | {"from": 5}, None).all_partitions_of
    assert every is not None
    assert (every.topic, every.upstream_topic) == (wire, upstream)


def test_entries_outside_the_window_are_skipped_and_named() -> None:
    windowed = NOTHING | {"partitionStartValue": 10, "partitionStopValue": 2}
    found = select(windowed, bundle(("t", 9, [(1, 3)]), ("t", 10, [(1, 1)]), ("t", 11, []), ("t", 12, [(1, 1)])))
    assert [request.partition.partition for request in found.requests] == [10]
    assert found.skipped == (
        SkippedEntry(topic="t", partition=9, events=3),
        SkippedEntry(topic="t", partition=12, events=1),
    )


def test_a_partition_below_an_open_window_is_refused_with_both_numbers() -> None:
    for ranges in ([(1, 1)], []):
        with pytest.raises(ConfigurationError, match=r"partition 3 .* partitionStartValue 10"):
            select(NOTHING | {"partitionStartValue": 10}, bundle(("t", 3, ranges)))


def test_a_bundle_of_first_gaps_goes_on_to_the_end() -> None:
    (request,) = select(NOTHING, bundle(("t", 0, [(17, 18)]), kind=BundleKind.FIRST)).requests
    plan = plan_partition(request, end=30)
    assert plan.requested == OffsetRanges([(17, 29)])
    asked, others = plan.split_absent(16, 22)
    assert asked == OffsetRanges([(16, 18)])
    assert others == OffsetRanges([(19, 22)])


def test_a_first_gap_beyond_the_end_stays_wanted() -> None:
    (request,) = select(NOTHING, bundle(("t", 0, [(17, 18)]), kind=BundleKind.FIRST)).requests
    assert plan_partition(request, end=10).requested == OffsetRanges([(17, 18)])


def test_a_time_range_covers_the_partitions_of_the_window() -> None:
    chosen = select(NOTHING | {"topic": "t", "from": 5, "partitionStartValue": 10, "partitionStopValue": 2}, None)
    requests = requests_of_all_partitions(chosen, 4)
    assert [(request.partition.partition, request.partition.upstream_partition) for request in requests] == [
        (10, 0),
        (11, 1),
    ]
    assert plan_partition(requests[0], end=9, first_in_time=4).requested == OffsetRanges([(4, 8)])
    assert plan_partition(requests[0], end=9, first_in_time=9).requested == OffsetRanges()


def test_a_topic_and_a_partition_alone_are_the_whole_partition_as_for_the_peer() -> None:
    chosen = select(NOTHING | {"topic": "t", "partition": 0}, None)
    assert chosen.mode is Mode.TIME
    assert chosen.first_timestamp_ms is chosen.last_timestamp_ms is None


def test_different_wishes_have_different_identities() -> None:
    first = select(NOTHING, bundle(("t", 0, [(1, 1)])), bundle_digest="one")
    second = select(NOTHING, bundle(("t", 0, [(1, 1)])), bundle_digest="other")
    assert first.identity != second.identity
    assert first.identity == select(NOTHING, bundle(("t", 0, [(1, 1)])), bundle_digest="one").identity


def test_shares_hold_every_partition_once_and_about_the_same_load() -> None:
    requests = [
        PartitionRequest(MappedPartition("t", number, "t", number), OffsetRanges([(0, size - 1)]))
        for number, size in enumerate([1000, 10, 500, 490, 20])
    ]
    shares = distribute(requests, 2)
    assert sorted(request.partition.partition for share in shares for request in share) == [0, 1, 2, 3, 4]
    assert [sum(request.ranges.count for request in share) for share in shares] == [1010, 1010]
    assert distribute(requests, 2) == shares
    assert len(distribute(requests, 9)) == 5


def test_a_place_shows_kafkas_name_of_it_when_that_is_another() -> None:
    assert str(MappedPartition("t", 3, "t", 3)) == "t/3"
    assert str(MappedPartition("t", 3, "t", 2)) == "t/3 (upstream t/2)"
    assert str(MappedPartition("t", 3, "u", 3)) == "t/3 (upstream u/3)"


WINDOW = {"partitionStartValue": 10, "partitionStopValue": 2, "topicTranslations": {"u": "t"}}
SAME = {**WINDOW, "from": 5, "to": 5}


def test_the_identity_says_all_that_makes_a_resend_this_one() -> None:
    every = NOTHING | SAME | {"topic": "u"}
    assert select(every, None).identity == SAME | {"topic": "t", "partition": None}
    offsets = every | {"partition": 11, "offsetFrom": 7, "offsetTo": 7}
    assert select(offsets, None, shard=Shard(1, 2)).identity == SAME | {
        "topic": "t",
        "partition": 11,
        "offsetFrom": 7,
        "offsetTo": 7,
        "shard": "1-of-2",
    }
    from_bundle = select(every, bundle(("t", 10, [(1, 1)])), bundle_digest="digest", shard=Shard(0, 2))
    assert from_bundle.identity == SAME | {"bundle": "digest", "shard": "0-of-2"}
    assert select(every, bundle(("t", 10, [(1, 1)]))).identity == SAME | {"bundle": ""}


@pytest.mark.parametrize(
    ("given", "gaps"),
    [
        ({}, bundle(("t", 10, [(1, 1)]))),
        ({"topic": "t", "partition": 10, "offsetFrom": 7}, None),
        ({"topic": "t", "partition": 10}, None),
        ({"topic": "t"}, None),
    ],
)
def test_every_selection_keeps_its_times_its_window_and_its_shard(given: dict[str, Any], gaps: Bundle | None) -> None:
    found = select(NOTHING | SAME | given, gaps, shard=Shard(1, 3))
    assert (found.first_timestamp_ms, found.last_timestamp_ms) == (5, 5)
    assert found.window == PartitionWindow(10, 2)
    assert found.shard == Shard(1, 3)


def test_a_whole_topic_begins_with_the_windows_first_partition() -> None:
    for times in ({"from": 5}, {"to": 5}):
        assert select(NOTHING | WINDOW | times | {"topic": "t"}, None).all_partitions_of == MappedPartition(
            "t", 10, "u", 0
        )


OFFSETS_OR_ALL = pytest.mark.parametrize("given", [{"offsetFrom": 7}, {"offsetFrom": 7, "offsetTo": 9}, {}])


@OFFSETS_OR_ALL
@pytest.mark.parametrize("partition", [10, 11])
def test_a_partition_of_the_window_is_wanted(given: dict[str, Any], partition: int) -> None:
    found = select(NOTHING | WINDOW | given | {"topic": "t", "partition": partition}, None)
    assert [request.partition.upstream_partition for request in found.requests] == [partition - 10]
    assert found.mode is (Mode.OFFSETS if given else Mode.TIME)


@OFFSETS_OR_ALL
@pytest.mark.parametrize("partition", [0, 9, 12])
def test_a_partition_of_another_cluster_is_refused(given: dict[str, Any], partition: int) -> None:
    with pytest.raises(ConfigurationError, match=f"partition {partition} is outside the partition window 10…11"):
        select(NOTHING | WINDOW | given | {"topic": "t", "partition": partition}, None)


def test_offsets_are_wanted_by_number_up_to_the_last_or_whatever_there_is() -> None:
    chosen = NOTHING | {"topic": "t", "partition": 0, "offsetFrom": 7}
    place = MappedPartition("t", 0, "t", 0)
    assert select(chosen | {"offsetTo": 7}, None).requests == (PartitionRequest(place, OffsetRanges([(7, 7)])),)
    assert select(chosen, None).requests == (PartitionRequest(place, open_from=7),)
    assert select(chosen | {"offsetFrom": None}, None).requests == (PartitionRequest(place, by_time=True),)


def test_wishes_that_are_known_already_stay_as_they_are() -> None:
    chosen = select(NOTHING | {"topic": "t", "partition": 0, "offsetFrom": 7}, None)
    assert requests_of_all_partitions(chosen, 9) is chosen.requests


PARTITION = MappedPartition("t", 0, "t", 0)


@pytest.mark.parametrize(
    ("requested_partition", "first_in_time", "requested", "open_from", "numbered"),
    [
        (PartitionRequest(PARTITION, OffsetRanges([(3, 40)])), None, [(3, 40)], None, None),
        (PartitionRequest(PARTITION, OffsetRanges([(3, 40)])), 5, [(3, 40)], None, None),
        (PartitionRequest(PARTITION, open_from=8), None, [(8, 9)], 8, None),
        (PartitionRequest(PARTITION, open_from=9), None, [(9, 9)], 9, None),
        (PartitionRequest(PARTITION, open_from=10), None, [], 10, None),
        (PartitionRequest(PARTITION, open_from=11), None, [(11, 11)], 11, [(11, 11)]),
        (PartitionRequest(PARTITION, open_from=10**9), None, [(10**9, 10**9)], 10**9, [(10**9, 10**9)]),
        (PartitionRequest(PARTITION, by_time=True), 10, [], 10, None),
        (PartitionRequest(PARTITION, by_time=True), 4, [(4, 9)], 4, None),
        (
            PartitionRequest(PARTITION, OffsetRanges([(2, 3), (30, 31)]), open_from=2),
            None,
            [(2, 9), (30, 31)],
            2,
            [(2, 3), (30, 31)],
        ),
        (PartitionRequest(PARTITION, OffsetRanges([(20, 21)]), open_from=20), None, [(20, 21)], 20, [(20, 21)]),
    ],
)
def test_a_plan_of_a_partition_that_ends_at_10(
    requested_partition: PartitionRequest,
    first_in_time: int | None,
    requested: list[tuple[int, int]],
    open_from: int | None,
    numbered: list[tuple[int, int]] | None,
) -> None:
    plan = plan_partition(requested_partition, end=10, first_in_time=first_in_time)
    by_number = None if numbered is None else OffsetRanges(numbered)
    assert plan == PartitionPlan(PARTITION, OffsetRanges(requested), open_from, by_number)


@pytest.mark.parametrize(
    ("open_from", "numbered", "asked", "others"),
    [
        (None, None, [(4, 9)], []),
        (10, None, [(4, 9)], []),
        (9, None, [(4, 8)], [(9, 9)]),
        (4, None, [], [(4, 9)]),
        (0, None, [], [(4, 9)]),
        (5, [(7, 8), (20, 20)], [(4, 4), (7, 8)], [(5, 6), (9, 9)]),
    ],
)
def test_what_was_asked_for_by_number_is_missed(
    open_from: int | None,
    numbered: list[tuple[int, int]] | None,
    asked: list[tuple[int, int]],
    others: list[tuple[int, int]],
) -> None:
    by_number = None if numbered is None else OffsetRanges(numbered)
    plan = PartitionPlan(PARTITION, OffsetRanges([(0, 99)]), open_from, by_number)
    assert plan.split_absent(4, 9) == (OffsetRanges(asked), OffsetRanges(others))


def test_offset_0_can_be_missed() -> None:
    plan = PartitionPlan(PARTITION, OffsetRanges([(0, 99)]), open_from=2)
    assert plan.split_absent(0, 3) == (OffsetRanges([(0, 1)]), OffsetRanges([(2, 3)]))


def test_modes_and_reasons_have_the_names_of_reports_and_settings() -> None:
    assert list(map(str, Mode)) == ["bundle", "offsets", "time"]
    assert list(map(str, Reason)) == ["Expired", "NonExistent", "NotYetWritten", "TooLarge", "ArchiveDamaged"]


def wish_of(partition: int, events: int, topic: str = "t") -> PartitionRequest:
    ranges = OffsetRanges([(0, events - 1)] if events else [])
    return PartitionRequest(
        MappedPartition(topic, partition, topic, partition), ranges, open_from=None if events else 0
    )


def partitions_of(shares: list[list[PartitionRequest]]) -> list[list[int]]:
    return [[request.partition.partition for request in share] for share in shares]


def test_an_open_end_weighs_as_much_as_the_largest_that_is_known() -> None:
    requests = [wish_of(0, 0), wish_of(1, 100), wish_of(2, 60), wish_of(3, 50)]
    assert partitions_of(distribute(requests, 2)) == [[0, 2], [1, 3]]
    assert partitions_of(distribute([wish_of(number, 0) for number in range(5)], 2)) == [[0, 2, 4], [1, 3]]
    by_time = [PartitionRequest(MappedPartition("t", number, "t", number), by_time=True) for number in range(3)]
    assert partitions_of(distribute([*by_time, wish_of(3, 9)], 4)) == [[0], [1], [2], [3]]
    assert distribute([], 3) == []


def test_shares_are_in_the_order_of_topics_and_partitions_whatever_the_bundles() -> None:
    requests = [wish_of(number, 10, topic) for topic, number in (("b", 1), ("a", 2), ("b", 0), ("a", 10), ("a", 9))]
    whole = [
        [(request.partition.topic, request.partition.partition) for request in share]
        for share in distribute(requests, 2)
    ]
    assert whole == [[("a", 2), ("a", 10), ("b", 1)], [("a", 9), ("b", 0)]]
    assert distribute(requests[::-1], 2) == distribute(requests, 2)
    assert partitions_of(distribute([wish_of(number, number + 1) for number in range(4)], 1)) == [[0, 1, 2, 3]]


def test_a_share_is_that_of_its_number_and_empty_beyond_the_partitions() -> None:
    requests = [wish_of(0, 10), wish_of(1, 20)]
    assert requests_of_shard(requests, Shard(0, 1)) == tuple(requests)
    for count, partitions in ((2, [[1], [0]]), (3, [[1], [0], []])):
        assert (
            partitions_of([list(requests_of_shard(requests, Shard(index, count))) for index in range(count)])
            == partitions
        )
