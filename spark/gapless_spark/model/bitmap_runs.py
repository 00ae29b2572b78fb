"""Where the runs of a bitmap begin and end; must not know what positions mean, nor Arrow (slow to import)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyroaring import BitMap


def bounds_of_runs(positions: BitMap) -> tuple[BitMap, BitMap]:
    """Return the first and the last position (inclusive) of each run, ascending, in two bitmaps of equal size."""
    # A run begins where the previous position is absent, and ends where the next one is.
    return positions - positions.shift(1), positions - positions.shift(-1)
