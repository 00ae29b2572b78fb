"""Owns how settings write sizes, durations and sets of partitions; must not know which settings there are.

Each parser raises ValueError with the end of the sentence "it must be …".
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_BYTES = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(?:[0-9]{1,9}(?:\.[0-9]{1,6})?(?:[smhd]|(?=$)))+")
_PARTS = re.compile(r"([0-9.]+)([smhd]?)")
_MOST_PARTITIONS = 1_000_000


def byte_count(least: int) -> Callable[[str], int]:
    """A parser of sizes such as 100MiB, of `least` bytes or more."""

    def parse(text: str) -> int:
        found = re.fullmatch(r"([0-9]{1,15})\s*(|[KMGT]iB)", text)
        if found is None or (count := int(found[1]) * _BYTES[found[2]]) < least:
            raise ValueError(f"a number of bytes of {least} or more, such as 100MiB")
        return count

    return parse


def duration(least: float, most: float = math.inf) -> Callable[[str], float]:
    """A parser of durations such as 5m or 1h30m, of `least` seconds or more, and of `most` at most."""

    def parse(text: str) -> float:
        if _DURATION.fullmatch(text):
            seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PARTS.findall(text))
            if least <= seconds <= most:
                return seconds
        if most < math.inf:
            raise ValueError(f"a duration from {least:g} to {most:g} seconds, such as {least:g}s or {most:g}s")
        raise ValueError(f"a duration of {least:g} seconds or more, such as 30s, 5m, 1h30m or 90d")

    return parse


def partition_numbers(text: str) -> frozenset[int]:
    """Read numbers and ranges of partitions, such as 0,4-7."""
    found: set[int] = set()
    for word in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,10})(?:-([0-9]{1,10}))?\s*", word)
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if high < low or high - low >= _MOST_PARTITIONS:
            raise ValueError("numbers and ranges separated by commas, such as 0,4-7")
        found.update(range(low, high + 1))
    return frozenset(found)
