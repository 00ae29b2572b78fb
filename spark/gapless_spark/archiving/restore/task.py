"""How one slot of a restore writes its partitions of one source, one after the other, in bounded transactions.

It runs in this process or in a Spark task; a `SlotOrder` contains all it needs, without secrets. Small partitions
share transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import GaplessError
from gapless_api.base.unexpected import calls_of, describe
from gapless_archive.catalog.entry import absent_ranges
from gapless_archive.reading import TopicArchive, open_archive
from gapless_archive.store.places import PlaceAddress, open_place
from gapless_kafka.topics.target_topics import TargetTopics
from gapless_kafka.writing.control_topic import ControlState, ControlTopic
from gapless_kafka.writing.faults import RecordsRefusedError
from gapless_kafka.writing.portions import Portion
from gapless_kafka.writing.positions import Position, RefusedRecords, WorkPartition
from gapless_kafka.writing.takeover import Takeover, WorkSlot
from gapless_spark.archiving.restore.bad_records import write_around
from gapless_spark.archiving.restore.pending import Batch, Pending
from gapless_spark.archiving.restore.segments import Prepared, Unreadable, prepare_records, read_ranges

if TYPE_CHECKING:
    from gapless_api.offsets.ranges import OffsetRanges
    from gapless_archive.store.access import S3Access
    from gapless_kafka.access.connection import KafkaConnection
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
    skip_refused: bool
    """Whether to skip records that the target refuses because of what they are."""
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
    """Why offsets cannot be read; empty if all can."""
    unreadable: list[tuple[int, int]] = field(default_factory=list)
    refused: list[tuple[int, int]] = field(default_factory=list)
    """Records that the target refuses, and that were skipped by request."""
    cause: str = ""
    """Why it refuses the last of them."""
    stopped_at: int | None = None
    """The offset of the record that cannot be written: it and the following ones were not written."""
    stop_reason: str = ""
    is_unexpected: bool = False
    """Whether it stopped because of an exception that no rule expects, and not because of the target."""


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
        GaplessError: Kafka or the store does not answer, or Kafka refuses a topic.
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
        self._pending: dict[int, Pending] = {}
        """The content of the next transaction, by source partition."""
        self._records = self._bytes = 0
        self._results = {each.partition: PartitionResult(each.partition) for each in order.partitions}
        self._positions: dict[int, Position] = {}
        """What is written of each source partition."""
        self._refused: dict[int, list[RefusedRecords]] = {}
        """Records of each source partition that were skipped."""

    def write(self, state: ControlState) -> list[PartitionResult]:
        """Write all partitions. An exception that no rule expects stops only them, and not other slots."""
        try:
            self._write(state)
        except (GaplessError, OSError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 -- other slots go on
            for partition, position in self._positions.items():
                if not self._is_written(partition):
                    self._stop_unexpected(partition, position.next_offset, error)
        return list(self._results.values())

    def _write(self, state: ControlState) -> None:
        slot = self._order
        self._refused = state.refused(slot.work)
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
            self._positions[order.partition] = position
        for order in slot.partitions:
            self._partition(order)
        self._commit()

    def _is_written(self, partition: int) -> bool:
        """Whether nothing is left to write of a partition, or it has stopped."""
        result = self._results[partition]
        (order,) = (each for each in self._order.partitions if each.partition == partition)
        has_ended = bool(result.failure) and not order.skip_lost
        return has_ended or result.stopped_at is not None or not self._remaining(order)

    def _remaining(self, order: PartitionOrder) -> OffsetRanges:
        return absent_ranges(order.ranges) - self._positions[order.partition].ranges

    def _partition(self, order: PartitionOrder) -> None:
        result = self._results[order.partition]
        for part in self._parts(order):
            if isinstance(part, Unreadable) and not order.skip_lost:
                result.unreadable += [(first, last) for first, last in part.ranges]
                result.failure = part.reason
                break
            self._add(order.partition, part)
            if result.stopped_at is not None:
                break

    def _parts(self, order: PartitionOrder) -> Iterator[Prepared | Unreadable]:
        """Read a partition; an exception that no rule expects stops it."""
        offset = 0
        try:
            remaining = self._remaining(order)
            offset = remaining.first_offset if remaining else 0
            items = read_ranges(self._archive, order.partition, remaining, self._order.limits)
            for part in prepare_records(items, self._order.batch_size):
                offset = part.ranges.last_offset + 1
                yield part
        except (GaplessError, OSError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 -- other partitions go on
            self._stop_unexpected(order.partition, offset, error)

    def _stop_unexpected(self, partition: int, offset: int, error: Exception) -> None:
        _log().error(
            "partition stops", source=str(self._order.source), partition=partition, offset=offset, calls=calls_of(error)
        )
        result = self._results[partition]
        result.stopped_at, result.stop_reason = offset, f"an unexpected error in Gapless ({describe(error)})"
        result.is_unexpected = True
        result.stop_reason += "; report a bug with the log, which has no content of records."

    def _add(self, partition: int, part: Prepared | Unreadable) -> None:
        """Add offsets to the next transaction; if it is full, write it first."""
        columns = part.columns if isinstance(part, Prepared) else None
        count = len(columns.offsets) if columns is not None else 0
        if self._records and self._records + count > self._order.batch_size:
            self._commit()
            if self._results[partition].stopped_at is not None:
                return
        pending = self._pending.setdefault(partition, Pending(self._positions[partition]))
        if isinstance(part, Unreadable):
            pending.add_lost(part.ranges, part.reason)
            return
        pending.add(part.ranges, columns, part.bytes)
        if columns is not None:
            self._records += count
            self._bytes += part.bytes
        if self._bytes >= _TRANSACTION_BYTES:
            self._commit()

    def _commit(self) -> None:
        """Write everything that is pending; partitions with a record that is refused separately."""
        batches = {partition: pending.batch() for partition, pending in self._pending.items()}
        self._pending = {}
        self._records = self._bytes = 0
        refused: dict[int, Batch] = {}
        while batches:
            try:
                self._write_batches(batches)
                break
            except RecordsRefusedError as error:
                for key in error.refusals:
                    refused[key.partition] = batches.pop(key.partition)
        for partition, batch in sorted(refused.items()):
            self._write_around(partition, batch)

    def _write_batches(self, batches: Mapping[int, Batch], skipped: RefusedRecords | None = None) -> None:
        """Write batches, by source partition, in one transaction; the records `skipped` are recorded with it."""
        self._writer.write([self._portion(partition, batch, skipped) for partition, batch in batches.items()])
        for partition, batch in batches.items():
            self._positions[partition] = batch.after
            result = self._results[partition]
            result.records += batch.records
            result.bytes += batch.bytes
            if batch.lost:
                result.skipped += batch.lost.count
                result.unreadable += [(first, last) for first, last in batch.lost]
                result.failure = batch.reason
            if skipped is not None:
                result.refused.append((skipped.last, skipped.last))
                result.cause = skipped.cause
        self._advanced(sum(batch.ranges.count for batch in batches.values()))

    def _write_around(self, partition: int, batch: Batch) -> None:
        stop = write_around(
            batch,
            lambda part, skipped: self._write_batches({partition: part}, skipped),
            skips=self._order.skip_refused,
            refused=self._refused.setdefault(partition, []),
        )
        if stop is not None:
            result = self._results[partition]
            result.stopped_at, result.stop_reason, result.is_unexpected = stop

    def _portion(self, partition: int, batch: Batch, skipped: RefusedRecords | None) -> Portion:
        key = WorkPartition(self._order.work, str(self._order.source), partition)
        return Portion(key, batch.columns, batch.after, skipped)


def _log() -> Any:
    import structlog  # noqa: PLC0415 -- slow to import

    return structlog.get_logger()
