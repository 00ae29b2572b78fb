"""Owns what a comparison of two streams adds up to: counts, differences as ranges, and what was not compared.

Must not know how records are aligned.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from gapless_api.wire.copy_report import MAX_DIFFERENCES, Difference, DifferenceKind, NotCompared, Part, Side, Span

if TYPE_CHECKING:
    from gapless_api.wire.copy_report import Reason


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Offsets of a stream that cannot be read, where they stand among its records."""

    first: int
    last: int
    reason: Reason
    records: int | None = None
    """How many records there are; ``None`` where that is not known."""
    detail: str = ""


@dataclass(slots=True)
class Findings:
    """What was found in one partition, in the order of its records."""

    partition: int
    equal: int = 0
    different: int = 0
    only_in_a: int = 0
    only_in_b: int = 0
    moved: int = 0
    differences: list[Difference] = field(default_factory=list)
    """The first `MAX_DIFFERENCES`."""
    difference_count: int = 0
    not_compared: list[NotCompared] = field(default_factory=list)
    _may_grow: bool = False
    """Whether the next record stands right behind the last difference."""

    def found_equal(self, records: int) -> None:
        """So many records follow that are alike."""
        if records:
            self.equal += records
            self._may_grow = False

    def found_only(self, side: Side, first: int, last: int, records: int) -> None:
        """Records follow that only one copy has, at these offsets."""
        span = Span(first=first, last=last)
        if side == "a":
            self.only_in_a += records
            self._add("onlyInA", (), records, span, None)
        else:
            self.only_in_b += records
            self._add("onlyInB", (), records, None, span)

    def found_different(self, parts: tuple[Part, ...], offset_a: int, offset_b: int) -> None:
        """A record follows that is not alike in `parts`."""
        self.different += 1
        a, b = Span(first=offset_a, last=offset_a), Span(first=offset_b, last=offset_b)
        self._add("different", parts, 1, a, b)

    def found_moved(self, offset_a: int, offset_b: int) -> None:
        """A record follows that has another place in the other copy."""
        self.moved += 1
        self._may_grow = False
        a, b = Span(first=offset_a, last=offset_a), Span(first=offset_b, last=offset_b)
        self._add("moved", (), 1, a, b)
        self._may_grow = False

    def could_not_compare(self, side: Literal["a", "b"], what: Unreadable) -> None:
        """Offsets follow that one copy cannot answer for."""
        self._may_grow = False
        last = self.not_compared[-1] if self.not_compared else None
        if (
            last is not None
            and (last.side, last.reason, last.detail) == (side, what.reason, what.detail)
            and last.span.last + 1 == what.first
        ):
            records = None if last.records is None or what.records is None else last.records + what.records
            span = Span(first=last.span.first, last=what.last)
            self.not_compared[-1] = replace(last, span=span, records=records)
            return
        self.not_compared.append(
            NotCompared(
                partition=self.partition,
                side=side,
                reason=what.reason,
                span=Span(first=what.first, last=what.last),
                records=what.records,
                detail=what.detail,
            )
        )

    def _add(self, kind: DifferenceKind, parts: tuple[Part, ...], records: int, a: Span | None, b: Span | None) -> None:
        grows = self._may_grow and self.differences and self.difference_count == len(self.differences)
        last = self.differences[-1] if grows else None
        if last is not None and (last.kind, last.parts) == (kind, parts):
            self.differences[-1] = replace(
                last, records=last.records + records, a=_joined(last.a, a), b=_joined(last.b, b)
            )
            return
        self.difference_count += 1
        if len(self.differences) < MAX_DIFFERENCES:
            self.differences.append(
                Difference(partition=self.partition, kind=kind, parts=parts, records=records, a=a, b=b)
            )
        self._may_grow = True


def _joined(one: Span | None, other: Span | None) -> Span | None:
    return None if one is None or other is None else Span(first=one.first, last=other.last)
