"""The proof that positions only move forward, and that the last record of each key counts."""

from __future__ import annotations

import pytest

from gapless_api.offsets.ranges import OffsetRanges
from gapless_api.wire.form import WireError
from gapless_kafka.writing.positions import (
    POSITION,
    Position,
    WorkPartition,
    content,
    latest,
    map_key,
    position_key,
    read_record,
)

PLACE = WorkPartition("w", "site-a/orders", 3)
START = Position(topic="orders", topic_id="T", target_partition=3, source_id="S", epoch=1)


def test_a_position_moves_forward_and_joins_what_touches() -> None:
    first = START.advance(OffsetRanges([(5, 9), (11, 11)]), records=4, size=90)
    then = first.advance(OffsetRanges([(12, 20), (30, 40)]), records=6, size=10, lost=2)
    assert [(one.first, one.last) for one in then.done] == [(5, 9), (11, 20), (30, 40)]
    assert (then.next_offset, then.records, then.bytes, then.lost) == (41, 10, 100, 2)
    assert then.ranges == OffsetRanges([(5, 9), (11, 20), (30, 40)])
    assert START.next_offset == 0
    for behind in (40, 0):
        with pytest.raises(ValueError, match="does not follow 40"):
            then.advance(OffsetRanges([(behind, 50)]))


def test_offsets_at_the_upper_end_survive() -> None:
    last = START.advance(OffsetRanges([(2**62, 2**63 - 1)]), records=1)
    key, found = read_record(position_key(PLACE), content(POSITION, last))
    assert found == last
    assert (key.kind, key.work, key.source, key.partition) == ("position", "w", "site-a/orders", 3)


def test_the_last_record_of_a_key_counts() -> None:
    one, other = position_key(PLACE), map_key(PLACE, 7)
    assert latest([(one, b"1"), (other, b"2"), (one, b"3"), (other, None)]) == {one: b"3"}
    assert map_key(PLACE, 7) != map_key(PLACE, 8)


@pytest.mark.parametrize("key", [None, b"", b"{}", b'{"gaplessPosition":2,"kind":"run","work":"w"}', b"\xff"])
def test_a_foreign_record_is_refused(key: bytes | None) -> None:
    with pytest.raises(WireError):
        read_record(key, content(POSITION, START))
