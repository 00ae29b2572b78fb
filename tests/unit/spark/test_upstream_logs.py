"""What a state records about upstream logs, and what an audit forgets of a truncated one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from gapless_api.inventory.epochs import EpochStart
from gapless_api.inventory.form import Inventory, Isolation, PartitionOffsets, new_inventory
from gapless_api.offsets.ranges import OffsetRanges
from gapless_api.wire.audit_state import Truncation, UpstreamLog
from gapless_spark.model.bitmaps import Received, offsets_below, received_block
from gapless_spark.model.event_keys import BLOCK_BITS, Block
from gapless_spark.model.expectations import Bounds, Expectation
from gapless_spark.model.gap_detection import compare
from gapless_spark.model.newest_entries import NewestEntries
from gapless_spark.model.upstream_logs import RecordedLog, next_logs, unknown_offsets

ID, OTHER_ID = "vJdzA4Q-QhyXGS0vI5_Q6g", "AAdzA4Q-QhyXGS0vI5_Q6g"
KEY = ("t", 0)


def log(hours: int, end: int, *epochs: tuple[int, int], topic_id: str | None = ID, **other: Any) -> Inventory:
    starts = tuple(EpochStart(*epoch) for epoch in epochs) or None
    entry = PartitionOffsets("t", 0, 0, end - 1 if end else None, None, topic_id, starts)
    given = {"cluster": "north", "isolation": Isolation.UNCOMMITTED, "source": {}, **other}
    return new_inventory([entry], created=datetime(2026, 11, 20, tzinfo=UTC) + timedelta(hours=hours), **given)


class Nights:
    """Audits that go on, each with some inventories, and what the state holds between them."""

    def __init__(self) -> None:
        self.logs: tuple[UpstreamLog, ...] = ()

    def audit(self, *inventories: Inventory, highest: int = -1) -> int | None:
        """Return the first offset that was found to be replaced."""
        recorded = [RecordedLog.of_state(each) for each in self.logs]
        newest = NewestEntries()
        for inventory in inventories:
            newest.add(inventory, "file")
        newest.compare_recorded(recorded)
        found = newest.truncated
        self.logs = next_logs(recorded, newest.logs(), found, {KEY: highest})
        return min((each.first_difference for each in found), default=None)

    @property
    def unknown(self) -> OffsetRanges | None:
        return unknown_offsets(map(RecordedLog.of_state, self.logs), frozenset()).get(KEY)


FIRST, CUT = log(1, 100, (0, 0)), log(2, 150, (0, 0), (3, 50))


def test_a_log_of_the_state_is_written_as_it_is_read() -> None:
    nights = Nights()
    nights.audit(FIRST)
    nights.audit(CUT, highest=170)
    (kept,) = nights.logs
    assert RecordedLog.of_state(kept).for_state() == kept
    assert kept.truncated == (Truncation(first=50, end=171, epoch=3, inventory=CUT.metadata.id),)


@pytest.mark.parametrize(
    ("newer", "first", "unknown"),
    [
        (CUT, 50, OffsetRanges([(50, 149)])),
        (log(2, 40, (0, 0), (3, 40)), 40, OffsetRanges([(40, 99)])),
        (log(2, 0, (3, 0)), 0, OffsetRanges([(0, 99)])),
        (log(2, 150, (0, 0), (3, 100)), None, None),
        (log(2, 150, (0, 0), (3, 50), topic_id=OTHER_ID), None, None),
        (log(2, 150, (0, 0), (3, 50), cluster="south"), None, None),
        (log(2, 60), 60, OffsetRanges([(60, 99)])),
    ],
)
def test_the_newest_inventory_alone_shows_a_truncation_since_the_last_audit(
    newer: Inventory, first: int | None, unknown: OffsetRanges | None
) -> None:
    nights = Nights()
    assert nights.audit(FIRST) is None
    assert nights.audit(newer) == first
    assert nights.unknown == unknown
    assert nights.audit(newer) is None, "it is found once"
    assert nights.audit() is None
    assert nights.unknown == unknown, "also without an inventory"


def test_a_truncation_that_is_known_is_not_found_again_by_the_inventories_of_before() -> None:
    nights = Nights()
    nights.audit(FIRST)
    nights.audit(CUT)
    assert [nights.audit(FIRST, CUT), nights.audit(CUT, FIRST), nights.audit(FIRST)] == [None, None, None]
    assert nights.audit(log(3, 200, (0, 0), (3, 50), (7, 80))) == 80, "of the new log"
    assert nights.unknown == OffsetRanges([(50, 199)])
    assert nights.audit(FIRST, CUT) is None
    assert nights.audit(log(4, 200, (0, 0), (9, 20))) == 20


def test_an_inventory_that_comes_late_shows_what_the_state_has_not_seen() -> None:
    nights = Nights()
    assert nights.audit(CUT) is None
    assert nights.audit(FIRST) == 50
    assert [each.end for each in nights.logs] == [150], "the log of now stays"


def test_without_epochs_a_lower_end_is_found_once() -> None:
    nights = Nights()
    first, shorter = log(1, 100), log(2, 60)
    nights.audit(first)
    assert [nights.audit(shorter), nights.audit(first, shorter), nights.audit(log(3, 90))] == [60, None, None]
    assert nights.audit(log(4, 70)) == 70, "a lower end than that of before"


def test_a_recreated_topic_leaves_nothing_unknown() -> None:
    nights = Nights()
    nights.audit(FIRST)
    nights.audit(CUT)
    recorded = [RecordedLog.of_state(each) for each in nights.logs]
    assert unknown_offsets(recorded, frozenset({KEY})) == {}
    nights.audit(log(3, 10, (0, 0), topic_id=OTHER_ID))
    assert nights.unknown is None


@given(
    st.sets(st.integers(0, (1 << BLOCK_BITS) - 1), min_size=1, max_size=20),
    st.integers(0, 3 << BLOCK_BITS),
    st.booleans(),
)
def test_offsets_of_a_block_below_a_bound(positions: set[int], end: int, twice: bool) -> None:  # noqa: FBT001
    block = Block("t", 0, 1)
    received = Received(BitMap(positions), len(positions) * (2 if twice else 1))
    kept = offsets_below(block, received, end)
    left = {position for position in positions if (1 << BLOCK_BITS) + position < end}
    assert (set(kept.positions) if kept is not None else set()) == left
    if kept is not None:
        assert kept.records == (received.records if left == positions else len(left))


def test_replaced_offsets_are_unknown_until_they_are_received_again() -> None:
    blocks = [received_block(Block("t", 0, 0), Received(BitMap([*range(50), 60, 61, 120]), 53))]
    expected = {KEY: Expectation(OffsetRanges([(0, 129)]), Bounds.INVENTORY)}
    (found,) = compare(blocks, expected, replaced={KEY: OffsetRanges([(50, 99)])})
    assert found.missing == OffsetRanges([(100, 119), (121, 129)])
    assert found.unknown == OffsetRanges([(50, 59), (62, 99)])
    assert found.ambiguous_from == 50
    (again,) = compare(
        blocks,
        {KEY: Expectation(OffsetRanges([(0, 129)]), Bounds.INVENTORY, ambiguous_from=110)},
        replaced={KEY: OffsetRanges([(50, 99)])},
    )
    assert again.unknown == OffsetRanges([(50, 59), (62, 99), (110, 129)])
    assert again.missing == OffsetRanges([(100, 109)])
