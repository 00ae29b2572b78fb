"""A release is the same twice, and its folder is all that an installation needs: no index and no source tree."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from pyroaring import BitMap

from kit.story.releases import make_release

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

VERSION = "9.8.7"


LEFT_OUT = ("--no-spark", "--no-program", "--no-system-packages", "--no-manifests")
"""What takes minutes, or needs Go."""


def made(into: Path) -> Path:
    """Make a release and return its folder."""
    said = make_release(into, VERSION, *LEFT_OUT).stdout
    assert said.splitlines()[-1].startswith(f"==> release {VERSION}: ")
    return into / VERSION


def test_a_release_is_the_same_twice_and_installs_without_an_index(
    kafka: KafkaBroker, topic: TopicFactory, tmp_path: Path
) -> None:
    release, again = made(tmp_path / "one"), made(tmp_path / "two")
    sums = (release / "SHA256SUMS").read_text()
    assert sums == (again / "SHA256SUMS").read_text()
    assert f"wheels/gapless_sender-{VERSION}-py3-none-any.whl" in sums
    subprocess.run(["sha256sum", "--quiet", "--strict", "-c", "SHA256SUMS"], cwd=release, check=True)

    where = tmp_path / "installed"
    subprocess.run([sys.executable, "-m", "venv", where], check=True)
    package = ("--no-index", f"--find-links={release / 'wheels'}", "gapless[archive]")
    subprocess.run([where / "bin" / "pip", "install", "--quiet", *package], check=True)

    gaps, bundle = topic(), tmp_path / "bundle.json"
    kafka.produce(gaps, [struct.pack(">Bqq", 1, 0, 5) + BitMap([2, 3]).serialize()], keys=[b"t:0:0"])

    def gapless(*arguments: str) -> str:
        ended = subprocess.run(
            [where / "bin" / "gapless", *arguments], cwd=tmp_path, check=False, capture_output=True, text=True
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    assert gapless("--version") == f"gapless, version {VERSION}\n"
    gapless("scan", f"--bootstrap-servers={kafka.bootstrap}", f"--topic={gaps}", f"--resend-file-name={bundle}")
    assert json.loads(bundle.read_text())["results"][0]["gaps"] == [[2, 3]]
    assert "Usage: gapless resend" in gapless("resend", "--help")
