"""What tools make of bundles obeys the algebra of sets, offset by offset, with the inferred ones kept apart."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.base.errors import ConfigurationError
from gapless_api.bundle.algebra import (
    _KEYS,
    Limits,
    Portion,
    common_kind,
    diff_bundles,
    inferred_of,
    merge_bundles,
    split_bundle,
    subtract_bundle,
)
from gapless_api.bundle.form import (
    Bundle,
    BundleKind,
    PartitionGaps,
    canonical_inferred,
    canonical_results,
    new_metadata,
)
from gapless_api.bundle.reader import read_bundle
from gapless_api.bundle.writer import write_bundle
from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.offsets.ranges import OffsetRanges

Offsets = set[tuple[str, int, int]]
NAMES = ("a", "b")
CREATED = datetime(2026, 11, 20, tzinfo=UTC)


def bundle_of(offsets: Offsets, inferred: Offsets = frozenset(), kind: BundleKind = BundleKind.ALL) -> Bundle:  # type: ignore[assignment]
    results = canonical_results(kind, _entries(offsets))
    metadata = new_metadata(created=CREATED, source={}, missing=0, sha256="0" * 64)
    return Bundle(kind, results, replace(metadata, inferred=canonical_inferred(_entries(inferred), results)))


def _entries(offsets: Iterable[tuple[str, int, int]]) -> list[PartitionGaps]:
    return [PartitionGaps(topic, number, 0, 99, OffsetRanges.of_offsets([offset])) for topic, number, offset in offsets]


def listed(entries: Iterable[PartitionGaps]) -> Offsets:
    return {
        (entry.topic, entry.partition, offset)
        for entry in entries
        for first, last in entry.ranges
        for offset in range(first, last + 1)
    }


places = st.tuples(
    st.sampled_from(["t", "t.u", "x_y-z"]),
    st.integers(0, 2),
    st.integers(0, 30) | st.integers(MAX_OFFSET - 9, MAX_OFFSET),
)
offset_sets = st.sets(places, max_size=40)


@st.composite
def marked(draw: Any) -> tuple[Offsets, Offsets]:
    offsets = draw(offset_sets)
    return offsets, draw(st.sets(st.sampled_from(sorted(offsets)))) if offsets else set()


@given(st.lists(marked(), min_size=1, max_size=4))
def test_merging_is_union_and_known_beats_inferred(given_sets: list[tuple[Offsets, Offsets]]) -> None:
    found = merge_bundles({str(number): bundle_of(*sets) for number, sets in enumerate(given_sets)})
    known = {offset for all_of_it, guessed in given_sets for offset in all_of_it - guessed}
    everything = {offset for all_of_it, _ in given_sets for offset in all_of_it}
    assert listed(found.results) == everything
    assert listed(found.inferred) == everything - known


@given(marked(), marked())
def test_subtracting_is_difference_and_what_is_left_stays_inferred(
    one: tuple[Offsets, Offsets], other: tuple[Offsets, Offsets]
) -> None:
    found = subtract_bundle(bundle_of(*one), bundle_of(*other), names=NAMES)
    assert listed(found.results) == one[0] - other[0]
    assert listed(found.inferred) == one[1] - other[0]
    assert all(len(entry.ranges) for entry in found.results)


@given(offset_sets, offset_sets)
def test_the_difference_adds_up(one: Offsets, other: Offsets) -> None:
    first, second = bundle_of(one), bundle_of(other)
    found = list(diff_bundles(first, second, names=NAMES))
    only_first = listed(PartitionGaps(each.topic, each.partition, 0, 0, each.only_first) for each in found)
    only_second = listed(PartitionGaps(each.topic, each.partition, 0, 0, each.only_second) for each in found)
    assert (only_first, only_second) == (one - other, other - one)
    assert sum(each.both for each in found) == len(one & other)


@given(
    marked(),
    st.none() | st.integers(1, 9),
    st.none() | st.integers(1, 4),
    st.none() | st.integers(1500, 2500),
    st.sampled_from([None, "topic", "partition"]),
    st.booleans(),
)
def test_pieces_hold_the_whole_once_in_order_and_keep_their_limits(  # noqa: PLR0917
    sets: tuple[Offsets, Offsets], events: int | None, ranges: int | None, size: int | None, by: str | None, apart: Any
) -> None:
    whole = bundle_of(*sets)
    found = list(split_bundle(whole, Limits(events, ranges, size), by=by, inferred_apart=apart))
    again = [offset for piece in found for offset in listed(piece.results)]
    assert len(again) == len(set(again))
    assert set(again) == sets[0]
    assert listed(entry for piece in found for entry in piece.inferred) == sets[1]
    for piece in found:
        assert 0 < piece.missing <= (events or 1 << 99)
        assert sum(len(entry.ranges) for entry in piece.results) <= (ranges or 1 << 99)
        assert by is None or len({_KEYS[by](entry) for entry in piece.results}) == 1
        assert not apart or not piece.inferred or listed(piece.inferred) == listed(piece.results)
    if by is None and not apart:
        spans = [min(listed(piece.results)) for piece in found]
        assert spans == sorted(spans)


@given(marked(), st.integers(1600, 2500))
def test_the_file_of_a_piece_is_no_larger_than_asked_for(sets: tuple[Offsets, Offsets], size: int) -> None:
    with TemporaryDirectory() as folder:
        for piece in split_bundle(bundle_of(*sets), Limits(max_bytes=size)):
            path = Path(folder) / "piece.json"
            write_bundle(path, piece.kind, piece.results, created=CREATED, source={}, inferred=piece.inferred)
            assert path.stat().st_size <= size
            assert listed(inferred_of(read_bundle(path))) == listed(piece.inferred)


def test_a_range_is_cut_where_the_events_end() -> None:
    whole = Bundle(BundleKind.ALL, (PartitionGaps("t", 0, 0, 99, OffsetRanges([(0, MAX_OFFSET)])),), None)
    found = list(split_bundle(whole, Limits(max_events=2**61)))
    assert [piece.missing for piece in found] == [2**61] * 4
    assert found[1].results[0].ranges[0].first == 2**61


def test_a_piece_too_small_for_anything_is_refused_with_the_size_that_would_do() -> None:
    with pytest.raises(ConfigurationError, match=r"does not fit into 100 bytes; allow \d{4} or more") as refused:
        list(split_bundle(bundle_of({("t", 0, 5)}), Limits(max_bytes=100)))
    enough = int(str(refused.value).split("allow ")[1].split()[0])
    assert len(list(split_bundle(bundle_of({("t", 0, 5)}), Limits(max_bytes=enough)))) == 1


def _file_bytes(bundle: Bundle) -> int:
    """What the reckoning takes for everything in a file but the results: the mark and, twice, the source."""
    source = {} if bundle.metadata is None else bundle.metadata.source
    return 1024 + 2 * len(json.dumps(source, ensure_ascii=False).encode())


def _result_bytes(topic: str, offsets: Iterable[int], times: int = 1) -> int:
    """What a partition takes: 100 bytes and the topic, and for each offset, as a range, twice its digits and four."""
    return times * (
        100 + len(json.dumps(topic, ensure_ascii=False).encode()) + sum(2 * len(str(offset)) + 4 for offset in offsets)
    )


def _sourced(offsets: Offsets, inferred: Offsets = frozenset()) -> Bundle:  # type: ignore[assignment]
    bundle = bundle_of(offsets, inferred)
    assert bundle.metadata is not None
    return replace(bundle, metadata=replace(bundle.metadata, source={"topic": "gäps"}))


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("room", [0, -1])
def test_a_piece_is_filled_to_the_last_byte_and_not_beyond(times: int, room: int) -> None:
    """Two partitions fill the first piece exactly; one byte less, and their last range goes into the second.

    What was inferred stands in the file twice.
    """
    first, second, third = (("tü", 0), [1, 30]), (("tü", 1), [5, 700]), (("u", 0), [8])
    offsets = {(topic, number, each) for (topic, number), all_of in (first, second, third) for each in all_of}
    bundle = _sourced(offsets, {("tü", 0, 1)} if times == 2 else set())
    size = _file_bytes(bundle) + _result_bytes("tü", first[1], times) + _result_bytes("tü", second[1], times) + room
    found = [listed(piece.results) for piece in split_bundle(bundle, Limits(max_bytes=size))]
    moved = set() if room == 0 else {("tü", 1, 700)}
    assert found == [offsets - {("u", 0, 8)} - moved, {("u", 0, 8)} | moved]


def test_the_second_piece_is_filled_like_the_first() -> None:
    bundle = bundle_of({("t", 0, offset) for offset in range(10, 90, 2)})
    size = _file_bytes(bundle) + _result_bytes("t", range(10, 34, 2))
    found = [len(listed(piece.results)) for piece in split_bundle(bundle, Limits(max_bytes=size))]
    assert found == [12, 12, 12, 4]


def test_the_refusal_names_the_size_to_the_byte() -> None:
    bundle = _sourced({("tü", 0, 5)})
    needed = _file_bytes(bundle) + _result_bytes("tü", [5])
    with pytest.raises(ConfigurationError, match=f"allow {needed} or more"):
        list(split_bundle(bundle, Limits(max_bytes=needed - 1)))


def test_events_and_ranges_have_no_limit_unless_one_is_given() -> None:
    ranges = OffsetRanges([(0, 2**62), (2**62 + 2, MAX_OFFSET)])
    bundle = Bundle(BundleKind.ALL, (PartitionGaps("t", 0, 0, 99, ranges), PartitionGaps("t", 1, 0, 99, ranges)), None)
    assert len(list(split_bundle(bundle, Limits()))) == 1


def test_events_are_counted_over_ranges_and_partitions() -> None:
    """Ten events a piece, whatever the ranges: the third range is cut after its third event."""
    one = PartitionGaps("t", 0, 0, 99, OffsetRanges([(5, 7), (20, 23), (30, 34)]))
    other = PartitionGaps("t", 1, 0, 99, OffsetRanges([(8, 17)]))
    bundle = Bundle(BundleKind.ALL, (one, other), None)
    found = list(split_bundle(bundle, Limits(max_events=10)))
    assert [[(entry.partition, list(entry.ranges)) for entry in piece.results] for piece in found] == [
        [(0, [(5, 7), (20, 23), (30, 32)])],
        [(0, [(33, 34)]), (1, [(8, 15)])],
        [(1, [(16, 17)])],
    ]


def test_a_piece_that_is_full_when_a_range_ends_is_left_at_its_end() -> None:
    bundle = Bundle(BundleKind.ALL, (PartitionGaps("t", 0, 0, 99, OffsetRanges([(5, 7), (20, 22)])),), None)
    found = list(split_bundle(bundle, Limits(max_events=3)))
    assert [list(piece.results[0].ranges) for piece in found] == [[(5, 7)], [(20, 22)]]


def test_ranges_are_counted_one_by_one() -> None:
    bundle = bundle_of({("t", number, offset) for number in (0, 1) for offset in (1, 3, 5)})
    found = list(split_bundle(bundle, Limits(max_ranges=4)))
    assert [sum(len(entry.ranges) for entry in piece.results) for piece in found] == [4, 2]


def test_refusals_name_the_bundles_in_their_order() -> None:
    ordered, other = bundle_of({("t", 0, 5)}), bundle_of({("t", 0, 5)}, kind=BundleKind.FIRST)
    for act in (subtract_bundle, lambda *both, names: list(diff_bundles(*both, names=names))):
        with pytest.raises(ConfigurationError, match=r"a .*b"):
            act(ordered, other, names=NAMES)  # type: ignore[operator]


def test_bundles_of_first_ranges_merge_to_the_earliest_and_are_not_counted_or_taken_away() -> None:
    one, other = (bundle_of({("t", 0, offset)}, kind=BundleKind.FIRST) for offset in (5, 3))
    assert merge_bundles({"a": one, "b": other}) == Portion(BundleKind.FIRST, other.results)
    with pytest.raises(ConfigurationError, match="everything from an offset on"):
        subtract_bundle(one, other, names=NAMES)
    with pytest.raises(ConfigurationError, match="cannot be counted"):
        list(split_bundle(one, Limits(max_events=1)))
    assert len(list(split_bundle(one, Limits(), by="partition"))) == 1


def test_mixed_types_are_refused_with_the_names_of_both() -> None:
    mixed = {"x.json": bundle_of({("t", 0, 5)}), "y.json": bundle_of({("t", 0, 5)}, kind=BundleKind.FIRST)}
    with pytest.raises(ConfigurationError, match=r"x\.json is of type all and y\.json of type first"):
        common_kind(mixed)
    with pytest.raises(ConfigurationError):
        merge_bundles(mixed)
    with pytest.raises(ConfigurationError):
        list(diff_bundles(*mixed.values(), names=NAMES))


def test_a_bundle_that_lists_nothing_has_no_pieces() -> None:
    whole = Bundle(BundleKind.ALL, (PartitionGaps("t", 0, 0, 99, OffsetRanges()),), None)
    assert list(split_bundle(whole, Limits(), by="topic", inferred_apart=True)) == []
