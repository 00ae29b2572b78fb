"""Lines that a person types become the bundle that they were made of, or are refused."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gapless_api.base.errors import BundleError, ConfigurationError
from gapless_api.bundle.algebra import Portion
from gapless_api.bundle.form import (
    Bundle,
    BundleKind,
    PartitionGaps,
    canonical_inferred,
    canonical_results,
    new_metadata,
)
from gapless_api.bundle.qr_codes import MAX_BYTES, draw_code, pack_lines
from gapless_api.bundle.typed_lines import DEFAULT_WIDTH, read_typed, typed_lines
from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.offsets.ranges import OffsetRanges

Found = tuple[BundleKind, list[tuple[str, int, OffsetRanges]], list[tuple[str, int, OffsetRanges]]]


def bundle(*entries: tuple[str, int, list[tuple[int, int]]], inferred: Any = (), kind: Any = BundleKind.ALL) -> Bundle:
    results = canonical_results(kind, [PartitionGaps(*place, 0, 0, OffsetRanges(pairs)) for *place, pairs in entries])
    guessed = [PartitionGaps(*place, 0, 0, OffsetRanges(pairs)) for *place, pairs in inferred]
    metadata = new_metadata(created=datetime(2026, 11, 20, tzinfo=UTC), source={}, missing=0, sha256="0" * 64)
    return Bundle(kind, results, replace(metadata, inferred=canonical_inferred(guessed, results)))


def said(found: Bundle | Portion) -> Found:
    guessed: Iterable[PartitionGaps]
    if isinstance(found, Portion):
        guessed = found.inferred
    else:
        assert found.metadata is not None
        guessed = found.metadata.inferred
    return (
        found.kind,
        [(entry.topic, entry.partition, entry.ranges) for entry in found.results if len(entry.ranges)],
        [(entry.topic, entry.partition, entry.ranges) for entry in guessed],
    )


def written(found: Bundle, **more: int) -> str:
    return "".join(f"{line}\n" for line in typed_lines(found, **more))


def words(found: Bundle, **more: int) -> list[str]:
    """The lines without their check words."""
    return [line.rpartition(" ")[0] for line in typed_lines(found, **more)]


def test_numbers_are_cut_down_to_the_digits_that_are_needed() -> None:
    peers = bundle(
        ("transfer", 0, [(5, 5), (1005, 1005), (1010, 1015), (1050, 1050)]), ("transfer", 1, [(0, 899)]),
        ("transfer", 2, []), inferred=[("transfer", 0, [(1005, 1005), (1014, 1015)])],
    )  # fmt: skip
    assert words(peers) == ["transfer 0 5 ?005 0-3 ?4-5 50", "=1 0-899", "end"]
    assert said(read_typed(written(peers))) == said(peers)


def test_a_long_list_goes_on_in_the_next_line() -> None:
    found = bundle(("t", 0, [(offset, offset + 3) for offset in range(0, 10_000, 137)]))
    assert words(found)[1].startswith("+ ")
    assert max(map(len, written(found).splitlines())) <= DEFAULT_WIDTH
    assert said(read_typed(written(found))) == said(found)


names = st.text(st.characters(exclude_categories=["C", "Z"]) | st.just(" "), min_size=1, max_size=12)
topics = st.sampled_from(["t", "end", "first", "a.b_c-d", "123", '=1 "x', "+ 2", "#"]) | names
pairs = st.tuples(st.integers(0, 3000) | st.integers(MAX_OFFSET - 50, MAX_OFFSET), st.integers(0, 400)).map(
    lambda pair: (pair[0], min(pair[0] + pair[1], MAX_OFFSET))
)


@st.composite
def bundles(draw: Any, topics: Any = topics) -> Bundle:
    listed = draw(st.lists(st.tuples(topics, st.integers(0, 3) | st.just(2**31 - 1), st.lists(pairs)), max_size=5))
    guessed = [(topic, number, draw(st.lists(pairs, max_size=3))) for topic, number, _ in listed]
    return bundle(*listed, inferred=guessed, kind=draw(st.sampled_from(BundleKind)))


@given(bundles(), st.integers(20, 90))
def test_every_bundle_comes_back_from_its_lines(found: Bundle, width: int) -> None:
    assert said(read_typed(written(found, width=width))) == said(found)


def outcome(text: str) -> Found | None:
    try:
        return said(read_typed(text))
    except BundleError:
        return None


SHORT = bundle(("transfer", 0, [(5, 5), (1005, 1005), (1010, 1015)]), ("transfer", 1, [(0, 899)]))


@pytest.mark.parametrize("position", range(len(written(SHORT))))
def test_every_wrong_character_is_noticed(position: int) -> None:
    text = written(SHORT)
    for typed in "0123456789abcdefghijklmnopqrstuvwxyzABCXYZ -=+?.,;#\"'\n":
        assert outcome(text[:position] + typed + text[position + 1 :]) in (None, said(SHORT))


@given(bundles(st.sampled_from(["transfer", "t.x", "a_1"])), st.data())
@example(SHORT, None)
def test_a_wrong_character_or_two_that_changed_places_are_noticed(found: Bundle, data: Any) -> None:
    text = written(found)
    where = data.draw(st.integers(0, len(text) - 2)) if data else 3
    typed = data.draw(st.characters(min_codepoint=33, max_codepoint=126)) if data else "x"
    assert outcome(text[:where] + typed + text[where + 1 :]) in (None, said(found))
    swapped = text[:where] + text[where + 1] + text[where] + text[where + 2 :]
    assert outcome(swapped) in (None, said(found))


def test_lines_that_are_missing_doubled_or_in_another_order_are_noticed_by_number() -> None:
    lines = written(bundle(("a", 0, [(1, 1)]), ("b", 0, [(2, 2)]), ("c", 0, [(3, 3)]))).splitlines()
    assert len(lines) == 4
    for number in range(3):
        with pytest.raises(BundleError, match=f"line {number + 1} does not match"):
            read_typed("\n".join(lines[:number] + lines[number + 1 :]))
    with pytest.raises(BundleError, match="line that begins with end"):
        read_typed("\n".join(lines[:3]))
    with pytest.raises(BundleError, match="line that begins with end"):
        read_typed("")
    with pytest.raises(BundleError, match="line 2 does not match"):
        read_typed("\n".join([lines[0], *lines]))
    with pytest.raises(BundleError, match="line 1, 2, 3 does not match"):
        read_typed("\n".join([lines[1], lines[0], *lines[2:]]))


def test_spaces_capitals_of_check_words_comments_and_mistakable_letters_do_not_matter() -> None:
    lines = [line.rpartition(" ") for line in written(SHORT).splitlines()]
    typed = [
        f"  {before.replace(' ', '   ')}  {word.upper().replace('1', 'l').replace('0', 'O')} "
        for before, _, word in lines
    ]
    assert said(read_typed("# from north\n\n" + "\r\n".join(typed))) == said(SHORT)


def test_codes_hold_all_lines_in_order_and_are_drawn() -> None:
    found = bundle(*((f"topic-{number}", 0, [(number, number + 5)]) for number in range(100)))
    codes = list(pack_lines(typed_lines(found)))
    assert len(codes) > 1
    assert max(len(code.encode()) for code in codes) <= MAX_BYTES
    assert said(read_typed("".join(codes))) == said(found)
    drawing = draw_code(codes[0]).splitlines()
    assert len(drawing) > 30
    assert draw_code(codes[0]) == draw_code(codes[0])
    assert list(pack_lines([])) == []
    with pytest.raises(ConfigurationError, match="does not fit into a QR code"):
        draw_code("x" * 3000)


@pytest.mark.parametrize("page", ["reference/bundle-format.md", "procedures/close-a-gap.md"])
def test_the_lines_in_the_documentation_are_what_is_printed(page: str) -> None:
    peers = bundle(
        ("transfer", 0, [(5, 5), (1005, 1005), (1010, 1015), (1050, 1050)]), ("transfer", 1, [(0, 899)])
    )  # fmt: skip
    text = (Path(__file__).parents[3] / "docs" / page).read_text(encoding="utf-8")
    assert f"\n{written(peers)}```" in text


def test_codes_without_the_extra_are_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "segno", None)
    with pytest.raises(
        ConfigurationError, match=r"extra qr of gapless brings; pip install --no-index .* 'gapless\[qr\]'"
    ):
        draw_code("x")
