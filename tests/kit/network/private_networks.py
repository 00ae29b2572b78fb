"""Owns how tests run scenarios in network namespaces of their own. Must not know what a scenario does."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path


def _given() -> bool:
    if any(shutil.which(program) is None for program in ("unshare", "nsenter", "ip", "tc")):
        return False
    return subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False).returncode == 0


needs_private_networks = pytest.mark.skipif(
    not _given(), reason="this machine gives no private network (unshare -rn) or has no iproute2"
)


def scenario(script: Path, name: str, *, timeout_seconds: float) -> dict[str, Any]:
    """Run the scenario `name` of `script` in a namespace and return what it printed as JSON.

    A scenario that prints ``skip`` with a reason skips the test: the kernel lacks what it needs.
    """
    command = ["unshare", "-rn", sys.executable, str(script), name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_seconds, check=False)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    if "skip" in told:
        pytest.skip(told["skip"])
    return told
