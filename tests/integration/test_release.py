"""A release is the same twice, and its folder is all that an installation needs: no index and no source tree."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyroaring import BitMap

from kit.story.releases import make_release

if TYPE_CHECKING:
    from conftest import TopicFactory
    from kit.kafka.broker import KafkaBroker

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

VERSION = "9.8.7"
_ROOT = Path(__file__).parents[2]

LEFT_OUT = ("--no-spark", "--no-program", "--no-system-packages", "--no-manifests", "--no-images")
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

    stated = json.loads((release / "provenance.json").read_text())["subject"]
    listed = "".join(f"{each['digest']['sha256']}  {each['name']}\n" for each in stated)
    assert listed == "".join(line for line in sums.splitlines(keepends=True) if "provenance" not in line)

    materials = release / "sbom.spdx.json"
    subprocess.run([_ROOT / ".tools" / "release" / "bin" / "pyspdxtools", "--infile", materials], check=True)
    packages = json.loads(materials.read_text())["packages"]
    digests = [f"{each['checksums'][0]['checksumValue']}  {each['packageFileName']}" for each in packages[1:]]
    assert digests == [line for line in sums.splitlines() if line.endswith(".whl")]
    assert {each["licenseDeclared"] for each in packages if each["name"] == "click"} == {"BSD-3-Clause"}

    with tarfile.open(release / f"gapless-docs-{VERSION}.tgz") as packed:
        packed.extractall(tmp_path, filter="data")
    site = tmp_path / f"gapless-docs-{VERSION}"
    assert f"<title>Gapless {VERSION}</title>" in (site / "index.html").read_text()
    assert (site / "source" / "examples" / "diode.yaml").read_text() == (_ROOT / "examples" / "diode.yaml").read_text()

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

    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "mvn").symlink_to("/bin/false")  # all that it needs is in the release
    environment = {
        **os.environ,
        "GAPLESS_DEMO_FOLDER": str(tmp_path / "demo"),
        "GAPLESS_CACHE": str(tmp_path / "cache"),
        "PATH": f"{programs}:{os.environ['PATH']}",
    }
    demo = (release / "gapless-demo", "--short", "--events=5000")
    shown = subprocess.run(demo, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True).stdout
    assert "Nothing is missing; every event is byte-identical." in shown
    page = Path(shown.splitlines()[-1].partition("for a browser: ")[2])
    assert "<title>Gapless scan: " in page.read_text()

    assert gapless("--version") == f"gapless, version {VERSION}\n"
    gapless("scan", f"--bootstrap-servers={kafka.bootstrap}", f"--topic={gaps}", f"--resend-file-name={bundle}")
    assert json.loads(bundle.read_text())["results"][0]["gaps"] == [[2, 3]]
    assert "Usage: gapless resend" in gapless("resend", "--help")
