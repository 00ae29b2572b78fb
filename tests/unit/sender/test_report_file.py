"""The report's file equals the account, whatever its size; no range is lost between requested and sent."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gapless_api.offsets.ranges import OffsetRanges
from gapless_api.wire.resend_report import FULL_REPORT_HEAD, Outcome, report_text
from gapless_sender.replay.account import BatchResult, PartitionAccount
from gapless_sender.replay.report import Account, partition_result, report
from gapless_sender.source.plan import FILTERED, PartitionPlan, Reason
from gapless_sender.source.requests import MappedPartition

offsets = st.sets(st.integers(0, 400))
PARTITION = MappedPartition("te_st", 3, "up", 1)


def read_back(*accounts: tuple[OffsetRanges, PartitionAccount]) -> dict[str, Any]:
    account = Account(
        [
            partition_result(PartitionPlan(PARTITION, requested), requested.count, account)
            for requested, account in accounts
        ]
    )
    made = report(
        outcome=Outcome.DONE,
        exit_code=0,
        reason=None,
        message='with "quotes" and ü',
        selection=None,
        bundle=None,
        account=account,
        started="2026-11-20T10:00:00+00:00",
        seconds=2.0,
    )
    found: dict[str, Any] = json.loads("".join(report_text(made)))
    assert (
        FULL_REPORT_HEAD.from_json({name: value for name, value in found.items() if name != "partitions"}) == made.head
    )
    return found


@given(offsets, offsets, offsets, st.integers(0, 402))
def test_what_was_sent_is_what_was_wanted_without_all_that_became_something_else(
    requested: set[int], filtered: set[int], expired: set[int], cursor: int
) -> None:
    done = {offset for offset in requested if offset < cursor}
    kinds = {FILTERED: done & filtered, str(Reason.EXPIRED): (done & expired) - filtered}
    sent = done - filtered - expired
    step = BatchResult(cursor, len(sent))
    for kind, those in kinds.items():
        for offset in sorted(those):
            step.add(kind, offset, offset)
    account = PartitionAccount()
    account.apply(step)
    (partition,) = read_back((OffsetRanges.of_offsets(requested), account))["partitions"]
    expected = {"sent": sent, **kinds}
    assert partition["ranges"] == {
        kind: [list(pair) for pair in OffsetRanges.of_offsets(those)] for kind, those in expected.items() if those
    }
    assert partition["remaining"] == len(requested) - len(done)
    assert (partition["topic"], partition["upstreamTopic"], partition["upstreamPartition"]) == ("te_st", "up", 1)


def test_more_ranges_than_are_written_at_once_and_several_partitions_are_still_one_text() -> None:
    requested = OffsetRanges((offset, offset) for offset in range(0, 60_000, 2))
    account = PartitionAccount()
    account.apply(BatchResult(60_000, 30_000))
    found = read_back((requested, account), (OffsetRanges(), PartitionAccount()), (requested, account))
    pairs = [[offset, offset] for offset in range(0, 60_000, 2)]
    assert [partition["ranges"] for partition in found["partitions"]] == [{"sent": pairs}, {}, {"sent": pairs}]
    assert read_back()["partitions"] == []
