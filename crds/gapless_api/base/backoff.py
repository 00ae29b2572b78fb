"""The pause before the next attempt: it doubles after each failure, up to a limit; pure."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeVar

_MAX_DOUBLINGS = 16
"""Limits the factor; every caller has reached its longest pause before."""

Pause = TypeVar("Pause", float, timedelta)


def backoff(failures: int, *, first: Pause, longest: Pause) -> Pause:
    """Return the pause after a failure; `failures` is the number of failures before it."""
    factor = 1 << min(max(failures, 0), _MAX_DOUBLINGS)
    return min(first * factor, longest)
