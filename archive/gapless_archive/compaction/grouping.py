"""Owns which joins are carried out together: those whose inputs share row groups, as those of quiet partitions do.

Alone, each of two hundred quiet partitions would read the row groups of all of them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from gapless_archive.segments.writer import ROW_GROUP_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gapless_archive.compaction.plan import Join

_MOST_HELD = 128 * 1024 * 1024
"""Bytes that the new segments of a group hold in memory, at most."""
_MOST_JOINS = 256
"""Files that are open at once."""


def group_joins(joins: Sequence[Join]) -> list[tuple[Join, ...]]:
    """Divide joins of one topic into groups of one level; most are alone.

    A join belongs to a group when more than half of its records are in row groups that other joins need as well.
    """
    users = Counter(source for join in joins for source in _sources(join))
    alone = [join for join in joins if 2 * _shared_records(join, users) <= _records(join)]
    others = [join for join in joins if 2 * _shared_records(join, users) > _records(join)]
    groups: list[list[Join]] = []
    held, needed = 0, set[tuple[str, int]]()
    for join in sorted(others, key=lambda each: (each.level, each.inputs[0].written_at, each.inputs[0].object)):
        size, sources = _held_bytes(join), _sources(join)
        fits = groups and held + size <= _MOST_HELD and len(groups[-1]) < _MOST_JOINS
        if not fits or groups[-1][0].level != join.level or needed.isdisjoint(sources):
            groups.append([])
            held, needed = 0, set()
        groups[-1].append(join)
        held += size
        needed |= sources
    return [*((join,) for join in alone), *(tuple(group) for group in groups)]


def _sources(join: Join) -> set[tuple[str, int]]:
    return {(segment.object, group.number) for segment in join.inputs for group in segment.row_groups}


def _records(join: Join) -> int:
    return sum(segment.records for segment in join.inputs)


def _shared_records(join: Join, users: Counter[tuple[str, int]]) -> int:
    return sum(
        group.rows for segment in join.inputs for group in segment.row_groups if users[segment.object, group.number] > 1
    )


def _held_bytes(join: Join) -> int:
    return min(ROW_GROUP_BYTES, sum(segment.bytes for segment in join.inputs))
