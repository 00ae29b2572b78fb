"""The leader epochs of a log (KIP-101), and where two logs of one topic ID differ.

A broker that leads a partition writes all records with its epoch, and epochs only rise. Where two logs have the same
epoch at the same offset, they have the same record. So a log that was truncated under its topic ID, and has grown
again, differs from the earlier one at the offset at which it was cut. Must not know inventories.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from gapless_api.offsets.ids import MAX_OFFSET

MAX_EPOCHS = 1_000
"""The number of epochs of a partition in an inventory, the newest ones."""
MAX_EPOCH = (1 << 31) - 1


class EpochStart(NamedTuple):
    """The beginning of a leader epoch in a log."""

    epoch: int
    first_offset: int
    """Of its records; the end of the log if it has none."""


class LogExtent(NamedTuple):
    """The offsets of a log, and their epochs."""

    first: int
    end: int
    """Exclusive."""
    epochs: Sequence[EpochStart]
    """Ascending. Not empty; offsets before the first one have unknown epochs."""

    def epoch_at(self, offset: int) -> int:
        """Return the epoch of an offset that is not before the first epoch."""
        return self.epochs[bisect_right([start.first_offset for start in self.epochs], offset) - 1].epoch


def check_epochs(epochs: Sequence[EpochStart]) -> None:
    """Check the epochs of a log. Raises ValueError with the problem."""
    if not 0 < len(epochs) <= MAX_EPOCHS:
        raise ValueError(f"it has {len(epochs)} epochs and not 1 to {MAX_EPOCHS}")
    if any(not 0 <= epoch <= MAX_EPOCH or not 0 <= offset <= MAX_OFFSET for epoch, offset in epochs):
        raise ValueError("an epoch is not within the limits")
    if any(
        later.epoch <= before.epoch or later.first_offset < before.first_offset for before, later in pairwise(epochs)
    ):
        raise ValueError("its epochs do not ascend")


def first_difference(older: LogExtent, newer: LogExtent, *, same_ends: bool = True) -> int | None:
    """Return the first offset of `older` that has another record in `newer`, or none; ``None`` if nothing differs.

    Args:
        older: the log whose last epoch is lower, or the same.
        newer: the other one.
        same_ends: whether both ends are of the same kind, so that a lower one of `newer` is a difference.
    """
    known = max(older.first, newer.first, older.epochs[0].first_offset, newer.epochs[0].first_offset)
    compared = older.end if same_ends else min(older.end, newer.end)
    bounds = {known, newer.end, *(start.first_offset for log in (older, newer) for start in log.epochs)}
    for offset in sorted(offset for offset in bounds if known <= offset < compared):
        if offset >= newer.end or older.epoch_at(offset) != newer.epoch_at(offset):
            return offset
    return None
