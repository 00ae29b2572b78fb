"""The messages of all pods of a Resend together: counts, rate, and one report that fits into a ConfigMap."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gapless_api.v1alpha1.resend_status import Progress
from gapless_api.wire.resend_plan import Estimate
from gapless_api.wire.resend_report import DamagedObject, LinkTraffic, Outcome, PartitionFigures, UnavailableRange
from gapless_api.wire.totals import Totals
from gapless_operator.common.observed import Meta, ObservedPod
from gapless_operator.common.pod_output import read_output
from gapless_operator.sending.progress import (
    counts_by_index,
    final_progress,
    latest_by_index,
    log_problem,
    merge_reports,
    message_problem,
    reported_bundle,
    reported_plan,
    unavailable_ranges,
    unavailable_reasons,
    update_progress,
)
from kit.story import messages

NOW = datetime(2026, 11, 20, 10, 0, 0, tzinfo=UTC)
MOST = 2**63 - 1


def pod(*lines: Mapping[str, Any], index: int = 0, number: int = 0, **more: Any) -> ObservedPod:
    """A pod of a shard, `number` seconds younger than its first, with what its log says."""
    name = f"job-{index}-{number}"
    meta = Meta(name=name, namespace="ns", uid=name, created=NOW + timedelta(seconds=number))
    log = "".join(f"{json.dumps(line)}\n" for line in lines)
    return ObservedPod(meta=meta, index=index, output=read_output(log), **more)


def progress(sent: int, planned: int = 1000, **more: Any) -> dict[str, Any]:
    return messages.progress(Totals(planned=planned, sent=sent, remaining=planned - sent), **more)


def report(sent: int, planned: int = 1000, *, unavailable: int = 0, **more: Any) -> dict[str, Any]:
    left = planned - sent - unavailable
    return messages.report(Totals(planned=planned, sent=sent, unavailable=unavailable, remaining=left), **more)


def gone(first: int, *, topic: str = "t", partition: int = 0, reason: str = "Expired") -> UnavailableRange:
    return UnavailableRange(topic=topic, partition=partition, first=first, last=first, reason=reason)


# ------------------------------------------------------------------------------------------------------------- counts


def test_the_youngest_pod_of_a_shard_is_its_last_and_of_two_as_old_the_one_with_the_later_name() -> None:
    older, younger = pod(index=1, number=3), pod(index=1, number=5)
    twin = replace(younger, meta=replace(younger.meta, name="job-1-4"))
    assert latest_by_index([younger, pod(), older, twin]) == {0: pod(), 1: younger}


@pytest.mark.parametrize(
    ("pods", "sent"),
    [
        ([pod(progress(400)), pod(number=1)], {0: 400}),
        ([pod(progress(400), number=1), pod(progress(500))], {0: 400}),
        ([pod(progress(400)), pod(progress(500), index=1)], {0: 400, 1: 500}),
        ([pod(progress(400), report(900))], {0: 900}),
        ([pod(progress(400), report(0, planned=0))], {0: 400}),
        ([pod(progress(400)), pod(report(0, planned=0), number=1)], {0: 400}),
        ([pod(report(0, planned=0))], {0: 0}),
        ([pod()], {}),
    ],
)
def test_a_shard_counts_what_it_said_last_and_its_successor_only_when_it_has_said_something(
    pods: list[ObservedPod], sent: dict[int, int]
) -> None:
    assert {index: totals.sent for index, totals in counts_by_index(pods).items()} == sent


def test_an_unreadable_message_names_the_newest_pod_of_the_first_shard() -> None:
    wrong = {**report(1), "gaplessReport": 99}
    pods = [pod(wrong, index=2), pod(wrong, index=1, number=1), pod(report(1), index=0), pod(wrong, index=0, number=-1)]
    assert message_problem(pods, "progress", "report").startswith(
        "The output of pod job-1-1 cannot be read: the resend rep"
    )
    assert message_problem(pods, "progress") == ""
    assert message_problem([], "report") == ""


def test_an_unreadable_log_is_reported_with_pod_and_time() -> None:
    pods = [
        pod(index=2, log_problem="code X"),
        pod(index=1, log_problem="There is no route.", log_problem_since=NOW),
        pod(index=0, log_problem="old", number=-1),
        pod(index=0),
    ]
    expected = "The output of pod job-1-0 has been unreadable since 2026-11-20T10:00:00Z: There is no route."
    assert log_problem(pods) == expected
    assert log_problem(pods[:1]) == "The output of pod job-2-0 has been unreadable: code X."
    assert log_problem(pods[3:]) == ""


# ----------------------------------------------------------------------------------------------------------- progress


def test_progress_is_the_sum_of_all_shards_with_their_pace_and_what_is_left_at_it() -> None:
    pods = [pod(progress(100, events_per_second=10.04)), pod(progress(201, events_per_second=20.0), index=1)]
    found = update_progress(None, pods, now=NOW)
    assert found == Progress(
        planned=2000, sent=301, percent=15, events_per_second=30.0, eta_seconds=56.6, updated_at=NOW
    )


def test_a_shard_that_has_ended_has_no_pace_any_more() -> None:
    pods = [pod(report(1000)), pod(progress(0, events_per_second=50.0), index=1)]
    found = update_progress(None, pods, now=NOW)
    assert found is not None
    assert (found.sent, found.events_per_second, found.eta_seconds) == (1000, 50.0, 20.0)


@pytest.mark.parametrize(("pace", "eta"), [(0.0, None), (0.5, 2000.0), (1.0, 1000.0)])
def test_without_a_rate_there_is_no_eta(pace: float, eta: float | None) -> None:
    found = update_progress(None, [pod(progress(0, events_per_second=pace))], now=NOW)
    assert found is not None
    assert (found.events_per_second, found.eta_seconds) == (pace, eta)


@pytest.mark.parametrize(
    ("sent", "planned", "percent"), [(0, 0, 100), (0, 1000, 0), (599, 1000, 59), (999, 1000, 99), (1000, 1000, 100)]
)
def test_percent_is_100_only_when_nothing_remains(sent: int, planned: int, percent: int) -> None:
    found = update_progress(None, [pod(progress(sent, planned, events_per_second=1.0))], now=NOW)
    assert found is not None
    assert found.percent == percent
    assert found.eta_seconds == planned - sent


def test_more_than_was_planned_leaves_nothing() -> None:
    line = messages.progress(Totals(planned=10, sent=12), events_per_second=1.0)
    found = update_progress(None, [pod(line)], now=NOW)
    assert found is not None
    assert (found.sent, found.percent, found.eta_seconds) == (12, 100, 0.0)


def test_values_that_do_not_fit_into_a_status_are_limited() -> None:
    found = update_progress(None, [pod(progress(2**63, planned=2**64))], now=NOW)
    assert found is not None
    assert (found.planned, found.sent, found.percent) == (MOST, MOST, 50)


def before(sent: int, planned: int = 1000, **more: Any) -> Progress:
    return Progress(planned=planned, sent=sent, updated_at=NOW, **more)


@pytest.mark.parametrize(
    ("known", "line", "after"),
    [
        (before(400), [], 5),
        (before(400), [progress(400)], 5),
        (before(400), [progress(399)], 5),
        (before(400), [progress(399, planned=2000)], 5),
        (before(300, filtered=50, filled=50), [progress(399)], 5),
        (before(400), [progress(500)], 4.999),
    ],
)
def test_progress_stays_as_it_is_when_nothing_is_new_or_it_would_go_back_or_was_just_written(
    known: Progress, line: list[dict[str, Any]], after: float
) -> None:
    assert update_progress(known, [pod(*line)], now=NOW + timedelta(seconds=after)) is known


@pytest.mark.parametrize(
    ("known", "sent", "planned", "after", "at_once"),
    [
        (before(400), 500, 1000, 5, False),
        (before(400), 400, 2000, 5, False),
        (before(300, filtered=50, filled=50), 400, 1000, 5, False),
        (before(400), 500, 1000, 1, True),
        (before(400).model_copy(update={"updated_at": None}), 500, 1000, 0, False),
    ],
)
def test_progress_is_written_when_it_is_new_and_due_or_final(
    *, known: Progress, sent: int, planned: int, after: float, at_once: bool
) -> None:
    now = NOW + timedelta(seconds=after)
    found = update_progress(known, [pod(progress(sent, planned))], now=now, at_once=at_once)
    assert found is not None
    assert (found.sent, found.planned, found.updated_at) == (sent, planned, now)


def test_the_last_account_is_of_the_pods_or_of_what_was_known_when_no_log_is_left() -> None:
    known = before(400, unavailable=3, events_per_second=9.0)
    assert final_progress(known, [pod(report(900))], now=NOW).sent == 900
    found = final_progress(known, [pod()], now=NOW)
    assert (found.planned, found.sent, found.unavailable, found.percent) == (1000, 400, 3, 40)
    assert found.events_per_second is None
    assert final_progress(known, [pod(report(0), index=1)], now=NOW).sent == 400, "the log of another shard is gone"
    assert final_progress(None, [pod()], now=NOW) == Progress(percent=100, updated_at=NOW)
    assert final_progress(None, [pod(report(900))], now=NOW).sent == 900


# ------------------------------------------------------------------------------------------------------------- reports


def test_unavailable_ranges_are_sorted_and_unique() -> None:
    first = report(0, unavailable=1, unavailable_ranges=(gone(7), gone(5, partition=1), gone(3, topic="a")))
    second = report(0, unavailable=1, unavailable_ranges=(gone(7), gone(9, reason="x" * 65), gone(1, topic="z" * 250)))
    found = unavailable_ranges([pod(first), pod(second, index=1)])
    assert [(r.topic, r.partition, r.first, r.last, r.reason) for r in found] == [
        ("a", 0, 3, 3, "Expired"),
        ("t", 0, 7, 7, "Expired"),
        ("t", 0, 9, 9, "x" * 64),
        ("t", 1, 5, 5, "Expired"),
        ("z" * 249, 0, 1, 1, "Expired"),
    ]


def test_a_status_has_the_first_hundred_ranges() -> None:
    ranges = tuple(gone(offset) for offset in range(0, 202, 2))
    found = unavailable_ranges([pod(report(0, unavailable=1, unavailable_ranges=ranges))])
    assert [entry.first for entry in found] == list(range(0, 200, 2))


def test_reasons_are_counted_over_all_shards_in_the_order_of_their_names() -> None:
    pods = [
        pod(messages.report(Totals(planned=9), unavailable={"TooLarge": 2, "NonExistent": 1})),
        pod(messages.report(Totals(planned=9), unavailable={"TooLarge": 3, "Expired": 4}), index=1),
    ]
    assert list(unavailable_reasons(pods).items()) == [("Expired", 4), ("NonExistent", 1), ("TooLarge", 5)]


def figures(number: int) -> PartitionFigures:
    return PartitionFigures(
        topic="t", partition=number, upstream_topic="t", upstream_partition=number, ledger=Totals(planned=1)
    )


def test_the_reports_of_all_shards_become_one() -> None:
    link = LinkTraffic(
        datagrams=1,
        payload_bytes=20,
        system_calls=300,
        refused=4000,
        retries=50000,
        left_interface=6,
        interface_drops=7,
    )
    first = report(
        500,
        reason="Old",
        message="old",
        shards=3,
        seconds=10.0,
        events_per_second=10.04,
        started="2026-11-20T10:00:01+00:00",
        link=link,
        keys_announced=2,
        skipped_omitted=6,
        partitions=(figures(0),),
        partitions_omitted=1,
        unavailable_ranges=(gone(1),),
        unavailable_ranges_omitted=10,
    )
    second = messages.report(
        Totals(planned=1000, sent=990, unavailable=10),
        shard=1,
        seconds=12.5,
        events_per_second=20.01,
        started="2026-11-20T10:00:00+00:00",
        link=link,
        keys_announced=3,
        skipped_omitted=60,
        partitions=(figures(1),),
        partitions_omitted=2,
        unavailable_ranges=(gone(2),),
        unavailable_ranges_omitted=20,
    )
    text = merge_reports([pod(second, index=1), pod(first)], reason="Incomplete", message="Sent some.")
    assert text is not None
    assert text.startswith('{\n "')
    assert text.endswith("}\n")
    found = json.loads(text)
    assert (found["outcome"], found["exitCode"]) == (Outcome.INCOMPLETE, 4)
    assert (found["reason"], found["message"], found["shard"], found["shards"]) == ("Incomplete", "Sent some.", None, 2)
    assert (found["started"], found["seconds"]) == ("2026-11-20T10:00:00+00:00", 12.5)
    assert found["eventsPerSecond"] == 30.1
    assert (found["ledger"]["planned"], found["ledger"]["sent"], found["ledger"]["unavailable"]) == (2000, 1490, 10)
    assert found["unavailable"] == {"Expired": 10}
    assert list(found["link"].values()) == [2, 40, 600, 8000, 100000, 12, 14]
    assert (found["keysAnnounced"], found["skippedOmitted"]) == (5, 6)
    assert [entry["partition"] for entry in found["partitions"]] == [0, 1]
    assert found["partitionsOmitted"] == 3
    assert [entry["first"] for entry in found["unavailableRanges"]] == [1, 2]
    assert found["unavailableRangesOmitted"] == 30


def test_a_merged_report_is_limited_and_counts_what_it_omits() -> None:
    line = report(0, partitions=tuple(map(figures, range(1001))), unavailable_ranges=tuple(map(gone, range(3001))))
    for lines, omitted in ([line], 0), ([line, {**line, "shard": 1}], 1001):
        text = merge_reports([pod(one, index=n) for n, one in enumerate(lines)], reason="Sent", message="é")
        assert text is not None
        found = json.loads(text)
        assert (len(found["partitions"]), found["partitionsOmitted"]) == (1000, 1 + omitted)
        ranges_omitted = 1 + (3001 if omitted else 0)
        assert (len(found["unavailableRanges"]), found["unavailableRangesOmitted"]) == (3000, ranges_omitted)
        assert '"é"' in text


def test_damaged_objects_of_all_shards_are_there_once_as_many_as_a_report_has() -> None:
    objects = [DamagedObject(object=f"segment-{number}", problem="gone") for number in range(101)]
    first = report(1, damaged=tuple(objects[50::-1]), from_archive=3)
    second = report(1, damaged=tuple(objects[40:]), from_archive=4, shard=1)
    found = json.loads(merge_reports([pod(first), pod(second, index=1)], reason="r", message="m") or "")
    names = [entry["object"] for entry in found["damaged"]]
    assert names == [f"segment-{number}" for number in [*range(50, -1, -1), *range(51, 100)]]
    assert found["fromArchive"] == 7


def test_a_merged_report_has_the_worst_end_of_all() -> None:
    ends = [(Outcome.DONE, 0), (Outcome.FAILED, 3), (Outcome.STOPPED, 143)]
    pods = [pod(report(1, outcome=end, exit_code=code), index=n) for n, (end, code) in enumerate(ends)]
    found = json.loads(merge_reports(pods, reason="r", message="m") or "")
    assert (found["outcome"], found["exitCode"]) == ("Failed", 143)


def test_of_a_shard_the_last_report_counts_and_without_any_there_is_none() -> None:
    pods = [pod(report(1, keys_announced=7), number=1), pod(report(2, keys_announced=8))]
    assert json.loads(merge_reports(pods, reason="r", message="m") or "")["keysAnnounced"] == 7
    assert merge_reports([pod(progress(3))], reason="r", message="m") is None


# ---------------------------------------------------------------------------------------------------- bundle and plan


def test_the_bundle_is_the_one_of_a_report_or_else_of_a_plan() -> None:
    one, other = messages.read_bundle("a" * 64, "one"), messages.read_bundle("b" * 64, "other")
    reported, planned = pod(report(1, bundle=one)), pod(messages.plan(1, bundle=other), index=1)
    assert reported_bundle([planned, reported]) == one
    assert reported_bundle([planned, pod(report(1))]) == other
    assert reported_bundle([pod(report(1)), pod()]) is None


def test_a_plan_is_the_first_that_a_log_has_with_numbers_that_fit() -> None:
    estimate = Estimate(mean_event_bytes=1.0, datagrams=2**63 + 1, payload_bytes=2**63 + 2, seconds=1.5)
    line = messages.plan(2**63, ranges=2**63 + 3, estimate=estimate)
    line["unavailable"] = {"Expired": 3, "TooLarge": 4}
    found = reported_plan([pod(), pod(line, index=1), pod(messages.plan(5), index=2)])
    assert found is not None
    assert (found.events, found.ranges, found.bytes, found.datagrams) == (MOST, MOST, MOST, MOST)
    assert (found.estimated_seconds, found.unavailable) == (1.5, 7)
    assert reported_plan([pod(report(1))]) is None
