"""Owns the proof that settings and bundles become the wanted offsets of the right partitions."""

from __future__ import annotations

from typing import Any

import pytest

from gapless_api.bundle import Bundle, BundleKind, PartitionGaps
from gapless_api.errors import ConfigurationError
from gapless_api.offsets import OffsetRanges
from gapless_sender.plan import Mode, Place, Skipped, Wish, plan_partition, select, share_out, wishes_of_all

NOTHING: dict[str, Any] = {
    "partitionStartValue": 0, "partitionStopValue": 0, "topicTranslations": {}, "from": None, "to": None,
    "topic": None, "partition": None, "offsetFrom": None, "offsetTo": None,
}  # fmt: skip


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
        ({}, "Nothing is chosen"),
        ({"topic": "t"}, "Nothing is chosen"),
        ({"topic": "t", "offsetFrom": 3}, "partition is missing"),
        ({"offsetTo": 3}, "topic and partition and offsetFrom are missing"),
        ({"topic": "t", "from": 5, "to": 4}, "before"),
        ({"topic": "t", "partition": 0, "offsetFrom": 5, "offsetTo": 4}, "below"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            select(NOTHING | given, None)


def test_partitions_are_downstream_numbers_and_topics_are_names_on_the_wire() -> None:
    shifted = NOTHING | {"partitionStartValue": 10, "topicTranslations": {"events": "transfer"}}
    (wish,) = select(shifted, bundle(("transfer", 12, [(1, 5)]))).wishes
    assert wish.place == Place("transfer", 12, "events", 2)
    (wish,) = select(shifted | {"topic": "transfer", "partition": 12, "offsetFrom": 0, "offsetTo": 1}, None).wishes
    assert wish.place == Place("transfer", 12, "events", 2)


@pytest.mark.parametrize(
    ("given", "wire", "upstream"),
    [("events", "transfer", "events"), ("transfer", "transfer", "events"), ("b", "b", "a")],
)
def test_a_topic_of_the_live_senders_file_is_sent_under_its_name_on_the_wire(
    given: str, wire: str, upstream: str
) -> None:
    translated = NOTHING | {"topicTranslations": {"events": "transfer", "a": "b", "b": "c"}, "topic": given}
    (wish,) = select(translated | {"partition": 0, "offsetFrom": 1, "offsetTo": 2}, None).wishes
    assert (wish.place.topic, wish.place.upstream_topic) == (wire, upstream)
    every = select(translated | {"from": 5}, None).all_partitions_of
    assert every is not None
    assert (every.topic, every.upstream_topic) == (wire, upstream)


def test_entries_outside_the_window_are_skipped_and_named() -> None:
    windowed = NOTHING | {"partitionStartValue": 10, "partitionStopValue": 2}
    found = select(windowed, bundle(("t", 9, [(1, 3)]), ("t", 10, [(1, 1)]), ("t", 11, []), ("t", 12, [(1, 1)])))
    assert [wish.place.partition for wish in found.wishes] == [10]
    assert found.skipped == (Skipped("t", 9, 3), Skipped("t", 12, 1))


def test_a_partition_below_an_open_window_is_refused_with_both_numbers() -> None:
    for ranges in ([(1, 1)], []):
        with pytest.raises(ConfigurationError, match=r"partition 3 .* partitionStartValue 10"):
            select(NOTHING | {"partitionStartValue": 10}, bundle(("t", 3, ranges)))


def test_a_bundle_of_first_gaps_goes_on_to_the_end() -> None:
    (wish,) = select(NOTHING, bundle(("t", 0, [(17, 18)]), kind=BundleKind.FIRST)).wishes
    plan = plan_partition(wish, end=30)
    assert plan.wanted == OffsetRanges([(17, 29)])
    asked, others = plan.missed(16, 22)
    assert asked == OffsetRanges([(16, 18)])
    assert others == OffsetRanges([(19, 22)])


def test_a_first_gap_beyond_the_end_stays_wanted() -> None:
    (wish,) = select(NOTHING, bundle(("t", 0, [(17, 18)]), kind=BundleKind.FIRST)).wishes
    assert plan_partition(wish, end=10).wanted == OffsetRanges([(17, 18)])


def test_a_time_range_covers_the_partitions_of_the_window() -> None:
    chosen = select(NOTHING | {"topic": "t", "from": 5, "partitionStartValue": 10, "partitionStopValue": 2}, None)
    wishes = wishes_of_all(chosen, 4)
    assert [(wish.place.partition, wish.place.upstream_partition) for wish in wishes] == [(10, 0), (11, 1)]
    assert plan_partition(wishes[0], end=9, first_in_time=4).wanted == OffsetRanges([(4, 8)])
    assert plan_partition(wishes[0], end=9, first_in_time=9).wanted == OffsetRanges()


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
    wishes = [
        Wish(Place("t", number, "t", number), OffsetRanges([(0, size - 1)]))
        for number, size in enumerate([1000, 10, 500, 490, 20])
    ]
    shares = share_out(wishes, 2)
    assert sorted(wish.place.partition for share in shares for wish in share) == [0, 1, 2, 3, 4]
    assert [sum(wish.ranges.count for wish in share) for share in shares] == [1010, 1010]
    assert share_out(wishes, 2) == shares
    assert len(share_out(wishes, 9)) == 5
