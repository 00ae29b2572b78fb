"""A bundle that is not the one that was looked into is refused before anything is opened or sent."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gapless_api.bundle.form import BundleKind, PartitionGaps
from gapless_api.bundle.writer import write_bundle
from gapless_api.offsets.ranges import OffsetRange, OffsetRanges
from kit.story.commands import GAPLESS

if TYPE_CHECKING:
    import subprocess

SETTINGS = ["--bootstrap-servers=127.0.0.1:1", "--target-ip=127.0.0.1", "--target-port=1", "--eps=9"]


def resend(*arguments: str) -> subprocess.CompletedProcess[str]:
    return GAPLESS.run("resend", *SETTINGS, *arguments, env={"PATH": "", "COLUMNS": "110"})


@pytest.fixture
def bundle(tmp_path: Path) -> tuple[Path, str]:
    """A bundle and its digest."""
    file = tmp_path / "gaps.bundle.json"
    gaps = PartitionGaps("transfer", 0, 0, 99, OffsetRanges([OffsetRange(3, 4)]))
    mark = write_bundle(file, BundleKind.ALL, [gaps], created=datetime(2026, 11, 20, tzinfo=UTC), source={})
    return file, mark.sha256


def test_another_bundle_than_the_one_that_is_meant_is_refused(bundle: tuple[Path, str]) -> None:
    file, sha256 = bundle
    done = resend(f"--bundle={file}", f"--bundle-sha256={'0' * 64}")
    assert done.returncode == 2
    assert sha256 in done.stderr
    assert "0" * 64 in done.stderr


def test_the_one_that_is_meant_is_taken(bundle: tuple[Path, str]) -> None:
    file, sha256 = bundle
    done = resend("--connect-timeout=1", f"--bundle={file}", f"--bundle-sha256={sha256.upper()}")
    assert "is required (bundleSha256)" not in done.stderr
    assert done.returncode == 3, "it comes as far as Kafka, which is not there"


@pytest.mark.parametrize("digest", ["0" * 63, "g" * 64])
def test_what_is_no_digest_is_refused(bundle: tuple[Path, str], digest: str) -> None:
    done = resend(f"--bundle={bundle[0]}", f"--bundle-sha256={digest}")
    assert done.returncode == 2
    assert "64 hexadecimal digits" in done.stderr


def test_a_digest_without_a_bundle_is_refused() -> None:
    chosen = ["--topic=transfer", "--partition=0", "--offset-from=0", "--offset-to=1"]
    done = resend(*chosen, f"--bundle-sha256={'0' * 64}")
    assert done.returncode == 2
    assert "bundleSha256 is set without a bundle" in done.stderr
