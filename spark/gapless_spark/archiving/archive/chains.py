"""The commits of an archiving program to one topic: epochs, conflicts with other programs, and fencing.

The chain is the only record of how far a topic is archived.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.base.errors import ConfigurationError
from gapless_archive.catalog.catalog import find_predecessors
from gapless_archive.catalog.chain import Chain, Changes, ConflictError
from gapless_archive.catalog.entry import Head, Layout, LostRange, ReachedEpoch, Segment
from gapless_archive.catalog.peer_keys import next_key_first
from gapless_archive.segments.peer_adoption import find_foreign_changes
from gapless_spark.archiving.archive.planning import DEFAULT_BYTES_PER_OFFSET

if TYPE_CHECKING:
    from gapless_archive.catalog.state import TopicState
    from gapless_archive.store.places import Place


class FencedError(ConfigurationError):
    """Another program has started to archive the topic."""


class PlanAgainError(Exception):
    """The offsets that were read are no longer the next ones to archive."""


class Totals(NamedTuple):
    """Sums over the segments of a topic."""

    segments: int
    records: int
    bytes: int
    stored_bytes: int
    offsets: int


_NO_EPOCHS: Mapping[int, int] = MappingProxyType({})
_NO_SEGMENTS = Totals(0, 0, 0, 0, 0)


class TopicChain:
    """The chain of one topic generation, to which this program adds commits."""

    def __init__(  # noqa: PLR0913 -- what names a chain
        self, place: Place, region: str, topic: str, topic_id: str, *, writer: str, layout: Layout = "gapless"
    ) -> None:
        """Load the chain. Raises GaplessError."""
        self._chain = Chain(place, region, topic, topic_id, writer=writer, layout=layout)
        self.topic, self.topic_id, self.prefix = topic, topic_id, self._chain.prefix
        self._state = self._chain.load()
        self.epoch = self._state.epoch + 1
        self._is_claimed = False
        self._predecessors = find_predecessors(self._chain, self._state)
        """What the next commit of an epoch records; ``None`` for nothing."""
        self._totals = (-1, _NO_SEGMENTS)

    @property
    def state(self) -> TopicState:
        """The state after the last known commit."""
        return self._state

    @property
    def known_partitions(self) -> int | None:
        """How many partitions were known when the topic was archived last; ``None`` for never.

        It is 0 for a topic of which the archive has another generation: this one was created since.
        """
        has_others = bool(self._predecessors or self._state.predecessors)
        return self._state.partition_count or (0 if has_others else None)

    @property
    def bytes_per_offset(self) -> float:
        """The mean over the archived offsets."""
        totals = self.totals
        return max(totals.bytes / totals.offsets, 1.0) if totals.offsets else DEFAULT_BYTES_PER_OFFSET

    @property
    def totals(self) -> Totals:
        """Sums over all segments."""
        state = self._state
        if self._totals[0] != state.sequence:
            rows = [
                (1, segment.records, segment.bytes, segment.stored_bytes, segment.end - segment.first)
                for segment in state.all_segments()
            ]
            self._totals = (state.sequence, Totals(*map(sum, zip(*rows, strict=True))) if rows else _NO_SEGMENTS)
        return self._totals[1]

    @property
    def archived_at_seconds(self) -> float:
        """When segments were archived last, in seconds since 1970; 0 for never."""
        moment = self._state.archived_at
        return datetime.fromisoformat(moment).timestamp() if moment else 0.0

    def newest_timestamp(self, partition: int) -> int | None:
        """Return the newest timestamp in the last segment of a partition."""
        segments = self._state.segments(partition)
        return segments[-1].max_timestamp if segments else None

    def claim(self) -> None:
        """Claim the topic, so that the next commit of any other archiving program fails. Raises GaplessError."""
        while not self._is_claimed:
            self.epoch = self._state.epoch + 1
            try:
                changes = Changes(action="claim", epoch=self.epoch, predecessors=self._predecessors)
                self._state = self._chain.commit(self._state, changes)
                self._is_claimed, self._predecessors = True, None
            except ConflictError:
                self._state = self._chain.load()

    def adopt_peer_segments(self) -> int:
        """Add the segments that kafka-replicator has written to the same place, so that archiving continues after them.

        The chain must be claimed, and have the layout of kafka-replicator.

        Returns:
            How many segments were added.

        Raises:
            FencedError: another program archives the topic now.
            GaplessError: the archive cannot be read or written.
        """
        while True:
            added, removed = find_foreign_changes(self._chain, self._state)
            if not added and not removed:
                return 0
            changes = Changes(action="archive", epoch=self.epoch, added=tuple(added), removed=tuple(removed))
            try:
                self._state = self._chain.commit(self._state, changes)
            except ConflictError:
                self._reload_after_conflict()
            else:
                return len(added)

    def hold(self, *, is_held: bool) -> bool:
        """Put the topic on hold, or release it; return whether that is a change.

        Raises:
            FencedError: another program archives the topic now.
            GaplessError: the archive cannot be read or written.
        """
        if self._state.is_held == is_held:
            return False
        while self._state.is_held != is_held:
            try:
                self._state = self._chain.commit(self._state, Changes(action="hold", hold=is_held))
            except ConflictError:
                self._reload_after_conflict()
        return True

    def key_first(self, partition: int, first: int) -> int:
        """Return where the key of the next object begins in the layout of kafka-replicator; see `next_key_first`."""
        return next_key_first(self._state.segments(partition), first)

    def deletable(self, objects: set[str]) -> set[str]:
        """Return which of the uncommitted objects of this program may be deleted. Raises GaplessError.

        In the layout of kafka-replicator, another program may have written the same objects.
        """
        if self._chain.layout == "gapless":
            return objects
        state = self._chain.load()
        return set() if state.is_fenced(self.epoch, self._chain.writer) else objects - state.objects

    def reload(self) -> None:
        """Load the chain again, when it is unknown whether a commit succeeded. Raises GaplessError."""
        self._state = self._chain.load()
        if self._is_claimed:
            self._check_epoch()

    def commit(  # noqa: PLR0913 -- what a commit records
        self,
        added: Sequence[Segment],
        lost: Sequence[LostRange],
        *,
        started: Sequence[Head] = (),
        cluster_id: str,
        partitions: int,
        configuration: Mapping[str, str] | None,
        leader_epochs: Mapping[int, int] = _NO_EPOCHS,
    ) -> bool:
        """Commit archived segments, lost ranges, and changes of the topic.

        `started` says where archiving begins, of partitions without a head. `leader_epochs` are those at which the log
        had all offsets that are committed, by partition, as far as known.

        Returns:
            Whether there was anything to commit.

        Raises:
            PlanAgainError: another program has archived some of these offsets; the segments must be discarded.
            FencedError: another program archives the topic now.
            GaplessError: the archive cannot be written; the commit may have succeeded.
        """
        while True:
            state = self._state
            new_partitions = partitions if partitions != state.partition_count else None
            is_changed = configuration is not None and (state.sequence == 0 or configuration != state.configuration)
            begun = tuple(start for start in started if state.head(start.partition) is None)
            if not (added or lost or begun or new_partitions or is_changed or self._predecessors is not None):
                return False
            affected = {segment.partition for segment in added} | {range_.partition for range_ in lost}
            changes = Changes(
                action="archive",
                epoch=self.epoch,
                cluster_id=cluster_id,
                partitions=new_partitions,
                configuration=configuration if is_changed else None,
                added=tuple(added),
                lost=tuple(lost),
                reached=tuple(
                    ReachedEpoch(number, leader_epochs[number])
                    for number in sorted(affected)
                    if leader_epochs.get(number, -1) >= 0
                ),
                predecessors=self._predecessors,
                started=begun,
            )
            heads = {partition: state.head(partition) for partition in affected}
            try:
                self._state = self._chain.commit(state, changes)
            except ConflictError:
                self._reload_after_conflict()
                if any(self._state.head(partition) != head for partition, head in heads.items()):
                    raise PlanAgainError from None
                continue
            self._is_claimed, self._predecessors = True, None
            return True

    def _reload_after_conflict(self) -> None:
        self._state = self._chain.load()
        if self._is_claimed:
            self._check_epoch()
        else:
            self.claim()

    def _check_epoch(self) -> None:
        if self._state.is_fenced(self.epoch, self._chain.writer):
            raise FencedError(
                f"Another program ({self._state.archive_writer}) has started to archive {self.topic} to "
                f"{self._chain.place.name} (epoch {self._state.epoch} after {self.epoch}); run only one at a time."
            )
