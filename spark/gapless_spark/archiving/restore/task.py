"""Owns what one slot of a restore does: some partitions of one source, one after the other, in bounded transactions.

It runs in this process or in a task of Spark; what it needs travels as an order, without secrets. Small partitions
share transactions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gapless_archive.catalog.entry import absent_ranges
from gapless_archive.reading import open_archive
from gapless_archive.store.places import open_place
from gapless_kafka.topics.target_topics import TargetTopics
from gapless_kafka.writing.control_topic import ControlTopic
from gapless_kafka.writing.portions import Columns, Portion
from gapless_kafka.writing.positions import Position, WorkPartition
from gapless_kafka.writing.takeover import Takeover, WorkSlot
from gapless_spark.archiving.restore.segments import Prepared, Unreadable, prepared, read_ranges

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gapless_archive.reading import TopicArchive
    from gapless_archive.store.access import S3Access
    from gapless_archive.store.places import PlaceAddress
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.writing.control_topic import ControlState
    from gapless_kafka.writing.writer import PortionWriter, WriterOptions
    from gapless_spark.archiving.restore.plan import Limits, Source

PROGRAM = "restore"
_TRANSACTION_BYTES = 16 * 1024 * 1024
_ASK_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class PartitionOrder:
    """What to write of one source partition."""

    partition: int
    target_partition: int
    ranges: str
    """The offsets, packed; what is done already when the slot begins is left out."""
    skips_lost: bool
    """Whether to go on behind offsets that cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotOrder:
    """What one slot does."""

    work: str
    epoch: int
    slot: int
    place: PlaceAddress
    access: S3Access
    connection: KafkaConnection
    options: WriterOptions
    source: Source
    limits: Limits
    topic: str
    topic_id: str
    batch_size: int
    partitions: tuple[PartitionOrder, ...]


@dataclass(slots=True)
class PartitionResult:
    """What became of one source partition."""

    partition: int
    records: int = 0
    bytes: int = 0
    skipped: int = 0
    """Offsets that cannot be read and were skipped."""
    failure: str = ""
    """Why the partition was not written to its end; empty when it was."""
    unreadable: list[tuple[int, int]] = field(default_factory=list)


def write_slot(
    order: SlotOrder, advanced: Callable[[int], None] = lambda _: None, pulse: Callable[[], None] = lambda: None
) -> list[PartitionResult]:
    """Write what `order` says and return what became of each partition.

    Args:
        order: what to do.
        advanced: told how many more offsets are behind us.
        pulse: called now and then; it may raise to end the work.

    Raises:
        TakenOverError: a later run of the same work has begun.
        GaplessError: Kafka or the store does not answer, or Kafka refuses records.
    """
    archive = open_archive(
        open_place(order.place, order.access),
        order.source.topic,
        region=order.source.region,
        topic_id=order.source.topic_id,
    )
    topics = TargetTopics(order.connection, timeout_seconds=_ASK_SECONDS)
    control = ControlTopic(order.connection, topics, order.options.control_topic)
    takeover = Takeover(order.connection, control, order.options, PROGRAM)
    slot = WorkSlot(PROGRAM, order.work, order.slot)
    with takeover.slot(slot, order.epoch, pulse) as (writer, state):
        return _Slot(order, archive, writer, advanced).write(state)


class _Slot:
    def __init__(
        self, order: SlotOrder, archive: TopicArchive, writer: PortionWriter, advanced: Callable[[int], None]
    ) -> None:
        self._order = order
        self._archive = archive
        self._writer = writer
        self._advanced = advanced
        self._pending: dict[int, _Pending] = {}
        """By source partition: what the next transaction writes."""
        self._records = self._bytes = 0

    def write(self, state: ControlState) -> list[PartitionResult]:
        order, results = self._order, []
        for one in order.partitions:
            position = state.position(order.work, str(order.source), one.partition)
            if position is None:
                position = Position(
                    topic=order.topic,
                    topic_id=order.topic_id,
                    target_partition=one.target_partition,
                    source_id=order.source.topic_id,
                    epoch=order.epoch,
                )
            results.append(self._partition(one, position))
        self._commit()
        return results

    def _partition(self, one: PartitionOrder, position: Position) -> PartitionResult:
        result = PartitionResult(one.partition)
        left = absent_ranges(one.ranges) - position.ranges
        found = read_ranges(self._archive, one.partition, left, self._order.limits)
        for part in prepared(found, self._order.batch_size):
            if isinstance(part, Unreadable):
                result.unreadable += [(first, last) for first, last in part.ranges]
                result.failure = part.reason
                if not one.skips_lost:
                    break
                result.skipped += part.ranges.count
                position = position.advance(part.ranges, lost=part.ranges.count)
                self._add(one, position, Prepared(part.ranges, None, 0))
                continue
            records = len(part.columns.offsets) if part.columns is not None else 0
            result.records += records
            result.bytes += part.bytes
            position = position.advance(part.ranges, records=records, size=part.bytes)
            self._add(one, position, part)
        return result

    def _add(self, one: PartitionOrder, position: Position, part: Prepared) -> None:
        """Put records into the next transaction, which is written first if it has no room."""
        count = len(part.columns.offsets) if part.columns is not None else 0
        if self._records and self._records + count > self._order.batch_size:
            self._commit()
        pending = self._pending.setdefault(one.partition, _Pending())
        pending.position = position
        pending.offsets += part.ranges.count
        if part.columns is not None:
            pending.columns.append(part.columns)
            self._records += count
            self._bytes += part.bytes
        if self._bytes >= _TRANSACTION_BYTES:
            self._commit()

    def _commit(self) -> None:
        if not self._pending:
            return
        self._writer.write([self._portion(partition, one) for partition, one in self._pending.items()])
        self._advanced(sum(one.offsets for one in self._pending.values()))
        self._pending = {}
        self._records = self._bytes = 0

    def _portion(self, partition: int, pending: _Pending) -> Portion:
        place = WorkPartition(self._order.work, str(self._order.source), partition)
        return Portion(place, joined(pending.columns), pending.position)


class _Pending:
    """What the next transaction writes of a partition."""

    def __init__(self) -> None:
        self.columns: list[Columns] = []
        self.position: Any = None
        self.offsets = 0


def joined(columns: Sequence[Columns]) -> Columns:
    """Put records of one partition behind each other."""
    if len(columns) == 1:
        return columns[0]
    headers = None
    if any(one.headers is not None for one in columns):
        headers = [pairs for one in columns for pairs in (one.headers or [()] * len(one.offsets))]
    return Columns(
        [offset for one in columns for offset in one.offsets],
        [time for one in columns for time in one.timestamps],
        [key for one in columns for key in one.keys],
        [value for one in columns for value in one.values],
        headers,
    )
