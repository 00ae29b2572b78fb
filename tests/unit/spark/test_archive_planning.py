"""The proof of what is archived next, and when."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.settings import resolve
from gapless_archive.catalog.entry import Head, LostRange
from gapless_archive.segments.row_buffer import Limits
from gapless_kafka.reading.cuts import TopicCut, slices_of
from gapless_kafka.reading.lag import Observations
from gapless_kafka.topics.topic_choice import choice_from
from gapless_spark.archiving.archive.planning import (
    Pending,
    Thresholds,
    Waiting,
    build_cut,
    clip_to_end,
    find_pending,
    select_for_cycle,
)
from gapless_spark.archiving.archive.thresholds import TopicThresholds
from gapless_spark.settings.archive import ARCHIVE, ArchiveSettings


def waiting(partition: int, first: int, end: int, *, size: float = 10.0, log_start: int = 0) -> Pending:
    return Pending(
        topic="t",
        partition=partition,
        first=first,
        end=end,
        log_start=log_start,
        high_watermark=end,
        bytes_per_offset=size,
    )


def test_each_partition_goes_on_where_the_archive_ends() -> None:
    topic = TopicCut("t", (0, 5, 7, 3), (9, 9, 9, 9), 0, "id", high_watermarks=(9, 10, 9, 9))
    found = find_pending(topic, {0: 4, 1: 9, 2: 5}.get, 10.0)
    assert [(one.first, one.end, one.offsets) for one in found.partitions] == [
        (4, 9, 5),
        (9, 9, 0),
        (7, 9, 2),
        (3, 9, 6),
    ]
    assert found.lost == (LostRange(2, 5, 7),)
    assert [one.truncated_at for one in found.partitions] == [None] * 4


def test_a_partition_is_archived_from_its_log_start_or_from_0_if_it_was_added_since() -> None:
    topic = TopicCut("t", (4, 4, 4), (9, 4, 9), 0, "id", high_watermarks=(9, 4, 9))
    found = find_pending(topic, {0: 6}.get, 10.0, known_partitions=2)
    assert [one.first for one in found.partitions] == [6, 4, 4]
    assert found.started == (Head(1, 4), Head(2, 0))
    assert found.lost == (LostRange(2, 0, 4),), "the topic had no partition 2 in the last commit"
    found = find_pending(topic, {}.get, 10.0)
    assert (found.started, found.lost) == ((Head(0, 4), Head(1, 4), Head(2, 4)), ())
    found = find_pending(topic, {}.get, 10.0, known_partitions=0)
    assert found.started == (Head(0, 0), Head(1, 0), Head(2, 0)), "the archive has an earlier generation of the topic"
    assert found.lost == (LostRange(0, 0, 4), LostRange(1, 0, 4), LostRange(2, 0, 4))


def test_a_log_that_ends_before_the_archive_is_truncated() -> None:
    topic = TopicCut("t", (0, 0), (9, 9), 0, "id", high_watermarks=(9, 12))
    found = find_pending(topic, {0: 10, 1: 12}.get, 10.0)
    assert [one.truncated_at for one in found.partitions] == [9, None]
    assert [one.offsets for one in found.partitions] == [0, 0]


def test_of_a_log_that_was_truncated_and_has_grown_again_nothing_is_pending_or_lost() -> None:
    topic = TopicCut("t", (7, 7), (20, 20), 0, "id", high_watermarks=(20, 20))
    found = find_pending(topic, {0: 5, 1: 5}.get, 10.0, {0: 3})
    assert [(one.truncated_at, one.offsets) for one in found.partitions] == [(3, 0), (None, 13)]
    assert found.lost == (LostRange(1, 5, 7),)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=8), st.floats(1, 2000))
def test_a_cycle_takes_as_much_as_it_may_in_order(bounds: list[tuple[int, int]], most: float) -> None:
    pending = [waiting(number, first, first + count) for number, (first, count) in enumerate(bounds)]
    chosen = select_for_cycle(pending, most)
    sizes = [one.bytes for one in chosen]
    assert sum(sizes) < most + 10.0  # one offset more at most
    assert all(one.offsets for one in chosen)
    complete = [one for one in pending if one.offsets]
    assert [one.partition for one in chosen] == [one.partition for one in complete][: len(chosen)]
    assert all(one in complete for one in chosen[:-1])
    if sum(one.bytes for one in complete) <= most:
        assert chosen == complete
    else:
        assert sum(sizes) > most - 10.0


def test_cycles_reach_the_end_however_small_they_are() -> None:
    left, rounds = waiting(0, 0, 7), 0
    while left.offsets:
        (one,) = select_for_cycle([left], 0.5)
        left, rounds = replace(left, first=one.end), rounds + 1
    assert rounds == 7


def test_nothing_behind_the_fixed_end_is_read() -> None:
    assert clip_to_end(waiting(0, 3, 20), {("t", 0): 9}).end == 9
    assert clip_to_end(waiting(0, 12, 20), {("t", 0): 9}).offsets == 0
    assert clip_to_end(waiting(1, 3, 20), {("t", 0): 9}).offsets == 0


def test_the_cut_holds_what_was_chosen_and_never_begins_later() -> None:
    cut = build_cut("cluster", [waiting(3, 5, 9), waiting(1, 0, 2)], {"t": "id"})
    slices = slices_of(cut)
    assert [(one.partition, one.first_offset, one.end_offset) for one in slices] == [(1, 0, 2), (3, 5, 9)]
    assert not any(one.may_skip_expired for one in slices)


@pytest.mark.parametrize(
    ("one", "waited", "is_due"),
    [
        (waiting(0, 0, 9), 0.0, False),
        (waiting(0, 0, 10), 0.0, True),
        (waiting(0, 0, 5, size=200.0), 0.0, True),
        (waiting(0, 0, 1), 59.0, False),
        (waiting(0, 0, 1), 60.0, True),
        (waiting(0, 4, 4), 3600.0, False),
    ],
)
def test_a_partition_is_due_by_records_bytes_or_age(one: Pending, waited: float, *, is_due: bool) -> None:
    seen = Waiting()
    thresholds = Thresholds(Limits(10, 1000), 60.0)
    seen.due([replace(one, end=min(one.end, one.first + 1))], lambda _: thresholds, 100.0)
    assert bool(seen.due([one], lambda _: thresholds, 100.0 + waited)) == is_due


def test_what_waits_longest_is_archived_first_and_then_waits_no_more() -> None:
    seen, always = Waiting(), Thresholds(Limits(1, 1), 0.0)
    seen.due([waiting(1, 0, 1)], lambda _: always, 1.0)
    both = [waiting(0, 0, 1), waiting(1, 0, 1)]
    assert [one.partition for one in seen.due(both, lambda _: always, 2.0)] == [1, 0]
    seen.reset(("t", 1))
    assert [one.partition for one in seen.due(both, lambda _: always, 3.0)] == [0, 1]


def test_lag_is_the_age_of_what_waits_at_most() -> None:
    seen = Observations()
    seen.note([waiting(0, 5, 5)], 1000.0)
    behind = waiting(0, 5, 9)
    seen.note([behind], 1010.0)
    assert seen.lag_seconds(waiting(0, 5, 5), None, 1010.0) == 0.0
    assert seen.lag_seconds(behind, None, 1010.0) == 10.0
    assert seen.lag_seconds(behind, 1_004_000, 1010.0) == 6.0
    assert seen.lag_seconds(waiting(1, 5, 9), None, 1010.0) is None
    assert seen.lag_seconds(waiting(1, 5, 9), 900_000, 1010.0) == 110.0


def test_the_time_that_is_left_follows_from_retention_by_time_and_by_size() -> None:
    seen = Observations()
    seen.note([waiting(0, 500, 900)], 1000.0)
    behind = waiting(0, 500, 900, log_start=100)
    assert seen.seconds_left(behind, 30.0, 100.0, 1050.0) == 70.0
    assert seen.seconds_left(behind, None, 100.0, 1050.0) is None
    seen.note([behind], 1050.0)
    assert seen.seconds_left(behind, None, None, 1050.0) == 200.0
    assert seen.seconds_left(behind, 30.0, 100.0, 1050.0) == 70.0
    assert seen.seconds_left(waiting(0, 900, 900), 0.0, 100.0, 1050.0) is None


def settings(**options: Any) -> dict[str, Any]:
    given = {"bootstrapServers": "k:1", "topics": "t", "archive": "/a", "region": "r", **options}
    return resolve(ARCHIVE, file=None, environment={}, options=given).values


def test_topics_have_thresholds_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "thresholds.yaml"
    file.write_text("log-*: {maxSegmentAge: 1h}\nlog-big: {maxSegmentRecords: 5, maxSegmentBytes: 1GiB}\n")
    found = TopicThresholds(ArchiveSettings.of(settings(topicThresholds=str(file), maxSegmentAge="30s")))
    assert found.of("other") == Thresholds(Limits(1_000_000, 100 << 20), 30.0)
    assert found.of("log-x") == Thresholds(Limits(1_000_000, 100 << 20), 3600.0)
    assert found.of("log-big") == Thresholds(Limits(5, 1 << 30), 30.0)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[1]", "it must be a mapping of topics"),
        ("t: {maxSegmentrecords: 1}", "t may only have maxSegmentRecords, maxSegmentBytes, maxSegmentAge"),
        ("t: {maxSegmentAge: soon}", "maxSegmentAge of t is 'soon' and must be a duration"),
        ("t: {", "it is not YAML"),
    ],
)
def test_a_file_of_thresholds_that_is_none_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "thresholds.yaml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=problem):
        TopicThresholds(ArchiveSettings.of(settings(topicThresholds=str(file))))


def test_topics_are_chosen_by_name_prefix_and_pattern() -> None:
    values = settings(topics="__in,b", topicPrefix="log-", topicPattern="x.z", exclude="log-b*,b")
    existing = ["log-a", "log-bc", "xyz", "xyzz", "__consumer_offsets", "__in", "other"]
    assert choice_from(values).chosen(existing) == ["__in", "log-a", "xyz"]
    with pytest.raises(ConfigurationError, match="No topics are selected"):
        choice_from(settings(topics=None))


@pytest.mark.parametrize(
    ("name", "text"),
    [("region", "a/b"), ("topicPattern", "("), ("topics", "a b"), ("exclude", "a|b"), ("archive", "ftp://x"),
     ("maxSegmentBytes", "5 MB"), ("maxSegmentAge", "5min"), ("cycleBytes", "0")],
)  # fmt: skip
def test_a_setting_that_cannot_be_meant_is_refused(name: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"The setting {name} is "):
        settings(**{name: text})
