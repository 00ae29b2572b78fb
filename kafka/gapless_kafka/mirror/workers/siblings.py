"""Owns what the workers of a host know of each other: which of them show no sign of life.

A worker that hangs cannot say so. The supervisor notes it in memory that all of them share, and one of those that are
well tells it as a stall. Must not know how a sign of life is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext


class Siblings:
    """For how long each worker of this host has been silent, if that is too long."""

    def __init__(self, context: BaseContext, workers: int) -> None:
        """All are well. It travels to a process as an argument of its start."""
        self._seconds: Any = context.Array("d", workers, lock=False)

    def note(self, worker: int, silent_seconds: float) -> None:
        """A worker has been silent for too long; 0 for one that is well."""
        self._seconds[worker] = silent_seconds

    def told_by(self, worker: int) -> dict[int, float]:
        """The silent workers that this one tells of: all when it is the first that is well, otherwise none."""
        stuck = {number: seconds for number, seconds in enumerate(self._seconds) if seconds}
        well = (number for number in range(len(self._seconds)) if number not in stuck)
        return stuck if next(well, None) == worker else {}
