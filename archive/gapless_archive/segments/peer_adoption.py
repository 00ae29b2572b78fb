"""Owns which segments of kafka-replicator a chain adopts: those that it has written to the same place.

Uncommitted objects of Gapless differ only by a pair in their footer. They are not adopted.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from gapless_api.offsets.ranges import OffsetRanges
from gapless_archive.catalog.peer_segments import list_peer_segments
from gapless_archive.catalog.state import covered_ranges
from gapless_archive.segments.peer_writer import WRITER, WRITER_NAME
from gapless_archive.segments.reader import ObjectReader, SegmentDamagedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gapless_archive.catalog.chain import Chain
    from gapless_archive.catalog.entry import Segment
    from gapless_archive.catalog.state import TopicState
    from gapless_archive.store.places import Place

_MAX_CONCURRENT_READS = 16


def find_foreign_changes(chain: Chain, state: TopicState) -> tuple[list[Segment], list[Segment]]:
    """Find the segments that kafka-replicator has added and removed since the last commit.

    Args:
        chain: of the layout ``kafka-replicator``, claimed by this program.
        state: of the chain.

    Returns:
        Segments that no commit names, and committed segments that its compaction has joined and deleted.

    Raises:
        StoreUnreachableError: the store does not answer.
    """
    listed = list_peer_segments(chain.place, chain.region, chain.topic)
    named = state.objects | state.garbage.keys()
    unnamed = [segment for segment in listed if segment.object not in named]
    if state.sequence > 1:  # Gapless writes objects only after the first claim
        ours = written_by_gapless(chain.place, [segment.object for segment in unnamed])
        unnamed = [segment for segment in unnamed if segment.object not in ours]
    existing = {segment.object for segment in listed} | {""}
    remaining = [segment for segment in state.all_segments() if segment.object in existing]
    deleted = [segment for segment in state.all_segments() if segment.object not in existing]
    return unnamed, [segment for segment in deleted if _is_covered(segment, [*remaining, *unnamed])]


def written_by_gapless(place: Place, objects: Iterable[str]) -> set[str]:
    """Return which of some objects in this layout were written by Gapless. Raises GaplessError."""

    def is_ours(name: str) -> bool:
        try:
            return ObjectReader(place, name).metadata.get(WRITER) == WRITER_NAME
        except SegmentDamagedError:
            return False  # Gapless never leaves incomplete objects

    names = list(objects)
    with ThreadPoolExecutor(_MAX_CONCURRENT_READS, "footers") as pool:
        return {name for name, ours in zip(names, pool.map(is_ours, names), strict=True) if ours}


def _is_covered(segment: Segment, others: Iterable[Segment]) -> bool:
    covered = covered_ranges(other for other in others if other.partition == segment.partition)
    ranges = OffsetRanges((first, end - 1) for first, end in covered if first < end)
    return not OffsetRanges([(segment.first, segment.last)]) - ranges
