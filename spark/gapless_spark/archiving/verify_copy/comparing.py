"""The comparison of one unit of work; must not know where it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapless_api.base.errors import SourceUnreachableError
from gapless_spark.archiving.verify_copy.by_offset import compare_by_offset
from gapless_spark.archiving.verify_copy.by_order import compare_by_order
from gapless_spark.archiving.verify_copy.compaction import Absences, Compaction, compaction_of
from gapless_spark.archiving.verify_copy.findings import Findings, Unreadable
from gapless_spark.archiving.verify_copy.streams import Masked, Meter, Stream, offset_at
from gapless_spark.archiving.verify_copy.unit_result import CopyResult, UnitResult

if TYPE_CHECKING:
    from gapless_api.offsets.ranges import OffsetRanges
    from gapless_api.wire.copy_report import Alignment, Ignored, Part, Side
    from gapless_spark.archiving.verify_copy.copies import Copy, Items
    from gapless_spark.archiving.verify_copy.plan import Unit

_SIDES: tuple[Side, Side] = ("a", "b")
_CONCURRENT_UNITS = 4
_SMALL_OFFSETS = 50_000
"""Of both copies together: units with more offsets are compared one by one."""


class _StoppedError(Exception):
    """The comparison was stopped while this unit was compared."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How two copies are compared; serialised for the executors."""

    a: Copy
    b: Copy
    alignment: Alignment
    parts: tuple[Part, ...]
    """The parts of records that are compared."""
    ignored: tuple[Ignored, ...]
    """What may differ. Parts are treated as absent, and null as empty, also in digests."""

    @property
    def compaction(self) -> Compaction:
        """Which copies may lack records because of compaction."""
        return compaction_of(self.a, self.b)

    @property
    def _masked(self) -> tuple[Masked, ...]:
        return tuple(each for each in self.ignored if each != "compacted")

    def of(self, units: Sequence[Unit], on_progress: Callable[[int], None] = lambda _: None) -> list[UnitResult]:
        """Compare units: large ones one by one, and small ones, which mostly wait for connections, concurrently.

        Args:
            units: what to compare.
            on_progress: is called with the number of further offsets that were read, also from other threads.

        Raises:
            GaplessError: a copy cannot be read.
        """
        large = [unit for unit in units if unit.offsets > _SMALL_OFFSETS]
        small = [unit for unit in units if unit.offsets <= _SMALL_OFFSETS]
        results = [self._of(unit, on_progress) for unit in large]
        if len(small) < _CONCURRENT_UNITS:
            return results + [self._of(unit, on_progress) for unit in small]
        is_stopped = threading.Event()

        def on_progress_unless_stopped(offsets: int) -> None:
            if is_stopped.is_set():
                raise _StoppedError
            on_progress(offsets)

        pool = ThreadPoolExecutor(_CONCURRENT_UNITS, "unit")
        try:
            return results + list(pool.map(lambda unit: self._of(unit, on_progress_unless_stopped), small))
        finally:
            is_stopped.set()
            pool.shutdown(cancel_futures=True)

    def _of(self, unit: Unit, on_progress: Callable[[int], None]) -> UnitResult:
        compaction = self.compaction
        if not compaction.is_possible:
            return self._compare(unit, on_progress, None)
        with closing(Absences(compaction, empty_is_null="nullAsEmpty" in self.ignored)) as absences:
            return self._compare(unit, on_progress, absences)

    def _compare(self, unit: Unit, on_progress: Callable[[int], None], absences: Absences | None) -> UnitResult:
        meters = Meter(self.alignment), Meter(self.alignment)

        def stream(side: Side, copy: Copy, ranges: OffsetRanges, meter: Meter) -> Stream:
            items = _counted(self._read(copy, unit.partition, ranges), on_progress)
            return Stream(items if absences is None else absences.watch(side, items), meter, self._masked)

        findings = Findings(unit.partition, absences=absences)
        compare = compare_by_offset if self.alignment == "offsets" else compare_by_order
        a, b = stream("a", self.a, unit.a, meters[0]), stream("b", self.b, unit.b, meters[1])
        compare(a, b, self.parts, findings)
        if absences is not None:
            self._read_proofs(unit, absences)
            absences.add_to(findings)
        results = [
            CopyResult(records=meter.records, timestamp_types=meter.timestamp_types(), ranges=meter.ranges())
            for meter in meters
        ]
        return UnitResult(
            partition=unit.partition,
            first=min(ranges.first_offset for ranges in (unit.a, unit.b) if len(ranges)),
            a=results[0],
            b=results[1],
            equal=findings.equal,
            different=findings.different,
            only_in_a=findings.only_in_a,
            only_in_b=findings.only_in_b,
            moved=findings.moved,
            compacted_in_a=findings.compacted_in_a,
            compacted_in_b=findings.compacted_in_b,
            differences=tuple(findings.differences),
            difference_count=findings.difference_count,
            compacted=tuple(findings.compacted),
            compacted_count=findings.compacted_count,
            not_compared=tuple(findings.not_compared),
        )

    def _read_proofs(self, unit: Unit, absences: Absences) -> None:
        """Read the keys of offsets that are not compared, if a proof may be among them."""
        for side, copy, compared in zip(_SIDES, (self.a, self.b), (unit.a, unit.b), strict=True):
            rest = copy.answerable(unit.partition) - compared
            if len(rest) and absences.is_unproved(side):
                for _ in absences.watch(side, copy.read(unit.partition, rest)):
                    pass

    def _read(self, copy: Copy, partition: int, ranges: OffsetRanges) -> Items:
        if not len(ranges):
            return
        for item in copy.read(partition, ranges):
            if isinstance(item, Unreadable) and item.records is None and self.alignment == "order":
                raise SourceUnreachableError(
                    f"Offsets {item.first} to {item.last} of partition {partition} were deleted from "
                    f"{copy.about.address} while they were compared; compare again."
                )
            yield item


def _counted(items: Items, on_progress: Callable[[int], None]) -> Items:
    before: int | None = None
    for item in items:
        last = item.last if isinstance(item, Unreadable) else offset_at(item, -1)
        on_progress(last - before if before is not None else 1)
        before = last
        yield item
