"""A hyphen in place of a file is standard input, for bundles and for settings."""

from __future__ import annotations

import gzip
import os
import pty
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gapless_api.bundle.form import BundleKind, PartitionGaps
from gapless_api.bundle.writer import write_bundle
from gapless_api.offsets.ranges import OffsetRanges

GAPLESS = Path(sys.executable).parent / "gapless"


@pytest.fixture
def bundle(tmp_path: Path) -> bytes:
    entries = [PartitionGaps("transfer", 0, 0, 99, OffsetRanges([(5, 5), (10, 15)]))]
    path = tmp_path / "bundle.json"
    write_bundle(path, BundleKind.ALL, entries, created=datetime(2026, 11, 20, tzinfo=UTC), source={})
    return path.read_bytes()


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


def run(temporary: Path, *arguments: str, content: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run `gapless`, and check that it leaves nothing behind."""
    variables = {**os.environ, "TMPDIR": str(temporary)}
    stream = {"stdin": subprocess.DEVNULL} if content is None else {"input": content}
    ended = subprocess.run([GAPLESS, *arguments], check=False, capture_output=True, env=variables, **stream)  # type: ignore[call-overload]
    assert list(temporary.iterdir()) == []
    return ended


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_bundle_can_come_from_a_pipe(bundle: bytes, temporary: Path, pack: type[bytes]) -> None:
    ended = run(temporary, "bundle", "show", "-", content=pack(bundle))
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert b"7 missing in 2 ranges" in ended.stdout
    (temporary.parent / "empty.json").write_bytes(bundle)
    merged = run(temporary, "bundle", "diff", str(temporary.parent / "bundle.json"), "-", content=pack(bundle))
    assert merged.returncode == 0, merged.stderr


def test_what_comes_from_a_pipe_is_told_apart_as_in_a_file(bundle: bytes, temporary: Path) -> None:
    ended = run(temporary, "resend", "-", content=b"topic=transfer\nbootstrapServer=typo:9092\n")
    assert (ended.returncode, b"bootstrapServer" in ended.stderr) == (2, True), ended.stderr
    ended = run(temporary, "resend", "-", "--resend-file-name=other.json", content=bundle)
    assert ended.returncode == 2
    assert b"is a bundle, and --resend-file-name names another one" in ended.stderr
    ended = run(temporary, "scan", "-", content=bundle)
    assert (ended.returncode, b"is data, JSON or compressed" in ended.stderr) == (2, True), ended.stderr


def test_standard_input_is_given_once_and_is_not_a_terminal(bundle: bytes, temporary: Path) -> None:
    ended = run(temporary, "bundle", "diff", "-", "-", content=bundle)
    assert ended.returncode == 2
    assert ended.stderr == b"gapless: Standard input (-) can be given once; give a file for the other.\n"
    ended = run(temporary, "bundle", "sign", "-", "--key=absent.pem", content=bundle)
    assert ended.stderr == b"gapless: A bundle from standard input (-) needs --output for the signed one.\n"
    ended = run(temporary, "bundle", "show", "-")
    assert (ended.returncode, ended.stderr.startswith(b"gapless: ")) == (2, True), ended.stderr
    control, terminal = pty.openpty()
    try:
        shown = subprocess.run([GAPLESS, "bundle", "show", "-"], check=False, stdin=terminal, stderr=subprocess.PIPE)
    finally:
        os.close(control)
        os.close(terminal)
    assert (shown.returncode, b"give a file, or a pipe" in shown.stderr) == (2, True)


def test_a_full_disk_is_said(bundle: bytes, temporary: Path) -> None:
    absent = temporary / "absent"
    program = "import tempfile; tempfile.tempdir = {!r}; from gapless_api.cli.main import main; main()"
    command = [sys.executable, "-c", program.format(str(absent)), "bundle", "show", "-"]
    ended = subprocess.run(command, check=False, capture_output=True, input=bundle)
    assert ended.returncode == 2
    assert ended.stderr.decode().startswith(f"gapless: Standard input cannot be copied to {absent} (No such file")
    assert tempfile.gettempdir() != str(absent)
