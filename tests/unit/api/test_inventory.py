"""The proof that an inventory says the same after every way it can take, and that no damaged one is believed."""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from gapless_api.base.errors import ConfigurationError
from gapless_api.inventory.epochs import EpochStart
from gapless_api.inventory.form import Inventory, Isolation, PartitionOffsets, new_inventory
from gapless_api.inventory.parts import MAX_PARTS, PartAssembler, parse_part, part_texts
from gapless_api.inventory.reader import read_inventory, read_inventory_text
from gapless_api.inventory.writer import inventory_pieces, sign_inventory, write_inventory
from gapless_api.offsets.ids import MAX_OFFSET, MAX_PARTITION
from gapless_api.offsets.ranges import OffsetRanges

NOW = datetime(2026, 11, 20, 10, tzinfo=UTC)
ID = "vJdzA4Q-QhyXGS0vI5_Q6g"
ENTRIES = (
    PartitionOffsets("transfer", 0, 0, 11, OffsetRanges([(3, 3), (7, 9)]), ID, (EpochStart(0, 0), EpochStart(4, 7))),
    PartitionOffsets("transfer", 1, 5, None, None, ID),
    PartitionOffsets("ü_x.y-z", MAX_PARTITION, MAX_OFFSET, MAX_OFFSET, OffsetRanges()),
)


def inventory_of(*entries: PartitionOffsets, created: datetime = NOW) -> Inventory:
    return new_inventory(
        entries, created=created, cluster="abc", isolation=Isolation.UNCOMMITTED, source={"name": "nörth"}
    )


def text_of(inventory: Inventory) -> bytes:
    return b"".join(inventory_pieces(inventory))


PRINTABLE = st.characters(exclude_categories=("C", "Z"), include_characters=" ")


@st.composite
def entries(draw: st.DrawFn) -> list[PartitionOffsets]:
    places = draw(
        st.lists(
            st.tuples(st.text(PRINTABLE, min_size=1), st.integers(0, MAX_PARTITION)),
            unique=True,
            max_size=8,
        )
    )
    found = []
    for topic, partition in places:
        ends = sorted(draw(st.lists(st.integers(0, MAX_OFFSET), min_size=2, max_size=12, unique=True)))
        first, last = ends[0], ends[-1]
        pairs = [(low, high - 1) for low, high in zip(ends[::2], ends[1::2], strict=False) if high - 1 >= low]
        absent = draw(st.sampled_from([None, OffsetRanges(), OffsetRanges(pairs), OffsetRanges([(first, last)])]))
        empty, topic_id = draw(st.booleans()), draw(st.sampled_from([None, ID]))
        epochs = draw(st.sampled_from([None, (EpochStart(3, first),), (EpochStart(0, first), EpochStart(9, last))]))
        found.append(
            PartitionOffsets(
                topic, partition, first, None, None if absent is None else OffsetRanges(), topic_id, epochs
            )
            if empty
            else PartitionOffsets(topic, partition, first, last, absent, topic_id, epochs)
        )
    return draw(st.permutations(found))


@given(entries(), st.sampled_from(Isolation))
def test_what_is_written_is_read_again_in_every_form(found: list[PartitionOffsets], isolation: Isolation) -> None:
    inventory = new_inventory(found, created=NOW, cluster="c", isolation=isolation, source={"a": "b"})
    text = text_of(inventory)
    assert read_inventory_text(text, name="m") == inventory
    assert read_inventory_text(gzip.compress(text), name="m") == inventory
    assert read_inventory_text(json.dumps(json.loads(text), indent=7).encode(), name="m") == inventory
    assert text_of(
        new_inventory(reversed(found), created=NOW, cluster="c", isolation=isolation, source={"a": "b"})
    ) == (text)
    _schema().validate(json.loads(text))


@given(entries(), st.data())
def test_parts_in_any_order_repeated_or_mixed_with_others_join_again(
    found: list[PartitionOffsets], data: st.DataObject
) -> None:
    inventory = inventory_of(*found)
    texts = part_texts(
        inventory.metadata.id, [text_of(inventory)], opening="2026-11-20T10:00:00Z Ré send", text_bytes=200
    )
    assert all(len(text.encode()) <= 200 for text in texts)
    other = inventory_of(PartitionOffsets("other", 0, 0, 9))
    noise = part_texts(other.metadata.id, [text_of(other)], opening="x", text_bytes=150)[:-1]
    on_the_way = data.draw(st.permutations([*texts, *texts[:3], *noise]))
    held = PartAssembler()
    parts = [parse_part(text.encode()) for text in on_the_way]
    joined = [text for part in parts if part is not None and (text := held.add(part)) is not None]
    assert read_inventory_text(joined[0], name="m") == inventory
    assert len(joined) in {1, 2}
    assert other.metadata.id in held.incomplete_ids


def test_the_bytes_are_these() -> None:
    text = text_of(inventory_of(*ENTRIES)).decode()
    assert text == (
        "{\n"
        '  "manifest": [\n'
        '  {"absent":[[3],[7,9]],"epochs":[[0,0],[4,7]],"first":0,"last":11,"partition":0,"topic":"transfer",'
        '"topic_id":"vJdzA4Q-QhyXGS0vI5_Q6g"},\n'
        '  {"absent":null,"first":5,"last":null,"partition":1,"topic":"transfer",'
        '"topic_id":"vJdzA4Q-QhyXGS0vI5_Q6g"},\n'
        '  {"absent":[],"first":9223372036854775807,"last":9223372036854775807,"partition":2147483647,'
        '"topic":"ü_x.y-z"}\n'
        "],\n"
        '  "gapless": {"version": 3, "id": "20261120-100000-6e66217a", "created": "2026-11-20T10:00:00Z", '
        '"cluster": "abc", "isolation": "read_uncommitted", "source": {"name": "nörth"}, "events": 9, '
        '"sha256": "6e66217a43591744390105232931fddac46ea8ef4c98fa28fec885e50f239a5e"}\n'
        "}\n"
    )


def test_the_digest_can_be_checked_without_gapless(tmp_path: Path) -> None:
    inventory = inventory_of(*ENTRIES)
    write_inventory(tmp_path / "m.json", inventory)
    command = r"{ echo manifest; sed -n 's/^  \({.*}\),\{0,1\}$/\1/p' m.json; } | sha256sum"
    said = subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert said.split()[0] == inventory.metadata.sha256
    empty = inventory_of()
    assert empty.metadata.sha256 == hashlib.sha256(b"manifest\n").hexdigest()


def test_every_single_changed_byte_is_noticed_or_without_meaning() -> None:
    inventory = inventory_of(*ENTRIES)
    text = text_of(inventory)
    begin, end = text.index(b'"manifest"'), text.index(b'"gapless"')
    for at in range(begin, end):
        for digit in (b"0", b"7", b"}", b"x"):
            changed = text[:at] + digit + text[at + 1 :]
            if changed == text:
                continue
            with pytest.raises(ConfigurationError, match=r"^The inventory m"):
                read_inventory_text(changed, name="m")


def test_every_cut_is_noticed() -> None:
    text = text_of(inventory_of(*ENTRIES))
    for length in range(len(text) - 1):
        with pytest.raises(ConfigurationError, match=r"^The inventory m (is empty|is truncated)"):
            read_inventory_text(text[:length], name="m")
    packed = gzip.compress(text)
    for length in range(2, len(packed)):
        with pytest.raises(ConfigurationError, match=r"^The gzip compression of the inventory m is truncated"):
            read_inventory_text(packed[:length], name="m")


def changed(entry: dict[str, Any] | None = None, metadata: dict[str, Any] | None = None, **top: Any) -> Any:
    whole = json.loads(text_of(inventory_of(*ENTRIES)))
    for part, changes in ((whole["manifest"][0], entry), (whole["gapless"], metadata), (whole, top)):
        for name, value in (changes or {}).items():
            if value is ...:
                del part[name]
            else:
                part[name] = value
    return whole


WRONG_FORM: list[tuple[Any, str]] = [
    ([], "is not a JSON object"), ({}, "has no list"), (changed(manifest=...), "has no list"),
    (changed(gapless=...), "has no metadata"), (changed(manifest={}), "is not a list"),
    (changed(manifest=[1]), "object"),
    (changed(gapless=[]), "is not an object"),
    *((changed({name: ...}), f"has no {name}") for name in ("absent", "first", "last", "partition", "topic")),
    (changed({"topic": ""}), "is not a topic name"), (changed({"topic": "a\nb"}), "is not a topic name"),
    (changed({"topic": 5}), "is not text"),
    (changed({"partition": -1}), "from 0 to 2147483647"), (changed({"partition": MAX_PARTITION + 1}), "from 0 to"),
    (changed({"partition": True}), "from 0 to"), (changed({"first": "0"}), "from 0 to"),
    (changed({"first": 0.5}), "from 0 to"), (changed({"first": None}), "from 0 to"),
    (changed({"first": MAX_OFFSET + 1}), "from 0 to"), (changed({"last": MAX_OFFSET + 1}), "neither null nor"),
    (changed({"last": -1}), "neither null nor"), (changed({"last": False}), "neither null nor"),
    (changed({"absent": 3}), "is not a list"), (changed({"absent": [3]}), "one or two offsets"),
    (changed({"absent": [[1, 2, 3]]}), "one or two offsets"), (changed({"absent": [[]]}), "one or two"),
    *((changed(metadata={name: ...}), f"has no {name}") for name in (
        "version", "id", "created", "cluster", "isolation", "source", "events", "sha256")),
    (changed(metadata={"version": 4}), "reads 1 to 3"),
    (changed({"epochs": []}), "it has 0 epochs and not 1 to 1000"),
    (changed({"epochs": [[0]]}), "is not an integer from 0"), (changed({"epochs": [[0, 0, 1]]}), "list of pairs"),
    (changed({"epochs": [[-1, 0]]}), "is not an integer from 0"), (changed({"epochs": None}), "is not a list"),
    (changed({"epochs": [0]}), "list of pairs"),
    (changed(metadata={"created": "2026-13-20T10:00:00Z"}), "creation time"),
    (changed(metadata={"isolation": "serial"}), "read_uncommitted or read_committed"),
    (changed(metadata={"source": {"a": 1}}), "is not text"), (changed(metadata={"events": -1}), "an integer"),
]  # fmt: skip
WRONG_MEANING: list[tuple[Any, str]] = [
    (changed({"last": 2}), "an absent offset is not between"), (changed({"first": 12}), "it goes from 12 to 11"),
    (changed({"absent": [[7], [3]]}), "do not ascend"), (changed({"absent": [[3], [4]]}), "do not ascend"),
    (changed({"absent": [[9, 7]]}), "is reversed"), (changed({"last": None}), "an absent offset is not between"),
    (changed({"partition": 1}), "is duplicated"), (changed({"absent": [[3]]}), "was altered"),
    (changed({"absent": None}), "was altered"), (changed({"topic_id": "short"}), "'short' is not a topic ID"),
    (changed(metadata={"events": 10}), "lists 9 events, but its metadata has 10"),
    (changed(metadata={"sha256": "0" * 64}), "was altered"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "why"), [*WRONG_FORM, *WRONG_MEANING])
def test_what_could_be_misunderstood_is_refused_in_one_sentence(wrong: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why) as refused:
        read_inventory_text(json.dumps(wrong).encode(), name="m")
    assert str(refused.value).startswith("The inventory m")
    assert str(refused.value).endswith(".")


@pytest.mark.parametrize("wrong", [wrong for wrong, why in WRONG_FORM if "creation time" not in why])
def test_the_schema_refuses_what_the_reader_refuses_by_form(wrong: Any) -> None:
    with pytest.raises(ValidationError):
        _schema().validate(wrong)


def test_an_inventory_of_the_first_version_is_read() -> None:
    first = {
        "manifest": [{"absent": None, "first": 0, "last": 9, "partition": 0, "topic": "t"}],
        "gapless": {
            "version": 1, "id": "20261120-100000-3f0a", "created": "2026-11-20T10:00:00Z", "cluster": "abc",
            "isolation": "read_uncommitted", "source": {}, "events": 10,
            "sha256": hashlib.sha256(
                b'manifest\n{"absent":null,"first":0,"last":9,"partition":0,"topic":"t"}\n'
            ).hexdigest(),
        },
    }  # fmt: skip
    read = read_inventory_text(json.dumps(first).encode(), name="m")
    assert read.entries == (PartitionOffsets("t", 0, 0, 9),)
    assert text_of(read).count(b"topic_id") == 0, "its signature is over these bytes"
    _schema().validate(first)


def test_an_inventory_of_the_second_version_is_read_without_epochs() -> None:
    line = f'{{"absent":null,"first":0,"last":9,"partition":0,"topic":"t","topic_id":"{ID}"}}'
    about = {
        "version": 2, "id": "20261120-100000-3f0a", "created": "2026-11-20T10:00:00Z", "cluster": "abc",
        "isolation": "read_uncommitted", "source": {}, "events": 10,
        "sha256": hashlib.sha256(f"manifest\n{line}\n".encode()).hexdigest(),
    }  # fmt: skip
    second = {"manifest": [json.loads(line)], "gapless": about}
    read = read_inventory_text(json.dumps(second).encode(), name="m")
    assert read.entries == (PartitionOffsets("t", 0, 0, 9, None, ID),)
    assert b"epochs" not in text_of(read), "its signature is over these bytes"
    _schema().validate(second)


def test_unknown_keys_do_no_harm() -> None:
    more = changed({"more": [1]}, {"more": {}}, more=None)
    assert read_inventory_text(json.dumps(more).encode(), name="m") == inventory_of(*ENTRIES)
    _schema().validate(more)


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot be read \(No such file or directory\); give the path"):
        read_inventory(tmp_path / "none")


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    key = Ed25519PrivateKey.generate()
    private, public = tmp_path / "key.pem", tmp_path / "public.pem"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return private, public


def test_a_signature_covers_every_member_of_the_mark(tmp_path: Path, keys: tuple[Path, Path]) -> None:
    inventory = sign_inventory(inventory_of(*ENTRIES), keys[0])
    write_inventory(tmp_path / "m", inventory)
    assert read_inventory(tmp_path / "m", verification_key=keys[1]) == inventory
    assert read_inventory(tmp_path / "m") == inventory
    whole = json.loads((tmp_path / "m").read_text())
    for name, value in (
        ("id", "x"), ("created", "2027-01-01T00:00:00Z"), ("cluster", "x"), ("isolation", "read_committed"),
        ("source", {}), ("signature", "AA=="), ("signature", "?"), ("signature", whole["gapless"]["signature"][::-1]),
    ):  # fmt: skip
        text = json.dumps({**whole, "gapless": {**whole["gapless"], name: value}}).encode()
        with pytest.raises(ConfigurationError, match=r"does not match the public key .*: do not use it\.$"):
            read_inventory_text(text, name="m", verification_key=keys[1])
    with pytest.raises(ConfigurationError, match=r"is not signed"):
        read_inventory_text(text_of(inventory_of()), name="m", verification_key=keys[1])


def test_no_text_but_a_whole_one_is_a_part() -> None:
    good = b"2026-11-20T10:00:00Z Resend gapless-manifest 20261120-100000-30ff8127 2/3 aGFsbG8="
    part = parse_part(good)
    assert part is not None
    assert part == ("20261120-100000-30ff8127", 2, 3, "aGFsbG8=")
    for wrong in (
        b"", b"2026-11-20T10:00:00Z Resend finished", good + b" ", good + b"\xff", good.replace(b"2/3", b"4/3"),
        good.replace(b"2/3", b"0/3"), good.replace(b"2/3", b"2/%d" % (MAX_PARTS + 1)), good.replace(b"-3", b"-G"),
        good.replace(b" gapless-", b" "), good.replace(b"2/3", b"2"),
    ):  # fmt: skip
        assert parse_part(wrong) is None, wrong


def test_parts_that_do_not_fit_together_are_no_inventory() -> None:
    held = PartAssembler()
    part = parse_part(b"x gapless-manifest 20261120-100000-30ff8127 1/1 aGFsbG8=")
    assert part is not None
    text = held.add(part)
    assert text is not None
    with pytest.raises(ConfigurationError, match="is empty"):
        read_inventory_text(text, name="m")


def test_incomplete_inventories_make_room() -> None:
    held = PartAssembler(max_incomplete=2)
    for number in range(5):
        part = parse_part(b"x gapless-manifest 20261120-10000%d-30ff8127 1/2 aaaa" % number)
        assert part is not None
        assert held.add(part) is None
    assert held.incomplete_ids == ["20261120-100003-30ff8127", "20261120-100004-30ff8127"]


def test_an_inventory_that_needs_too_many_texts_is_refused() -> None:
    noise = [hashlib.sha256(b"%d" % number).digest() for number in range(30_000)]
    with pytest.raises(ConfigurationError, match=r"more than the limit of 10,000; transfer it as a file"):
        part_texts("20261120-100000-30ff8127", noise, opening="x", text_bytes=150)
    with pytest.raises(ConfigurationError, match=r"leaves 0 bytes of a status text"):
        part_texts("20261120-100000-30ff8127", noise, opening="x" * 100, text_bytes=150)


def test_what_cannot_be_is_not_made() -> None:
    with pytest.raises(ValueError, match="time zone"):
        inventory_of(created=datetime(2026, 1, 1))  # noqa: DTZ001 -- that is the point
    with pytest.raises(ValueError, match="is duplicated"):
        inventory_of(ENTRIES[0], ENTRIES[0])
    with pytest.raises(ValueError, match="is not a topic name"):
        PartitionOffsets("", 0, 0, 0)


def _schema() -> Draft202012Validator:
    text = resources.files("gapless_api").joinpath("schema", "inventory.schema.json").read_text(encoding="utf-8")
    Draft202012Validator.check_schema(json.loads(text))
    return Draft202012Validator(json.loads(text))
