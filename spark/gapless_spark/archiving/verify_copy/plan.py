"""The plan of a comparison: which offsets of which partitions, in which units, and what cannot be compared.

Must not read any record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapless_spark.archiving.verify_copy.streams import RANGE

if TYPE_CHECKING:
    from gapless_api.offsets.ranges import OffsetRanges
    from gapless_api.wire.copy_report import Alignment, Side
    from gapless_spark.archiving.verify_copy.copies import Copy
    from gapless_spark.archiving.verify_copy.findings import Unreadable


@dataclass(frozen=True, slots=True)
class Unit:
    """Offsets of a partition that are compared together."""

    partition: int
    a: OffsetRanges
    b: OffsetRanges

    @property
    def offsets(self) -> int:
        """The number of offsets to read from both copies."""
        return self.a.count + self.b.count


@dataclass(frozen=True, slots=True)
class Plan:
    """The offsets to compare."""

    alignment: Alignment
    units: tuple[Unit, ...]
    """Those of a partition in the order of their offsets."""
    not_compared: tuple[tuple[int, Side, Unreadable], ...]
    """Partition, copy, and the offsets that the copy cannot provide."""

    @property
    def offsets(self) -> int:
        """The number of offsets to read from both copies."""
        return sum(unit.offsets for unit in self.units)


def alignment_of(a: Copy, b: Copy, setting: str) -> Alignment:
    """Return how records are aligned: by default by offsets if both copies have the same topic ID, else by order."""
    if setting in {"offsets", "order"}:
        return "offsets" if setting == "offsets" else "order"
    same = a.about.topic_id and a.about.topic_id == b.about.topic_id
    return "offsets" if same else "order"


def plan_of(a: Copy, b: Copy, alignment: Alignment) -> Plan:
    """Plan the comparison."""
    units: list[Unit] = []
    not_compared: list[tuple[int, Side, Unreadable]] = []
    for partition in range(max(a.about.partitions, b.about.partitions)):
        in_a, in_b = a.answerable(partition), b.answerable(partition)
        if alignment == "offsets":
            has_a, has_b = (copy.about.partitions > partition or copy.may_lag for copy in (a, b))
            if has_a and has_b:
                not_compared += [(partition, "a", gap) for gap in a.absences(in_b - in_a, partition)]
                not_compared += [(partition, "b", gap) for gap in b.absences(in_a - in_b, partition)]
                in_a = in_b = in_a & in_b
        if len(in_a) or len(in_b):
            units.append(Unit(partition, in_a, in_b))
    return Plan(alignment, tuple(units), tuple(not_compared))


def divide_units(plan: Plan, tasks: int, *, whole_partitions: bool = False) -> list[tuple[Unit, ...]]:
    """Divide the units among at most `tasks`, with about equal numbers of offsets; no task is without a unit.

    A partition is divided only if records are aligned by offsets, and only between digested ranges. It is not divided
    with `whole_partitions`: what compaction removed is proved by later records of the partition.
    """
    may_split = plan.alignment == "offsets" and not whole_partitions
    size = max(RANGE, -(-plan.offsets // (2 * max(tasks, 1)) // RANGE) * RANGE)
    units = [part for unit in plan.units for part in (_split(unit, size) if may_split else [unit])]
    groups: list[list[Unit]] = [[] for _ in range(min(tasks, len(units)))]
    sizes = [0] * len(groups)
    for unit in sorted(units, key=lambda each: -each.offsets):
        smallest = sizes.index(min(sizes))
        groups[smallest].append(unit)
        sizes[smallest] += unit.offsets
    return [tuple(group) for group in groups]


def _split(unit: Unit, size: int) -> Sequence[Unit]:
    """Divide a unit at multiples of `size`."""
    both = unit.a | unit.b
    if not len(both):
        return [unit]
    first, last = both.first_offset, both.last_offset
    borders = range(first // size * size, last + 1, size)
    parts = [
        Unit(unit.partition, unit.a.clip(border, border + size - 1), unit.b.clip(border, border + size - 1))
        for border in borders
    ]
    return [part for part in parts if part.offsets]
