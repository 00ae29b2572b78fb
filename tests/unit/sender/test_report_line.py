"""The proof that a report fits into a log without losing a total."""

from __future__ import annotations

import json

import pytest

from gapless_api.base.exit_codes import ExitCode
from gapless_api.wire.resend_plan import Estimate, PlannedPartition, ResendPlan, Retention
from gapless_api.wire.resend_report import SHORT_REPORT, Outcome, ResendReport, SkippedEntry, UnavailableRange
from gapless_api.wire.totals import Totals
from gapless_sender.base.sharding import Shard
from gapless_sender.replay.report import Account, PartitionResult, final_outcome, report
from gapless_sender.replay.report_output import (
    MAX_PARTITIONS,
    MAX_RANGES,
    short_plan,
    short_report,
    write_report_line,
)
from gapless_sender.source.plan import Mode, Selection


def partition(number: int, expired: list[list[int]], sent: list[list[int]] | None = None) -> PartitionResult:
    unavailable = sum(last - first + 1 for first, last in expired)
    done = sum(last - first + 1 for first, last in sent or [])
    totals = Totals(planned=unavailable + done, sent=done, unavailable=unavailable)
    return PartitionResult("t", number, "t", number, totals, {"sent": sent or [], "Expired": expired})


def made(*partitions: PartitionResult, selection: Selection | None = None) -> ResendReport:
    return report(
        outcome=Outcome.INCOMPLETE,
        exit_code=4,
        reason="Incomplete",
        message="…",
        selection=selection,
        bundle=None,
        account=Account(list(partitions)),
        started="2026-01-01T00:00:00+00:00",
        seconds=1.0,
    )


def test_ranges_are_listed_in_one_place_and_cut_with_a_count() -> None:
    many = [[10 * n, 10 * n + 4] for n in range(300)]
    full = made(partition(0, [[1, 1]]), partition(1, many, [[5000, 5999]]))
    short = short_report(full)
    assert len(short.unavailable_ranges) == MAX_RANGES
    assert short.unavailable_ranges_omitted == 301 - MAX_RANGES
    assert short.unavailable_ranges[0] == UnavailableRange(topic="t", partition=0, first=1, last=1, reason="Expired")
    assert short.head == full.head
    assert short.head.unavailable == {"Expired": 1501}
    assert [entry.partition for entry in short.partitions] == [1, 0], "the worst first"


def test_a_report_of_ten_thousand_partitions_becomes_one_short_line(capsys: pytest.CaptureFixture[str]) -> None:
    full = made(*(partition(n, [[0, n]]) for n in range(10_000)))
    write_report_line(full)
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert len(line) < 60_000
    assert json.loads(line)["event"] == "report"
    found = SHORT_REPORT.from_json(json.loads(line))
    assert (len(found.partitions), found.partitions_omitted) == (MAX_PARTITIONS, 10_000 - MAX_PARTITIONS)
    assert found.partitions[0].partition == 9999
    assert found.head.ledger.unavailable == sum(range(1, 10_001))


def test_a_plan_is_cut_too() -> None:
    partitions = tuple(
        PlannedPartition(
            topic="t",
            partition=n,
            upstream_topic="t",
            upstream_partition=n,
            events=1,
            from_archive=0,
            ranges=1,
            first_offset=0,
            last_offset=7,
            expired=0,
            not_yet_written=n % 7,
            sent_before=0,
            first_event_ms=None,
            expires_from_ms=None,
            retention=Retention.UNLIMITED,
        )
        for n in range(500)
    )
    plan = ResendPlan(
        shard=0,
        shards=1,
        mode="bundle",
        bundle=None,
        events=5,
        from_kafka=5,
        from_archive=0,
        ranges=500,
        sent_before=0,
        unavailable={},
        outside_time_range=0,
        first_event_ms=None,
        expires_from_ms=None,
        retention=Retention.UNLIMITED,
        estimate=Estimate(mean_event_bytes=1.0, datagrams=5, payload_bytes=5, seconds=None),
        note="",
        skipped=(),
        partitions=partitions,
    )
    short = short_plan(plan)
    assert (len(short.plan.partitions), short.partitions_omitted, short.skipped_omitted) == (100, 400, 0)
    assert {entry.not_yet_written for entry in short.plan.partitions} == {5, 6}


def test_a_report_names_its_shard_and_the_word_for_its_condition() -> None:
    found = made(selection=Selection(Mode.BUNDLE, (), shard=Shard(2, 4)))
    assert (found.head.shard, found.head.shards, found.head.mode) == (2, 4, "bundle")
    early = made().head
    assert (early.shard, early.shards, early.mode, early.reason) == (0, 1, None, "Incomplete")


def test_without_a_report_the_sentence_names_the_first_ranges_and_how_to_see_all() -> None:
    account = Account([partition(3, [[5, 5], [7, 9], [20, 20], [30, 40]], [[50, 60]])])
    assert final_outcome(account, was_complete=False)[2].endswith("listed in the report.")
    outcome, code, message = final_outcome(account, was_complete=False, has_report=False)
    assert (outcome, code) == (Outcome.INCOMPLETE, ExitCode.INCOMPLETE)
    assert message.startswith("Sent 11 of 27 events; ")
    assert "t/3 5, t/3 7-9, t/3 20, …; --report lists all." in message


@pytest.mark.parametrize("unavailable", [0, 3])
def test_every_last_line_says_what_was_left_out_and_why(unavailable: int) -> None:
    totals = Totals(
        planned=20 + unavailable, sent=13, filtered=5, filled=2, unavailable=unavailable, outside_time_range=4
    )
    account = Account([PartitionResult("t", 0, "t", 0, totals, {})])
    skipped = (SkippedEntry(topic="t", partition=9, events=6), SkippedEntry(topic="t", partition=10, events=1))
    message = final_outcome(account, was_complete=False, skipped=skipped)[2]
    left_out = "4 outside the time range, 7 of 2 entries of the bundle outside the partition window"
    done = f"Sent 13 of {20 + unavailable} events (5 filtered, 2 filled as empty ones); left out: {left_out}"
    assert message.startswith(done)
