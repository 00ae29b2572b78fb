"""Owns what a chain takes over of what kafka-replicator has written to the same place, before or since.

What a program of ours has written and not committed looks the same, but for a word in its footer; it is left alone.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from gapless_api.offsets.ranges import OffsetRanges
from gapless_archive.catalog.peer_segments import listed_segments
from gapless_archive.catalog.state import covered
from gapless_archive.segments.peer_writer import WRITER, WRITER_NAME
from gapless_archive.segments.reader import ObjectReader, SegmentDamagedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gapless_archive.catalog.chain import Chain
    from gapless_archive.catalog.entry import Segment
    from gapless_archive.catalog.state import TopicState
    from gapless_archive.store.places import Place

_AT_ONCE = 16


def foreign_segments(chain: Chain, state: TopicState) -> tuple[list[Segment], list[Segment]]:
    """Find what kafka-replicator has added and removed since the last commit.

    Args:
        chain: of the layout ``kafka-replicator``, which this program has claimed.
        state: what the chain says.

    Returns:
        Its segments that no commit names, and segments of commits that its compaction has joined and deleted.

    Raises:
        StoreUnreachableError: the store does not answer.
    """
    listed = listed_segments(chain.place, chain.region, chain.topic)
    named = state.objects | state.garbage.keys()
    unnamed = [segment for segment in listed if segment.object not in named]
    if state.sequence > 1:  # objects of ours are written behind the first claim only
        ours = written_by_us(chain.place, [segment.object for segment in unnamed])
        unnamed = [segment for segment in unnamed if segment.object not in ours]
    there = {segment.object for segment in listed} | {""}
    left = [segment for segment in state.all_segments() if segment.object in there]
    gone = [segment for segment in state.all_segments() if segment.object not in there]
    return unnamed, [segment for segment in gone if _is_covered(segment, [*left, *unnamed])]


def written_by_us(place: Place, objects: Iterable[str]) -> set[str]:
    """Those of some objects that a program of ours has written in that layout. Raises GaplessError."""

    def is_ours(name: str) -> bool:
        try:
            return ObjectReader(place, name).metadata.get(WRITER) == WRITER_NAME
        except SegmentDamagedError:
            return False  # ours appear completely or not at all

    names = list(objects)
    with ThreadPoolExecutor(_AT_ONCE, "footers") as pool:
        return {name for name, ours in zip(names, pool.map(is_ours, names), strict=True) if ours}


def _is_covered(segment: Segment, others: Iterable[Segment]) -> bool:
    same = covered(other for other in others if other.partition == segment.partition)
    ranges = OffsetRanges((first, end - 1) for first, end in same if first < end)
    return not OffsetRanges([(segment.first, segment.last)]) - ranges
