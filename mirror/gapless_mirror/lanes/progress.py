"""The progress of one source partition of a lane: what is committed, what is being written, and what was read.

Only the lane's thread changes it; other threads read observations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gapless_mirror.lanes.claims import has_copies
from gapless_mirror.lanes.divergence import EpochClaim, source_claim
from gapless_mirror.lanes.observations import PartitionObservation, SeenError, Stop
from gapless_mirror.lanes.records import LanePosition, LostRange, MapTail, TargetLoss, with_range

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.writing.offset_map import Run
    from gapless_mirror.lanes.reader import Reader


@dataclass(slots=True)
class PartitionProgress:
    """One source partition."""

    topic_partition: TopicPartition
    position: LanePosition
    """The committed position; for a new partition, where copying starts."""
    next_offset: int
    """The source offset to read next; ahead of the position while a transaction is open."""
    progressed_at: float
    """See `PartitionObservation.progressed_at`."""
    tail: MapTail | None = None
    map_parts: list[int] = field(default_factory=list)
    """The first offsets of the parts of the offset map, ascending; the last one is that of `tail`."""
    expired_parts: list[int] = field(default_factory=list)
    """The first offsets of parts that are deleted with the next position."""
    end_seen: int | None = None
    source_end: tuple[str, int, int] = ("", 0, -1)
    """The topic ID, the end and a leader epoch of the partition at the last refresh of the source."""
    checked_epochs: tuple[int, int] = (-1, -1)
    """Leader epochs of source and target in which the position was compared with both logs."""
    copy_until: int | None = None
    """The source offset where copying ends, exclusive; ``None`` for no end."""
    newest_read_ms: int | None = None
    """The timestamp of the last record in the open transaction."""
    newest_ms: int | None = None
    """The timestamp of the last committed record."""
    records: int = 0
    bytes: int = 0
    error: SeenError | None = None
    stop: Stop | None = None
    is_new: bool = False
    """Whether no position is committed yet."""
    is_owed: bool = False
    """Whether a new partition starts where it must, so that offsets deleted after that are a loss: at the offset of a
    consumer group, behind its last copy, or at 0 if it was added to a topic of the mirror."""
    awaits_refresh: bool = False
    """Whether its topic may have been recreated, so that it is not read until the next refresh of the source."""
    lost_before: int = 0
    """Offsets that were skipped before this process acquired the lane."""
    before_skip: LanePosition | None = None
    """The committed position while a skipped loss is not committed; ``None`` for no such loss."""
    returned: int = 0
    """Records after the position that were left out because they came from the target."""
    returned_now: int = 0
    """Records up to the position that were left out since this process acquired the lane."""
    is_undecided: bool = False
    """Whether its position is missing or cannot be read, and nothing decides where it starts."""
    is_map_changed: bool = False
    """Whether the last part of the offset map is written although it has no new records."""
    is_adopted: bool = False
    """Whether the position says more than the committed one."""
    awaits_check: bool = False
    """Whether the source log may not hold the position, so that nothing is concluded before it was checked."""
    read_epoch: tuple[int, int] | None = None
    """The leader epoch of the last record that was read after the position, and the offset after this record."""

    @property
    def has_moved(self) -> bool:
        """Whether there is a new position to commit."""
        has_changed = self.is_new or self.is_adopted or self.before_skip is not None
        return has_changed or self.next_offset != self.position.next_offset

    @property
    def needs_same_source(self) -> bool:
        """Whether the new position is only true if its source topic is still the same.

        That of a partition that has stopped may be about an earlier topic; it only says more of the target then.
        """
        return self.stop is None or self.next_offset != self.position.next_offset or self.before_skip is not None

    @property
    def claim(self) -> LanePosition:
        """The position, with the end of its copies from the offset map if it is of an earlier release."""
        tail = self.tail
        if self.position.target_end is not None or tail is None or not tail.runs:
            return self.position
        if (tail.target, tail.source_id) != (self.position.target, self.position.source_id):
            return self.position
        last = tail.runs[-1]
        return replace(self.position, target_end=last.target + last.length)

    @property
    def known_epoch(self) -> tuple[int, int] | None:
        """A leader epoch of the source, and an offset up to which its log is known, at most the next one to read."""
        position = self.position
        if self.read_epoch is not None:
            return self.read_epoch
        if position.leader_epoch is None or position.epoch_end is None or position.epoch_end > self.next_offset:
            return None
        return position.leader_epoch, position.epoch_end

    @property
    def source_claim(self) -> EpochClaim | None:
        """What is known of the source log: at the last refresh, or by the position."""
        topic_id, end, epoch = self.source_end
        if topic_id == self.position.source_id and epoch >= 0 and end >= self.next_offset:
            return EpochClaim(epoch, end)
        if self.position.source_end is not None:
            return source_claim(self.position)
        known = self.known_epoch
        return None if known is None else EpochClaim(*known)

    @property
    def is_done(self) -> bool:
        """Whether the partition has stopped or reached the offset where copying ends."""
        if self.stop is not None:
            return True
        return not self.awaits_check and self.copy_until is not None and self.next_offset >= self.copy_until

    def expire_map(self, log_start: int) -> None:
        """Drop the parts of the offset map that only cover offsets before `log_start`."""
        while len(self.map_parts) > 1 and self.map_parts[1] <= log_start:
            self.expired_parts.append(self.map_parts.pop(0))

    def clear_map(self) -> None:
        """Drop the offset map, because the topic was recreated."""
        self.expired_parts += self.map_parts
        self.map_parts, self.tail = [], None

    def retract_map(self, first: int) -> None:
        """Let the offset map end at the source offset `first`, because later records are no longer in the source.

        A run without records says so, and where the copy ends: the offsets may be passed over before there are records.
        """
        tail = self.tail
        if tail is None or not tail.runs or tail.runs[-1].first + tail.runs[-1].length <= first:
            return
        self.expired_parts += [part for part in self.map_parts if part >= first]
        self.tail = tail.ended(first)
        self.map_parts = [*(part for part in self.map_parts if part < min(first, self.tail.first_offset))]
        self.map_parts.append(self.tail.first_offset)
        self.is_map_changed = True

    def reopen(self, committed: LanePosition | None) -> PartitionProgress:
        """Return the partition for a reopened lane, at its `committed` position; ``None`` if it has none."""
        position = committed if committed is not None else self.before_skip or self.position
        return replace(
            self,
            position=position,
            next_offset=position.next_offset,
            is_new=committed is None,
            before_skip=None,
            awaits_refresh=False,
            awaits_check=False,
            is_adopted=False,
            read_epoch=None,
            returned=0,
        )

    def skip_to(self, next_offset: int, lost: Sequence[LostRange]) -> None:
        """Continue at `next_offset`; the next position records what was lost."""
        self.before_skip = self.before_skip or self.position
        ranges = self.position.lost
        for one in lost:
            ranges = with_range(ranges, one)
        self.position = replace(self.position, next_offset=next_offset, lost=ranges)
        self.next_offset = next_offset

    def adopt(self, position: LanePosition) -> None:
        """Add to the position what it did not say; it is committed soon."""
        self.position, self.is_adopted = position, True

    @property
    def must_read(self) -> bool:
        """Whether records are read when the lane starts with the partition."""
        return not self.is_done and not self.awaits_check

    @property
    def lacks_position(self) -> bool:
        """Whether the partition is about to be copied and has no position yet."""
        return self.is_new and self.must_read and not self.awaits_refresh

    def note_epoch(self, message: Any) -> None:
        """Note the leader epoch of the last record that was read."""
        epoch = message.leader_epoch()
        if epoch is not None and epoch >= 0:
            self.read_epoch = (epoch, (message.offset() or 0) + 1)

    def forget_epoch(self) -> None:
        """Read without the leader epoch, because the source has expired its last known record."""
        self.read_epoch = None
        self.position = replace(self.position, leader_epoch=None, epoch_end=None)

    def forget_target(self) -> None:
        """Continue in another target topic, because nothing that was lost matters."""
        self.clear_map()
        self.position = self.position.without_copies()

    def copy_again(self, source_id: str, first: int, loss: TargetLoss) -> None:
        """Start again at the source offset `first`; the next position records why."""
        self.before_skip = self.before_skip or self.position
        self.clear_map()
        self.position = replace(
            self.position.without_copies().of_new_log(),
            source_id=source_id,
            start=first,
            next_offset=first,
            copied_again=(*self.position.copied_again, loss),
        )
        self.next_offset, self.read_epoch, self.end_seen, self.stop = first, None, None, None
        self.source_end = ("", 0, -1)

    def follow_truncated(self, first: int, lost: Sequence[LostRange]) -> None:
        """Continue with the records that the source has from offset `first` on, instead of those that it lost."""
        self.skip_to(first, lost)
        self.retract_map(first)
        self.position = replace(self.position.of_new_log(), start=min(self.position.start, first))
        self.read_epoch, self.end_seen, self.source_end = None, None, ("", 0, -1)

    @property
    def known_end(self) -> int:
        """The last known end of the topic with the ID in the position."""
        topic_id, end, _ = self.source_end
        return max(end if topic_id == self.position.source_id else 0, self.position.next_offset)

    def undo_skip(self) -> None:
        """Return to the committed position, because the skip was based on a recreated topic."""
        if self.before_skip is not None:
            self.position, self.next_offset, self.before_skip = self.before_skip, self.before_skip.next_offset, None

    def position_after(
        self, records: int, size: int, epoch: int, target_end: int | None = None, target: EpochClaim | None = None
    ) -> LanePosition:
        """Return the position to commit.

        Args:
            records: how many records were written since the last one.
            size: their bytes.
            epoch: of the run.
            target_end: the target offset after them; ``None`` for none.
            target: a leader epoch of the target, and an offset that its log has reached in it; ``None`` for unknown.
        """
        known = self.known_epoch
        position = self.with_source_end()
        if target is not None and target_end is not None and position.target_epoch in {None, target.epoch}:
            # With another epoch, the log may have lost records: the next refresh finds out.
            position = replace(position, target_epoch=target.epoch, target_epoch_end=min(target.end, target_end))
        return replace(
            position,
            leader_epoch=None if known is None else known[0],
            epoch_end=None if known is None else known[1],
            target_end=self.position.target_end if target_end is None else target_end,
            epoch=epoch,
            next_offset=self.next_offset,
            records=self.position.records + records,
            bytes=self.position.bytes + size,
            returned=self.position.returned + self.returned,
        )

    def with_source_end(self) -> LanePosition:
        """Return the position with the end of the source log, as long as there are records after the position."""
        topic_id, end, epoch = self.source_end
        position = self.position
        if not end or topic_id != position.source_id:
            return position if (position.source_end or 0) > self.next_offset else position.without_source_end()
        if end <= self.next_offset:
            return position.without_source_end()
        return replace(position, source_epoch=epoch if epoch >= 0 else None, source_end=end)

    def tails_after(self, runs: Sequence[Run]) -> list[MapTail]:
        """Return the parts of the offset map to write for records that were written as `runs` describe."""
        tail = self.tail
        if tail is None or (tail.target, tail.source_id) != (self.position.target, self.position.source_id):
            tail = MapTail(self.position.target, self.position.source_id)
        return [part for part in tail.extended(runs) if part.runs]

    def apply_commit(self, position: LanePosition, tail: MapTail | None, records: int, size: int, now: float) -> None:
        """Update the progress after a commit; the position last, because other threads observe it first."""
        self.records += records
        self.bytes += size
        self.position, self.tail, self.is_new, self.before_skip = position, tail, False, None
        self.is_adopted, self.is_map_changed, self.read_epoch = False, False, None
        self.expired_parts = []
        self.returned_now += self.returned
        self.returned = 0
        if records:
            self.progressed_at, self.newest_ms = now, self.newest_read_ms

    def observation(self) -> PartitionObservation:
        """Return an immutable copy for other threads."""
        topic, partition = self.topic_partition
        lost = self.position.lost_offsets
        return PartitionObservation(
            topic=topic,
            partition=partition,
            target=self.position.target,
            source_id=self.position.source_id,
            position=self.position.next_offset,
            end_seen=self.end_seen,
            progressed_at=self.progressed_at,
            records=self.records,
            bytes=self.bytes,
            lost=lost,
            newest_ms=self.newest_ms,
            lost_now=lost - self.lost_before,
            returned=self.returned_now,
            has_copies=has_copies(self.position),
            error=self.error,
            stop=self.stop,
        )


def read_from_next(reader: Reader, partitions: Iterable[PartitionProgress]) -> None:
    """Read partitions from their next offsets. With their leader epochs, Kafka's client detects truncations."""
    offsets: dict[TopicPartition, int] = {}
    epochs: dict[TopicPartition, tuple[int, int]] = {}
    for partition in partitions:
        offsets[partition.topic_partition] = partition.next_offset
        known = partition.known_epoch
        if known is not None:
            epochs[partition.topic_partition] = known
    reader.add(offsets, epochs)
