"""The mapping of source offsets to target offsets as runs, and how consumer group positions translate. Pure.

A run ends where only one side uses an offset: for a transaction marker, or a record that the source has lost.

Runs stand in the order in which they were written. A source that was truncated uses its offsets again, so offsets may
go back, and the later run holds: everything before it that begins at or after its first offset is superseded.
"""

from __future__ import annotations

import base64
import binascii
import sys
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import NamedTuple


class Run(NamedTuple):
    """Consecutive offsets of a source whose records have consecutive offsets in the target."""

    first: int
    """The first source offset."""
    length: int
    """0 if it only says that everything from `first` on is superseded."""
    target: int
    """The target offset of the first record."""


def runs_of(offsets: Sequence[int], targets: Sequence[int]) -> Iterator[Run]:
    """Combine pairs of ascending offsets into runs."""
    if not offsets:
        return
    if offsets[-1] - offsets[0] == targets[-1] - targets[0] == len(offsets) - 1:
        yield Run(offsets[0], len(offsets), targets[0])
        return
    start = 0
    for index in range(1, len(offsets) + 1):
        length = index - start
        if (
            index == len(offsets)
            or offsets[index] != offsets[start] + length
            or targets[index] != targets[start] + length
        ):
            yield Run(offsets[start], length, targets[start])
            start = index


def pack_runs(runs: Iterable[Run]) -> str:
    """Encode runs as text: 64-bit differences from the end of the run before, deflated, in Base64."""
    numbers = array("q")
    first = target = 0
    for run in runs:
        numbers.extend((run.first - first, run.length, run.target - target))
        first, target = run.first + run.length, run.target + run.length
    if sys.byteorder == "big":
        numbers.byteswap()
    return base64.b64encode(zlib.compress(numbers.tobytes(), 6)).decode("ascii")


def unpack_runs(text: str) -> list[Run]:
    """Decode the result of `pack_runs`. Raises ValueError for anything else."""
    try:
        numbers = array("q", zlib.decompress(base64.b64decode(text, validate=True)))
    except (binascii.Error, zlib.error, ValueError) as error:
        raise ValueError(f"invalid packed runs ({error})") from None
    if sys.byteorder == "big":
        numbers.byteswap()
    if len(numbers) % 3:
        raise ValueError("invalid packed runs (a run is incomplete)")
    runs, first, target = [], 0, 0
    for skipped, length, shift in zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True):
        run = Run(first + skipped, length, target + shift)
        if length < 0 or run.first < 0 or run.target < 0:
            raise ValueError("invalid packed runs (an offset or a length is out of range)")
        runs.append(run)
        first, target = run.first + run.length, run.target + run.length
    return runs


def runs_before(runs: Iterable[Run], end: int) -> list[Run]:
    """Return ascending runs without what is at or after the source offset `end`."""
    return [Run(run.first, min(run.length, end - run.first), run.target) for run in runs if run.first < end]


def runs_in_force(runs: Iterable[Run], next_offset: int) -> list[Run]:
    """Return the runs with records that hold, ascending.

    Args:
        runs: in the order in which they were written; a later one supersedes what is at or after its first offset.
        next_offset: the source offset to copy next: what was copied at or after it is no longer in the source.
    """
    held: list[Run] = []
    for run in runs:
        while held and held[-1].first >= run.first:
            held.pop()
        held[-1:] = runs_before(held[-1:], run.first)
        held.append(run)
    return [run for run in runs_before(held, next_offset) if run.length]


class OffsetMap:
    """The runs of one source partition."""

    def __init__(self, runs: Iterable[tuple[int, int, int]], *, end: int | None = None) -> None:
        """Sort the runs, none of which overlap.

        Args:
            runs: see `Run`.
            end: the target offset after the last record that was written; by default, that after the last run.
        """
        self._runs = sorted(starmap(Run, runs))
        self._firsts = [run.first for run in self._runs]
        self._end = end
        if self._runs and end is None:
            self._end = self._runs[-1].target + self._runs[-1].length

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def next_offset(self) -> int:
        """The source offset after the last record that was written; 0 for none."""
        return self._runs[-1].first + self._runs[-1].length if self._runs else 0

    def records_outside(self, first: int, end: int) -> int:
        """Return how many records have target offsets before `first`, or from `end` on."""
        return sum(
            run.length - max(min(run.target + run.length, end) - max(run.target, first), 0) for run in self._runs
        )

    def position(self, offset: int) -> int | None:
        """Translate the source offset that a reader would read next.

        Returns:
            The target offset of its record, or of the next record that was written; the end of what was written when
            none follows, and ``None`` when nothing was written.
        """
        record = self.record(offset)
        return self._end if record is None else record

    def record(self, offset: int) -> int | None:
        """Return the target offset of the record at `offset`, or of the next one; ``None`` if none was written."""
        index = bisect_right(self._firsts, offset) - 1
        if index >= 0 and offset < self._runs[index].first + self._runs[index].length:
            return self._runs[index].target + offset - self._runs[index].first
        return self._runs[index + 1].target if index + 1 < len(self._runs) else None


@dataclass(frozen=True, slots=True)
class Reach:
    """The positions in one source partition that can be translated exactly."""

    first: int
    """Every record from this offset on was copied, and its target offset is known."""
    next_offset: int
    """The source offset after the last one that was copied."""

    def holds(self, offset: int) -> bool:
        """Whether a group that reads `offset` next is within."""
        return self.first <= offset <= self.next_offset


def target_position(offset: int, runs: OffsetMap | None, end: Callable[[], int]) -> int:
    """Translate a committed offset of a consumer group.

    Args:
        offset: of the source, within the reach.
        runs: the runs of the source partition; ``None`` for none.
        end: returns the end offset of the copy, where a group continues if no record was copied.
    """
    position = runs.position(offset) if runs is not None else None
    return end() if position is None else position
