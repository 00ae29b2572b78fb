"""The verification of an archived topic: each object is read once, and each segment compared."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from gapless_archive.catalog.peer_keys import key_of
from gapless_archive.catalog.peer_segments import PeerChain
from gapless_archive.compaction.removal import ORPHAN_AGE, find_orphans
from gapless_archive.segments.check import SegmentCheck
from gapless_archive.segments.peer import read_peer_segment
from gapless_archive.segments.peer_adoption import read_state
from gapless_archive.segments.reader import SegmentDamagedError, read_object
from gapless_archive.segments.rows import content_bytes

if TYPE_CHECKING:
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
    """An object that is missing, damaged, or different from its manifest."""

    object: str
    message: str
    affected: tuple[AffectedRange, ...]


class Misnamed(NamedTuple):
    """An object with offsets beyond its key, as the compaction of kafka-replicator writes them."""

    object: str
    last: int
    """The last offset that it holds."""


@dataclass(slots=True)
class Verification:
    """The result of a verification."""

    segments: int = 0
    objects: int = 0
    records: int = 0
    bytes: int = 0
    damaged: list[Damage] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    """Objects that no commit names, because a program was killed before its commit."""
    misnamed: list[Misnamed] = field(default_factory=list)
    """Undamaged objects with offsets that kafka-replicator does not read."""


def verify_topic(
    chain: Chain,
    state: TopicState,
    result: Verification,
    *,
    partitions: Collection[int] | None = None,
    on_progress: Callable[[int], None] = lambda _: None,
) -> None:
    """Read the segments of a topic and compare them with their manifests.

    Segments that compaction has joined and deleted meanwhile are verified in the new segments.

    Args:
        chain: of the topic.
        state: of the chain.
        result: is updated with what is found.
        partitions: those that are read; ``None`` for all.
        on_progress: is called with the number of offsets of each object after it was read.

    Raises:
        ArchiveDamagedError: a commit is missing or cannot be read.
        StoreUnreachableError: the store does not answer.
    """
    pending, verified = _by_object(state, partitions), set[str]()
    while pending:
        name = next(iter(pending))
        segments, damaged_before = pending.pop(name), len(result.damaged)
        verify = _verify_listed if segments[0].is_listed else _verify_object
        verify(chain.place, segments, result)
        if len(result.damaged) > damaged_before:
            current = read_state(chain)
            if not any(segment in current.segments(segment.partition) for segment in segments):
                del result.damaged[damaged_before:]
                by_object = _by_object(current, partitions)
                pending = {key: segments for key, segments in by_object.items() if key not in verified}
                continue
        verified.add(name)
        result.segments += len(segments)
        result.objects += bool(name)
        on_progress(sum(segment.end - segment.first for segment in segments))
    if isinstance(chain, PeerChain):
        return
    result.orphans += [orphan.key for orphan in find_orphans(chain, ORPHAN_AGE, datetime.now(UTC))]


def _by_object(state: TopicState, partitions: Collection[int] | None) -> dict[str, list[Segment]]:
    by_object: dict[str, list[Segment]] = {}
    for segment in state.all_segments():
        if partitions is None or segment.partition in partitions:
            by_object.setdefault(segment.object, []).append(segment)
    return by_object


def _verify_listed(place: Place, segments: Sequence[Segment], result: Verification) -> None:
    """Read a segment without manifest or digest."""
    (segment,) = segments  # the layout has one in each object
    try:
        for rows in read_peer_segment(place, segment):
            result.records += rows.num_rows
            result.bytes += content_bytes(rows)
    except SegmentDamagedError as error:
        result.damaged.append(Damage(segment.object, str(error), (_affected_range(segment),)))
    else:
        if segment.last > key_of(segment).last:
            result.misnamed.append(Misnamed(segment.object, segment.last))


def _verify_object(place: Place, segments: Sequence[Segment], result: Verification) -> None:
    checks = [SegmentCheck(place.name, segment) for segment in segments]
    failed: dict[int, str] = {}
    batches: Iterator[tuple[int, pa.RecordBatch]]
    if segments[0].layout == "kafka-replicator":  # one segment in each object
        batches = ((number, rows) for number, each in enumerate(segments) for rows in read_peer_segment(place, each))
    else:
        batches = read_object(place, segments)
    try:
        for number, rows in batches:
            if number not in failed:
                _record_damage(failed, number, partial(checks[number].add, rows))
    except SegmentDamagedError as error:
        result.damaged.append(Damage(segments[0].object, str(error), tuple(map(_affected_range, segments))))
        return
    for number, segment in enumerate(segments):
        if number not in failed:
            _record_damage(failed, number, checks[number].finish)
        if number in failed:
            result.damaged.append(Damage(segment.object, failed[number], (_affected_range(segment),)))
        else:
            result.records += segment.records
            result.bytes += segment.bytes


def _record_damage(failed: dict[int, str], number: int, action: Callable[[], None]) -> None:
    try:
        action()
    except SegmentDamagedError as error:
        failed[number] = str(error)


def _affected_range(segment: Segment) -> AffectedRange:
    return AffectedRange(segment.partition, segment.first, segment.last)
