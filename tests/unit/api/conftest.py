from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck

from kit.machine.examples import load_profile

if TYPE_CHECKING:
    from collections.abc import Callable

load_profile("shared fixtures", HealthCheck.function_scoped_fixture)


@pytest.fixture(scope="session")
def vectors() -> Path:
    return Path(__file__).parents[1] / "vectors"


@pytest.fixture
def gapless() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the real command in a process of its own."""

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from gapless_api.cli.main import main; main()", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    return run
