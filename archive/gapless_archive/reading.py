"""How offsets of a topic are read from an archive: from which segments, in which order, and which are not there.

Segments may overlap, as they do after a crash in the layout of kafka-replicator; each offset is read once.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from gapless_api.offsets.ranges import OffsetRanges
from gapless_archive.catalog.catalog import find_chain
from gapless_archive.catalog.state import TopicState, covered_ranges
from gapless_archive.segments.layouts import read_records, read_values
from gapless_archive.segments.peer_adoption import read_state

if TYPE_CHECKING:
    import pyarrow as pa

    from gapless_archive.catalog.chain import Chain
    from gapless_archive.catalog.entry import Segment
    from gapless_archive.segments.values import Values
    from gapless_archive.store.places import Place

MAX_STATE_AGE_SECONDS = 10.0
"""The state of a chain is not reloaded before this age, unless the caller needs what was archived meanwhile."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Requested offsets that are read from one segment."""

    segment: Segment
    offsets: OffsetRanges
    """All are covered by the segment; those that are absent have no record."""


class TopicArchive:
    """One generation of a topic in an archive."""

    def __init__(self, place: Place, chain: Chain, state: TopicState) -> None:
        self.place = place
        self.chain = chain
        self.state = state
        self._loaded_at = time.monotonic()

    def refresh(self, partition: int, *, since: float | None = None) -> bool:
        """Reload the state of the chain, unless it is recent; return whether a partition has changed.

        During a long read, more is archived and the objects of joined segments are deleted.

        Args:
            partition: of the topic.
            since: a monotonic time; a state that was loaded after it is recent.

        Raises:
            ArchiveDamagedError: the chain cannot be read.
            StoreUnreachableError: the store does not answer.
        """
        now = time.monotonic()
        if self._loaded_at >= (now - MAX_STATE_AGE_SECONDS if since is None else since):
            return False
        before, self._loaded_at = self.state, now
        if self.chain.is_newest(before):
            return False
        self.state = read_state(self.chain)
        if self.state.segments(partition) != before.segments(partition):
            return True
        return self.state.head(partition) != before.head(partition)

    def covered(self, partition: int) -> OffsetRanges:
        """The offsets that segments cover: each has a record, or will never have one."""
        ranges = covered_ranges(self.state.segments(partition))
        return OffsetRanges((first, end - 1) for first, end in ranges if first < end)

    def pieces(self, partition: int, offsets: OffsetRanges, *, without: Collection[str] = ()) -> list[Piece]:
        """Choose the segments to read `offsets` from, ascending; offsets that no segment covers are omitted.

        Args:
            partition: of the topic.
            offsets: those to read.
            without: objects that are not used, because they are damaged.
        """
        segments = self.state.segments(partition)
        return choose_pieces([segment for segment in segments if segment.object not in without], offsets)

    def read(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        """Yield the records of a piece in order.

        Raises:
            SegmentDamagedError: the segment is missing or damaged. What was yielded before is valid.
            StoreUnreachableError: the store does not answer.
        """
        return read_records(self.place, piece.segment, piece.offsets)

    def read_values(self, piece: Piece, *, times: bool = True) -> Iterator[Values]:
        """Yield offsets, timestamps and values of a piece. For few offsets, this reads less than `read`.

        Without `times`, timestamps may be null. Raises like `read`.
        """
        return read_values(self.place, piece.segment, piece.offsets, times=times)


def open_archive(place: Place, topic: str, *, region: str | None = None, topic_id: str | None = None) -> TopicArchive:
    """Open a topic of an archive and load its state; see `find_chain` for the arguments and errors."""
    chain = find_chain(place, topic, region=region, topic_id=topic_id)
    return TopicArchive(place, chain, read_state(chain))


def choose_pieces(segments: Sequence[Segment], offsets: OffsetRanges) -> list[Piece]:
    """Choose which of `segments`, sorted by their first offset, to read each of `offsets` from.

    Where several segments cover an offset, the one with the highest end is chosen, so that few are opened.
    """
    pieces: list[Piece] = []
    best: Segment | None = None
    index = 0
    offset = offsets.next_offset(0)
    while offset is not None:
        while index < len(segments) and segments[index].first <= offset:
            best = max(filter(None, (best, segments[index])), key=attrgetter("end", "level"))
            index += 1
        if best is not None and best.end > offset:
            pieces.append(Piece(best, offsets.clip(offset, best.end - 1)))
            offset = offsets.next_offset(best.end)
        elif index < len(segments):
            offset = offsets.next_offset(segments[index].first)
        else:
            break
    return pieces
