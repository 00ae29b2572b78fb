"""Owns the commits of one topic by this program: its epoch, what follows when another program commits, and fencing.

The chain alone says how far a topic is archived; nothing else is kept.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.base.errors import ConfigurationError
from gapless_archive.catalog.chain import Chain, Changes, ConflictError
from gapless_archive.catalog.peer_keys import next_key_first
from gapless_archive.segments.peer_adoption import find_foreign_changes
from gapless_spark.archiving.archive.planning import GUESSED_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gapless_archive.catalog.entry import Layout, LostRange, Segment
    from gapless_archive.catalog.state import TopicState
    from gapless_archive.store.places import Place


class FencedError(ConfigurationError):
    """Another program archives the topic since this one began."""


class PlanAgainError(Exception):
    """What was read is not what is to be archived next."""


class Totals(NamedTuple):
    """What an archive holds of a topic."""

    segments: int
    records: int
    bytes: int
    stored_bytes: int
    offsets: int


_NOTHING = Totals(0, 0, 0, 0, 0)


class TopicChain:
    """The chain of one generation of a topic, as this program adds to it."""

    def __init__(  # noqa: PLR0913 -- what names a chain
        self, place: Place, region: str, topic: str, topic_id: str, *, writer: str, layout: Layout = "gapless"
    ) -> None:
        """Load the chain. Raises GaplessError."""
        self._chain = Chain(place, region, topic, topic_id, writer=writer, layout=layout)
        self.topic, self.topic_id, self.prefix = topic, topic_id, self._chain.prefix
        self._state = self._chain.load()
        self.epoch = self._state.epoch + 1
        self._is_claimed = False
        self._totals = (-1, _NOTHING)

    @property
    def state(self) -> TopicState:
        """What is archived."""
        return self._state

    @property
    def bytes_per_offset(self) -> float:
        """The mean of what is archived."""
        totals = self.totals
        return max(totals.bytes / totals.offsets, 1.0) if totals.offsets else GUESSED_BYTES

    @property
    def totals(self) -> Totals:
        """What is archived, in numbers."""
        state = self._state
        if self._totals[0] != state.sequence:
            rows = [(1, one.records, one.bytes, one.stored_bytes, one.end - one.first) for one in state.all_segments()]
            self._totals = (state.sequence, Totals(*map(sum, zip(*rows, strict=True))) if rows else _NOTHING)
        return self._totals[1]

    @property
    def archived_at_seconds(self) -> float:
        """When something was archived last, in seconds since 1970; 0 for never."""
        moment = self._state.archived_at
        return datetime.fromisoformat(moment).timestamp() if moment else 0.0

    def newest_timestamp(self, partition: int) -> int | None:
        """The newest timestamp of the last segment of a partition."""
        segments = self._state.segments(partition)
        return segments[-1].max_timestamp if segments else None

    def claim(self) -> None:
        """End every other program that archives the topic: its next commit fails. Raises GaplessError."""
        while not self._is_claimed:
            self.epoch = self._state.epoch + 1
            try:
                self._state = self._chain.commit(self._state, Changes(action="claim", epoch=self.epoch))
                self._is_claimed = True
            except ConflictError:
                self._state = self._chain.load()

    def take_over(self) -> int:
        """Add what kafka-replicator has written to the same place, so that archiving continues behind it.

        Needs a chain of its layout that is claimed.

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
                self._take_in_others()
            else:
                return len(added)

    def hold(self, *, is_held: bool) -> bool:
        """Commit that nothing of the topic is removed from now on, or that it may be again; return whether that is new.

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
                self._take_in_others()
        return True

    def key_first(self, partition: int, first: int) -> int:
        """Where the next object's key begins in the layout of kafka-replicator; see `next_key_first`."""
        return next_key_first(self._state.segments(partition), first)

    def unneeded(self, objects: set[str]) -> set[str]:
        """Of objects that this program has written and not committed, those that it may delete. Raises GaplessError.

        In the layout of kafka-replicator another program may have written the same object meanwhile.
        """
        if self._chain.layout == "gapless":
            return objects
        state = self._chain.load()
        return set() if state.is_fenced(self.epoch, self._chain.writer) else objects - state.objects

    def reload(self) -> None:
        """Read the chain again, when a commit may have been made or not. Raises GaplessError."""
        self._state = self._chain.load()
        if self._is_claimed:
            self._check_epoch()

    def commit(
        self,
        added: Sequence[Segment],
        lost: Sequence[LostRange],
        *,
        cluster_id: str,
        partitions: int,
        configuration: Mapping[str, str] | None,
    ) -> bool:
        """Add what was archived, what was lost, and what has changed of the topic.

        Returns:
            Whether there was anything to commit.

        Raises:
            PlanAgainError: another program has archived some of it meanwhile; what was read is not used.
            FencedError: another program archives the topic now.
            GaplessError: the archive cannot be written; the commit may have been made.
        """
        while True:
            state = self._state
            new_partitions = partitions if partitions != state.partition_count else None
            is_new = configuration is not None and (state.sequence == 0 or configuration != state.configuration)
            if not (added or lost or new_partitions or is_new):
                return False
            changes = Changes(
                action="archive",
                epoch=self.epoch,
                cluster_id=cluster_id,
                partitions=new_partitions,
                configuration=configuration if is_new else None,
                added=tuple(added),
                lost=tuple(lost),
            )
            touched = {segment.partition for segment in added} | {range_.partition for range_ in lost}
            heads = {partition: state.head(partition) for partition in touched}
            try:
                self._state = self._chain.commit(state, changes)
            except ConflictError:
                self._take_in_others()
                if any(self._state.head(partition) != head for partition, head in heads.items()):
                    raise PlanAgainError from None
                continue
            self._is_claimed = True
            return True

    def _take_in_others(self) -> None:
        self._state = self._chain.load()
        if self._is_claimed:
            self._check_epoch()
        else:
            self.claim()

    def _check_epoch(self) -> None:
        if self._state.is_fenced(self.epoch, self._chain.writer):
            raise FencedError(
                f"Another program ({self._state.archive_writer}) archives {self.topic} to {self._chain.place.name} "
                f"since this one began (epoch {self._state.epoch} after {self.epoch}); let only one run at a time."
            )
