"""`gapless bundle diff, merge, subtract, split, text` as a person uses them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from gapless_api.bundle.algebra import inferred_of
from gapless_api.bundle.form import Bundle, BundleKind, PartitionGaps
from gapless_api.bundle.reader import read_bundle
from gapless_api.bundle.writer import write_bundle
from gapless_api.offsets.ranges import OffsetRanges

if TYPE_CHECKING:
    Gapless = Callable[..., subprocess.CompletedProcess[str]]
    Make = Callable[..., Path]


def gaps(*pairs: tuple[int, int], topic: str = "transfer", partition: int = 0) -> PartitionGaps:
    return PartitionGaps(topic, partition, 0, 99, OffsetRanges(pairs))


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def write(name: str, *entries: PartitionGaps, kind: BundleKind = BundleKind.ALL, **more: Any) -> Path:
        path = tmp_path / name
        write_bundle(path, kind, entries, created=datetime(2026, 11, 20, tzinfo=UTC), source={"name": "x"}, **more)
        return path

    return write


def said(found: Bundle) -> dict[tuple[str, int], list[tuple[int, int]]]:
    return {(entry.topic, entry.partition): [tuple(pair) for pair in entry.ranges] for entry in found.results}


def test_diff_says_what_only_one_lists(make: Make, gapless: Gapless) -> None:
    one, other = make("a", gaps((5, 9), (50, 50))), make("b", gaps((8, 12)), gaps((1, 1), partition=1))
    ended = gapless("bundle", "diff", one, other)
    assert (ended.returncode, ended.stderr) == (0, "")
    words = [line.split() for line in ended.stdout.splitlines()]
    assert ["transfer", "0", "4", "3", "2", "A", "5-7,", "B", "10-12"] in words
    assert ["transfer", "1", "0", "1", "0", "B", "1"] in words
    assert "The bundles differ: 4 offsets only in A, 4 only in B, 2 in both, in 2 partitions." in ended.stdout
    shown = json.loads(gapless("bundle", "diff", "--json", one, other).stdout)["partitions"][0]
    assert shown["only_a"] == {"missing": 4, "ranges": [[5, 7], [50, 50]], "ranges_omitted": 0}
    assert "The bundles list the same offsets: 0 offsets only in A" in gapless("bundle", "diff", one, one).stdout


def test_diff_ends_with_10_on_request_if_the_bundles_differ(make: Make, gapless: Gapless, tmp_path: Path) -> None:
    one, more = make("a", gaps((5, 9))), make("b", gaps((5, 9), (50, 50)))
    for first, second, code in ((one, more, 10), (more, one, 10), (one, one, 0)):
        for arguments in ((first, second), ("--json", first, second)):
            ended = gapless("bundle", "diff", "--exit-code", *arguments)
            assert (ended.returncode, ended.stdout) == (code, gapless("bundle", "diff", *arguments).stdout)
    assert gapless("bundle", "diff", "--exit-code", one, tmp_path / "none").returncode == 2


def test_merge_is_deterministic_and_keeps_what_is_inferred(make: Make, gapless: Gapless, tmp_path: Path) -> None:
    one = make("a", gaps((5, 9)), inferred=[gaps((5, 6), (9, 9))])
    other = make("b", gaps((6, 12)), inferred=[gaps((12, 12))])
    ended = gapless("bundle", "merge", tmp_path / "ab", one, other)
    assert (ended.returncode, ended.stderr) == (0, "")
    first = (tmp_path / "ab").read_bytes()
    found = read_bundle(tmp_path / "ab")
    assert said(found) == {("transfer", 0): [(5, 12)]}
    assert [list(entry.ranges) for entry in inferred_of(found)] == [[(5, 5), (12, 12)]]
    assert found.metadata is not None
    assert found.metadata.source["command"] == "gapless bundle merge"
    gapless("bundle", "merge", tmp_path / "ab", one, other)
    assert (tmp_path / "ab").read_bytes() == first


def test_subtract_leaves_what_the_other_does_not_list(make: Make, gapless: Gapless, tmp_path: Path) -> None:
    one, other = make("a", gaps((5, 9)), gaps((1, 1), partition=1)), make("b", gaps((7, 7)), gaps((1, 1), partition=1))
    assert gapless("bundle", "subtract", one, other, "--output", tmp_path / "rest").returncode == 0
    assert said(read_bundle(tmp_path / "rest")) == {("transfer", 0): [(5, 6), (8, 9)]}
    assert gapless("bundle", "subtract", one, other).stdout == (tmp_path / "rest").read_text()


def test_mixed_types_are_refused_and_nothing_is_written(make: Make, gapless: Gapless, tmp_path: Path) -> None:
    one, first = make("a", gaps((5, 9))), make("f", gaps((5, 9)), kind=BundleKind.FIRST)
    for arguments in (("merge", tmp_path / "out", one, first), ("subtract", one, first), ("diff", one, first)):
        ended = gapless("bundle", *arguments)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert f"{one} is of type all and {first} of type first" in ended.stderr
    assert not (tmp_path / "out").exists()


def test_a_signature_does_not_pass_on_and_that_is_said(make: Make, gapless: Gapless, tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.write_bytes(Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    signed = make("a", gaps((5, 9)), signing_key=key)
    for arguments in (
        ("merge", tmp_path / "out", signed, signed),
        ("subtract", signed, make("b"), "--output", tmp_path / "out"),
        ("split", signed, "--by", "topic", "--into", tmp_path / "pieces"),
    ):
        ended = gapless("bundle", *arguments)
        assert ended.returncode == 0
        assert f"The signature of {signed} does not cover the output" in ended.stderr
    for path in (tmp_path / "out", tmp_path / "pieces" / "0001.json"):
        metadata = read_bundle(path).metadata
        assert metadata is not None
        assert metadata.signature is None


def test_split_makes_a_folder_of_pieces(make: Make, gapless: Gapless, tmp_path: Path) -> None:
    whole = make("a", gaps((0, 9), (20, 24)), gaps((3, 3), topic="other"), inferred=[gaps((9, 9))])
    ended = gapless("bundle", "split", whole, "--into", tmp_path / "p", "--most-events", 6, "--by", "topic")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "Wrote 4 pieces with 16 missing." in ended.stdout
    pieces = sorted((tmp_path / "p").iterdir())
    assert [path.name for path in pieces] == ["0001.json", "0002.json", "0003.json", "0004.json"]
    found = [read_bundle(path) for path in pieces]
    assert [piece.missing for piece in found] == [1, 6, 6, 3]
    assert [sum(entry.ranges.count for entry in inferred_of(piece)) for piece in found] == [0, 0, 1, 0]
    assert gapless("bundle", "merge", tmp_path / "again", *pieces).returncode == 0
    assert said(read_bundle(tmp_path / "again")) == said(read_bundle(whole))


def test_split_keeps_known_and_inferred_apart(make: Make, gapless: Gapless, tmp_path: Path) -> None:
    whole = make("a", gaps((0, 9)), inferred=[gaps((4, 5))])
    assert gapless("bundle", "split", whole, "--into", tmp_path / "p", "--inferred").returncode == 0
    known, inferred = (read_bundle(path) for path in sorted((tmp_path / "p").iterdir()))
    assert (said(known), inferred_of(known)) == ({("transfer", 0): [(0, 3), (6, 9)]}, ())
    assert (said(inferred), inferred.missing) == ({("transfer", 0): [(4, 5)]}, 2)


def test_split_leaves_nothing_behind_when_it_cannot(make: Make, gapless: Gapless, tmp_path: Path) -> None:
    whole, empty = make("a", gaps((0, 9))), make("e", gaps())
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    for arguments, problem in (
        ((whole, "--into", tmp_path / "full", "--by", "topic"), "is not empty"),
        ((empty, "--into", tmp_path / "p", "--by", "topic"), "nothing to split"),
        ((whole, "--into", tmp_path / "p", "--most-bytes", 10), "A single range of topic"),
        ((whole, "--into", tmp_path / "no" / "p", "--by", "topic"), "cannot be written"),
        ((whole, "--into", tmp_path / "p"), "no way to split is given"),
    ):
        ended = gapless("bundle", "split", *arguments)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert problem in ended.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "e", "full"]


def type_in(text: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-c",
        "from gapless_api.cli.main import main; main()",
        "bundle",
        "text",
        *map(str, arguments),
    ]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=60)


def test_text_is_typed_back_into_the_same_gaps(make: Make, gapless: Gapless, tmp_path: Path) -> None:
    whole = make("a", gaps((5, 5), (1005, 1005), (1010, 1015)), gaps((0, 899), partition=1), inferred=[gaps((5, 5))])
    printed = gapless("bundle", "text", whole).stdout
    assert printed.startswith("# 908 missing of the bundle 20261120-000000-")
    assert [line.split()[:-1] for line in printed.splitlines() if not line.startswith("#")] == [
        ["transfer", "0", "?5", "005", "0-5"], ["=1", "0-899"], ["end"],
    ]  # fmt: skip
    ended = type_in(printed, "--read", "-", "--output", tmp_path / "typed")
    assert (ended.returncode, ended.stderr) == (0, "")
    typed = read_bundle(tmp_path / "typed")
    assert said(typed) == said(read_bundle(whole))
    assert [list(entry.ranges) for entry in inferred_of(typed)] == [[(5, 5)]]
    (tmp_path / "lines").write_text(printed)
    assert gapless("bundle", "text", "--read", tmp_path / "lines", "--output", tmp_path / "again").returncode == 0


def test_a_typing_error_is_named_and_nothing_is_written(make: Make, gapless: Gapless, tmp_path: Path) -> None:
    printed = gapless("bundle", "text", make("a", gaps((5, 9)))).stdout
    ended = type_in(printed.replace("5-9", "5-8"), "--read", "-", "--output", tmp_path / "typed")
    assert ended.returncode == 2
    assert "The checksum of line 3 does not match" in ended.stderr
    assert not (tmp_path / "typed").exists()


def test_text_that_is_too_long_is_refused_with_advice(make: Make, gapless: Gapless) -> None:
    whole = make("a", *(gaps((1, 1), partition=number) for number in range(100)))
    ended = gapless("bundle", "text", whole)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "needs more than 60 lines; split it with gapless bundle split" in ended.stderr
    assert len(gapless("bundle", "text", whole, "--most-lines", 101).stdout.splitlines()) == 103


def test_codes_are_numbered_and_bounded(make: Make, gapless: Gapless) -> None:
    whole = make("a", *(gaps((1, 1), partition=number) for number in range(100)))
    printed = gapless("bundle", "text", "--qr", whole).stdout
    headings = [line for line in printed.splitlines() if line.startswith("Code ")]
    assert len(headings) > 2
    assert headings[0] == f"Code 1 of {len(headings)}"
    assert "\u2588" in printed
    ended = gapless("bundle", "text", "--qr", "--most-lines", 1, whole)
    assert (ended.returncode, "more than 1 QR codes" in ended.stderr) == (2, True)
