"""Making a release for tests, with the command of the documentation. Must not import the product."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_ROOT = Path(__file__).parents[3]
PYTHON = "{}.{}".format(*sys.version_info)
"""The version of Python that a release of `make_release` is for."""


def make_release(
    into: Path, version: str, *left_out: str, environment: Mapping[str, str] = os.environ
) -> subprocess.CompletedProcess[str]:
    """Make a release for this machine alone, in the folder `into`/`version`; return what the command said.

    It is typed in a shell: the `make` that runs the tests hands on neither its options nor its level.

    Args:
        into: the folder of the releases.
        version: of the release.
        left_out: options for what is left out.
        environment: of the shell.
    """
    shell = {name: value for name, value in environment.items() if name not in {"MAKEFLAGS", "MAKELEVEL", "MFLAGS"}}
    options = (*left_out, f"--python={PYTHON}", f"--architecture={platform.machine()}", f"--into={into}")
    made = subprocess.run(
        ["make", "release", f"VERSION={version}", f"RELEASE_OPTIONS={' '.join(options)}"],
        cwd=_ROOT,
        env=shell,
        check=False,
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    return made
