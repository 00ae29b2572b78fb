"""Owns how one slot of a restore writes its partitions of one source, one after the other, in bounded transactions.

It runs in this process or in a Spark task; a `SlotOrder` contains all it needs, without secrets. Small partitions
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
from gapless_spark.archiving.restore.segments import Prepared, Unreadable, prepare_records, read_ranges

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
    """The offsets of one source partition to write."""

    partition: int
    target_partition: int
    ranges: str
    """The offsets, encoded; those already written when the slot starts are skipped."""
    skip_lost: bool
    """Whether to continue after offsets that cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotOrder:
    """The work of one slot."""

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
    """The result for one source partition."""

    partition: int
    records: int = 0
    bytes: int = 0
    skipped: int = 0
    """Offsets that cannot be read and were skipped."""
    failure: str = ""
    """Why the partition was not completely written; empty if it was."""
    unreadable: list[tuple[int, int]] = field(default_factory=list)


def write_slot(
    slot: SlotOrder, advanced: Callable[[int], None] = lambda _: None, pulse: Callable[[], None] = lambda: None
) -> list[PartitionResult]:
    """Write the partitions of `slot` and return the results.

    Args:
        slot: the work.
        advanced: is called with the number of further offsets that were written.
        pulse: is called regularly; it may raise to stop the work.

    Raises:
        TakenOverError: a later run of the same work has started.
        GaplessError: Kafka or the store does not answer, or Kafka refuses records.
    """
    archive = open_archive(
        open_place(slot.place, slot.access),
        slot.source.topic,
        region=slot.source.region,
        topic_id=slot.source.topic_id,
    )
    topics = TargetTopics(slot.connection, timeout_seconds=_ASK_SECONDS)
    control = ControlTopic(slot.connection, topics, slot.options.control_topic)
    takeover = Takeover(slot.connection, control, slot.options, PROGRAM)
    with takeover.slot(WorkSlot(PROGRAM, slot.work, slot.slot), slot.epoch, pulse) as (writer, state):
        return _Slot(slot, archive, writer, advanced).write(state)


class _Slot:
    def __init__(
        self, order: SlotOrder, archive: TopicArchive, writer: PortionWriter, advanced: Callable[[int], None]
    ) -> None:
        self._order = order
        self._archive = archive
        self._writer = writer
        self._advanced = advanced
        self._pending: dict[int, _Pending] = {}
        """The content of the next transaction, by source partition."""
        self._records = self._bytes = 0

    def write(self, state: ControlState) -> list[PartitionResult]:
        slot, results = self._order, []
        for order in slot.partitions:
            position = state.position(slot.work, str(slot.source), order.partition)
            if position is None:
                position = Position(
                    topic=slot.topic,
                    topic_id=slot.topic_id,
                    target_partition=order.target_partition,
                    source_id=slot.source.topic_id,
                    epoch=slot.epoch,
                )
            results.append(self._partition(order, position))
        self._commit()
        return results

    def _partition(self, order: PartitionOrder, position: Position) -> PartitionResult:
        result = PartitionResult(order.partition)
        remaining = absent_ranges(order.ranges) - position.ranges
        items = read_ranges(self._archive, order.partition, remaining, self._order.limits)
        for part in prepare_records(items, self._order.batch_size):
            if isinstance(part, Unreadable):
                result.unreadable += [(first, last) for first, last in part.ranges]
                result.failure = part.reason
                if not order.skip_lost:
                    break
                result.skipped += part.ranges.count
                position = position.advance(part.ranges, lost=part.ranges.count)
                self._add(order, position, Prepared(part.ranges, None, 0))
                continue
            records = len(part.columns.offsets) if part.columns is not None else 0
            result.records += records
            result.bytes += part.bytes
            position = position.advance(part.ranges, records=records, size=part.bytes)
            self._add(order, position, part)
        return result

    def _add(self, order: PartitionOrder, position: Position, part: Prepared) -> None:
        """Add records to the next transaction; if it is full, write it first."""
        count = len(part.columns.offsets) if part.columns is not None else 0
        if self._records and self._records + count > self._order.batch_size:
            self._commit()
        pending = self._pending.setdefault(order.partition, _Pending())
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
        self._writer.write([self._portion(partition, pending) for partition, pending in self._pending.items()])
        self._advanced(sum(pending.offsets for pending in self._pending.values()))
        self._pending = {}
        self._records = self._bytes = 0

    def _portion(self, partition: int, pending: _Pending) -> Portion:
        key = WorkPartition(self._order.work, str(self._order.source), partition)
        return Portion(key, concat_columns(pending.columns), pending.position)


class _Pending:
    """The part of the next transaction for one partition."""

    def __init__(self) -> None:
        self.columns: list[Columns] = []
        self.position: Any = None
        self.offsets = 0


def concat_columns(columns: Sequence[Columns]) -> Columns:
    """Concatenate records of one partition."""
    if len(columns) == 1:
        return columns[0]
    headers = None
    if any(part.headers is not None for part in columns):
        headers = [pairs for part in columns for pairs in (part.headers or [()] * len(part.offsets))]
    return Columns(
        [offset for part in columns for offset in part.offsets],
        [time for part in columns for time in part.timestamps],
        [key for part in columns for key in part.keys],
        [value for part in columns for value in part.values],
        headers,
    )
