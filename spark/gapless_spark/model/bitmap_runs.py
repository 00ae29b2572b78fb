"""Owns where the runs of a bitmap begin and end; must not know what positions mean, nor Arrow (it starts slowly)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyroaring import BitMap


def bounds_of_runs(positions: BitMap) -> tuple[BitMap, BitMap]:
    """The first and the last position of each run, both inclusive and ascending; as many of the one as of the other."""
    # A run begins where the position before is absent, and ends where the one behind is.
    return positions - positions.shift(1), positions - positions.shift(-1)
