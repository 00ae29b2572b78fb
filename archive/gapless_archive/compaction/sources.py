"""From which of several overlapping segments each record is read; must not know how it is read."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from gapless_api.offsets.ranges import OffsetRanges
from gapless_archive.catalog.entry import Segment, absent_ranges
from gapless_archive.catalog.state import covered_ranges
from gapless_archive.reading import Piece, choose_pieces


def plan_reads(inputs: Sequence[Segment]) -> list[Piece]:
    """Plan to read each record of `inputs` once, by ascending offsets.

    Where one segment has a record and another has none at an offset that both cover, the record counts: log compaction
    may have removed it before the other segment was read.

    Args:
        inputs: segments of a partition by their first offset.
    """
    ranges = OffsetRanges((first, end - 1) for first, end in covered_ranges(inputs) if first < end)
    pieces = choose_pieces(inputs, ranges)
    complete = {id(piece.segment) for piece in pieces if covers_segment(piece)}
    partial = [segment for segment in inputs if id(segment) not in complete and segment.records]
    if not partial:
        return pieces
    read = OffsetRanges()
    for piece in pieces:
        read |= piece.offsets - absent_ranges(piece.segment.absent)
    extra: list[tuple[int, int, Segment]] = []
    for segment in partial:
        unread = _record_offsets(segment) - read
        extra += [(first, last, segment) for first, last in unread]
        read |= unread
    return _merge_by_offset(pieces, extra) if extra else pieces


def covers_segment(piece: Piece) -> bool:
    """Whether a piece reads its segment completely."""
    segment = piece.segment
    return len(piece.offsets) == 1 and tuple(piece.offsets[0]) == (segment.first, segment.last)


def _record_offsets(segment: Segment) -> OffsetRanges:
    if segment.end <= segment.first:
        return OffsetRanges()
    return OffsetRanges([(segment.first, segment.last)]) - absent_ranges(segment.absent)


def _merge_by_offset(pieces: Sequence[Piece], extra: Sequence[tuple[int, int, Segment]]) -> list[Piece]:
    """Insert ranges that are read from other segments into `pieces`, whose segments have no records there."""
    extra_ranges = OffsetRanges((first, last) for first, last, _ in extra)
    runs = [(first, last, piece.segment) for piece in pieces for first, last in piece.offsets - extra_ranges]
    merged = []
    for _, same in groupby(sorted([*runs, *extra], key=lambda run: run[0]), key=lambda run: id(run[2])):
        group = list(same)
        merged.append(Piece(group[0][2], OffsetRanges((first, last) for first, last, _ in group)))
    return merged
