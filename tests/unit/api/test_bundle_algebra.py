"""What tools make of bundles obeys the algebra of sets, offset by offset, with the inferred ones kept apart."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.bundle import Bundle, BundleKind, PartitionGaps, read_bundle, write_bundle
from gapless_api.bundle_algebra import (
    _KEYS,
    Limits,
    Portion,
    differences,
    inferred_of,
    merged,
    one_kind,
    pieces,
    subtracted,
)
from gapless_api.bundle_form import arranged, arranged_inferred, new_mark
from gapless_api.errors import ConfigurationError
from gapless_api.ids import MAX_OFFSET
from gapless_api.offsets import OffsetRanges

if TYPE_CHECKING:
    from collections.abc import Iterable

Offsets = set[tuple[str, int, int]]
NAMES = ("a", "b")
CREATED = datetime(2026, 11, 20, tzinfo=UTC)


def bundle_of(offsets: Offsets, inferred: Offsets = frozenset(), kind: BundleKind = BundleKind.ALL) -> Bundle:  # type: ignore[assignment]
    results = arranged(kind, _entries(offsets))
    mark = new_mark(created=CREATED, source={}, missing=0, sha256="0" * 64)
    return Bundle(kind, results, replace(mark, inferred=arranged_inferred(_entries(inferred), results)))


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
    found = merged({str(number): bundle_of(*sets) for number, sets in enumerate(given_sets)})
    known = {offset for all_of_it, guessed in given_sets for offset in all_of_it - guessed}
    everything = {offset for all_of_it, _ in given_sets for offset in all_of_it}
    assert listed(found.results) == everything
    assert listed(found.inferred) == everything - known


@given(marked(), marked())
def test_subtracting_is_difference_and_what_is_left_stays_inferred(
    one: tuple[Offsets, Offsets], other: tuple[Offsets, Offsets]
) -> None:
    found = subtracted(bundle_of(*one), bundle_of(*other), names=NAMES)
    assert listed(found.results) == one[0] - other[0]
    assert listed(found.inferred) == one[1] - other[0]
    assert all(len(entry.ranges) for entry in found.results)


@given(offset_sets, offset_sets)
def test_the_difference_adds_up(one: Offsets, other: Offsets) -> None:
    first, second = bundle_of(one), bundle_of(other)
    found = list(differences(first, second, names=NAMES))
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
    found = list(pieces(whole, Limits(events, ranges, size), by=by, inferred_apart=apart))
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
        for piece in pieces(bundle_of(*sets), Limits(most_bytes=size)):
            path = Path(folder) / "piece.json"
            write_bundle(path, piece.kind, piece.results, created=CREATED, source={}, inferred=piece.inferred)
            assert path.stat().st_size <= size
            assert listed(inferred_of(read_bundle(path))) == listed(piece.inferred)


def test_a_range_is_cut_where_the_events_end() -> None:
    whole = Bundle(BundleKind.ALL, (PartitionGaps("t", 0, 0, 99, OffsetRanges([(0, MAX_OFFSET)])),), None)
    found = list(pieces(whole, Limits(most_events=2**61)))
    assert [piece.missing for piece in found] == [2**61] * 4
    assert found[1].results[0].ranges[0].first == 2**61


def test_a_piece_too_small_for_anything_is_refused_with_the_size_that_would_do() -> None:
    with pytest.raises(ConfigurationError, match=r"fits into 100 bytes; allow \d{4} or more") as refused:
        list(pieces(bundle_of({("t", 0, 5)}), Limits(most_bytes=100)))
    enough = int(str(refused.value).split("allow ")[1].split()[0])
    assert len(list(pieces(bundle_of({("t", 0, 5)}), Limits(most_bytes=enough)))) == 1


def test_bundles_of_first_ranges_merge_to_the_earliest_and_are_not_counted_or_taken_away() -> None:
    one, other = (bundle_of({("t", 0, offset)}, kind=BundleKind.FIRST) for offset in (5, 3))
    assert merged({"a": one, "b": other}) == Portion(BundleKind.FIRST, other.results)
    with pytest.raises(ConfigurationError, match="everything from an offset on"):
        subtracted(one, other, names=NAMES)
    with pytest.raises(ConfigurationError, match="cannot be counted"):
        list(pieces(one, Limits(most_events=1)))
    assert len(list(pieces(one, Limits(), by="partition"))) == 1


def test_mixed_types_are_refused_with_the_names_of_both() -> None:
    mixed = {"x.json": bundle_of({("t", 0, 5)}), "y.json": bundle_of({("t", 0, 5)}, kind=BundleKind.FIRST)}
    with pytest.raises(ConfigurationError, match=r"x\.json is of type all and y\.json of type first"):
        one_kind(mixed)
    with pytest.raises(ConfigurationError):
        merged(mixed)
    with pytest.raises(ConfigurationError):
        list(differences(*mixed.values(), names=NAMES))


def test_a_bundle_that_lists_nothing_has_no_pieces() -> None:
    whole = Bundle(BundleKind.ALL, (PartitionGaps("t", 0, 0, 99, OffsetRanges()),), None)
    assert list(pieces(whole, Limits(), by="topic", inferred_apart=True)) == []
