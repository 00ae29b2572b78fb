"""Owns how places are written in a finding: short, sorted, and with the number of those that are left out."""

from __future__ import annotations

from itertools import groupby, islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from gapless_api.offsets.ids import TopicPartition

_MOST_NAMES = 8
_MOST_SPANS = 6


def names(found: Collection[str]) -> str:
    """Names with commas between."""
    listed = sorted(found)
    more = len(listed) - _MOST_NAMES
    return ", ".join(listed[:_MOST_NAMES]) + (f" and {more:,} more" if more > 0 else "")


def numbers(found: Iterable[int]) -> str:
    """Numbers as ``0-3, 7``."""
    spans: list[str] = []
    for _, group in groupby(enumerate(sorted(set(found))), key=lambda pair: pair[1] - pair[0]):
        span = [number for _, number in group]
        spans.append(str(span[0]) if len(span) == 1 else f"{span[0]}-{span[-1]}")
    more = len(spans) - _MOST_SPANS
    return ", ".join(islice(spans, _MOST_SPANS)) + (f" and {more:,} more" if more > 0 else "")


def partitions(found: Collection[TopicPartition]) -> str:
    """Partitions by topic, as ``orders 0-3, 7; payments 1``."""
    by_topic = [
        f"{topic} {numbers(number for _, number in group)}"
        for topic, group in groupby(sorted(found), key=lambda place: place[0])
    ]
    more = len(by_topic) - _MOST_NAMES
    return "; ".join(by_topic[:_MOST_NAMES]) + (f" and {more:,} topics more" if more > 0 else "")


def counted(number: int, noun: str) -> str:
    """``1 partition``, ``2,000 partitions``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """A duration in the unit that a person would choose."""
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if abs(seconds) >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s" if abs(seconds) >= 10 else f"{seconds:.1f} s"
