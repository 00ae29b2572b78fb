from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from gapless_api.bundle.form import BundleKind, PartitionGaps
from gapless_api.bundle.writer import write_bundle
from gapless_api.offsets.ranges import OffsetRanges

if TYPE_CHECKING:
    import subprocess

    Gapless = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    entries = [
        PartitionGaps("transfer", 0, 0, 99, OffsetRanges([(5, 5), (10, 15)])),
        PartitionGaps("transfer", 1, 0, 99, OffsetRanges()),
    ]
    path = tmp_path / "bundle.json"
    write_bundle(path, BundleKind.ALL, entries, created=datetime(2026, 11, 20, tzinfo=UTC), source={"topic": "gaps"})
    return path


def test_show_says_what_is_missing_where_and_whether_it_was_altered(bundle: Path, gapless: Gapless) -> None:
    ended = gapless("bundle", "show", bundle)
    assert (ended.returncode, ended.stderr) == (0, "")
    words = [line.split() for line in ended.stdout.splitlines()]
    assert ["created", "2026-11-20T00:00:00Z"] in words
    assert ["source", "topic:", "gaps"] in words
    assert ["signed", "no"] in words
    assert ["transfer", "0", "7", "2", "5", "…", "15"] in words
    assert ["transfer", "1", "0", "0", "none"] in words
    assert "7 missing in 2 ranges of 2 partitions." in ended.stdout


def test_show_as_json_is_one_object(bundle: Path, gapless: Gapless) -> None:
    shown = json.loads(gapless("bundle", "show", "--json", bundle).stdout)
    assert (shown["type"], shown["missing"], shown["ranges"]) == ("all", 7, 2)
    assert shown["partitions"][0] == {
        "topic": "transfer", "partition": 0, "missing": 7, "ranges": 2, "first": 5, "last": 15,
    }  # fmt: skip
    assert shown["gapless"]["source"] == {"topic": "gaps"}
    assert json.loads(gapless("bundle", "show", "-o", "json", bundle).stdout) == shown
    lines = gapless("bundle", "show", "-o", "jsonl", bundle).stdout.splitlines()
    assert [json.loads(line) for line in lines] == shown["partitions"]


def test_show_writes_a_page_with_what_to_do_next(bundle: Path, gapless: Gapless) -> None:
    page = bundle.with_name("page.html")
    ended = gapless("bundle", "show", bundle, f"--html={page}")
    assert (ended.returncode, ended.stderr) == (0, "")
    text = re.sub(r"<[^>]*>", "", page.read_text())
    assert "The bundle lists 7 missing events" in text
    assert "2026-11-20T00:00:00Z" in text
    assert "--resend-file-name=bundle.json" in text
    assert "transfer/0" in text


@pytest.mark.parametrize(("kind", "scope"), [("all", 0), ("first", 1)])
def test_the_page_of_a_peers_bundle_says_what_is_sent(
    vectors: Path, tmp_path: Path, gapless: Gapless, kind: str, scope: int
) -> None:
    bundle, page = tmp_path / "bundle.json", tmp_path / "page.html"
    bundle.write_text(json.dumps({**json.loads((vectors / "bundle-out-all.json").read_text()), "type": kind}))
    assert gapless("bundle", "show", bundle, f"--html={page}").returncode == 0
    text = page.read_text()
    assert text.count("written by another program") == 1
    assert text.count("All from the first missing offset on is sent.") == scope


def test_a_page_that_cannot_be_written_is_one_sentence(bundle: Path, gapless: Gapless) -> None:
    ended = gapless("bundle", "show", bundle, "--html=/nowhere/page.html")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("gapless: The page")


def test_no_output_takes_the_place_of_an_input(bundle: Path, gapless: Gapless, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("secret")
    (tmp_path / "link").symlink_to(bundle)
    given = {
        "html and FILE": ("show", bundle, f"--html={tmp_path / 'link'}"),
        "output and key": ("sign", bundle, f"--key={tmp_path / 'key'}", f"--output={tmp_path / '.' / 'key'}"),
        "output and secret_key_file": (
            *("fetch", "s3://bucket/bundle", f"--output={tmp_path / 'key'}"),
            f"--s3-secret-access-key-file={tmp_path / 'key'}",
        ),
    }
    before = bundle.read_bytes()
    for names, arguments in given.items():
        ended = gapless("bundle", *arguments)
        assert (ended.returncode, f"{names} are the same file" in ended.stderr) == (2, True), ended.stderr
    assert (bundle.read_bytes(), (tmp_path / "key").read_text()) == (before, "secret")


def test_show_takes_the_peers_bundles(vectors: Path, gapless: Gapless) -> None:
    ended = gapless("bundle", "show", vectors / "bundle-out-all.json")
    assert "Created by another program" in ended.stdout
    assert "909 missing in 5 ranges of 3 partitions." in ended.stdout
    assert json.loads(gapless("bundle", "show", "--json", vectors / "bundle-out-all.json").stdout)["gapless"] is None


def test_overlaps_of_the_peers_bundles_are_merged_and_counted(tmp_path: Path, gapless: Gapless) -> None:
    """Its create writes them after WINDOW_SIZE has changed."""
    entries = [{"topic": "t", "partition": 0, "gaps": [[3], [1005, 1006], [1005, 1007]]}]
    bundle, merged = tmp_path / "peer.json", tmp_path / "merged.json"
    bundle.write_text(json.dumps({"type": "all", "results": entries}))
    shown = gapless("bundle", "show", bundle)
    assert (shown.returncode, "4 missing in 2 ranges" in shown.stdout) == (0, True)
    assert "The bundle lists 2 offsets more than once; each counts once." in shown.stderr
    for command in (["diff", bundle, bundle], ["merge", merged, bundle, bundle]):
        ended = gapless("bundle", *command)
        assert (ended.returncode, "2 offsets more than once" in ended.stderr) == (0, True), ended.stderr
    assert json.loads(merged.read_text())["results"][0]["gaps"] == [[3], [1005, 1007]]


def test_a_bundle_that_was_altered_ends_with_2(bundle: Path, gapless: Gapless) -> None:
    bundle.write_text(bundle.read_text().replace("[5]", "[6]"))
    ended = gapless("bundle", "show", bundle)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "was altered" in ended.stderr


def test_a_bundle_is_signed_verified_and_refused_when_it_was_altered(bundle: Path, gapless: Gapless) -> None:
    key = Ed25519PrivateKey.generate()
    private, public = bundle.with_name("key.pem"), bundle.with_name("public.pem")
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    unsigned = bundle.with_name("unsigned.json")
    shutil.copy(bundle, unsigned)
    assert gapless("bundle", "verify", bundle, "--key", public).returncode == 2
    assert gapless("bundle", "sign", bundle, "--key", private).stdout.startswith(
        f"Signed {bundle} (id 20261120-000000-"
    )
    assert "is valid" in gapless("bundle", "verify", bundle, "--key", public).stdout
    assert ["signed", "yes,"] in [line.split()[:2] for line in gapless("bundle", "show", bundle).stdout.splitlines()]
    bundle.write_text(bundle.read_text().replace("00:00:00Z", "00:00:01Z"))
    ended = gapless("bundle", "verify", bundle, "--key", public)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "does not match the public key" in ended.stderr
    assert gapless("bundle", "sign", unsigned, "--key", private, "--output", bundle).returncode == 0
    assert gapless("bundle", "verify", bundle, "--key", public).returncode == 0
    assert '"signature"' not in unsigned.read_text()


def test_a_folder_that_takes_no_file_leaves_the_bundle_unsigned_and_ends_with_2(bundle: Path, gapless: Gapless) -> None:
    private = bundle.with_name("key.pem")
    key = Ed25519PrivateKey.generate()
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    ended = gapless("bundle", "sign", bundle, "--key", private, "--output", bundle.parent / "missing" / "b")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "cannot be written (No such file or directory)" in ended.stderr
