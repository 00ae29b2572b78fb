"""The wording of findings: short sorted lists with the number of omitted items, counts, and durations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sized
from itertools import groupby
from typing import TYPE_CHECKING

from gapless_api.base.quantities import first_of

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition

_MAX_NAMES = 8
_MAX_SPANS = 6


def names(items: Collection[str]) -> str:
    """Return names separated by commas."""
    return first_of(sorted(items), _MAX_NAMES)


def numbers(items: Iterable[int]) -> str:
    """Return numbers as ``0-3, 7``."""
    spans: list[str] = []
    for _, group in groupby(enumerate(sorted(set(items))), key=lambda pair: pair[1] - pair[0]):
        span = [number for _, number in group]
        spans.append(str(span[0]) if len(span) == 1 else f"{span[0]}-{span[-1]}")
    return first_of(spans, _MAX_SPANS)


def partitions(items: Collection[TopicPartition]) -> str:
    """Return partitions by topic, as ``orders 0-3, 7; payments 1``."""
    by_topic = [
        f"{topic} {numbers(number for _, number in group)}"
        for topic, group in groupby(sorted(items), key=lambda partition: partition[0])
    ]
    more = len(by_topic) - _MAX_NAMES
    return "; ".join(by_topic[:_MAX_NAMES]) + (f" and {more:,} more topics" if more > 0 else "")


def verb(subject: Sized, singular: str, plural: str) -> str:
    """Return the form of a verb for a subject of one or more items."""
    return singular if len(subject) == 1 else plural
