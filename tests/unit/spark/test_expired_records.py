"""What the first records that Kafka has kept show, and what they cannot show, of those that it deleted unread."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.wire.audit_state import Contents, FirstKept, SourceOffset
from gapless_spark.model import expired_records
from gapless_spark.model.expired_records import (
    NOTHING_EXPIRED,
    Frontiers,
    add_sources,
    extend_first_kept,
    restart_partitions,
    start_first_kept,
    update_from_received,
)

ENOUGH = 5
PLACE = ("t", 0)


@pytest.fixture(autouse=True)
def few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expired_records, "FIRST_RECORDS", ENOUGH)


def keys(offsets: Iterable[int], partition: int = 0) -> list[bytes | None]:
    return [b"t_%d_%d" % (partition, offset) for offset in offsets]


def contents(kept: FirstKept) -> Contents:
    return add_sources(Contents(expired=(kept,)), 0, keys([0]))


def frontier(found: Contents) -> int:
    return Frontiers({"raw": (1, found)}).of(PLACE)


@pytest.mark.parametrize("amount", range(ENOUGH))
def test_too_few_kept_records_may_all_be_sent_again_and_show_no_frontier(amount: int) -> None:
    assert frontier(contents(start_first_kept(0, keys(range(amount)), None))) == MAX_OFFSET


def test_enough_kept_records_show_how_far_the_live_stream_had_come() -> None:
    kept = start_first_kept(0, keys([40, 3, 41]), None)
    assert frontier(contents(extend_first_kept(kept, keys([4, 42])))) == 42


def test_kept_records_that_had_all_been_passed_before_are_sent_again_and_show_no_frontier() -> None:
    """An earlier audit had seen offset 900; then Kafka deleted unread, and all that it has kept at first is older."""
    only_resent = contents(start_first_kept(0, keys(range(10, 15)), None))
    known = update_from_received(only_resent, [0], {PLACE: 900}, {PLACE: 900})
    assert frontier(known) == MAX_OFFSET
    still = update_from_received(known, [], {PLACE: 900}, {PLACE: 900})
    assert frontier(still) == MAX_OFFSET, "nothing new has come"
    risen = update_from_received(still, [], {PLACE: 900}, {PLACE: 1200})
    assert frontier(risen) == 1200, "what came since is above all that had been received before"
    later = update_from_received(risen, [], {PLACE: 1200}, {PLACE: 5000})
    assert frontier(later) == 1200, "and there it stays"


def test_of_records_deleted_a_second_time_the_earlier_ones_show_nothing() -> None:
    first = update_from_received(contents(start_first_kept(0, keys(range(900, 905)), None)), [0], {}, {PLACE: 904})
    assert frontier(first) == 904
    second = contents(start_first_kept(0, keys(range(10, 15)), first.expired[0]))
    assert frontier(update_from_received(second, [0], {PLACE: 904}, {PLACE: 904})) == MAX_OFFSET


def test_what_had_been_received_of_other_partitions_does_not_matter() -> None:
    found = update_from_received(contents(start_first_kept(0, keys(range(5)), None)), [0], {("t", 1): 900}, {})
    assert found.expired[0].received_before == ()
    assert frontier(found) == 4


def test_a_source_that_began_after_the_deletion_has_lost_nothing_however_many_records_follow() -> None:
    before = update_from_received(contents(start_first_kept(0, keys([70]), None)), [0], {PLACE: 60}, {PLACE: 70})
    anew = restart_partitions(before, [PLACE])
    assert frontier(anew) == NOTHING_EXPIRED
    (kept,) = anew.expired
    more = extend_first_kept(kept, keys(range(4)))
    assert more.highest == (SourceOffset("t", 0, None),)
    assert frontier(update_from_received(contents(more), [], {}, {PLACE: 3})) == NOTHING_EXPIRED


def test_only_partitions_behind_an_open_transaction_are_unknown() -> None:
    """A receiver writes a source partition to the partition with its number, unless other records show otherwise."""
    seen = add_sources(add_sources(Contents(expired=()), 0, keys([0])), 2, keys([0], 2))
    held = {"raw": frozenset({0, 1})}
    found = Frontiers({"raw": (3, seen)}, held)
    assert [found.of(("t", number)) for number in range(4)] == [MAX_OFFSET, MAX_OFFSET, NOTHING_EXPIRED, MAX_OFFSET]
    assert [found.is_held_back(("t", number)) for number in range(4)] == [True, True, False, True]
    elsewhere = Frontiers({"raw": (3, seen), "other": (3, Contents(expired=()))}, {"other": frozenset({0})})
    assert not elsewhere.is_held_back(("t", 0))  # events of t come to the topic in which they were seen
    assert elsewhere.is_held_back(("u", 0))
    scattered = add_sources(seen, 1, keys([0], 2))
    assert Frontiers({"raw": (3, scattered)}, held).is_held_back(("t", 2))
    assert not Frontiers({"raw": (3, scattered)}).is_held_back(("t", 2))
