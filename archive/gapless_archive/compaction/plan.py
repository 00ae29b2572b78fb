"""Which segments of a partition are joined; must not know how joins are carried out.

Only segments that cover adjacent or overlapping offsets are joined, so that a new segment covers only what its inputs
covered. Covered offsets without a record do not separate segments; offsets that no segment covers do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gapless_api.codec.canonical import moment_of

if TYPE_CHECKING:
    from gapless_archive.catalog.entry import Segment

_GIB = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRules:
    """Which segments are joined; the names and defaults are those of kafka-replicator."""

    min_level: int = 0
    max_level: int = 0
    """Segments of these levels are joined, both inclusive."""
    min_segment_age: timedelta = timedelta(hours=1)
    """Younger segments are not joined yet."""
    min_segment_count: int = 10
    min_segment_bytes: int = _GIB
    """Fewer segments, or fewer stored bytes in total, are not joined yet."""
    max_segment_count: int = 1000
    max_segment_bytes: int = 4 * _GIB
    """A new segment gets no more inputs once it has so many, or so many stored bytes. Inputs that add no offset are not
    counted."""


@dataclass(frozen=True, slots=True)
class Join:
    """Segments of a partition that are joined into one."""

    inputs: tuple[Segment, ...]
    """Sorted by first offset. They may overlap; together they cover one range."""

    @property
    def partition(self) -> int:
        """Of the topic."""
        return self.inputs[0].partition

    @property
    def first(self) -> int:
        """The first covered offset."""
        return self.inputs[0].first

    @property
    def end(self) -> int:
        """The last covered offset plus one. It need not be that of the last input, which may be inside another one."""
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
    """Choose which segments of one partition to join.

    Args:
        segments: all of the partition, in any order.
        rules: which are joined.
        now: the time, for the age of segments.
    """
    candidates = sorted(
        (segment for segment in segments if _is_candidate(segment, rules, now)),
        key=lambda segment: (segment.first, -segment.end),
    )
    joins: list[Join] = []
    group = _Group()
    for segment in candidates:
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
    """The inputs of one join while they are chosen."""

    def __init__(self) -> None:
        self.inputs: list[Segment] = []
        self._end = 0
        self._bytes = 0
        self._count = 0

    def takes(self, segment: Segment, rules: CompactionRules) -> bool:
        """Whether the next candidate may be added."""
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
        """Return the join, or nothing when the inputs are too few or too small."""
        too_few = len(self.inputs) < rules.min_segment_count or self._bytes < rules.min_segment_bytes
        return [] if too_few or not self.inputs else [Join(tuple(self.inputs))]
