"""Owns how far one source partition of a lane is: what is committed, what is being written, and what was seen.

Changes only by its lane's thread; others read observations.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gapless_kafka.mirror.lanes.observations import PartitionObservation, SeenError, Stop
from gapless_kafka.mirror.lanes.records import LanePosition, MapTail

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.mirror.lanes.records import LostRange
    from gapless_kafka.mirror.lanes.sources import SourceTopic
    from gapless_kafka.writing.offset_map import Run


@dataclass(slots=True)
class PartitionProgress:
    """One source partition."""

    place: TopicPartition
    position: LanePosition
    """As it is committed, or as it will be for a new partition."""
    next_offset: int
    """That is read next; behind the position while a transaction is open."""
    progressed_at: float
    tail: MapTail | None = None
    map_parts: list[int] = field(default_factory=list)
    """The first offsets of the parts of the offset map, ascending; the last one is that of `tail`."""
    expired_parts: list[int] = field(default_factory=list)
    """Those of parts that are removed with the next position."""
    end_seen: int | None = None
    source_end: tuple[str, int] = ("", 0)
    """The end of what can be read, when the source was looked at last, with the topic ID that it belongs to."""
    copy_until: int | None = None
    """Where copying ends; ``None`` for never."""
    newest_read_ms: int | None = None
    """The timestamp of the last record that was handed over."""
    newest_ms: int | None = None
    """As of the last commit."""
    records: int = 0
    bytes: int = 0
    error: SeenError | None = None
    stop: Stop | None = None
    is_new: bool = False
    """Whether no position is committed yet."""
    continues: bool = False
    """Whether a new one begins where the program before the mirror stood, so that what is gone is a loss."""
    is_suspect: bool = False
    """Whether its topic may be another one now, so that it is not read until the next look at the source."""
    lost_before: int = 0
    """Offsets that were skipped before the process had the lane."""
    undecided: LanePosition | None = None
    """The position before a loss was skipped that is recorded with the next one; ``None`` for no such loss."""
    returned: int = 0
    """Records that were left out since the position, because they came from the target."""
    returned_now: int = 0
    """Those that were left out since the process has the lane, up to the position."""

    @property
    def has_moved(self) -> bool:
        """Whether the position that is committed is an older one, or there is none."""
        return self.is_new or self.undecided is not None or self.next_offset != self.position.next_offset

    @property
    def is_done(self) -> bool:
        """Whether everything was copied that is to be copied."""
        return self.stop is not None or (self.copy_until is not None and self.next_offset >= self.copy_until)

    def expire_map(self, log_start: int) -> None:
        """Remove the parts of the offset map that are only about offsets that the source has deleted."""
        while len(self.map_parts) > 1 and self.map_parts[1] <= log_start:
            self.expired_parts.append(self.map_parts.pop(0))

    def forget_map(self) -> None:
        """Remove the offset map, because it is about another topic."""
        self.expired_parts += self.map_parts
        self.map_parts, self.tail = [], None

    def reopened(self, found: LanePosition | None) -> PartitionProgress:
        """The same partition after its lane was opened again, at the position that was found; ``None`` for none."""
        position = found if found is not None else self.undecided or self.position
        return replace(
            self,
            position=position,
            next_offset=position.next_offset,
            is_new=found is None,
            undecided=None,
            is_suspect=False,
            returned=0,
        )

    def decide(self, next_offset: int, lost: Sequence[LostRange]) -> None:
        """Continue at an offset behind a loss, which the next position records."""
        self.undecided = self.undecided or self.position
        self.position = replace(self.position, next_offset=next_offset, lost=(*self.position.lost, *lost))
        self.next_offset = next_offset

    @property
    def known_end(self) -> int:
        """The last end that is known of the topic that the position is about."""
        topic_id, end = self.source_end
        return max(end if topic_id == self.position.source_id else 0, self.position.next_offset)

    def take_back(self) -> None:
        """Forget a decision that is not committed, because it was about another topic."""
        if self.undecided is not None:
            self.position, self.next_offset, self.undecided = self.undecided, self.undecided.next_offset, None

    def position_after(self, records: int, size: int, epoch: int) -> LanePosition:
        """The position to commit with so many records."""
        return replace(
            self.position,
            epoch=epoch,
            next_offset=self.next_offset,
            records=self.position.records + records,
            bytes=self.position.bytes + size,
            returned=self.position.returned + self.returned,
        )

    def tails_after(self, runs: Sequence[Run]) -> list[MapTail]:
        """The parts of the offset map to write with records that went where `runs` say."""
        tail = self.tail
        if tail is None or (tail.target, tail.source_id) != (self.position.target, self.position.source_id):
            tail = MapTail(self.position.target, self.position.source_id)
        return [part for part in tail.extended(runs) if part.runs]

    def committed(self, position: LanePosition, tail: MapTail | None, records: int, size: int, now: float) -> None:
        """Take note of a commit."""
        self.position, self.tail, self.is_new, self.undecided = position, tail, False, None
        self.expired_parts = []
        self.records += records
        self.bytes += size
        self.returned_now += self.returned
        self.returned = 0
        if records:
            self.progressed_at, self.newest_ms = now, self.newest_read_ms

    def observation(self) -> PartitionObservation:
        """As others see it."""
        topic, partition = self.place
        lost = lost_offsets(self.position)
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
            error=self.error,
            stop=self.stop,
        )


def position_in(topic: SourceTopic, partition: int, known: LanePosition | None, epoch: int) -> LanePosition:
    """Where a partition is taken up, given the position that is known of it."""
    if known is None:
        first = topic.begin_offset(partition)
        return LanePosition(target=topic.target, source_id=topic.id, epoch=epoch, start=first, next_offset=first)
    if known.target == topic.target:
        return known
    # The topic of the new name has nothing of what was copied before.
    return replace(known, target=topic.target, start=known.next_offset)


def lost_offsets(position: LanePosition) -> int:
    """How many offsets were skipped by request."""
    return sum(one.last - one.first + 1 for one in position.lost)
