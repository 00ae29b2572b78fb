"""How a lane resolves a hanging transaction: one that was ended, but that Kafka has left open in a partition.

When Kafka's coordinator ends a transaction, it skips a partition that has no leader at that moment and still answers
with success (KAFKA-20734, up to Kafka 4.3). No later producer and no timeout ends such a transaction. The next commit
of the lane would make its records visible, although its positions are lost and the records are written again.

The new owner of the lane therefore reads from the control topic what the transaction did:

1. Records that are committed in the target stay.
2. Records that are still open, or whose outcome is unknown, are written again and aborted. The abort ends the hanging
   transaction as well.
3. The positions that are valid after that are committed last. An owner that is killed earlier leaves everything as it
   was found.

Kafka answers before it has ended a transaction in each partition, so an open transaction is checked again for a while.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import KafkaException

from gapless_api.base.errors import SourceStalledError
from gapless_api.wire.form import WireError
from gapless_kafka.writing.faults import failure_of
from gapless_kafka.writing.offset_map import Run, unpack_runs
from gapless_kafka.writing.positions import content
from gapless_mirror.lanes.control import LaneState, lane_state, read_open_records, unreadable_record
from gapless_mirror.lanes.control_records import Span
from gapless_mirror.lanes.reader import LaneReader, Reader
from gapless_mirror.lanes.records import MAP, POSITION, LanePosition, MapTail, position_key, read_record
from gapless_mirror.lanes.stored import StoredRecord, current_records
from gapless_mirror.lanes.transformed import by_target

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_mirror.lanes.setup import LaneSetup
    from gapless_mirror.lanes.writer import LaneWriter

HANGING_TRANSACTION = "TRANSACTION_LEFT_OPEN"
"""The name of this error, beside the error names of Kafka."""
_TIMEOUT_SECONDS = 30.0
MARKER_SECONDS = 5.0
"""How long a transaction may stay open in a partition after Kafka has confirmed its end."""
_WAIT_SECONDS = 0.2
_BATCH_SIZE = 10_000
_MAX_LISTED = 5


class HangingTransactionError(SourceStalledError):
    """A transaction is open that the mirror cannot end."""


class _Outcome(Enum):
    """The state of a partition's records in the target."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


class _PartitionChange(NamedTuple):
    """What the transaction did for one source partition."""

    topic_partition: TopicPartition
    """Of the source."""
    before: LanePosition | None
    """The committed position without the transaction; ``None`` for none."""
    after: LanePosition
    """The position in the transaction."""
    first_offset: int
    """The source offset from which its records were copied."""
    target_offset: int | None
    """The offset of its first record in the target; ``None`` if unknown."""

    @property
    def target(self) -> TopicPartition:
        return (self.after.target, self.topic_partition[1])

    @property
    def has_records(self) -> bool:
        return self.after.records > (self.before.records if self.before is not None else 0)


class HangingTransaction:
    """A hanging transaction of a lane."""

    def __init__(
        self, setup: LaneSetup, lane: int, state: LaneState, writer: LaneWriter, pulse: Callable[[], None]
    ) -> None:
        """Kafka is not called before `resolve`.

        Args:
            setup: what all lanes have in common.
            lane: whose transaction it is.
            state: of the lane before the transaction, with the offset where the transaction begins.
            writer: of the producer that has fenced the previous owners.
            pulse: called while waiting for Kafka; it may raise to stop at once.
        """
        self._setup, self._lane, self._state, self._writer, self._pulse = setup, lane, state, writer, pulse
        self._topic = setup.identity.control_topic
        self._begin = state.open_from or 0

    def resolve(self, reader: Reader) -> None:
        """End the transaction, and make records and positions agree, without loss or duplicates.

        Args:
            reader: of the source, from which nothing was read yet; the caller closes it.

        Raises:
            KafkaException: Kafka does not answer or fails; the next owner starts over.
            HangingTransactionError: the transaction cannot be ended from here.
            GaplessError: Kafka denies access or does not answer.
        """
        span = Span(self._begin, self._state.mark)
        written = read_open_records(self._setup.target, self._topic, self._lane, span, pulse=self._pulse)
        records = {record.key or b"": record.value or b"" for record in current_records(written)}
        changes = self._changes(records)
        outcomes = self._outcomes(changes)
        uncommitted = [
            change
            for change in changes
            if change.has_records and outcomes.get(change.topic_partition) in {None, _Outcome.OPEN}
        ]
        if uncommitted:
            self._abort_records(uncommitted, reader)
            outcomes |= self._outcomes(uncommitted, open_seconds=MARKER_SECONDS)
        still_open = [change for change in uncommitted if outcomes.get(change.topic_partition) is _Outcome.OPEN]
        if still_open:
            raise self.error(still_open)
        undone = [change for change in changes if outcomes.get(change.topic_partition) is not _Outcome.COMMITTED]
        self._commit_positions({change.topic_partition: change for change in undone}, records)

    def error(self, still_open: Iterable[_PartitionChange] = ()) -> HangingTransactionError:
        """Return the error for a transaction that stays open in the control topic and these target partitions."""
        servers = self._setup.target.bootstrap_servers
        partitions = [(self._topic, self._lane, self._begin)]
        partitions += [(*change.target, change.target_offset or 0) for change in still_open]
        listed = ", ".join(
            f"{topic}/{partition} from offset {first}" for topic, partition, first in partitions[:_MAX_LISTED]
        )
        more = f" and {len(partitions) - _MAX_LISTED} more" if len(partitions) > _MAX_LISTED else ""
        return HangingTransactionError(
            f"A transaction of this mirror hangs in Kafka at {servers} ({listed}{more}); abort it "
            f"in each of these partitions with kafka-transactions.sh --bootstrap-server {servers} abort --topic TOPIC "
            f"--partition NUMBER --start-offset OFFSET."
        )

    def _changes(self, records: Mapping[bytes, bytes]) -> list[_PartitionChange]:
        """Read from the transaction's records in the control topic what it did for each source partition."""
        try:
            after = lane_state([StoredRecord(*each) for each in records.items()], self._topic, self._lane)
            runs: dict[TopicPartition, list[Run]] = {}
            for key, value in records.items():
                lane_key, part = read_record(key, value)
                if lane_key.kind == "map":
                    runs.setdefault((lane_key.source, lane_key.partition), []).extend(unpack_runs(part.runs))
        except (WireError, ValueError) as error:
            raise unreadable_record(self._topic, error) from None
        changes = []
        for topic_partition, position in after.positions.items():
            before = self._state.positions.get(topic_partition)
            first_offset = position.start
            if before is not None and (before.target, before.source_id) == (position.target, position.source_id):
                first_offset = before.next_offset
            target_offset = None
            added = runs_after(self._state.tails.get(topic_partition), runs.get(topic_partition, ()))
            if added:
                first_offset, target_offset = added[0].first, added[0].target
            changes.append(_PartitionChange(topic_partition, before, position, first_offset, target_offset))
        return changes

    def _outcomes(
        self, changes: Iterable[_PartitionChange], *, open_seconds: float = 0.0
    ) -> dict[TopicPartition, _Outcome]:
        """Read from the target what became of the records, by source partition; partitions without answer are left out.

        Args:
            changes: the partitions to check.
            open_seconds: how long to check again where the transaction is open.
        """
        pending = {
            change.target: change for change in changes if change.has_records and change.target_offset is not None
        }
        outcomes: dict[TopicPartition, _Outcome] = {}
        if not pending:
            return outcomes
        reader = LaneReader(self._setup.target)
        now = time.monotonic()
        deadline, open_until = now + _TIMEOUT_SECONDS, now + open_seconds
        try:
            reader.add({target: change.target_offset or 0 for target, change in pending.items()})
            while any(
                change.topic_partition not in outcomes or time.monotonic() < open_until for change in pending.values()
            ):
                self._wait(deadline)
                reading = reader.read(_BATCH_SIZE, _WAIT_SECONDS)
                for batch in reading.batches:
                    change = pending.pop(batch.topic_partition, None)
                    if change is not None:
                        is_committed = batch.messages[0].offset() == change.target_offset
                        outcomes[change.topic_partition] = _Outcome.COMMITTED if is_committed else _Outcome.ABORTED
                        reader.drop([batch.topic_partition])
                for target, end in reading.ends.items():
                    change = pending.get(target)
                    if change is not None and end <= (change.target_offset or 0):
                        outcomes[change.topic_partition] = _Outcome.OPEN
                    elif change is not None:
                        outcomes[change.topic_partition] = _Outcome.ABORTED
                        del pending[target]
                        reader.drop([target])
                for _, error in reading.errors:
                    raise KafkaException(error)
        finally:
            reader.close()
        return outcomes

    def _abort_records(self, changes: Iterable[_PartitionChange], reader: Reader) -> None:
        """Write the records again, and abort them together with the hanging ones."""
        writer, unread = self._writer, {change.topic_partition: change for change in changes}
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        reader.add({topic_partition: change.first_offset for topic_partition, change in unread.items()})
        writer.begin()
        while unread:
            self._wait(deadline)
            reading = reader.read(_BATCH_SIZE, _WAIT_SECONDS)
            for topic_partition, messages in reading.batches:
                change = unread.get(topic_partition)
                if change is None:
                    continue
                if (messages[-1].offset() or 0) >= change.after.next_offset - 1:
                    del unread[topic_partition]
                self._write_again(change, messages)
            for topic_partition in reading.ends:
                unread.pop(topic_partition, None)  # the source has no more of its records
            for _, error in reading.errors:
                raise KafkaException(error)
        writer.flush()
        errors = [error for written in writer.written for error in written.errors]
        if errors:
            raise KafkaException(failure_of(errors))
        writer.abort()

    def _write_again(self, change: _PartitionChange, messages: list[Any]) -> None:
        first, end = change.first_offset, change.after.next_offset
        own = self._setup.provenance.without_returned(
            [message for message in messages if first <= (message.offset() or 0) < end]
        )
        for target, records in by_target(own, change.after.target):
            self._writer.append(target, change.topic_partition, records)

    def _commit_positions(
        self, undone: Mapping[TopicPartition, _PartitionChange], records: Mapping[bytes, bytes]
    ) -> None:
        """Commit what the transaction wrote to the control topic, with the earlier state of the `undone` partitions."""
        writer = self._writer
        writer.begin()
        writer.touch()
        for topic_partition, change in undone.items():
            position = None if change.before is None else content(POSITION, change.before)
            writer.put(position_key(*topic_partition), position)
        for key, value in records.items():
            lane_key, _ = read_record(key, value)
            topic_partition = (lane_key.source, lane_key.partition)
            if lane_key.kind == "map" and topic_partition in undone:
                tail = self._state.tails.get(topic_partition)
                is_tail = tail is not None and tail.runs and tail.runs[0].first == lane_key.first_offset
                writer.put(key, content(MAP, tail.record()) if tail is not None and is_tail else None)
        writer.commit()

    def _wait(self, deadline: float) -> None:
        self._pulse()
        if time.monotonic() > deadline:
            raise self.error()


def runs_after(tail: MapTail | None, runs: Iterable[Run]) -> list[Run]:
    """Return the runs of a transaction's records.

    Source offsets may go back, so they are told apart from earlier ones by their target offsets, which ascend.

    Args:
        tail: the last part of the offset map before the transaction; ``None`` for none.
        runs: of the parts that the transaction has written: the tail with more runs, or parts after it.
    """
    runs = list(runs)
    if tail is None or not tail.runs:
        return runs
    end = tail.runs[-1].target + tail.runs[-1].length
    if not any(run.target + run.length > end for run in runs):
        return runs if runs and runs[0] != tail.runs[0] else []
    return [
        Run(run.first + max(end - run.target, 0), run.length - max(end - run.target, 0), max(run.target, end))
        for run in runs
        if run.target + run.length > end
    ]
