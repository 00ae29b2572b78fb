"""The random decision about each datagram on a lossy link. Must not know sockets or time."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any


class Fate(IntEnum):
    """What happens to one datagram."""

    PASS = 0
    DROP = 1
    DUPLICATE = 2
    HOLD_BACK = 3


@dataclass(frozen=True)
class Chances:
    """Probabilities from 0 to 1, independent of each other and from datagram to datagram."""

    drop: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    """Delay a datagram until some later ones have passed."""
    burst: float = 0.0
    """Start a burst of losses."""
    burst_length: int = 50
    """Datagrams lost in one burst."""

    def __post_init__(self) -> None:
        for name in ("drop", "duplicate", "reorder", "burst"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise ValueError(f"{name} is a probability from 0 to 1, not {value}.")

    def but(self, **changes: Any) -> Chances:
        """Return a changed copy."""
        return replace(self, **changes)


class LossPlan:
    """Decides by seed and order of arrival only.

    Each datagram uses four random numbers, whatever the probabilities are, so the fate of the n-th datagram does not
    depend on the probabilities that applied to earlier ones.
    """

    longest_hold = 16
    """A delayed datagram is sent after 1 to this many later ones."""

    def __init__(self, seed: int, chances: Chances) -> None:
        self.chances = chances
        self._random = random.Random(seed).random
        self._burst_left = 0

    def decide(self, count: int) -> list[int]:
        """Return the fates of the next `count` datagrams, as plain integers (`Fate`), because there are very many."""
        draw = self._random
        chances = self.chances
        drop, duplicate, reorder, burst = chances.drop, chances.duplicate, chances.reorder, chances.burst
        fates = []
        for _ in range(count):
            lost, doubled, delayed, bursts = draw(), draw(), draw(), draw()
            if bursts < burst:
                self._burst_left = chances.burst_length
            if self._burst_left > 0:
                self._burst_left -= 1
                fates.append(1)
            elif lost < drop:
                fates.append(1)
            elif doubled < duplicate:
                fates.append(2)
            elif delayed < reorder:
                fates.append(3)
            else:
                fates.append(0)
        return fates

    def hold(self, index: int) -> int:
        """Return how many later datagrams pass the delayed one with this sequence number."""
        return 1 + index % self.longest_hold
