"""What kafka-replicator has changed in a topic since its last commit, for readers and for adoption.

Readers see these changes at once; an archiving program adopts them with a commit. Uncommitted objects of Gapless differ
only by a pair in their footer. They are neither read nor adopted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.offsets.ranges import OffsetRanges
from gapless_archive.catalog.entry import Segment, absent_ranges, absent_text
from gapless_archive.catalog.peer_segments import PeerChain, list_peer_segments
from gapless_archive.catalog.state import TopicState, covered_ranges
from gapless_archive.segments.digest import ContentDigest
from gapless_archive.segments.peer import last_offset
from gapless_archive.segments.peer_writer import WRITER, WRITER_NAME
from gapless_archive.segments.reader import ObjectReader, SegmentDamagedError

if TYPE_CHECKING:
    from gapless_archive.catalog.chain import Chain
    from gapless_archive.store.places import Place

_MAX_CONCURRENT_READS = 16


class ForeignChanges(NamedTuple):
    """Segments to add to the state of a chain and to remove from it, so that it describes what is stored."""

    added: list[Segment]
    removed: list[Segment]


def read_state(chain: Chain) -> TopicState:
    """Load the state of a topic as readers see it: with what kafka-replicator has changed since the last commit.

    Raises:
        ArchiveDamagedError: a commit is missing or cannot be read.
        StoreUnreachableError: the store does not answer.
    """
    state = chain.load()
    if chain.layout == "gapless" or state.last is None:
        return state
    changes = find_foreign_changes(chain, state)
    return state.with_changes(changes.added, changes.removed) if any(changes) else state


def find_foreign_changes(chain: Chain, state: TopicState) -> ForeignChanges:
    """Find the segments that kafka-replicator has added, joined and deleted since the last commit.

    What no other segment contains stays, although its object is missing: it is damaged.

    Args:
        chain: of the layout ``kafka-replicator``.
        state: of the chain.

    Raises:
        StoreUnreachableError: the store does not answer.
    """
    remaining, deleted, unnamed = list(state.all_segments()), list["Segment"](), list["Segment"]()
    if not isinstance(chain, PeerChain):  # whose state is a list of what is stored
        committed, listed = remaining, list_peer_segments(chain.place, chain.region, chain.topic)
        existing = {segment.object for segment in listed} | {""}
        remaining = [segment for segment in committed if segment.object in existing]
        deleted = [segment for segment in committed if segment.object not in existing]
        unnamed = _find_unnamed(chain, state, listed)
    present = _with_all_records(chain.place, [*remaining, *unnamed])
    changed = [(old, new) for old, new in zip(remaining, present, strict=False) if old is not new]
    changes = ForeignChanges([*(new for _, new in changed), *present[len(remaining) :]], [old for old, _ in changed])
    covered = _covered_by_partition(present)
    for segment in deleted:
        offsets = OffsetRanges([(segment.first, segment.last)])
        uncovered = offsets - covered.get(segment.partition, OffsetRanges())
        if uncovered - absent_ranges(segment.absent):
            continue
        changes.removed.append(segment)
        changes.added.extend(_segments_without_records(segment, uncovered))
    return changes


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


def _find_unnamed(chain: Chain, state: TopicState, listed: Sequence[Segment]) -> list[Segment]:
    """Return the listed segments of kafka-replicator that no commit names."""
    named = state.objects | state.garbage.keys()
    unnamed = [segment for segment in listed if segment.object not in named]
    if state.sequence > 1:  # Gapless writes objects only after the first claim
        ours = written_by_gapless(chain.place, [segment.object for segment in unnamed])
        unnamed = [segment for segment in unnamed if segment.object not in ours]
    return unnamed


def _with_all_records(place: Place, segments: Sequence[Segment]) -> list[Segment]:
    """Extend listed segments that hold records beyond their key; the others are returned unchanged.

    kafka-replicator's compaction writes such keys. An object is opened only where no other segment continues.
    """
    covered = _covered_by_partition(segments)
    doubtful = [
        segment for segment in segments if segment.is_listed and not _contains(covered[segment.partition], segment.end)
    ]
    with ThreadPoolExecutor(_MAX_CONCURRENT_READS, "ends") as pool:
        lasts = dict(zip(map(id, doubtful), pool.map(lambda each: _last_record(place, each), doubtful), strict=True))
    return [
        replace(segment, end=last + 1, records=last + 1 - segment.first)
        if (last := lasts.get(id(segment), 0)) > segment.last
        else segment
        for segment in segments
    ]


def _last_record(place: Place, segment: Segment) -> int:
    try:
        return last_offset(place, segment)
    except SegmentDamagedError:
        return segment.last  # whoever reads the segment reports it


def _contains(ranges: OffsetRanges, offset: int) -> bool:
    index = ranges.index_reaching(offset)
    return index < len(ranges) and ranges[index].first <= offset


def _covered_by_partition(segments: Iterable[Segment]) -> dict[int, OffsetRanges]:
    by_partition: dict[int, list[Segment]] = {}
    for segment in segments:
        by_partition.setdefault(segment.partition, []).append(segment)
    return {
        partition: OffsetRanges((first, end - 1) for first, end in covered_ranges(some) if first < end)
        for partition, some in by_partition.items()
    }


def _segments_without_records(segment: Segment, offsets: OffsetRanges) -> Iterator[Segment]:
    """Yield what remains of a segment whose records are in others: `offsets` never have a record."""
    for first, last in offsets:
        yield replace(
            segment,
            object="",
            first=first,
            end=last + 1,
            absent=absent_text(OffsetRanges([(first, last)])),
            records=0,
            bytes=0,
            stored_bytes=0,
            min_timestamp=None,
            max_timestamp=None,
            digest=ContentDigest().text(),
            row_groups=(),
        )
