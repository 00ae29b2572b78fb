from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from gapless_api.base.errors import BundleError
from gapless_api.bundle.form import BundleKind, PartitionGaps
from gapless_api.bundle.reader import read_bundle, read_bundle_text
from gapless_api.bundle.writer import write_bundle, write_signed
from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.offsets.ranges import OffsetRanges

if TYPE_CHECKING:
    import subprocess

NOW = datetime(2026, 11, 20, 10, tzinfo=UTC)


def entry(topic: str, partition: int, *pairs: tuple[int, int]) -> PartitionGaps:
    return PartitionGaps(topic, partition, 0, 4999, OffsetRanges(pairs))


RESULTS = [entry("t", 0, (5, 5), (950, 1010), (2000, 2999)), entry("t", 1), entry("ü", 2, (7, 7))]
INFERRED = [entry("ü", 2, (7, 7)), entry("t", 0, (950, 999), (2000, 2999))]


def write(path: Path, kind: BundleKind = BundleKind.ALL, **given: Any) -> Any:
    return write_bundle(path, kind, RESULTS, **{"created": NOW, "source": {}, "inferred": INFERRED, **given})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bundle.json"


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    key = Ed25519PrivateKey.generate()
    private, public = tmp_path / "key.pem", tmp_path / "public.pem"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return private, public


def test_the_mark_says_which_gaps_are_inferred_and_the_results_hold_them_all(path: Path) -> None:
    metadata = write(path)
    bundle = read_bundle(path)
    assert bundle.results == tuple(RESULTS)
    assert bundle.metadata == metadata
    assert metadata.inferred == (INFERRED[1], INFERRED[0])


def test_the_list_stands_in_the_file_as_documented_and_its_digest_can_be_checked(path: Path) -> None:
    write(path)
    written = json.loads(path.read_text())["gapless"]
    assert written["inferred"] == [
        {"partition": 0, "ranges": [[950, 999], [2000, 2999]], "topic": "t"},
        {"partition": 2, "ranges": [[7]], "topic": "ü"},
    ]
    lines = [json.dumps(each, ensure_ascii=False, separators=(",", ":")) for each in written["inferred"]]
    text = "".join(f"{line}\n" for line in ("inferred", *lines))
    assert written["inferred_sha256"] == hashlib.sha256(text.encode()).hexdigest()


def test_what_is_inferred_changes_neither_the_digest_nor_the_rest_of_the_file(path: Path) -> None:
    marked = write(path)
    with_list = path.read_text().splitlines()
    plain = write(path, inferred=())
    without = path.read_text().splitlines()
    assert (marked.sha256, marked.id) == (plain.sha256, plain.id)
    assert with_list[:-2] == without[:-2]
    assert "inferred" not in path.read_text()


def test_a_bundle_marks_nothing_that_it_does_not_hold(path: Path) -> None:
    assert write(path, BundleKind.FIRST).inferred == (INFERRED[0],)
    elsewhere = [entry("t", 0, (900, 960)), entry("t", 1, (0, 9)), entry("x", 0, (1, 1))]
    assert write(path, inferred=elsewhere).inferred == (entry("t", 0, (950, 960)),)
    assert read_bundle(path).results == tuple(RESULTS)


def test_the_schema_knows_the_list(path: Path) -> None:
    text = resources.files("gapless_api").joinpath("schema", "bundle.schema.json").read_text(encoding="utf-8")
    schema = Draft202012Validator(json.loads(text))
    write(path)
    content = json.loads(path.read_text())
    schema.validate(content)
    for spoil in (
        {"inferred": None}, {"inferred": [{}]}, {"inferred": [{"topic": "t", "partition": 0, "ranges": []}]},
        {"inferred": [{"topic": "t", "partition": -1, "ranges": [[1]]}]}, {"inferred_sha256": "0"},
    ):  # fmt: skip
        with pytest.raises(ValidationError):
            schema.validate({**content, "gapless": {**content["gapless"], **spoil}})
    for name in ("inferred", "inferred_sha256"):
        rest = {member: value for member, value in content["gapless"].items() if member != name}
        with pytest.raises(ValidationError):
            schema.validate({**content, "gapless": rest})


def refusal(path: Path, change: Callable[[dict[str, Any]], object]) -> str:
    write(path)
    content = json.loads(path.read_text())
    change(content["gapless"])
    path.write_text(json.dumps(content))
    with pytest.raises(BundleError) as refused:
        read_bundle(path)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def listed(**changed: Any) -> Callable[[dict[str, Any]], object]:
    """Change the first entry of the list; ``...`` takes a member away."""

    def change(metadata: dict[str, Any]) -> None:
        members = {**metadata["inferred"][0], **changed}
        metadata["inferred"][0] = {name: value for name, value in members.items() if value is not ...}

    return change


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (listed(ranges=[[950, 1011]]), r"gapless\.inferred lists offset 1011 of topic t, partition 0, but the gaps do"),
        (listed(partition=9), r"gapless\.inferred lists offset 950 of topic t, partition 9, but the gaps do not"),
        (listed(ranges=[[950, 999], [960, 970]]), r"gapless\.inferred lists offset 960 of topic t, partition 0, twice"),
        (listed(ranges=[[950, 998], [2000, 2999]]), "was altered: its inferred ranges do not match its inferred"),
        (listed(ranges=[[999, 950]]), r"gapless\.inferred\[0\]\.ranges\[0\] is reversed: it goes from 999 to 950"),
        (listed(ranges=[[-1]]), r"gapless\.inferred\[0\]\.ranges\[0\] has an offset that is not within"),
        (listed(ranges=[]), r"gapless\.inferred\[0\] has no ranges"),
        (listed(ranges=None), r"gapless\.inferred\[0\] has no ranges"),
        (listed(ranges=...), r"gapless\.inferred\[0\] has no ranges"),
        (listed(topic=...), r"gapless\.inferred\[0\] has no topic"),
        (listed(topic=5), r"gapless\.inferred\[0\]\.topic is not the name of a topic"),
        (listed(partition=...), r"gapless\.inferred\[0\] has no partition"),
        (listed(partition=2**31), r"gapless\.inferred\[0\]\.partition is not an integer from 0 to 2147483647"),
        (lambda metadata: metadata.update(inferred=5), r"gapless\.inferred is not a list"),
        (lambda metadata: metadata.update(inferred=[5]), r"gapless\.inferred\[0\] is not an object"),
        (
            lambda metadata: metadata["inferred"].append(metadata["inferred"][0]),
            r"gapless\.inferred\[2\] is a second entry for topic t, partition 0",
        ),
        (lambda metadata: metadata.pop("inferred"), "was altered: its inferred ranges do not match"),
        (lambda metadata: metadata.pop("inferred_sha256"), "was altered: its inferred ranges do not match"),
        (lambda metadata: metadata.update(inferred_sha256=5), r"gapless\.inferred_sha256 is not text"),
    ],
)
def test_a_list_that_is_wrong_is_refused(path: Path, change: Callable[[dict[str, Any]], object], problem: str) -> None:
    said = refusal(path, change)
    assert re.search(problem, said), said


def test_a_list_in_another_order_and_laid_out_anew_is_the_same(path: Path) -> None:
    metadata = write(path)
    content = json.loads(path.read_text())
    content["gapless"]["inferred"].reverse()
    content["gapless"]["inferred"][1]["ranges"].reverse()
    turned = {"gapless": content["gapless"], "results": content["results"], "type": "all"}
    path.write_text(json.dumps(turned, indent=1))
    assert read_bundle(path).metadata == metadata


def test_the_signature_is_over_the_documented_bytes_and_covers_the_list(path: Path, keys: tuple[Path, Path]) -> None:
    write(path, signing_key=keys[0])
    read_bundle(path, verification_key=keys[1])
    content = json.loads(path.read_text())
    metadata = dict(content["gapless"])
    signature = base64.b64decode(metadata.pop("signature"))
    metadata.pop("inferred")
    text = json.dumps(metadata, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    raw = base64.b64decode("".join(keys[0].read_text().splitlines()[1:-1]))[-32:]
    assert Ed25519PrivateKey.from_private_bytes(raw).sign(b"gapless bundle\n" + text.encode()) == signature

    del content["gapless"]["inferred"], content["gapless"]["inferred_sha256"]
    path.write_text(json.dumps(content))
    read_bundle(path)
    with pytest.raises(BundleError, match="does not match the public key"):
        read_bundle(path, verification_key=keys[1])


def test_signing_a_bundle_keeps_the_list(path: Path, keys: tuple[Path, Path]) -> None:
    metadata = write(path)
    signed = write_signed(path, read_bundle(path), created=NOW, signing_key=keys[0])
    assert replace(signed, signature=None) == metadata
    assert read_bundle(path, verification_key=keys[1]).metadata == signed


def test_show_says_how_much_is_inferred_and_where(
    path: Path, gapless: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    write(path)
    said = gapless("bundle", "show", path).stdout
    assert "1051 of them are inferred, without a record: t/0, ü/2." in said
    shown = json.loads(gapless("bundle", "show", "--json", path).stdout)
    assert shown["inferred"] == {
        "missing": 1051,
        "partitions": [
            {"topic": "t", "partition": 0, "missing": 1050, "ranges": 2},
            {"topic": "ü", "partition": 2, "missing": 1, "ranges": 1},
        ],
    }
    write(path, inferred=())
    assert "inferred" not in gapless("bundle", "show", path).stdout
    assert json.loads(gapless("bundle", "show", "--json", path).stdout)["inferred"] == {"missing": 0, "partitions": []}


_PAIRS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 9)).map(lambda pair: (pair[0], pair[0] + pair[1]))
    | st.just((MAX_OFFSET - 1, MAX_OFFSET)),
    max_size=8,
)


@given(kind=st.sampled_from(BundleKind), gaps=st.lists(st.tuples(_PAIRS, _PAIRS), max_size=4))
def test_whatever_is_written_is_read_again_and_is_within_the_gaps(
    tmp_path_factory: pytest.TempPathFactory,
    kind: BundleKind,
    gaps: list[tuple[list[tuple[int, int]], list[tuple[int, int]]]],
) -> None:
    path = tmp_path_factory.mktemp("bundle") / "b"
    results = [entry("t", number, *found) for number, (found, _) in enumerate(gaps)]
    inferred = [entry("t", number, *found) for number, (_, found) in enumerate(gaps)]
    metadata = write_bundle(path, kind, results, created=NOW, source={}, inferred=inferred)
    bundle = read_bundle_text(path.read_bytes(), name="b")
    assert bundle.metadata == metadata
    expected = [
        (each.partition, each.ranges & inferred[each.partition].ranges)
        for each in bundle.results
        if len(each.ranges & inferred[each.partition].ranges)
    ]
    assert [(each.partition, each.ranges) for each in metadata.inferred] == expected
