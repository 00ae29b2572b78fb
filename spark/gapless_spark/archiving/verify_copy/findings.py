"""The findings of a comparison of two streams: counts, ranges of differences, and offsets not compared.

Must not know how records are aligned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from gapless_api.wire.copy_report import (
    MAX_DIFFERENCES,
    Difference,
    DifferenceKind,
    NotCompared,
    Part,
    Reason,
    Side,
    Span,
)


class AbsentRecords(Protocol):
    """Keeps records that only one copy has until it is known whether compaction removed them from the other."""

    def may_lack(self, side: Side) -> bool:
        """Whether compaction may have removed records from this copy."""

    def add(self, side: Side, offset: int, position: int, key: bytes | None, neighbours: int) -> None:
        """Add a record that only the copy `side` has; see `compaction.Absences`."""


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
    compacted_in_a: int = 0
    compacted_in_b: int = 0
    compacted: list[Difference] = field(default_factory=list)
    """The first `MAX_DIFFERENCES` ranges that compaction removed from one copy."""
    compacted_count: int = 0
    not_compared: list[NotCompared] = field(default_factory=list)
    absences: AbsentRecords | None = None
    """``None`` if no copy was compacted."""
    _may_grow: bool = False
    """Whether the next record directly follows the last difference."""
    _last_kind: DifferenceKind | None = None

    def add_equal(self, records: int) -> None:
        """Add records that are equal in both copies."""
        if records:
            self.equal += records
            self._may_grow = False

    def add_absent(self, side: Side, offsets: Sequence[int], keys: Iterable[Any], position: int | None = None) -> None:
        """Add records that only the copy `side` has.

        Args:
            side: the copy.
            offsets: in this copy.
            keys: of the records, as `compaction.hash_key` returns them.
            position: the last offset before them in the other copy; by default, both copies have the same offsets.
        """
        lacking: Side = "b" if side == "a" else "a"
        if self.absences is None or not self.absences.may_lack(lacking):
            self.add_only(side, offsets[0], offsets[-1], len(offsets))
            return
        neighbours = self.equal + self.different + self.moved + self.only_in_a + self.only_in_b
        for offset, key in zip(offsets, keys, strict=True):
            self.absences.add(side, offset, offset if position is None else position, key, neighbours)
        self._may_grow = False

    def add_only(self, side: Side, first: int, last: int, records: int, *, is_compacted: bool = False) -> None:
        """Add records that only one copy has, at these offsets; `is_compacted` if the other copy was compacted."""
        span = Span(first=first, last=last)
        if is_compacted:
            if side == "a":
                self.compacted_in_b += records
                self._add("compactedInB", (), records, span, None)
            else:
                self.compacted_in_a += records
                self._add("compactedInA", (), records, None, span)
        elif side == "a":
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

    def end_range(self) -> None:
        """Begin another range with the next record."""
        self._may_grow = False

    def sort(self) -> None:
        """Sort differences by their offsets."""
        self.differences.sort(key=_first_offset)

    def _add(self, kind: DifferenceKind, parts: tuple[Part, ...], records: int, a: Span | None, b: Span | None) -> None:
        is_compacted = kind in {"compactedInA", "compactedInB"}
        listed = self.compacted if is_compacted else self.differences
        count = self.compacted_count if is_compacted else self.difference_count
        last = listed[-1] if self._may_grow and listed and count == len(listed) else None
        self._may_grow = True
        if last is not None and (last.kind, last.parts) == (kind, parts) and self._last_kind == kind:
            listed[-1] = replace(
                last, records=last.records + records, a=_extend_span(last.a, a), b=_extend_span(last.b, b)
            )
            return
        self._last_kind = kind
        if is_compacted:
            self.compacted_count += 1
        else:
            self.difference_count += 1
        if count < MAX_DIFFERENCES:
            listed.append(Difference(partition=self.partition, kind=kind, parts=parts, records=records, a=a, b=b))


def _first_offset(difference: Difference) -> int:
    return min(span.first for span in (difference.a, difference.b) if span is not None)


def _extend_span(span: Span | None, following: Span | None) -> Span | None:
    return None if span is None or following is None else Span(first=span.first, last=following.last)
