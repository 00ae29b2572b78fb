"""Running test scenarios in their own network namespaces. Must not know what a scenario does."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def _available() -> bool:
    if any(shutil.which(program) is None for program in ("unshare", "nsenter", "ip", "tc")):
        return False
    return subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False).returncode == 0


needs_private_networks = pytest.mark.skipif(
    not _available(), reason="needs network namespaces (unshare -rn) and iproute2"
)


def scenario(script: Path, name: str, *, timeout_seconds: float) -> dict[str, Any]:
    """Run the scenario `name` of `script` in a network namespace and return the JSON that it printed.

    A result with `skip` and a reason skips the test: the kernel lacks a feature.
    """
    command = ["unshare", "-rn", sys.executable, str(script), name]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=timeout_seconds, check=False)
    assert completed.returncode == 0, completed.stderr
    result: dict[str, Any] = json.loads(completed.stdout)
    if "skip" in result:
        pytest.skip(result["skip"])
    return result
