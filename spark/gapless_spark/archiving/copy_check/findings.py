"""Owns the findings of a comparison of two streams: counts, ranges of differences, and offsets not compared.

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
    """Offsets that cannot be read, in their place among the records of a stream."""

    first: int
    last: int
    reason: Reason
    records: int | None = None
    """The number of records; ``None`` if unknown."""
    detail: str = ""


@dataclass(slots=True)
class Findings:
    """The findings in one partition, in the order of its records."""

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
    """Whether the next record directly follows the last difference."""

    def add_equal(self, records: int) -> None:
        """Add records that are equal in both copies."""
        if records:
            self.equal += records
            self._may_grow = False

    def add_only(self, side: Side, first: int, last: int, records: int) -> None:
        """Add records that only one copy has, at these offsets."""
        span = Span(first=first, last=last)
        if side == "a":
            self.only_in_a += records
            self._add("onlyInA", (), records, span, None)
        else:
            self.only_in_b += records
            self._add("onlyInB", (), records, None, span)

    def add_different(self, parts: tuple[Part, ...], offset_a: int, offset_b: int) -> None:
        """Add a record that differs in `parts`."""
        self.different += 1
        a, b = Span(first=offset_a, last=offset_a), Span(first=offset_b, last=offset_b)
        self._add("different", parts, 1, a, b)

    def add_moved(self, offset_a: int, offset_b: int) -> None:
        """Add a record that has another position in the other copy."""
        self.moved += 1
        self._may_grow = False
        a, b = Span(first=offset_a, last=offset_a), Span(first=offset_b, last=offset_b)
        self._add("moved", (), 1, a, b)
        self._may_grow = False

    def add_not_compared(self, side: Literal["a", "b"], what: Unreadable) -> None:
        """Add offsets that one copy cannot provide."""
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
                last, records=last.records + records, a=_extend_span(last.a, a), b=_extend_span(last.b, b)
            )
            return
        self.difference_count += 1
        if len(self.differences) < MAX_DIFFERENCES:
            self.differences.append(
                Difference(partition=self.partition, kind=kind, parts=parts, records=records, a=a, b=b)
            )
        self._may_grow = True


def _extend_span(span: Span | None, following: Span | None) -> Span | None:
    return None if span is None or following is None else Span(first=span.first, last=following.last)
