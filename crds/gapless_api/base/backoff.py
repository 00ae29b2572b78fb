"""Owns how long is waited before the next attempt: twice as long after each failure, up to a bound; pure."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeVar

_MOST_DOUBLINGS = 16
"""Keeps the factor small: by then every bound is reached."""

Pause = TypeVar("Pause", float, timedelta)


def backoff(failures: int, *, first: Pause, longest: Pause) -> Pause:
    """The pause after so many `failures`, of which the first one is number 0."""
    times = 1 << min(max(failures, 0), _MOST_DOUBLINGS)
    return min(first * times, longest)
