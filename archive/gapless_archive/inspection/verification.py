"""Owns the check of everything that an archive holds of a topic: each object is read once, each segment compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from gapless_archive.catalog.peer_segments import PeerChain
from gapless_archive.compaction.removal import ORPHAN_AGE, find_orphans
from gapless_archive.segments.check import SegmentCheck
from gapless_archive.segments.peer import read_peer_segment
from gapless_archive.segments.reader import SegmentDamagedError, read_object
from gapless_archive.segments.rows import content_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    import pyarrow as pa

    from gapless_archive.catalog.chain import Chain
    from gapless_archive.catalog.entry import Segment
    from gapless_archive.catalog.state import TopicState
    from gapless_archive.store.places import Place


class AffectedRange(NamedTuple):
    """Offsets whose records may be damaged, both ends inclusive."""

    partition: int
    first: int
    last: int


class Damage(NamedTuple):
    """A missing object, a damaged one, or one that holds something else than its manifest says."""

    object: str
    sentence: str
    affected: tuple[AffectedRange, ...]


@dataclass(slots=True)
class Verification:
    """What a check has found."""

    segments: int = 0
    objects: int = 0
    records: int = 0
    bytes: int = 0
    damaged: list[Damage] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    """Objects that no commit names, left by programs that were killed."""


def verify_topic(
    chain: Chain,
    state: TopicState,
    found: Verification,
    *,
    partitions: Collection[int] | None = None,
    advanced: Callable[[int], None] = lambda _: None,
) -> None:
    """Read the segments of a topic and compare them with their manifests.

    What compaction has joined meanwhile, and deleted, is read where it is now.

    Args:
        chain: of the topic.
        state: what the chain says.
        found: what is found is added to it.
        partitions: those that are read; ``None`` for all.
        advanced: gets the number of offsets of each object after it was read.

    Raises:
        ArchiveDamagedError: a commit is missing or cannot be read.
        StoreUnreachableError: the store does not answer.
    """
    pending, verified = _by_object(state, partitions), set[str]()
    while pending:
        name = next(iter(pending))
        segments, damaged_before = pending.pop(name), len(found.damaged)
        verify = _verify_listed if segments[0].is_listed else _verify_object
        verify(chain.place, segments, found)
        if len(found.damaged) > damaged_before:
            now = chain.load()
            if not any(segment in now.segments(segment.partition) for segment in segments):
                del found.damaged[damaged_before:]
                pending = {key: some for key, some in _by_object(now, partitions).items() if key not in verified}
                continue
        verified.add(name)
        found.segments += len(segments)
        found.objects += bool(name)
        advanced(sum(segment.end - segment.first for segment in segments))
    if isinstance(chain, PeerChain):
        return
    found.orphans += [one.key for one in find_orphans(chain, ORPHAN_AGE, datetime.now(UTC))]


def _by_object(state: TopicState, partitions: Collection[int] | None) -> dict[str, list[Segment]]:
    found: dict[str, list[Segment]] = {}
    for segment in state.all_segments():
        if partitions is None or segment.partition in partitions:
            found.setdefault(segment.object, []).append(segment)
    return found


def _verify_listed(place: Place, segments: Sequence[Segment], found: Verification) -> None:
    """Read a segment of which no manifest says what it holds; it has no digest."""
    (segment,) = segments  # as the layout has them
    try:
        for rows in read_peer_segment(place, segment):
            found.records += rows.num_rows
            found.bytes += content_bytes(rows)
    except SegmentDamagedError as error:
        found.damaged.append(Damage(segment.object, str(error), (_place_of(segment),)))


def _verify_object(place: Place, segments: Sequence[Segment], found: Verification) -> None:
    checks = [SegmentCheck(place.name, segment) for segment in segments]
    failed: dict[int, str] = {}
    parts: Iterator[tuple[int, pa.RecordBatch]]
    if segments[0].layout == "kafka-replicator":  # one segment in each object
        parts = ((number, rows) for number, each in enumerate(segments) for rows in read_peer_segment(place, each))
    else:
        parts = read_object(place, segments)
    try:
        for number, rows in parts:
            if number not in failed:
                _note(failed, number, partial(checks[number].take, rows))
    except SegmentDamagedError as error:
        found.damaged.append(Damage(segments[0].object, str(error), tuple(map(_place_of, segments))))
        return
    for number, segment in enumerate(segments):
        if number not in failed:
            _note(failed, number, checks[number].finish)
        if number in failed:
            found.damaged.append(Damage(segment.object, failed[number], (_place_of(segment),)))
        else:
            found.records += segment.records
            found.bytes += segment.bytes


def _note(failed: dict[int, str], number: int, action: Callable[[], None]) -> None:
    try:
        action()
    except SegmentDamagedError as error:
        failed[number] = str(error)


def _place_of(segment: Segment) -> AffectedRange:
    return AffectedRange(segment.partition, segment.first, segment.last)
