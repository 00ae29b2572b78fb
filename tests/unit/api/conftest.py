from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck

from kit.machine.examples import load_profile
from kit.story.commands import GAPLESS

if TYPE_CHECKING:
    import subprocess

load_profile("shared fixtures", HealthCheck.function_scoped_fixture)


@pytest.fixture(scope="session")
def vectors() -> Path:
    return Path(__file__).parents[1] / "vectors"


@pytest.fixture
def gapless() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the real command in a process of its own."""
    return GAPLESS.run
