"""A bundle that nobody trusted has signed is refused before anything is opened or sent."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gapless_api.bundle.form import BundleKind, PartitionGaps
from gapless_api.bundle.writer import write_bundle
from gapless_api.offsets.ranges import OffsetRange, OffsetRanges
from kit.signing import KeyPair, key_pair
from kit.story.commands import GAPLESS

if TYPE_CHECKING:
    import subprocess

SETTINGS = [
    "--bootstrap-servers=127.0.0.1:1",
    "--target-ip=127.0.0.1",
    "--target-port=1",
    "--connect-timeout=1",
    "--eps=9",
]
WANTED = "NAME:KEY for each trusted key, separated by commas; KEY is the middle line of its PEM"


def resend(*arguments: str) -> subprocess.CompletedProcess[str]:
    return GAPLESS.run("resend", *SETTINGS, *arguments, env={"PATH": "", "COLUMNS": "500"})


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> tuple[KeyPair, KeyPair]:
    return key_pair(tmp_path_factory.mktemp("own")), key_pair(tmp_path_factory.mktemp("foreign"))


def named(name: str, pair: KeyPair) -> str:
    return f"{name}:{pair.public.read_text().splitlines()[1]}"


def written(folder: Path, signing_key: Path | None, *, last: int = 4) -> Path:
    file = folder / "gaps.bundle.json"
    gaps = PartitionGaps("transfer", 0, 0, 99, OffsetRanges([OffsetRange(3, last)]))
    created = datetime(2026, 11, 20, tzinfo=UTC)
    write_bundle(file, BundleKind.ALL, [gaps], created=created, source={}, signing_key=signing_key)
    return file


def test_a_bundle_of_a_trusted_signer_is_taken(tmp_path: Path, pairs: tuple[KeyPair, KeyPair]) -> None:
    own, foreign = pairs
    file = written(tmp_path, own.private)
    done = resend(f"--bundle={file}", f"--trusted-keys={named('other', foreign)},{named('own', own)}")
    assert done.returncode == 3, "it comes as far as Kafka, which is not there"
    assert "signature" not in done.stderr


def test_an_unsigned_and_a_foreign_bundle_are_refused(tmp_path: Path, pairs: tuple[KeyPair, KeyPair]) -> None:
    own, foreign = pairs
    keys = f"--trusted-keys={named('north', own)}"
    done = resend(f"--bundle={written(tmp_path, None)}", keys)
    assert done.returncode == 2
    assert "is not signed; sign it where it was created" in done.stderr
    done = resend(f"--bundle={written(tmp_path, foreign.private)}", keys)
    assert done.returncode == 2
    assert "matches none of the trusted keys (north); the bundle was altered or signed with another key" in done.stderr


def test_a_bundle_with_a_right_digest_and_the_signature_of_another_is_refused(
    tmp_path: Path, pairs: tuple[KeyPair, KeyPair]
) -> None:
    signed = json.loads(written(tmp_path, pairs[0].private).read_text())
    file = written(tmp_path, None, last=9)
    forged = json.loads(file.read_text())
    forged["gapless"]["signature"] = signed["gapless"]["signature"]
    file.write_text(json.dumps(forged))
    assert resend(f"--bundle={file}").returncode == 3, "its sha256 is right, which says nothing about who made it"
    done = resend(f"--bundle={file}", f"--trusted-keys={named('own', pairs[0])}")
    assert done.returncode == 2
    assert "matches none of the trusted keys (own)" in done.stderr


def test_no_file_and_no_variable_talks_a_sender_out_of_its_trusted_keys(
    tmp_path: Path, pairs: tuple[KeyPair, KeyPair]
) -> None:
    own, foreign = pairs
    file = written(tmp_path, foreign.private)
    settings = tmp_path / "resend.properties"
    settings.write_text(f"resendFileName={file}\ntrustedKeys={named('own', foreign)}\nverifyKey={foreign.public}\n")
    assert resend(str(settings)).returncode == 3
    assert resend(str(settings), f"--trusted-keys={named('own', own)}").returncode == 2


@pytest.mark.parametrize("text", ["north", "north:", "north:AAAA", "NORTH:{key}", "a:{key},a:{key}", "a:{key};b"])
def test_what_is_no_list_of_keys_is_refused(tmp_path: Path, pairs: tuple[KeyPair, KeyPair], text: str) -> None:
    keys = text.format(key=pairs[0].public.read_text().splitlines()[1])
    done = resend(f"--bundle={written(tmp_path, None)}", f"--trusted-keys={keys}")
    assert done.returncode == 2
    assert f"it must be {WANTED}." in done.stderr


def test_trusted_keys_without_a_bundle_are_refused(pairs: tuple[KeyPair, KeyPair]) -> None:
    chosen = ["--topic=transfer", "--partition=0", "--offset-from=0", "--offset-to=1"]
    done = resend(*chosen, f"--trusted-keys={named('own', pairs[0])}")
    assert done.returncode == 2
    assert "trustedKeys is set without a bundle" in done.stderr
