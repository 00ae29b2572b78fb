from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.base.errors import ConfigurationError
from gapless_api.inventory.epochs import EpochStart, LogExtent, first_difference
from gapless_api.inventory.form import Inventory, Isolation, PartitionOffsets, new_inventory
from gapless_api.offsets.ids import MAX_OFFSET, MAX_PARTITION
from gapless_api.offsets.ranges import OffsetRanges
from gapless_spark.model.expectations import Bounds, Expectation, add_inventories, parse_expectations
from gapless_spark.model.generations import Origin, RecreatedTopic
from gapless_spark.model.newest_entries import NewestEntries


def test_several_expectations_for_one_partition_add_up() -> None:
    found = parse_expectations(["t_x:0:0-9", "t_x:0:20-29", "t.y:1:7-7"])
    assert {place: expectation.offsets for place, expectation in found.items()} == {
        ("t_x", 0): OffsetRanges([(0, 9), (20, 29)]),
        ("t.y", 1): OffsetRanges([(7, 7)]),
    }


def test_the_largest_numbers_are_exact() -> None:
    found = parse_expectations([f"t:{MAX_PARTITION}:{2**53 + 1}-{MAX_OFFSET}"])
    assert list(found["t", MAX_PARTITION].offsets) == [(2**53 + 1, MAX_OFFSET)]


def test_a_file_has_one_expectation_a_line(tmp_path: Path) -> None:
    file = tmp_path / "expected"
    file.write_bytes(b"\xef\xbb\xbf# what upstream said\r\n\r\ntransfer:0:0-99\r\n  transfer:1:5-9\n")
    assert parse_expectations(["transfer:0:100-100"], file) == {
        ("transfer", 0): Expectation(OffsetRanges([(0, 100)])),
        ("transfer", 1): Expectation(OffsetRanges([(5, 9)])),
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "t",
        "t:0",
        "t:0:5",
        "t:0:5-",
        "t:0:-5",
        "t:-1:0-5",
        ":0:0-5",
        "t:0:a-b",
        "t:00:0-5",
        f"t:0:0-{MAX_OFFSET + 1}",
    ],
)
def test_anything_else_is_refused_with_the_form_to_use(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"is not topic:partition:first-last, for example"):
        parse_expectations([text])


def test_a_reversed_expectation_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'t:0:9-5' ends before it begins"):
        parse_expectations(["t:0:9-5"])


def test_a_bad_line_is_named_with_file_and_number(tmp_path: Path) -> None:
    file = tmp_path / "expected"
    file.write_text("t:0:0-9\nt;1;0-9\n")
    with pytest.raises(ConfigurationError, match=rf"in {file}, line 2 is not"):
        parse_expectations([], file)


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"expectFile cannot be read \(No such file or directory\)"):
        parse_expectations([], tmp_path / "none")


def at(hours: int, *entries: PartitionOffsets, **other: Any) -> Inventory:
    created = datetime(2026, 11, 20, tzinfo=UTC) + timedelta(hours=hours)
    given = {"cluster": "north", "isolation": Isolation.UNCOMMITTED, "source": {}, **other}
    return new_inventory(entries, created=created, **given)


def of(*inventories: Inventory) -> NewestEntries:
    newest = NewestEntries()
    for number, inventory in enumerate(inventories):
        newest.add(inventory, f"file {number}")
    return newest


def test_an_inventory_expects_its_events_and_what_was_given_beside_it() -> None:
    inventory = at(
        1, PartitionOffsets("t", 0, 5, 20, OffsetRanges([(7, 8), (20, 20)])), PartitionOffsets("t", 1, 9, None)
    )
    found = add_inventories(parse_expectations(["t:0:7-7", "t:0:30-31", "other:2:0-0"]), of(inventory))
    assert found == {
        ("t", 0): Expectation(
            OffsetRanges([(5, 7), (9, 19), (30, 31)]), Bounds.INVENTORY, OffsetRanges([(8, 8), (20, 20)])
        ),
        ("t", 1): Expectation(OffsetRanges(), Bounds.INVENTORY),
        ("other", 2): Expectation(OffsetRanges([(0, 0)]), Bounds.GIVEN),
    }


def test_of_each_partition_the_newest_inventory_counts_whatever_their_order() -> None:
    inventories = (
        at(1, PartitionOffsets("t", 0, 0, 9), PartitionOffsets("t", 1, 0, 3)),
        at(3, PartitionOffsets("t", 0, 5, 30)),
        at(2, PartitionOffsets("t", 0, 0, 20)),
    )
    for some in permutations(inventories):
        newest = of(*some)
        assert newest.entries() == {("t", 0): PartitionOffsets("t", 0, 5, 30), ("t", 1): PartitionOffsets("t", 1, 0, 3)}
        assert [(named["id"][:11], named["partitions"]) for named in newest.sources()] == [
            ("20261120-01", 1),
            ("20261120-03", 1),
        ]
        assert newest.newest_id.startswith("20261120-03")
        assert newest.conflicts == []


@pytest.mark.parametrize("topic_id", [None, "vJdzA4Q-QhyXGS0vI5_Q6g"])
def test_an_end_that_fell_from_one_inventory_to_a_later_one_is_named(topic_id: str | None) -> None:
    def ends(hours: int, end: int, **other: Any) -> Inventory:
        given = PartitionOffsets("t", 0, 0, end - 1 if end else None, topic_id=topic_id)
        return at(hours, given, PartitionOffsets("u", 0, 0, 9, topic_id=topic_id), **other)

    before, after, grown = ends(1, 100), ends(2, 50), ends(3, 150)
    for some in ((before, after), (after, before), (before, after, grown), (after, before, grown)):
        (shrunk,) = of(*some).truncated
        assert (shrunk.topic, shrunk.partition) == ("t", 0)
        assert (shrunk.earlier_id, shrunk.earlier_end) == (before.metadata.id, 100)
        assert (shrunk.later_id, shrunk.later_end) == (after.metadata.id, 50)
    assert [shrunk.later_end for shrunk in of(before, ends(2, 0)).truncated] == [0], "an empty log"
    assert of(before, grown, ends(4, 150)).truncated == []
    assert of(before, ends(1, 50)).truncated == [], "of the same second, their order is unknown"
    assert of(before, ends(2, 50, isolation=Isolation.COMMITTED)).truncated == [], "the last stable offset"
    assert of(before, ends(2, 50, cluster="south")).truncated == [], "another log"


def test_what_an_older_inventory_knew_to_be_absent_stays_absent() -> None:
    older = at(1, PartitionOffsets("t", 0, 0, 9, OffsetRanges([(1, 2), (6, 9)])))
    newer = at(2, PartitionOffsets("t", 0, 2, 30))
    for some in ((older, newer), (newer, older)):
        assert of(*some).entries()["t", 0] == PartitionOffsets("t", 0, 2, 30, OffsetRanges([(2, 2), (6, 9)]))


@pytest.mark.parametrize(
    "newer",
    [
        at(2, PartitionOffsets("t", 0, 0, 30), cluster="south"),
        at(2, PartitionOffsets("t", 0, 0, 30), isolation=Isolation.COMMITTED),
        at(2, PartitionOffsets("t", 0, 0, 8)),
        at(2, PartitionOffsets("t", 0, 0, None)),
    ],
)
def test_what_was_absent_elsewhere_or_in_another_life_of_the_topic_says_nothing(newer: Inventory) -> None:
    older = at(1, PartitionOffsets("t", 0, 0, 9, OffsetRanges([(1, 2)])))
    newest = of(older, newer)
    assert newest.entries()["t", 0] == newer.entries[0]
    assert newest.conflicts == ([("t", 0)] if newer.metadata.cluster == "south" else [])


def test_only_the_topics_of_an_inventory_that_are_asked_for_are_expected() -> None:
    newest = of(at(1, PartitionOffsets("a", 0, 0, 9), PartitionOffsets("b", 0, 0, 9)))
    assert list(add_inventories({}, newest, ("b",))) == [("b", 0)]
    with pytest.raises(ConfigurationError, match=r"No inventory lists the topic c .* list a, b\."):
        add_inventories({}, newest, ("c", "b"))


OLD, NEW = "A" * 21 + "A", "A" * 21 + "Q"


@pytest.mark.parametrize(
    ("older", "newer"), [((0, 9), (0, 30)), ((0, 9), (5, 9)), ((0, 9), (10, None)), ((9, None), (9, 9))]
)
def test_of_one_topic_the_inventory_with_the_higher_offsets_is_the_newer_whatever_the_clock_said(
    older: tuple[int, int | None], newer: tuple[int, int | None]
) -> None:
    """A clock that was wrong for a day would hide every loss until that date."""
    by_a_wrong_clock, later = (
        at(hours, PartitionOffsets("t", 0, *ends, None, OLD)) for hours, ends in ((9000, older), (1, newer))
    )
    for some in permutations((by_a_wrong_clock, later)):
        newest = of(*some)
        assert newest.entries() == {("t", 0): later.entries[0]}
        assert newest.newest_id == later.metadata.id


def test_inventories_of_a_topic_and_of_the_one_that_was_recreated_are_never_merged() -> None:
    before = at(1, *(PartitionOffsets("t", n, 0, 9, OffsetRanges([(1, 2)]), OLD) for n in range(3)))
    after = at(
        2, *(PartitionOffsets("t", n, 0, 30, None, NEW) for n in range(2)), PartitionOffsets("o", 0, 0, 5, None, OLD)
    )
    for some in ((before, after), (after, before)):
        newest = of(*some)
        assert newest.entries() == {("o", 0): after.entries[0], ("t", 0): after.entries[1], ("t", 1): after.entries[2]}
        assert newest.replaced == [RecreatedTopic("t", OLD, NEW)]
        assert newest.origins() == {
            ("o", 0): Origin("north", OLD), ("t", 0): Origin("north", NEW), ("t", 1): Origin("north", NEW),
        }  # fmt: skip


def test_of_two_inventories_of_one_second_nobody_can_tell_which_topic_was_recreated() -> None:
    """Their ids end with digests, which would choose by chance; a third inventory decides."""
    one, other = (at(1, PartitionOffsets("t", 0, 0, 9, None, topic_id)) for topic_id in (OLD, NEW))
    assert {frozenset(of(*some).undecided[0]) for some in permutations((one, other))} == {frozenset({"t", OLD, NEW})}
    for later_id, earlier_id in ((NEW, OLD), (OLD, NEW)):
        later = at(2, PartitionOffsets("t", 0, 0, 30, None, later_id))
        for some in permutations((one, other, later)):
            newest = of(*some)
            assert (newest.undecided, newest.replaced) == ([], [RecreatedTopic("t", earlier_id, later_id)])
            assert newest.entries() == {("t", 0): later.entries[0]}


def test_two_clusters_may_share_a_topic_downstream_in_windows_of_their_own() -> None:
    north = at(1, PartitionOffsets("t", 0, 0, 9, None, OLD))
    south = at(2, PartitionOffsets("t", 10, 0, 9, None, NEW), cluster="south")
    newest = of(north, south)
    assert (newest.replaced, sorted(newest.entries())) == ([], [("t", 0), ("t", 10)])
    assert newest.origins()["t", 0] == Origin("north", OLD)


def test_what_an_inventory_without_topic_ids_says_is_believed_as_ever() -> None:
    before = at(1, PartitionOffsets("t", 0, 0, 9, OffsetRanges([(1, 2)])))
    after = at(2, PartitionOffsets("t", 0, 0, 30, None, NEW))
    newest = of(before, after)
    assert newest.entries()["t", 0] == PartitionOffsets("t", 0, 0, 30, OffsetRanges([(1, 2)]), NEW)
    assert newest.replaced == []


def log(hours: int, end: int, *epochs: tuple[int, int], first: int = 0, **other: Any) -> Inventory:
    """An inventory of a partition with these epochs and their first offsets."""
    starts = tuple(EpochStart(*epoch) for epoch in epochs) or None
    return at(hours, PartitionOffsets("t", 0, first, end - 1 if end > first else None, None, OLD, starts), **other)


@pytest.mark.parametrize(
    ("older", "newer", "difference"),
    [
        (log(1, 100, (0, 0)), log(2, 200, (0, 0), (3, 50)), 50),
        (log(1, 100, (0, 0)), log(2, 200, (3, 0)), 0),
        (log(1, 100, (0, 0), (2, 80)), log(2, 90, (0, 0), (5, 90)), 80),
        (log(1, 100, (0, 0), (2, 80)), log(2, 300, (0, 0), (2, 80), (3, 99), (7, 150)), 99),
        (log(1, 100, (0, 0)), log(2, 50, (0, 0), (1, 50)), 50),
        (log(1, 100, (0, 0)), log(2, 0, (4, 0)), 0),
        (log(1, 100, (0, 0), (2, 60)), log(2, 200, (4, 40), first=40), 40),
        (log(1, 100, (0, 0)), log(2, 200, (0, 0), (1, 100)), None),
        (log(1, 100, (0, 0), (1, 100)), log(2, 200, (0, 0), (3, 100)), None),
        (log(1, 100, (0, 0)), log(2, 200, (0, 0)), None),
        (log(1, 100, (0, 0)), log(2, 300, (3, 120), first=110), None),
        (log(9, 100, (0, 0)), log(2, 200, (0, 0), (1, 100)), None),
        (log(1, 100, (0, 0)), log(2, 200, (1, 50), cluster="south"), None),
        (log(1, 100, (0, 0)), log(2, 90, (0, 0), (1, 90), isolation=Isolation.COMMITTED), None),
        (log(1, 100, (0, 0)), log(2, 90, (0, 0), (1, 40), isolation=Isolation.COMMITTED), 40),
    ],
)
def test_a_log_that_was_truncated_is_found_by_its_epochs_also_when_it_has_grown_again(
    older: Inventory, newer: Inventory, difference: int | None
) -> None:
    for some in permutations((older, newer)):
        newest = of(*some)
        found = [(each.first_difference, each.earlier_id, each.by_epochs) for each in newest.truncated]
        assert found == ([] if difference is None else [(difference, older.metadata.id, True)])
        if newer.metadata.cluster == older.metadata.cluster:
            assert newest.entries()["t", 0].end == newer.entries[0].end, "of the log that exists"
        assert add_inventories({}, newest)["t", 0].ambiguous_from == difference


def test_a_clock_that_was_wrong_truncates_no_log_whose_epochs_are_known() -> None:
    """Without epochs, a lower end in a later inventory can be either."""
    wrong, right = log(9, 50, (0, 0)), log(1, 100, (0, 0))
    assert of(wrong, right).truncated == []
    (found,) = of(log(9, 50), log(1, 100)).truncated
    assert (found.first_difference, found.by_epochs) == (50, False)
    (found,) = of(log(9, 50), log(1, 100, (0, 0))).truncated
    assert (found.first_difference, found.by_epochs) == (50, False), "one inventory of an earlier release"


def test_of_several_truncations_the_lowest_offset_counts_and_a_recreated_topic_has_none() -> None:
    before, cut, again = log(1, 100, (0, 0)), log(2, 200, (0, 0), (3, 50)), log(3, 300, (0, 0), (3, 50), (5, 70))
    for some in permutations((before, cut, again)):
        assert [each.first_difference for each in of(*some).truncated] == [50]
    recreated = at(4, PartitionOffsets("t", 0, 0, 9, None, NEW, (EpochStart(0, 0),)))
    assert of(before, cut, recreated).truncated == []


def test_what_was_absent_in_a_truncated_part_of_the_log_may_be_an_event_now() -> None:
    starts = (EpochStart(0, 0),)
    older = at(1, PartitionOffsets("t", 0, 0, 99, OffsetRanges([(3, 3), (60, 69)]), OLD, starts))
    newer = at(2, PartitionOffsets("t", 0, 0, 199, None, OLD, (*starts, EpochStart(2, 50))))
    for some in permutations((older, newer)):
        assert of(*some).entries()["t", 0].absent == OffsetRanges([(3, 3)])


@given(st.data())
def test_any_two_states_of_a_log_differ_where_one_record_differs(data: st.DataObject) -> None:
    """Against a log whose records are known one by one."""
    records: list[int] = []
    starts: dict[int, int] = {}
    states = []
    for epoch in range(data.draw(st.integers(2, 6))):
        kept = data.draw(st.integers(0, len(records))) if data.draw(st.booleans()) else len(records)
        del records[kept:]
        starts = {known: start for known, start in starts.items() if start < kept} | {epoch: kept}
        records += [epoch] * data.draw(st.integers(0, 5))
        states.append((list(records), dict(starts)))
    (old, old_starts), (new, new_starts) = states[data.draw(st.integers(0, len(states) - 1))], states[-1]
    first = data.draw(st.integers(0, min(len(old), len(new))))

    def extent(log_of: list[int], begins: dict[int, int]) -> LogExtent:
        known = [EpochStart(epoch, max(start, first)) for epoch, start in sorted(begins.items())]
        later = [*(start.first_offset for start in known[1:]), MAX_OFFSET]
        kept = [start for start, end in zip(known, later, strict=True) if end > start.first_offset]
        return LogExtent(first, len(log_of), kept)

    differences = [n for n in range(first, len(old)) if n >= len(new) or old[n] != new[n]]
    found = first_difference(extent(old, old_starts), extent(new, new_starts))
    assert found == (differences[0] if differences else None)
