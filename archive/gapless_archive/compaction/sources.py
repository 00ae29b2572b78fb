"""Owns from which of several overlapping segments each record is read; must not know how."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from gapless_api.offsets.ranges import OffsetRanges
from gapless_archive.catalog.entry import absent_ranges
from gapless_archive.catalog.state import covered
from gapless_archive.reading import Piece, choose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gapless_archive.catalog.entry import Segment


def sources_of(inputs: Sequence[Segment]) -> list[Piece]:
    """Say where to read each record of `inputs` once, by ascending offsets.

    Where one segment has a record and another has none at an offset that both cover, the record counts: Kafka's
    compaction of the topic may have removed it before the other was read.

    Args:
        inputs: segments of a partition by their first offset.
    """
    ranges = OffsetRanges((first, end - 1) for first, end in covered(inputs) if first < end)
    pieces = choose(inputs, ranges)
    complete = {id(piece.segment) for piece in pieces if reads_all(piece)}
    partly = [segment for segment in inputs if id(segment) not in complete and segment.records]
    if not partly:
        return pieces
    read = OffsetRanges()
    for piece in pieces:
        read |= piece.wanted - absent_ranges(piece.segment.absent)
    extra: list[tuple[int, int, Segment]] = []
    for segment in partly:
        more = _records(segment) - read
        extra += [(first, last, segment) for first, last in more]
        read |= more
    return _ordered(pieces, extra) if extra else pieces


def reads_all(piece: Piece) -> bool:
    """Whether a piece is all of its segment."""
    segment = piece.segment
    return len(piece.wanted) == 1 and tuple(piece.wanted[0]) == (segment.first, segment.last)


def _records(segment: Segment) -> OffsetRanges:
    if segment.end <= segment.first:
        return OffsetRanges()
    return OffsetRanges([(segment.first, segment.last)]) - absent_ranges(segment.absent)


def _ordered(pieces: Sequence[Piece], extra: Sequence[tuple[int, int, Segment]]) -> list[Piece]:
    """Put offsets of other segments where they belong among `pieces`, whose segments do not have them."""
    taken = OffsetRanges((first, last) for first, last, _ in extra)
    runs = [(first, last, piece.segment) for piece in pieces for first, last in piece.wanted - taken]
    found = []
    for _, same in groupby(sorted([*runs, *extra], key=lambda run: run[0]), key=lambda run: id(run[2])):
        together = list(same)
        found.append(Piece(together[0][2], OffsetRanges((first, last) for first, last, _ in together)))
    return found
