"""A release is the same twice, and its folder is all that an installation needs: no index and no source tree."""

from __future__ import annotations

import json
import os
import platform
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyroaring import BitMap

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
VERSION = "9.8.7"
PYTHON = "{}.{}".format(*sys.version_info)


def make_release(into: Path) -> Path:
    """Run the command of the documentation, for this machine alone and without what takes minutes.

    It is typed in a shell: the `make` that runs the tests hands on neither its options nor its level.
    """
    shell = {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MAKELEVEL", "MFLAGS"}}
    left_out = "--no-spark --no-program --no-system-packages --no-manifests"
    options = f"{left_out} --python={PYTHON} --architecture={platform.machine()} --into={into}"
    made = subprocess.run(
        ["make", "release", f"VERSION={VERSION}", f"RELEASE_OPTIONS={options}"],
        cwd=ROOT,
        env=shell,
        check=False,
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    assert made.stdout.splitlines()[-1].startswith(f"==> release {VERSION}: ")
    return into / VERSION


def test_a_release_is_the_same_twice_and_installs_without_an_index(
    kafka: KafkaBroker, topic: TopicFactory, tmp_path: Path
) -> None:
    release, again = make_release(tmp_path / "one"), make_release(tmp_path / "two")
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
