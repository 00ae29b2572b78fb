"""Which partitions a lane copies, which of them are read now, and what they need next: a refresh or a commit.

Must not know how their records are written, nor why a partition is added or removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_mirror.lanes.progress import PartitionProgress, read_from_next

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_mirror.lanes.control import LaneState
    from gapless_mirror.lanes.reader import Reader
    from gapless_mirror.lanes.refusals import Refusals


class LanePartitions:
    """The partitions of one lane. Call `reopen` first, and again after each failure."""

    def __init__(self, refusals: Refusals) -> None:
        """`refusals` are those of the lane's target."""
        self._refusals = refusals
        self.state: LaneState
        """What the control topic had when the lane was opened, with the positions of partitions removed since."""
        self.reader: Reader
        self.progress: dict[TopicPartition, PartitionProgress] = {}
        self.needs_refresh = False
        """Whether a source topic has changed, so that the next `SourceView` is needed soon."""
        self.idle_commit_at = 0.0
        """When positions are committed although no record was written, on the monotonic clock."""

    def reopen(self, state: LaneState, reader: Reader) -> None:
        """Continue at the positions of `state` with a new reader, without the partitions that have none."""
        self.state, self.reader = state, reader
        previous, self.progress = self.progress, {}
        for topic_partition, partition in previous.items():
            position = state.positions.get(topic_partition)
            if position is not None or (partition.is_new and self._refusals.is_waiting(topic_partition)):
                reopened = partition.reopen(position)
                reopened.tail = state.tails.get(topic_partition)
                reopened.map_parts, reopened.expired_parts = state.map_parts.get(topic_partition, []), []
                self.progress[topic_partition] = reopened
                if reopened.stop is None and self._refusals.is_reading(topic_partition):
                    read_from_next(self.reader, [reopened])

    def commit_soon(self) -> None:
        """Commit positions that have changed in the next step, although no record may be written."""
        self.idle_commit_at = 0.0

    def active(self, topic_partition: TopicPartition) -> PartitionProgress | None:
        """Return a partition if it is still being copied."""
        partition = self.progress.get(topic_partition)
        if partition is None or partition.is_done or not self._refusals.is_reading(topic_partition):
            return None
        return partition

    def read_again(self, topic_partitions: set[TopicPartition]) -> None:
        """Read partitions again whose records were read and not processed."""
        active = map(self.active, topic_partitions)
        read_from_next(self.reader, [partition for partition in active if partition is not None])

    def rewind(self) -> None:
        """Read the records of an aborted transaction again."""
        rewound = []
        for partition in self.progress.values():
            if partition.next_offset != partition.position.next_offset:
                partition.next_offset = partition.position.next_offset
                partition.returned, partition.read_epoch = 0, None
                rewound.append(partition)
        self.reader.drop(partition.topic_partition for partition in rewound)
        reads = self._refusals.is_reading
        read_from_next(self.reader, [each for each in rewound if each.stop is None and reads(each.topic_partition)])

    def remove(self, topic_partitions: list[TopicPartition]) -> None:
        """Stop copying partitions that no longer belong to the mirror."""
        self.reader.drop(topic_partitions)
        for topic_partition in topic_partitions:
            partition = self.progress.pop(topic_partition)
            if not partition.is_new and not partition.is_undecided:
                self.state.positions[topic_partition] = partition.position
                self.state.map_parts[topic_partition] = partition.map_parts
                if partition.tail is not None:
                    self.state.tails[topic_partition] = partition.tail
