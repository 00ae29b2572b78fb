"""Owns which segments of a partition are joined; must not know how that is done.

Segments follow on each other by what they cover, so an offset without a record never divides them. What no segment
covers does, whether Kafka deleted it before it was archived or not: a segment covers only what its inputs covered.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from gapless_api.codec.canonical import moment_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from gapless_archive.catalog.entry import Segment

_GIB = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRules:
    """Which segments are joined; the names and defaults are those of kafka-replicator."""

    min_level: int = 0
    max_level: int = 0
    """Segments of these levels are joined, both inclusive."""
    min_segment_age: timedelta = timedelta(hours=1)
    """Younger segments wait."""
    min_segment_count: int = 10
    min_segment_bytes: int = _GIB
    """Fewer segments, or segments with fewer stored bytes together, wait for more."""
    max_segment_count: int = 1000
    max_segment_bytes: int = 4 * _GIB
    """A new segment gets no more inputs when it has so many, or so many stored bytes. Inputs that add no offset are
    not counted."""


@dataclass(frozen=True, slots=True)
class Join:
    """Segments of a partition that become one."""

    inputs: tuple[Segment, ...]
    """By their first offset. They may overlap, and cover one range together."""

    @property
    def partition(self) -> int:
        """Of the topic."""
        return self.inputs[0].partition

    @property
    def first(self) -> int:
        """The first offset that is covered."""
        return self.inputs[0].first

    @property
    def end(self) -> int:
        """The last offset that is covered plus one; an input inside another one may come last."""
        return max(segment.end for segment in self.inputs)

    @property
    def level(self) -> int:
        """Of the new segment."""
        return 1 + max(segment.level for segment in self.inputs)

    @property
    def stored_bytes(self) -> int:
        """Of all inputs."""
        return sum(segment.stored_bytes for segment in self.inputs)


def plan_joins(segments: Iterable[Segment], rules: CompactionRules, now: datetime) -> list[Join]:
    """Choose what to join of the segments of one partition.

    Args:
        segments: all of the partition, in any order.
        rules: which are joined.
        now: the time, for the age of segments.
    """
    chosen = sorted(
        (segment for segment in segments if _is_candidate(segment, rules, now)),
        key=lambda segment: (segment.first, -segment.end),
    )
    joins: list[Join] = []
    group = _Group()
    for segment in chosen:
        if group.inputs and not group.takes(segment, rules):
            joins += group.joins(rules)
            group = _Group()
        group.add(segment)
    return joins + group.joins(rules)


def _is_candidate(segment: Segment, rules: CompactionRules, now: datetime) -> bool:
    if not rules.min_level <= segment.level <= rules.max_level:
        return False
    written = moment_of(segment.written_at)
    return written is not None and written <= now - rules.min_segment_age


class _Group:
    """Inputs of one new segment, while they are chosen."""

    def __init__(self) -> None:
        self.inputs: list[Segment] = []
        self._end = 0
        self._bytes = 0
        self._count = 0

    def takes(self, segment: Segment, rules: CompactionRules) -> bool:
        """Whether the next candidate may join."""
        if segment.end <= self._end:
            return True
        is_full = self._count >= rules.max_segment_count or self._bytes >= rules.max_segment_bytes
        return segment.first <= self._end and not is_full

    def add(self, segment: Segment) -> None:
        self.inputs.append(segment)
        self._bytes += segment.stored_bytes
        self._count += segment.end > self._end or len(self.inputs) == 1
        self._end = max(self._end, segment.end)

    def joins(self, rules: CompactionRules) -> list[Join]:
        """One, or none when that is not worth it."""
        too_few = len(self.inputs) < rules.min_segment_count or self._bytes < rules.min_segment_bytes
        return [] if too_few or not self.inputs else [Join(tuple(self.inputs))]
