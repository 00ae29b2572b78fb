"""The proof that every difference between a position and both clusters has a name, and that others have none."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product

import pytest

from gapless_kafka.reading.log_truncation import truncation_end
from gapless_kafka.writing.positions import content
from gapless_mirror.lanes.claims import (
    TARGET_LOSSES,
    LogNow,
    PositionState,
    compare_position,
    compare_source,
    compare_target,
    resume_offset,
)
from gapless_mirror.lanes.losses import source_loss
from gapless_mirror.lanes.records import POSITION, LanePosition, position_key, read_record

S = PositionState
POSITION_100 = LanePosition(
    target="copy",
    source_id="S",
    epoch=1,
    start=0,
    next_offset=100,
    records=90,
    leader_epoch=3,
    epoch_end=98,
    target_id="T",
    target_end=95,
    lanes=8,
)


@pytest.mark.parametrize(
    ("source", "state"),
    [
        (None, S.UNKNOWN),
        (LogNow(exists=False), S.SOURCE_RECREATED),
        (LogNow(id="R", start=0, end=500), S.SOURCE_RECREATED),
        (LogNow(id="R", start=0, end=5), S.SOURCE_RECREATED),
        (LogNow(id="S", start=0, end=99), S.SOURCE_TRUNCATED),
        (LogNow(id="S", start=0, end=0), S.SOURCE_TRUNCATED),
        (LogNow(id="S", start=0, end=500, diverged_at=40), S.SOURCE_TRUNCATED),
        (LogNow(id="S", start=0, end=100, diverged_at=0), S.SOURCE_TRUNCATED),
        (LogNow(id="S", start=101, end=500), S.SOURCE_OVERTAKEN),
        (LogNow(id="S", start=100, end=100), S.HOLDS),
        (LogNow(id="S", start=0, end=100), S.HOLDS),
        (LogNow(id="S", start=0, end=101), S.HOLDS),
        (LogNow(id="", start=0, end=100), S.HOLDS),
        (LogNow(id="", start=0, end=99), S.SOURCE_TRUNCATED),
        (LogNow(id="S", start=0, end=110, known_end=120), S.SOURCE_TRUNCATED),
        (LogNow(id="S", start=0, end=500, diverged_at=110), S.SOURCE_TRUNCATED),
    ],
)
def test_a_source_is_what_the_position_says_or_the_difference_has_a_name(source: LogNow | None, state: S) -> None:
    found = compare_source("t/0", POSITION_100, source)
    assert found.state is state
    assert bool(found.sentence) is found.is_loss is (state not in {S.HOLDS, S.UNKNOWN})


@pytest.mark.parametrize(
    ("target", "state"),
    [
        (None, S.UNKNOWN),
        (LogNow(exists=False), S.TARGET_DELETED),
        (LogNow(id="U", end=0), S.TARGET_RECREATED),
        (LogNow(id="U", end=500), S.TARGET_RECREATED),
        (LogNow(id="T", end=94), S.TARGET_TRUNCATED),
        (LogNow(id="T", end=0), S.TARGET_TRUNCATED),
        (LogNow(id="", end=94), S.TARGET_TRUNCATED),
        (LogNow(id="T", end=500, diverged_at=40), S.TARGET_DIVERGED),
        (LogNow(id="U", end=500, diverged_at=40), S.TARGET_RECREATED),
        (LogNow(id="T", end=95), S.HOLDS),
        (LogNow(id="T", start=95, end=95), S.HOLDS),
        (LogNow(id="T", start=400, end=500), S.HOLDS),
        (LogNow(id="", end=500), S.HOLDS),
    ],
)
def test_a_target_has_every_copy_or_the_difference_has_a_name(target: LogNow | None, state: S) -> None:
    found = compare_target("t/0", POSITION_100, target)
    assert found.state is state
    assert ("--on-target-loss=copy-again" in found.sentence) is found.is_loss is (state in TARGET_LOSSES)


def test_a_target_without_copies_has_nothing_to_lose() -> None:
    empty = replace(POSITION_100, records=0, target_end=None)
    for target in (LogNow(exists=False), LogNow(id="U"), LogNow(id="T")):
        assert compare_target("t/0", empty, target).state is S.HOLDS


def test_a_position_holds_only_if_both_logs_do_and_nothing_unknown_holds() -> None:
    sources = [None, LogNow(exists=False), *(LogNow(True, *each) for each in product(("S", "R"), (0, 101), (99, 200)))]
    targets = [None, LogNow(exists=False), *(LogNow(True, each, 0, end) for each, end in product("TU", (94, 95)))]
    for source, target in product(sources, targets):
        found = compare_position("t/0", POSITION_100, source, target)
        in_source, in_target = compare_source("t/0", POSITION_100, source), compare_target("t/0", POSITION_100, target)
        if in_target.is_loss:
            assert found == in_target
        elif in_source.is_loss:
            assert found == in_source
        else:
            assert (found.state is S.HOLDS) is (source is not None and target is not None)


def test_records_that_a_source_lost_before_they_were_copied_are_the_loss() -> None:
    """The position names the end that the log had; what is before the position is neither lost nor copied again."""
    waiting = replace(POSITION_100, source_epoch=3, source_end=200)
    assert compare_source("t/0", waiting, LogNow(id="S", end=200)).state is S.HOLDS
    for source, first in ((LogNow(id="S", end=150), 150), (LogNow(id="S", end=400, diverged_at=120), 120)):
        loss = source_loss("t/0", waiting, source)
        assert loss is not None
        assert (loss.stop.reason, loss.first, loss.end, loss.next_offset) == ("SourceTruncated", first, 200, 100)
    for source, first in ((LogNow(id="S", end=60), 60), (LogNow(id="S", end=400, diverged_at=80), 80)):
        loss = source_loss("t/0", waiting, source)
        assert loss is not None
        assert (loss.first, loss.end, loss.next_offset) == (first, 200, first)


def test_copying_continues_where_a_truncated_log_has_other_records() -> None:
    assert resume_offset(POSITION_100, LogNow(start=0, end=50)) == 50
    assert resume_offset(POSITION_100, LogNow(start=0, end=500, diverged_at=40)) == 40
    assert resume_offset(POSITION_100, LogNow(start=60, end=500, diverged_at=40)) == 60


def test_the_end_of_an_epoch_is_read_from_the_only_place_where_the_client_says_it() -> None:
    text = (
        "Partition log truncation detected at offset 100 (leader epoch 0): broker end offset is 40 (offset leader "
        "epoch 0). Reset to INVALID.: Local: Partition log truncation detected (broker 1)"
    )
    unknown = (
        "No epoch found less or equal to offset 100 (leader epoch 5): broker end offset is -1 (offset leader epoch -1)"
    )
    assert (truncation_end(text), truncation_end(unknown)) == (40, 0)
    assert truncation_end("fetch failed due to requested offset not available on the broker") is None


def test_a_position_of_an_earlier_release_is_read_and_what_it_does_not_say_is_unknown() -> None:
    key = position_key("t", 0)
    assert read_record(key, content(POSITION, POSITION_100))[1] == POSITION_100
    second = POSITION.to_json(POSITION_100) | {"gaplessMirror": 2}
    for member in ("targetEpoch", "targetEpochEnd", "sourceEpoch", "sourceEnd"):
        del second[member]
    assert read_record(key, json.dumps(second).encode())[1] == POSITION_100
    old = second | {"gaplessMirror": 1}
    for member in ("leaderEpoch", "epochEnd", "targetId", "targetEnd", "lanes", "copiedAgain"):
        del old[member]
    expected = replace(POSITION_100, leader_epoch=None, epoch_end=None, target_id="", target_end=None, lanes=0)
    assert read_record(key, json.dumps(old).encode())[1] == expected
    assert compare_position("t/0", expected, LogNow(id="S", end=100), LogNow(id="T", end=5)).state is S.HOLDS
