"""Owns what the commits of a topic's chain say together; must not know where a chain is kept."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_archive.catalog.entry import Garbage, Head, Segment, Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gapless_archive.catalog.entry import Entry, LostRange

_by_offset = attrgetter("first", "end")


class ArchiveDamagedError(ConfigurationError):
    """What an archive says about itself does not fit together, or cannot be read."""


class TopicState:
    """One generation of a topic in the archive: its segments, and how far each partition is archived.

    An empty one has sequence 0. `apply` and `of_snapshot` are the only ways to change it.
    """

    def __init__(self) -> None:
        self.last: Entry | None = None
        """The last commit, with the count of partitions, configuration and hold that are in force after it."""
        self.archive_writer = ""
        """Who archived last."""
        self.archived_at = ""
        """When something was archived last, like 2026-11-20T10:00:00Z; empty for never."""
        self.garbage: dict[str, str] = {}
        """Objects without a segment, and since when."""
        self._segments: dict[int, list[Segment]] = {}
        self._heads: dict[int, int] = {}
        self._lost: list[LostRange] = []
        self._users: Counter[str] = Counter()

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
        """How many partitions the topic had when that was archived last; 0 for not known."""
        return (self.last.partitions if self.last is not None else None) or 0

    @property
    def configuration(self) -> dict[str, str]:
        """The topic's own settings, as they were archived last."""
        return dict((self.last.configuration if self.last is not None else None) or {})

    @property
    def is_held(self) -> bool:
        """Whether nothing may be removed for its age or size."""
        return bool(self.last is not None and self.last.hold)

    @property
    def partitions(self) -> list[int]:
        """The partitions of which something was archived or lost, ascending."""
        return sorted(self._heads.keys() | self._segments.keys())

    @property
    def objects(self) -> set[str]:
        """The objects of all segments."""
        return {name for name, count in self._users.items() if count}

    @property
    def lost(self) -> tuple[LostRange, ...]:
        """What Kafka deleted before it was archived."""
        return tuple(self._lost)

    def segments(self, partition: int) -> tuple[Segment, ...]:
        """The segments of a partition by their first offset; they may overlap."""
        return tuple(self._segments.get(partition, ()))

    def all_segments(self) -> Iterator[Segment]:
        """All segments, those of a partition by their first offset."""
        for partition in sorted(self._segments):
            yield from self._segments[partition]

    def head(self, partition: int) -> int | None:
        """The next offset to archive; ``None`` when nothing of the partition was archived."""
        return self._heads.get(partition)

    def is_taken_over(self, epoch: int, writer: str) -> bool:
        """Whether another program archives this topic since the program `writer` began as `epoch`."""
        return self.epoch > epoch or (self.epoch == epoch and self.archive_writer not in {"", writer})

    def apply(self, entry: Entry) -> None:
        """Take the next commit. Raises ArchiveDamagedError when it does not follow on what is here."""
        if entry.sequence != self.sequence + 1:
            raise ArchiveDamagedError(
                f"Commit {entry.sequence} of the archive of {entry.topic} ({entry.topic_id}) does not follow on "
                f"{self.sequence}; bring back the commits between them."
            )
        self._remove(entry)
        for segment in entry.added:
            self._add(segment)
        if entry.action in {"archive", "claim"}:
            self.archive_writer = entry.writer
        if entry.action == "archive":
            self.archived_at = entry.at
            reached = [(segment.partition, segment.end) for segment in entry.added]
            for partition, end in (*reached, *((lost.partition, lost.end) for lost in entry.lost)):
                self._heads[partition] = max(end, self._heads.get(partition, 0))
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
            added=(),
            removed=(),
            lost=(),
            deleted=(),
        )

    def snapshot(self) -> Snapshot:
        """What all commits so far say together. Needs at least one."""
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
        )

    @classmethod
    def of_snapshot(cls, found: Snapshot) -> TopicState:
        """The state that `snapshot` gave."""
        state = cls()
        state.last = found.last
        state.archive_writer, state.archived_at = found.archive_writer, found.archived_at
        for segment in found.segments:
            state._add(segment)
        state._lost = list(found.lost)
        state.garbage = {garbage.object: garbage.removed_at for garbage in found.garbage}
        state._heads = {head.partition: head.next_offset for head in found.heads}
        return state

    def _add(self, segment: Segment) -> None:
        insort(self._segments.setdefault(segment.partition, []), segment, key=_by_offset)
        if segment.object:
            self._users[segment.object] += 1
            self.garbage.pop(segment.object, None)

    def _remove(self, entry: Entry) -> None:
        for segment in entry.removed:
            held = self._segments.get(segment.partition, [])
            if segment not in held:
                raise ArchiveDamagedError(
                    f"Commit {entry.sequence} of the archive of {entry.topic} ({entry.topic_id}) removes the segment "
                    f"{segment.partition}/{segment.first}-{segment.last}, which is not there; bring back the commits "
                    f"before it."
                )
            held.remove(segment)
            if not held:
                del self._segments[segment.partition]
            self._users[segment.object] -= 1
            if segment.object and not self._users[segment.object]:
                self.garbage[segment.object] = entry.at


def covered(segments: Iterable[Segment]) -> list[tuple[int, int]]:
    """What segments cover together, as ascending, disjoint ranges of (first, end), the end exclusive."""
    found: list[tuple[int, int]] = []
    for first, end in sorted((segment.first, segment.end) for segment in segments):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((first, end))
    return found
