from __future__ import annotations

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from gapless_api.base.errors import BundleError, ConfigurationError
from gapless_api.bundle.form import Bundle, BundleKind, PartitionGaps
from gapless_api.bundle.reader import read_bundle
from gapless_api.bundle.reconciliation import NewerFinding, reconcile
from gapless_api.bundle.writer import write_bundle, write_signed
from gapless_api.offsets.ranges import OffsetRanges

NOW = datetime(2026, 11, 20, 10, tzinfo=UTC)
LATER = datetime(2026, 11, 21, tzinfo=UTC)


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    key = Ed25519PrivateKey.generate()
    private, public = tmp_path / "key.pem", tmp_path / "public.pem"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return private, public


def write(path: Path, **given: Any) -> None:
    entries = [PartitionGaps("t", 0, 0, 99, OffsetRanges([(5, 5), (10, 15)]))]
    write_bundle(path, BundleKind.ALL, entries, created=NOW, source={"topic": "gäps"}, **given)


def test_a_signed_bundle_is_verified_and_read_without_a_key_as_well(tmp_path: Path, keys: tuple[Path, Path]) -> None:
    write(tmp_path / "b", signing_key=keys[0])
    assert read_bundle(tmp_path / "b", verification_key=keys[1]) == read_bundle(tmp_path / "b")


def test_the_signature_is_over_the_documented_bytes(tmp_path: Path, keys: tuple[Path, Path]) -> None:
    write(tmp_path / "b", signing_key=keys[0])
    metadata = json.loads((tmp_path / "b").read_text())["gapless"]
    signature = base64.b64decode(metadata.pop("signature"))
    text = json.dumps(metadata, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    read_bundle(tmp_path / "b", verification_key=keys[1])
    key = Ed25519PrivateKey.from_private_bytes(_raw(keys[0]))
    assert key.sign(b"gapless bundle\n" + text.encode()) == signature


def _raw(private: Path) -> bytes:
    lines = private.read_text().splitlines()[1:-1]
    return base64.b64decode("".join(lines))[-32:]


@pytest.mark.parametrize("member", ["id", "created", "source"])
def test_a_mark_that_was_altered_does_not_fit_its_signature(
    tmp_path: Path, keys: tuple[Path, Path], member: str
) -> None:
    write(tmp_path / "b", signing_key=keys[0])
    content = json.loads((tmp_path / "b").read_text())
    content["gapless"][member] = {"id": "another", "created": "2026-11-20T10:00:01Z", "source": {}}[member]
    (tmp_path / "b").write_text(json.dumps(content))
    read_bundle(tmp_path / "b")
    with pytest.raises(BundleError, match=r"signature of .* does not match the public key .*: do not use it"):
        read_bundle(tmp_path / "b", verification_key=keys[1])


@pytest.mark.parametrize("signature", ["", "AAAA", "no base64!", "ü", "A" * 88])
def test_a_signature_that_is_none_is_refused(tmp_path: Path, keys: tuple[Path, Path], signature: str) -> None:
    write(tmp_path / "b", signing_key=keys[0])
    content = json.loads((tmp_path / "b").read_text())
    content["gapless"]["signature"] = signature
    (tmp_path / "b").write_text(json.dumps(content))
    with pytest.raises(BundleError, match="does not match the public key"):
        read_bundle(tmp_path / "b", verification_key=keys[1])


def test_the_key_of_somebody_else_and_a_missing_signature_are_refused(tmp_path: Path, keys: tuple[Path, Path]) -> None:
    other = tmp_path / "other.pem"
    key = Ed25519PrivateKey.generate().public_key()
    other.write_bytes(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    write(tmp_path / "b", signing_key=keys[0])
    with pytest.raises(BundleError, match="or signed with another key"):
        read_bundle(tmp_path / "b", verification_key=other)
    write(tmp_path / "b")
    (tmp_path / "peers").write_text('{"type":"all","results":[]}')
    for name in ("b", "peers"):
        with pytest.raises(BundleError, match=f"{name} is not signed; sign it where it was created"):
            read_bundle(tmp_path / name, verification_key=keys[1])


def test_signing_later_changes_nothing_but_the_signature(tmp_path: Path, keys: tuple[Path, Path]) -> None:
    write(tmp_path / "at once", signing_key=keys[0])
    write(tmp_path / "later")
    write_signed(tmp_path / "later", read_bundle(tmp_path / "later"), created=LATER, signing_key=keys[0])
    assert (tmp_path / "later").read_bytes() == (tmp_path / "at once").read_bytes()


def test_signing_a_bundle_of_the_peer_gives_it_a_mark(tmp_path: Path, keys: tuple[Path, Path], vectors: Path) -> None:
    metadata = write_signed(
        tmp_path / "b", read_bundle(vectors / "bundle-out-all.json"), created=LATER, signing_key=keys[0]
    )
    read = read_bundle(tmp_path / "b", verification_key=keys[1])
    assert read.metadata == metadata
    assert (metadata.created, metadata.missing) == (LATER, 909)


def test_a_bundle_of_the_peer_is_compared_alike_before_and_after_it_was_signed(
    tmp_path: Path, keys: tuple[Path, Path], vectors: Path
) -> None:
    """It is made of records and says nothing of its topic: what it does not list is unknown, and records close it."""
    peers = read_bundle(vectors / "bundle-out-all.json")
    write_signed(tmp_path / "b", peers, created=LATER, signing_key=keys[0])
    older = Bundle(BundleKind.ALL, (PartitionGaps("transfer", 0, 0, 2999, OffsetRanges([(5, 9)])),), None)
    nothing = tuple(replace(entry, ranges=OffsetRanges()) for entry in peers.results)
    for one in (peers, read_bundle(tmp_path / "b")):
        became = reconcile(older, NewerFinding.of_bundle(one))
        assert (became.total("closed"), became.total("open"), became.total("unknown")) == (0, 1, 4)
        assert reconcile(one, NewerFinding(BundleKind.ALL, nothing, by_records=True)).settled


def test_keys_of_the_wrong_kind_are_one_sentence(tmp_path: Path, keys: tuple[Path, Path], vectors: Path) -> None:
    private, public = keys
    write(tmp_path / "b", signing_key=private)
    before = (tmp_path / "b").read_bytes()
    encrypted = tmp_path / "encrypted.pem"
    key = Ed25519PrivateKey.generate()
    encrypted.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x")))
    for wrong, sentence in (
        (public, "contains no PEM private key"),
        (vectors / "keys" / "pkcs8.pem", "is not an Ed25519 key; create one with openssl genpkey"),
        (encrypted, "is encrypted, and no password is set; decrypt it first"),
        (tmp_path / "none", "cannot be read"),
    ):
        with pytest.raises(ConfigurationError, match=sentence):
            write(tmp_path / "b", signing_key=wrong)
    for wrong, sentence in (
        (private, "contains no Ed25519 public key"),
        (vectors / "keys" / "certificate.pem", "contains no Ed25519 public key"),
        (tmp_path / "none", "cannot be read"),
    ):
        with pytest.raises(ConfigurationError, match=sentence):
            read_bundle(tmp_path / "b", verification_key=wrong)
    assert (tmp_path / "b").read_bytes() == before
