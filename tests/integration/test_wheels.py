"""What is installed, in the images too, comes out of wheels: these hold all that the checkout runs with."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "crds": "gapless_api",
    "kafka": "gapless_kafka",
    "archive": "gapless_archive",
    "sender": "gapless_sender",
    "spark": "gapless_spark",
    "operator": "gapless_operator",
}
_RENDER = """
import gapless_api.page.render as page
from gapless_api.bundle.reconciliation import Reconciliation
assert ".whl" in page.__file__, page.__file__
became = Reconciliation(None, "0" * 64, ()).as_json()
report = {"command": "verify", "created": "", "older": "old", "message": "m", "outcome": "o", "exit_code": 0}
print(page.render_verified({**report, "seconds": 1, "reconciliation": became}, []))
"""


def built(folder: str, into: Path) -> Path:
    """The wheel of a package, made as the images make it."""
    command = [ROOT / ".tools" / "bin" / "uv", "build", "--quiet", "--wheel", ROOT / folder, f"--out-dir={into}"]
    subprocess.run(command, check=True)
    (wheel,) = into.glob(f"{PACKAGES[folder]}-*.whl")
    return wheel


@pytest.mark.parametrize("folder", PACKAGES)
def test_a_wheel_holds_every_file_of_its_package_as_it_is(folder: str, tmp_path: Path) -> None:
    ours = {
        path.relative_to(ROOT / folder).as_posix(): path.read_bytes()
        for path in (ROOT / folder / PACKAGES[folder]).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(built(folder, tmp_path)) as wheel:
        packed = {name: wheel.read(name) for name in wheel.namelist() if ".dist-info/" not in name}
    assert sorted(packed) == sorted(ours)
    assert [name for name in ours if packed[name] != ours[name]] == []
    if folder == "crds":
        assert {Path(name).suffix for name in packed} >= {".py", ".html", ".css", ".js"}


def test_the_report_page_is_made_of_what_the_wheel_holds(tmp_path: Path) -> None:
    wheels = [str(built(folder, tmp_path)) for folder in ("crds", "kafka", "archive", "spark")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(wheels)}
    ended = subprocess.run(
        [sys.executable, "-c", _RENDER], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "<!doctype html>" in ended.stdout
    assert "prefers-color-scheme" in ended.stdout
    assert '"use strict"' in ended.stdout
