"""The proof that all records but the refused ones are written once, in order, with exact positions."""

from __future__ import annotations

from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.offsets.ranges import OffsetRanges
from gapless_kafka.writing.faults import RecordsRefusedError, Refusal
from gapless_kafka.writing.portions import Columns
from gapless_kafka.writing.positions import Position, RefusedRecords, WorkPartition
from gapless_spark.archiving.restore.bad_records import write_around
from gapless_spark.archiving.restore.pending import Batch, Pending

PLACE = WorkPartition("w", "r/t", 0)
START = Position(topic="t", topic_id="i", target_partition=0, source_id="s", epoch=1)
CAUSES = MappingProxyType({0: "it is too large", 1: "it is too old"})


class Target:
    """Refuses some records, and every batch that has one of them."""

    def __init__(self, bad: dict[int, int], *, may_skip: bool = True) -> None:
        self.bad, self.may_skip = bad, may_skip
        self.written: list[int] = []
        self.refused: dict[int, RefusedRecords] = {}
        """By first offset, as after compaction."""
        self.position = START

    def write(self, batch: Batch, refused: RefusedRecords | None) -> None:
        found = [self.bad[offset] for offset in batch.columns.offsets if offset in self.bad]
        if found:
            cause = CAUSES[found[0]]
            raise RecordsRefusedError({PLACE: Refusal(self.may_skip, cause, f"Kafka says that {cause}.")})
        assert batch.before == self.position
        self.written += batch.columns.offsets
        self.position = batch.after
        if refused is not None:
            self.refused[refused.first] = refused


def columns(offsets: list[int]) -> Columns:
    return Columns(
        offsets,
        [None] * len(offsets),
        [None] * len(offsets),
        [b"%d" % offset for offset in offsets],
        [[(b"key", None)]] * len(offsets),
    )


def size(offsets: list[int]) -> int:
    return sum(16 + len(str(offset)) + 3 for offset in offsets)


@given(st.lists(st.sampled_from("gab-l"), min_size=1, max_size=60))
def test_every_good_record_is_written_once_and_every_other_offset_is_accounted_for(log: list[str]) -> None:
    """Offsets: g is a good record, a and b are refused for two causes, - has no record, and l cannot be read."""
    pending, offsets = Pending(START), OffsetRanges([(0, len(log) - 1)])
    for number, kind in enumerate(log):
        if kind == "l":
            pending.add_lost(OffsetRanges([(number, number)]), "The segment is damaged.")
        elif kind == "-":
            pending.add(OffsetRanges([(number, number)]))
        else:
            pending.add(OffsetRanges([(number, number)]), columns([number]), size([number]))
    bad = {number: "ab".index(kind) for number, kind in enumerate(log) if kind in "ab"}
    good = [number for number, kind in enumerate(log) if kind == "g"]
    target, refused = Target(bad), list[RefusedRecords]()
    assert write_around(pending.batch(), target.write, skips=True, refused=refused) is None
    assert target.written == good
    assert target.position.ranges == offsets
    assert (target.position.records, target.position.bytes) == (len(good), size(good))
    assert target.position.lost == log.count("l")
    assert list(target.refused.values()) == refused
    recorded = {offset: each.cause for each in refused for offset in range(each.first, each.last + 1)}
    assert recorded == {offset: CAUSES[kind] for offset, kind in bad.items()}


@pytest.mark.parametrize("skips", [False, True])
@given(bad=st.sets(st.integers(0, 40)))
def test_without_the_setting_all_before_the_first_refused_record_is_written(bad: set[int], *, skips: bool) -> None:
    pending = Pending(START)
    pending.add(OffsetRanges([(0, 40)]), columns(list(range(41))), size(list(range(41))))
    target = Target(dict.fromkeys(bad, 0), may_skip=not skips)
    stop = write_around(pending.batch(), target.write, skips=skips, refused=[])
    first = min(bad, default=41)
    assert target.written == list(range(first))
    assert target.position.next_offset == first
    assert (stop.offset if stop is not None else 41) == first
    assert stop is None or stop.sentence == "Kafka says that it is too large."


def test_what_was_skipped_before_is_extended_by_the_next_offset_only() -> None:
    before = RefusedRecords(first=3, last=4, cause=CAUSES[0])
    for offset, expected in ((5, [RefusedRecords(first=3, last=5, cause=CAUSES[0])]), (6, None)):
        pending = Pending(START)
        pending.add(OffsetRanges([(offset, offset)]), columns([offset]), size([offset]))
        refused = [before]
        write_around(pending.batch(), Target({offset: 0}).write, skips=True, refused=refused)
        assert refused == (expected or [before, RefusedRecords(first=6, last=6, cause=CAUSES[0])])


def test_an_error_that_is_no_refusal_ends_the_search() -> None:
    def fail(_: Batch, __: RefusedRecords | None) -> None:
        raise OSError("full")

    pending = Pending(START)
    pending.add(OffsetRanges([(0, 0)]), columns([0]), size([0]))
    with pytest.raises(OSError, match="full"):
        write_around(pending.batch(), fail, skips=True, refused=[])
