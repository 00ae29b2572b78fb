"""The state of a topic that results from its commits; must not know where commits are stored."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from operator import attrgetter

from gapless_api.base.errors import ConfigurationError
from gapless_archive.catalog.entry import Entry, Garbage, Head, LostRange, Predecessor, ReachedEpoch, Segment, Snapshot

_by_offset = attrgetter("first", "end")


class ArchiveDamagedError(ConfigurationError):
    """The commits of an archive are inconsistent, missing or unreadable."""


class TopicState:
    """One generation of a topic in the archive: its segments, and how far each partition is archived.

    An empty state has sequence 0. Only `apply` and `from_snapshot` change it.
    """

    def __init__(self) -> None:
        self.last: Entry | None = None
        """The last commit, with the partition count, configuration and hold that apply after it."""
        self.archive_writer = ""
        """The run that archived last."""
        self.archived_at = ""
        """When something was archived last, such as 2026-11-20T10:00:00Z; empty for never."""
        self.garbage: dict[str, str] = {}
        """Objects without segments, and since when they have none."""
        self.uncommitted: tuple[Segment, ...] = ()
        """Segments that are read although no commit names them; see `with_changes`."""
        self._segments: dict[int, list[Segment]] = {}
        self._heads: dict[int, int] = {}
        self._leader_epochs: dict[int, int] = {}
        self._lost: list[LostRange] = []
        self._segment_counts: Counter[str] = Counter()
        """By object."""

    @property
    def sequence(self) -> int:
        """The number of the last commit."""
        return self.last.sequence if self.last is not None else 0

    @property
    def epoch(self) -> int:
        """The highest epoch of an archiving program."""
        return self.last.epoch if self.last is not None else 0

    @property
    def partition_count(self) -> int:
        """How many partitions the topic had in the last commit that records it; 0 when unknown."""
        return (self.last.partitions if self.last is not None else None) or 0

    @property
    def configuration(self) -> dict[str, str]:
        """The topic's own settings in the last commit that records them."""
        return dict((self.last.configuration if self.last is not None else None) or {})

    @property
    def predecessors(self) -> dict[str, Predecessor]:
        """The generations of the topic that this one has recorded to follow, by topic ID."""
        recorded = (self.last.predecessors if self.last is not None else None) or ()
        return {predecessor.topic_id: predecessor for predecessor in recorded}

    @property
    def archived_offsets(self) -> int:
        """The sum of the next offsets to archive, which only an archiving program increases."""
        return sum(self._heads.values())

    @property
    def is_held(self) -> bool:
        """Whether the topic is on hold: nothing is removed because of its age or size."""
        return bool(self.last is not None and self.last.hold)

    @property
    def partitions(self) -> list[int]:
        """The partitions whose archiving has begun, ascending."""
        return sorted(self._heads.keys() | self._segments.keys())

    @property
    def objects(self) -> set[str]:
        """The objects of all segments."""
        return {name for name, count in self._segment_counts.items() if count}

    @property
    def lost(self) -> tuple[LostRange, ...]:
        """The offsets that Kafka deleted before they were archived."""
        return tuple(self._lost)

    def segments(self, partition: int) -> tuple[Segment, ...]:
        """The segments of a partition by their first offset; they may overlap."""
        return tuple(self._segments.get(partition, ()))

    def all_segments(self) -> Iterator[Segment]:
        """All segments, those of a partition by their first offset."""
        for partition in sorted(self._segments):
            yield from self._segments[partition]

    def head(self, partition: int) -> int | None:
        """The next offset of a partition to archive; ``None`` when its archiving has not begun."""
        return self._heads.get(partition)

    def leader_epoch(self, partition: int) -> int | None:
        """At which leader epoch the log of a partition was archived up to its head; ``None`` if unknown."""
        return self._leader_epochs.get(partition)

    def is_fenced(self, epoch: int, writer: str) -> bool:
        """Whether another program has claimed the topic since `writer` claimed it with `epoch`."""
        return self.epoch > epoch or (self.epoch == epoch and self.archive_writer not in {"", writer})

    def apply(self, entry: Entry) -> None:
        """Apply the next commit. Raises ArchiveDamagedError when it does not follow the last one."""
        if entry.sequence != self.sequence + 1:
            raise ArchiveDamagedError(
                f"Commit {entry.sequence} of the archive of {entry.topic} ({entry.topic_id}) does not follow "
                f"{self.sequence}; restore the commits in between from a backup."
            )
        self._remove(entry)
        for segment in entry.added:
            self._add(segment)
        if entry.action in {"archive", "claim"}:
            self.archive_writer = entry.writer
        if entry.action == "archive":
            self.archived_at = entry.at
            for start in entry.started:
                self._heads.setdefault(start.partition, start.next_offset)
            reached = [(segment.partition, segment.end) for segment in entry.added]
            for partition, end in (*reached, *((lost.partition, lost.end) for lost in entry.lost)):
                if end > self._heads.get(partition, -1):
                    self._heads[partition] = end
                    self._leader_epochs.pop(partition, None)  # of the previous head
            self._leader_epochs |= {epoch.partition: epoch.leader_epoch for epoch in entry.reached}
        self._lost += entry.lost
        for name in entry.deleted:
            self.garbage.pop(name, None)
        before = self.last
        self.last = replace(
            entry,
            epoch=max(entry.epoch, self.epoch),
            partitions=entry.partitions if entry.partitions is not None or before is None else before.partitions,
            configuration=entry.configuration
            if entry.configuration is not None or before is None
            else before.configuration,
            hold=entry.hold if entry.hold is not None or before is None else before.hold,
            predecessors=entry.predecessors
            if entry.predecessors is not None or before is None
            else before.predecessors,
            added=(),
            removed=(),
            lost=(),
            deleted=(),
            reached=(),
            started=(),
        )

    def snapshot(self) -> Snapshot:
        """Return the state as a snapshot. Raises ValueError without any commit."""
        if self.last is None:
            raise ValueError("there is no commit yet")
        return Snapshot(
            last=self.last,
            archive_writer=self.archive_writer,
            archived_at=self.archived_at,
            segments=tuple(self.all_segments()),
            lost=self.lost,
            garbage=tuple(Garbage(name, since) for name, since in sorted(self.garbage.items())),
            heads=tuple(Head(partition, offset) for partition, offset in sorted(self._heads.items())),
            reached=tuple(ReachedEpoch(partition, epoch) for partition, epoch in sorted(self._leader_epochs.items())),
        )

    def with_changes(self, added: Iterable[Segment], removed: Iterable[Segment]) -> TopicState:
        """Return a copy of the state with other segments, which no commit has recorded. Raises like `snapshot`."""
        snapshot, heads = self.snapshot(), dict(self._heads)
        added, gone = tuple(added), set(map(id, removed))
        for segment in added:
            heads[segment.partition] = max(segment.end, heads.get(segment.partition, 0))
        state = TopicState.from_snapshot(
            replace(
                snapshot,
                segments=(*(each for each in snapshot.segments if id(each) not in gone), *added),
                heads=tuple(Head(partition, offset) for partition, offset in sorted(heads.items())),
            )
        )
        state.uncommitted = tuple(each for each in added if each.object and each.object not in self.objects)
        return state

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot) -> TopicState:
        """Return the state that a snapshot describes."""
        state = cls()
        state.last = snapshot.last
        state.archive_writer, state.archived_at = snapshot.archive_writer, snapshot.archived_at
        for segment in snapshot.segments:
            state._add(segment)
        state._lost = list(snapshot.lost)
        state.garbage = {garbage.object: garbage.removed_at for garbage in snapshot.garbage}
        state._heads = {head.partition: head.next_offset for head in snapshot.heads}
        state._leader_epochs = {epoch.partition: epoch.leader_epoch for epoch in snapshot.reached}
        return state

    def _add(self, segment: Segment) -> None:
        insort(self._segments.setdefault(segment.partition, []), segment, key=_by_offset)
        if segment.object:
            self._segment_counts[segment.object] += 1
            self.garbage.pop(segment.object, None)

    def _remove(self, entry: Entry) -> None:
        for segment in entry.removed:
            segments = self._segments.get(segment.partition, [])
            if segment not in segments:
                raise ArchiveDamagedError(
                    f"Commit {entry.sequence} of the archive of {entry.topic} ({entry.topic_id}) removes the segment "
                    f"{segment.partition}/{segment.first}-{segment.last}, which does not exist; restore the earlier "
                    f"commits from a backup."
                )
            segments.remove(segment)
            if not segments:
                del self._segments[segment.partition]
            self._segment_counts[segment.object] -= 1
            if segment.object and not self._segment_counts[segment.object]:
                self.garbage[segment.object] = entry.at


def covered_ranges(segments: Iterable[Segment]) -> list[tuple[int, int]]:
    """Merge what segments cover into ascending, disjoint ranges of (first, end), the end exclusive."""
    ranges: list[tuple[int, int]] = []
    for first, end in sorted((segment.first, segment.end) for segment in segments):
        if ranges and first <= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], max(end, ranges[-1][1]))
        else:
            ranges.append((first, end))
    return ranges
