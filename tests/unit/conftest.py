"""What holds for all unit tests: none leaves its logging behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """A program that a test runs in its process logs to the streams of that test, which are closed at its end."""
    yield
    structlog.reset_defaults()
