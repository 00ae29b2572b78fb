"""Owns which offset of a target each offset of a source has become, as runs; pure.

Runs end where offsets are taken on one side only: by markers of transactions, or by records that the source has lost.
"""

from __future__ import annotations

import base64
import binascii
import sys
import zlib
from array import array
from bisect import bisect_right
from itertools import starmap
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class Run(NamedTuple):
    """Consecutive offsets of a source whose records have consecutive offsets in the target."""

    first: int
    """In the source."""
    length: int
    target: int
    """Of the first one, in the target."""


def runs_of(offsets: Sequence[int], targets: Sequence[int]) -> Iterator[Run]:
    """Join pairs of offsets, both ascending, to runs."""
    if not offsets:
        return
    if offsets[-1] - offsets[0] == targets[-1] - targets[0] == len(offsets) - 1:
        yield Run(offsets[0], len(offsets), targets[0])
        return
    begin = 0
    for number in range(1, len(offsets) + 1):
        inside = number - begin
        if (
            number == len(offsets)
            or offsets[number] != offsets[begin] + inside
            or targets[number] != targets[begin] + inside
        ):
            yield Run(offsets[begin], inside, targets[begin])
            begin = number


def pack_runs(runs: Iterable[Run]) -> str:
    """Pack runs into text: 64-bit differences from what would follow on the run before, deflated, in Base64."""
    numbers = array("q")
    first = target = 0
    for run in runs:
        numbers.extend((run.first - first, run.length, run.target - target))
        first, target = run.first + run.length, run.target + run.length
    if sys.byteorder == "big":
        numbers.byteswap()
    return base64.b64encode(zlib.compress(numbers.tobytes(), 6)).decode("ascii")


def unpack_runs(text: str) -> list[Run]:
    """Read what `pack_runs` wrote. Raises ValueError for anything else."""
    try:
        numbers = array("q", zlib.decompress(base64.b64decode(text, validate=True)))
    except (binascii.Error, zlib.error, ValueError) as error:
        raise ValueError(f"no packed runs ({error})") from None
    if sys.byteorder == "big":
        numbers.byteswap()
    if len(numbers) % 3:
        raise ValueError("no packed runs (a run is incomplete)")
    runs, first, target = [], 0, 0
    for skipped, count, moved in zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True):
        run = Run(first + skipped, count, target + moved)
        if skipped < 0 or count < 1 or run.target < 0:
            raise ValueError("no packed runs (they do not ascend)")
        runs.append(run)
        first, target = run.first + run.length, run.target + run.length
    return runs


class OffsetMap:
    """The runs of one source partition."""

    def __init__(self, runs: Iterable[tuple[int, int, int]]) -> None:
        self._runs = sorted(starmap(Run, runs))
        self._firsts = [run.first for run in self._runs]

    def __len__(self) -> int:
        return len(self._runs)

    def position(self, offset: int) -> int | None:
        """Where a reader continues in the target that would read `offset` next in the source.

        That is the record of this offset, or else the next one that was written; behind all of them it is the offset
        after the last one. ``None`` when nothing was written.
        """
        index = bisect_right(self._firsts, offset) - 1
        if index >= 0 and offset < self._runs[index].first + self._runs[index].length:
            return self._runs[index].target + offset - self._runs[index].first
        if index + 1 < len(self._runs):
            return self._runs[index + 1].target
        return self._runs[-1].target + self._runs[-1].length if self._runs else None
