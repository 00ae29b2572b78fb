"""Owns which joins are carried out together: those whose inputs share row groups, as with quiet partitions.

Otherwise each join of two hundred quiet partitions would read the row groups of all of them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from gapless_archive.segments.writer import ROW_GROUP_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gapless_archive.compaction.plan import Join

_MAX_BUFFERED_BYTES = 128 * 1024 * 1024
"""Memory that the new segments of a group may need."""
_MAX_JOINS = 256
"""Of a group; each join has an open file."""


def group_joins(joins: Sequence[Join]) -> list[tuple[Join, ...]]:
    """Divide joins of one topic into groups of one level; most groups have one join.

    A join is grouped when more than half of its records are in row groups that other joins also read.
    """
    uses = Counter(source for join in joins for source in _sources(join))
    single = [join for join in joins if 2 * _shared_records(join, uses) <= _records(join)]
    shared = [join for join in joins if 2 * _shared_records(join, uses) > _records(join)]
    groups: list[list[Join]] = []
    buffered, group_sources = 0, set[tuple[str, int]]()
    for join in sorted(shared, key=lambda each: (each.level, each.inputs[0].written_at, each.inputs[0].object)):
        size, sources = _buffered_bytes(join), _sources(join)
        fits = groups and buffered + size <= _MAX_BUFFERED_BYTES and len(groups[-1]) < _MAX_JOINS
        if not fits or groups[-1][0].level != join.level or group_sources.isdisjoint(sources):
            groups.append([])
            buffered, group_sources = 0, set()
        groups[-1].append(join)
        buffered += size
        group_sources |= sources
    return [*((join,) for join in single), *(tuple(group) for group in groups)]


def _sources(join: Join) -> set[tuple[str, int]]:
    return {(segment.object, group.number) for segment in join.inputs for group in segment.row_groups}


def _records(join: Join) -> int:
    return sum(segment.records for segment in join.inputs)


def _shared_records(join: Join, uses: Counter[tuple[str, int]]) -> int:
    return sum(
        group.rows for segment in join.inputs for group in segment.row_groups if uses[segment.object, group.number] > 1
    )


def _buffered_bytes(join: Join) -> int:
    return min(ROW_GROUP_BYTES, sum(segment.bytes for segment in join.inputs))
