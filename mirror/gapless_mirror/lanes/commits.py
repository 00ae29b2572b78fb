"""What a transaction of a lane holds besides records, positions and the offset map, and what its commit changes.

Must not know how records are read, nor why a transaction fails.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from gapless_kafka.writing.positions import content
from gapless_mirror.lanes.records import (
    MAP,
    POSITION,
    LanePosition,
    LostRange,
    MapTail,
    map_key,
    position_key,
    with_range,
)

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.writing.offset_map import Run
    from gapless_mirror.lanes.divergence import EpochClaim
    from gapless_mirror.lanes.progress import PartitionProgress
    from gapless_mirror.lanes.writer import LaneWriter


NO_EPOCHS: Mapping[TopicPartition, EpochClaim] = MappingProxyType({})


class Change(NamedTuple):
    """What a commit changes of a partition."""

    partition: PartitionProgress
    position: LanePosition
    tail: MapTail | None
    parts: list[int]
    """The first offsets of all parts of the offset map, ascending."""
    records: int
    bytes: int

    @property
    def topic_partition(self) -> TopicPartition:
        """Of the source."""
        return self.partition.topic_partition


class UnconfirmedCommit:
    """The changes of a commit of one thread that Kafka has not confirmed.

    The next owner of the lane in this process fences the thread, reads the committed positions, and so finds out which
    changes to count. Each thread has its own changes: a fenced one may still run, and must not replace those of its
    successor.
    """

    def __init__(self, predecessor: UnconfirmedCommit | None = None) -> None:
        """`predecessor` is that of the thread that owned the lane before."""
        self._changes: list[Change] = []
        self._lock = threading.Lock()
        self._predecessor = predecessor

    def __bool__(self) -> bool:
        return bool(self._changes) or bool(self._predecessor)

    def put(self, changes: list[Change]) -> None:
        """Store the changes of a commit that is about to be sent."""
        with self._lock:
            self._changes = changes

    def take(self) -> list[Change]:
        """Remove the changes and return them, so that only one caller counts them."""
        with self._lock:
            changes, self._changes = self._changes, []
        return changes

    def take_all(self) -> list[Change]:
        """Like `take`, with the changes of all predecessors, which must be fenced: they can commit no others."""
        predecessor, self._predecessor = self._predecessor, None
        return [*self.take(), *(predecessor.take_all() if predecessor is not None else ())]


def written_partitions(writer: LaneWriter) -> set[TopicPartition]:
    """Return the target partitions of the records in the transaction that belong to positions."""
    return {(written.target, written.topic_partition[1]) for written in writer.written if not written.is_routed}


def put_positions(
    writer: LaneWriter,
    partitions: Iterable[PartitionProgress],
    epoch: int,
    target_epochs: Mapping[TopicPartition, EpochClaim] = NO_EPOCHS,
) -> list[Change]:
    """Add the positions after all written records to the transaction, and where the records were written.

    Args:
        writer: of the lane.
        partitions: of the lane.
        epoch: of the run.
        target_epochs: the leader epochs of the target that are known, by target partition.

    Raises:
        KafkaException: Kafka rejected a record.
        InterleavedError: the target offsets of some records are unknown.
    """
    runs: dict[TopicPartition, list[Run]] = {}
    sizes: dict[TopicPartition, tuple[int, int]] = {}
    ends: dict[TopicPartition, int] = {}
    parked: dict[TopicPartition, LostRange] = {}
    for written in writer.written:
        written_runs = written.runs()
        if not written.is_routed:
            runs.setdefault(written.topic_partition, []).extend(written_runs)
            ends[written.topic_partition] = written.targets[-1] + 1
        if written.parked is not None:
            parked[written.topic_partition] = written.parked.range
            continue
        records, size = sizes.get(written.topic_partition, (0, 0))
        sizes[written.topic_partition] = (records + len(written.offsets), size + written.bytes)
    changes = []
    for partition in partitions:
        topic_partition = partition.topic_partition
        if not partition.has_moved and topic_partition not in sizes:
            continue
        records, size = sizes.get(topic_partition, (0, 0))
        target_epoch = target_epochs.get((partition.position.target, topic_partition[1]))
        position = partition.position_after(records, size, epoch, ends.get(topic_partition), target_epoch)
        if topic_partition in parked:
            position = replace(position, lost=with_range(position.lost, parked[topic_partition]))
        tails = partition.tails_after(runs.get(topic_partition, ()))
        changed = tails if records or partition.is_map_changed else []
        for first in partition.expired_parts:
            writer.put(map_key(*topic_partition, first), None)
        for tail in changed:
            writer.put(map_key(*topic_partition, tail.first_offset), content(MAP, tail.record()))
        writer.put(position_key(*topic_partition), content(POSITION, position))
        last = changed[-1] if changed else partition.tail
        parts = [*partition.map_parts]
        parts += [tail.first_offset for tail in changed if tail.first_offset not in parts[-1:]]
        changes.append(Change(partition, position, last, parts, records, size))
    return changes
