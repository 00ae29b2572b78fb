from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ijson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless_api.base.errors import BundleError
from gapless_api.bundle.form import BundleKind, PartitionGaps
from gapless_api.bundle.reader import read_bundle, read_bundle_text
from gapless_api.bundle.writer import write_bundle
from gapless_api.codec import strict_json
from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.offsets.ranges import OffsetRanges

if TYPE_CHECKING:
    from random import Random

MARK_MEMBERS = ("version", "id", "created", "source", "missing", "sha256")
NOW = datetime(2026, 11, 20, 10, tzinfo=UTC)


@pytest.fixture(params=["yajl2_c", "python"], autouse=True)
def back_end(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """ijson takes the fastest parser that the machine has; the slowest must give the same results."""
    name: str = request.param
    monkeypatch.setattr(strict_json.ijson, "basic_parse", ijson.get_backend(name).basic_parse)
    return name


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bundle.json"


def entry(**changed: Any) -> dict[str, Any]:
    members = {"gaps": [[5], [10, 15]], "partition": 0, "topic": "t", "window_max": 99, "window_min": 0, **changed}
    return {name: value for name, value in members.items() if value is not ...}


def peers(*entries: Any, **changed: Any) -> str:
    members = {"type": "all", "results": list(entries), **changed}
    return json.dumps({name: value for name, value in members.items() if value is not ...})


def ours(path: Path) -> dict[str, Any]:
    ranges = OffsetRanges([(5, 5), (10, 15)])
    write_bundle(path, BundleKind.ALL, [PartitionGaps("t", 0, 0, 99, ranges)], created=NOW, source={"topic": "gaps"})
    written: dict[str, Any] = json.loads(path.read_text())
    return written


def refusal(path: Path, content: str | bytes) -> str:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(BundleError) as caught:
        read_bundle(path)
    sentence = str(caught.value)
    assert re.fullmatch(rf"The bundle {re.escape(str(path))}.*; .*\.", sentence), sentence
    return sentence


@pytest.mark.parametrize(
    ("name", "kind", "wanted"),
    [
        ("bundle-in-bundle-all", "all", [("transfer", 0, [(3, 3), (5, 7)]), ("transfer", 1, [])]),
        ("bundle-in-bundle-first", "first", [("transfer", 0, [(17, 17)])]),
        ("bundle-in-encrypted", "all", [("transfer", 0, [(3, 3)])]),
        ("bundle-in-input-filter", "all", [("transfer", 0, [(3, 4)])]),
        ("bundle-in-missing-upstream", "all", [("transfer", 0, [(500, 600)])]),
        (
            "bundle-out-all",
            "all",
            [
                ("transfer", 0, [(5, 5), (1005, 1005), (1010, 1015), (1050, 1050)]),
                ("transfer", 1, [(0, 899)]),
                ("transfer", 2, []),
            ],
        ),
    ],
)
def test_the_peers_bundles_are_read(vectors: Path, name: str, kind: str, wanted: list[Any]) -> None:
    read = read_bundle(vectors / f"{name}.json")
    assert (read.kind, read.metadata) == (kind, None)
    assert [(e.topic, e.partition, list(e.ranges)) for e in read.results] == wanted


def test_windows_may_be_left_out_and_follow_from_the_ranges(path: Path) -> None:
    path.write_text(peers(entry(window_min=..., window_max=...), entry(partition=1, gaps=None, window_max=...)))
    assert [(e.window_min, e.window_max) for e in read_bundle(path).results] == [(0, 15), (0, 0)]


def test_keys_that_nobody_knows_are_skipped_however_deep(path: Path) -> None:
    strange = {"a": [{"type": "x", "results": [1, {}]}, None], "b": 1.5}
    path.write_text(peers(entry(last_offset=7, extra=strange), more=strange, notes=[[[]]]))
    assert read_bundle(path).missing == 7
    path.write_text('{"deep":' + "[" * 100_000 + "]" * 100_000 + "," + peers(entry())[1:])
    assert read_bundle(path).missing == 7


def test_members_may_stand_in_any_order(path: Path) -> None:
    written = ours(path)
    reordered = {
        "gapless": dict(reversed(written["gapless"].items())),
        "results": [dict(reversed(e.items())) for e in written["results"]],
        "type": "all",
    }
    path.write_text(json.dumps(reordered, indent=3))
    assert read_bundle(path).missing == 7


def test_the_digest_does_not_depend_on_layout_or_order(path: Path) -> None:
    written = ours(path)
    written["results"] = [entry(gaps=[[12, 15]]), entry(gaps=[[10], [5]]), entry(gaps=[[11]])]
    path.write_text(json.dumps(written))
    assert list(read_bundle(path).results[0].ranges) == [(5, 5), (10, 15)]


@given(st.lists(st.sampled_from(range(0, 60, 3)), unique=True, min_size=1), st.integers(0, 2), st.integers(1, 4))
def test_disjoint_ranges_in_any_order_and_any_number_of_entries_are_one_set(
    path: Path, starts: list[int], length: int, entries: int
) -> None:
    base = MAX_OFFSET - 60
    pairs = [[base + start, base + start + length] for start in starts]
    path.write_text(peers(*(entry(gaps=pairs[index::entries]) for index in range(entries))))
    assert [read.ranges for read in read_bundle(path).results] == [OffsetRanges((a, b) for a, b in pairs)]


@pytest.mark.parametrize(
    ("gaps", "offset"),
    [
        ([[[5], [5]]], 5),
        ([[[1, 9], [3]]], 3),
        ([[[3], [1, 9]]], 3),
        ([[[1, 5], [5, 9]]], 5),
        ([[[20, 30], [1, 9], [9, 12]]], 9),
        ([[[1, 5]], [[4, 9]]], 4),
        ([[[7]], [[7]]], 7),
    ],
)
def test_an_offset_listed_twice_is_refused_with_our_digest(path: Path, gaps: list[Any], offset: int) -> None:
    metadata = ours(path)["gapless"]
    sentence = refusal(path, peers(*(entry(gaps=listed) for listed in gaps), gapless=metadata))
    assert f"lists offset {offset} of topic t, partition 0, twice" in sentence


@pytest.mark.parametrize(
    ("gaps", "ranges", "repeated"),
    [
        ([[[3], [1005, 1006], [1005, 1007]]], [(3, 3), (1005, 1007)], 2),
        ([[[1, 9], [3]]], [(1, 9)], 1),
        ([[[3], [1, 9]]], [(1, 9)], 1),
        ([[[20, 30], [1, 9], [9, 12]]], [(1, 12), (20, 30)], 1),
        ([[[1, 100], [5, 6], [50, 60], [2, 2]]], [(1, 100)], 14),
        ([[[1, 5]], [[4, 9]]], [(1, 9)], 2),
        ([[[7]], [[7]], [[7]]], [(7, 7)], 2),
        ([[[5, 6], [1, 2]]], [(1, 2), (5, 6)], 0),
    ],
)
def test_what_the_peer_lists_twice_is_merged_and_counted(
    path: Path, gaps: list[Any], ranges: list[tuple[int, int]], repeated: int
) -> None:
    """Its create repeats offsets when its window size has changed; its resend sends each once."""
    path.write_text(peers(*(entry(gaps=listed) for listed in gaps)))
    bundle = read_bundle(path)
    assert [list(map(tuple, read.ranges)) for read in bundle.results] == [ranges]
    assert bundle.repeated == repeated
    assert bool(bundle.repeated_sentence) == (repeated > 0)


def test_many_overlapping_ranges_are_merged(path: Path) -> None:
    pairs = [(10 * number, 10 * number + 14) for number in range(30_000)]
    path.write_text(peers(entry(gaps=pairs[::-1])))
    assert list(map(tuple, read_bundle(path).results[0].ranges)) == [(0, 300_004)]


def test_no_results_are_a_bundle_with_nothing_to_do(path: Path) -> None:
    for content in (peers(), '{"results":[]}', '{"type":"first","results":[]}'):
        path.write_text(content)
        assert read_bundle(path).results == ()


WRONG = {
    "an empty object": ("{}", "is not a bundle: it has no results"),
    "a list": ("[]", "is not a bundle: it is not a JSON object"),
    "a number": ("5", "is not a bundle: it is not a JSON object"),
    "an empty file": ("", "is empty; the program that wrote it failed"),
    "no JSON at all": ("hello", "is not valid JSON"),
    "no UTF-8": (peers(entry()).replace('"t"', '"\xff"').encode("latin-1"), r"is not valid JSON|is truncated"),
    "a comma too many": (peers(entry())[:-1] + ",}", "is not valid JSON"),
    "a number of 5000 digits": (peers(entry(gaps=[["X"]])).replace('"X"', "9" * 5000), r"is not valid JSON"),
    "a second value": (peers(entry()) + peers(entry()), "has content after its end; delete what follows"),
    "a brace too many": (peers(entry()) + "}", "has content after its end"),
    "a word behind": (peers(entry()) + "\nend", "has content after its end"),
    "an unknown type": (peers(entry(), type="some"), "has the unknown type 'some', and only all and first are"),
    "an unknown type of nothing": (peers(type="some"), "has the unknown type 'some'"),
    "the peer's inner type": (peers(entry(), type="manual"), "has the unknown type 'manual'"),
    "a type that is a number": (peers(entry(), type=1), "has the unknown type '1'"),
    "a type that is a list": (peers(entry(), type=["all"]), "type is not a single value"),
    "no type": (peers(entry(), type=...), "has no type, and only all and first are supported"),
    "no results": (peers(results=...), "is not a bundle: it has no results"),
    "results that are null": (peers(results=None), ": results is not a list"),
    "results that are an object": (peers(results={}), ": results is not a list"),
    "an entry that is a list": (peers(entry(), []), r": results\[1\] is not an object"),
    "an entry without topic": (peers(entry(topic=...)), r": results\[0\] has no topic"),
    "an entry without partition": (peers(entry(partition=...)), r": results\[0\] has no partition"),
    "an entry without gaps": (peers(entry(gaps=...)), r": results\[0\] has no gaps"),
    "an empty topic": (peers(entry(topic="")), r": results\[0\]\.topic is not the name of a topic"),
    "a topic of two lines": (peers(entry(topic="a\nb")), r"\.topic is not the name of a topic"),
    "a topic that is a number": (peers(entry(topic=5)), r"\.topic is not the name of a topic"),
    "a negative partition": (peers(entry(partition=-1)), r"\.partition is not an integer from 0 to 2147483647"),
    "too high a partition": (peers(entry(partition=2**31)), r"\.partition is not an integer from 0"),
    "a partition that is text": (peers(entry(partition="0")), r"\.partition is not an integer"),
    "a partition that is a float": (peers(entry(partition=0.0)), r"\.partition is not an integer"),
    "a partition that is true": (peers(entry(partition=True)), r"\.partition is not an integer"),
    "a window that is negative": (peers(entry(window_min=-1)), r"\.window_min is not an integer from 0"),
    "a window beyond all offsets": (peers(entry(window_max=2**63)), r"\.window_max is not an integer from 0"),
    "gaps that are a number": (peers(entry(gaps=5)), r": results\[0\]\.gaps is not a list"),
    "a gap that is a number": (peers(entry(gaps=[[1], 5])), r": results\[0\]\.gaps\[1\] is not a list of one or two"),
    "a gap of none": (peers(entry(gaps=[[]])), r"\.gaps\[0\] is not a list of one or two"),
    "a gap of none before others": (peers(entry(gaps=[[], [1]])), r"\.gaps\[0\] is not a list of one or two"),
    "a gap of three": (peers(entry(gaps=[[1], [2, 3, 4]])), r"\.gaps\[1\] is not a list of one or two offsets"),
    "a gap of floats": (peers(entry(gaps=[[1.0]])), r"\.gaps\[0\] is not a list of one or two integers"),
    "a gap in powers of ten": (peers(entry(gaps=[["X"]])).replace('"X"', "1e3"), "integers"),
    "a gap of text": (peers(entry(gaps=[["1", "2"]])), "integers"),
    "a gap of true": (peers(entry(gaps=[[True]])), "integers"),
    "a gap of null": (peers(entry(gaps=[[None]])), "integers"),
    "a gap of lists": (peers(entry(gaps=[[[1], 2]])), "one or two"),
    "a gap of an object": (peers(entry(gaps=[{"a": 1}])), "one or two"),
    "a gap with an object": (peers(entry(gaps=[[1, {}]])), "one or two"),
    "a negative offset": (peers(entry(gaps=[[-1]])), f"has an offset that is not within 0 to {MAX_OFFSET}"),
    "too high an offset": (peers(entry(gaps=[[1, 2**63]])), f"has an offset that is not within 0 to {MAX_OFFSET}"),
    "a reversed range": (peers(entry(gaps=[[6, 5]])), r"\.gaps\[0\] is reversed: it goes from 6 to 5"),
    "type twice": ('{"type":"all",' + peers(entry())[1:], ": type is duplicated"),
    "results twice": ('{"results":[],' + peers(entry())[1:], ": results is duplicated"),
    "gaps twice": (peers(entry()).replace('{"gaps"', '{"gaps":null,"gaps"'), r"\[0\]\.gaps is duplicated"),
    "topic twice": (peers(entry()).replace('{"gaps"', '{"topic":"t","gaps"'), r"\[0\]\.topic is duplicated"),
    "a mark that is text": (peers(entry(), gapless="yes"), ": gapless is not an object"),
    "a mark of another version": (peers(entry(), gapless={"version": 2}), "has version 2, and this program"),
    "a mark with nothing": (peers(entry(), gapless={}), ": gapless has no version"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_refused_with_one_sentence_that_says_where(path: Path, case: str) -> None:
    content, sentence = WRONG[case]
    assert re.search(sentence, refusal(path, content))


@pytest.mark.parametrize(
    ("member", "value", "sentence"),
    [
        ("sha256", "0" * 64, "was altered: the digest of its content is "),
        ("missing", 8, "lists 7 missing offsets, but its metadata has 8"),
        ("missing", -1, r": gapless\.missing is not an integer of 0 or more"),
        ("missing", "7", r": gapless\.missing is not an integer"),
        ("version", "1", r": gapless\.version is not an integer"),
        ("id", 5, r": gapless\.id is not text"),
        ("created", "yesterday", "creation time that is not like 2026-11-20T10:00:00Z"),
        ("created", "2026-02-30T10:00:00Z", "creation time that is not like"),
        ("source", [], r": gapless\.source is not an object"),
        ("source", {"a": 1}, r": gapless\.source\.a is not text"),
        ("source", {str(n): "" for n in range(2000)}, "is one of more than 1,000"),
        ("signature", None, r": gapless\.signature is not text"),
        *((name, ..., f": gapless has no {name}") for name in MARK_MEMBERS),
    ],
)  # fmt: skip
def test_a_mark_that_is_wrong_is_refused(path: Path, member: str, value: Any, sentence: str) -> None:
    written = ours(path)
    written["gapless"][member] = value
    if value is ...:
        del written["gapless"][member]
    assert re.search(sentence, refusal(path, json.dumps(written)))


def test_every_change_of_the_content_of_our_own_bundle_is_noticed(path: Path) -> None:
    for change in ("type", "gaps", "partition", "topic", "window_max"):
        written = ours(path)
        if change == "type":
            written["type"] = "first"
        else:
            written["results"][0][change] = {"gaps": [[6], [10, 15]], "topic": "u"}.get(change, 1)
        assert "was altered" in refusal(path, json.dumps(written))


def test_a_bundle_that_is_cut_anywhere_is_refused_and_says_so(path: Path) -> None:
    ours(path)
    whole = path.read_bytes().rstrip()
    for end in range(1, len(whole)):
        assert re.search(rf"is truncated after {end} bytes|is not valid JSON", refusal(path, whole[:end])), end


def test_a_bundle_that_is_cut_far_inside_says_where(path: Path) -> None:
    gaps = [[n, n + 1] for n in range(0, 300_000, 3)]
    whole = peers(entry(), entry(partition=1, gaps=gaps))
    assert f"is truncated after {len(whole) - 500} bytes (in results[1].gaps); transfer it again" in refusal(
        path, whole[:-500]
    )


@given(st.binary(max_size=60), st.data())
def test_garbage_is_refused_or_read_and_nothing_else(path: Path, garbage: bytes, data: st.DataObject) -> None:
    whole = peers(entry(), entry(partition=1, gaps=None)).encode()
    place = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:place] + garbage + whole[data.draw(st.integers(place, len(whole))) :])
    try:
        read_bundle(path)
    except BundleError as error:
        assert "\n" not in str(error)  # noqa: PT017 -- it may be refused or not


def test_a_damaged_compression_leaves_no_message_of_the_parser(path: Path) -> None:
    """pytest fails with what a parser that was left in the middle says on standard error."""
    path.write_bytes(b"\x1f\x8b\x08garbage")
    with pytest.raises(BundleError, match=r"The gzip compression of .* is (truncated|damaged)"):
        read_bundle(path)


def test_a_name_with_a_line_break_is_refused_in_one_line(path: Path) -> None:
    path.write_bytes(b'{"type":"all","results":[{"ga\\nps":[[1,')
    with pytest.raises(BundleError) as refused:
        read_bundle(path)
    assert "\n" not in str(refused.value)


def test_a_missing_file_and_a_folder_are_refused(path: Path) -> None:
    for place in (path, path.parent):
        with pytest.raises(BundleError, match=r"cannot be read \(.*\); give the path of an existing file"):
            read_bundle(place)


def test_a_bundle_that_an_editor_of_windows_has_saved_is_the_same(path: Path) -> None:
    metadata = write_bundle(
        path,
        BundleKind.ALL,
        [PartitionGaps("transfer", 0, 0, 99, OffsetRanges([(1, 5)]))],
        created=datetime(2026, 11, 20, tzinfo=UTC),
        source={},
    )
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert read_bundle(path).metadata == metadata


@given(st.lists(st.sets(st.integers(2**32 - 30, 2**32 + 30), min_size=1), min_size=1, max_size=3), st.randoms())
def test_offsets_on_both_sides_of_what_32_bits_hold_are_read_from_any_number_of_entries(
    entries: list[set[int]], chance: Random
) -> None:
    taken: set[int] = set()
    listed = []
    for offsets in entries:
        mine = list(OffsetRanges.of_offsets(offsets - taken))
        chance.shuffle(mine)
        listed.append(entry(gaps=mine))
        taken |= offsets
    text = json.dumps({"type": "all", "results": listed}).encode()
    (found,) = read_bundle_text(text, name="b").results
    assert found.ranges == OffsetRanges.of_offsets(taken)
