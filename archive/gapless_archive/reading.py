"""Owns how a topic is read from an archive by offsets: from which segments, in which order, and what is not there.

Segments may overlap, as they do after a crash in the layout of kafka-replicator; each offset is read once.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from gapless_api.offsets.ranges import OffsetRanges
from gapless_archive.catalog.catalog import find_chain
from gapless_archive.catalog.state import covered
from gapless_archive.segments.layouts import records_in, values_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    import pyarrow as pa

    from gapless_archive.catalog.chain import Chain
    from gapless_archive.catalog.entry import Segment
    from gapless_archive.catalog.state import TopicState
    from gapless_archive.segments.values import Values
    from gapless_archive.store.places import Place


FRESH_SECONDS = 10.0
"""What was read of a chain is not read again for so long, unless it matters what was archived meanwhile."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Wanted offsets that are read from one segment."""

    segment: Segment
    wanted: OffsetRanges
    """All are covered by the segment; those that are absent have no record."""


class TopicArchive:
    """One generation of a topic in an archive."""

    def __init__(self, place: Place, chain: Chain, state: TopicState) -> None:
        self.place = place
        self.chain = chain
        self.state = state
        self._loaded_at = time.monotonic()

    def refresh(self, partition: int, *, since: float | None = None) -> bool:
        """Read again what the archive has, unless it was read just now; say whether a partition has changed.

        For reading that takes long: meanwhile more is archived, and objects of joined segments are deleted.

        Args:
            partition: of the topic.
            since: a moment of the monotonic clock; what was read after it is new enough.

        Raises:
            ArchiveDamagedError: the chain cannot be read.
            StoreUnreachableError: the store does not answer.
        """
        now = time.monotonic()
        if self._loaded_at >= (now - FRESH_SECONDS if since is None else since):
            return False
        before, self._loaded_at = self.state, now
        if self.chain.is_newest(before):
            return False
        self.state = self.chain.load()
        same_segments = self.state.segments(partition) == before.segments(partition)
        return not same_segments or self.state.head(partition) != before.head(partition)

    def covered(self, partition: int) -> OffsetRanges:
        """The offsets of which is known what they hold: a record, or nothing for good."""
        ranges = covered(self.state.segments(partition))
        return OffsetRanges((first, end - 1) for first, end in ranges if first < end)

    def pieces(self, partition: int, wanted: OffsetRanges, *, without: Collection[str] = ()) -> list[Piece]:
        """Choose the segments to read `wanted` from, ascending; what no segment covers is left out.

        Args:
            partition: of the topic.
            wanted: the offsets.
            without: objects that are damaged.
        """
        segments = self.state.segments(partition)
        return choose([segment for segment in segments if segment.object not in without], wanted)

    def read(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        """Yield the records of a piece in their order.

        Raises:
            SegmentDamagedError: the segment is missing or damaged, and so may be what of the piece was not yielded.
            StoreUnreachableError: the store does not answer.
        """
        return records_in(self.place, piece.segment, piece.wanted)

    def read_values(self, piece: Piece, *, times: bool = True) -> Iterator[Values]:
        """Yield offsets, timestamps and values of a piece, reading less than `read` where few are wanted.

        Without `times`, timestamps may be null. Raises like `read`.
        """
        return values_in(self.place, piece.segment, piece.wanted, times=times)


def open_archive(place: Place, topic: str, *, region: str | None = None, topic_id: str | None = None) -> TopicArchive:
    """Read what the archive has of a topic; see `find_chain` for the choice and the errors."""
    chain = find_chain(place, topic, region=region, topic_id=topic_id)
    return TopicArchive(place, chain, chain.load())


def choose(segments: Sequence[Segment], wanted: OffsetRanges) -> list[Piece]:
    """Choose which of `segments`, sorted by their first offset, to read each of `wanted` from.

    Where several cover an offset, it is the one that reaches furthest, so that few are opened.
    """
    pieces: list[Piece] = []
    best: Segment | None = None
    number = 0
    at = _next(wanted, 0)
    while at is not None:
        while number < len(segments) and segments[number].first <= at:
            best = max(filter(None, (best, segments[number])), key=attrgetter("end", "level"))
            number += 1
        if best is not None and best.end > at:
            pieces.append(Piece(best, wanted.clip(at, best.end - 1)))
            at = _next(wanted, best.end)
        elif number < len(segments):
            at = _next(wanted, segments[number].first)
        else:
            break
    return pieces


def _next(wanted: OffsetRanges, at: int) -> int | None:
    """The first of `wanted` that is `at` or higher."""
    index = wanted.index_reaching(at)
    return max(wanted[index].first, at) if index < len(wanted) else None
