"""How the partitions of a lane are copied: records are read, and written in one transaction with their positions.

Must not know how a lane is acquired. When a transaction fails, it is aborted and its records are read again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException

from gapless_kafka.writing.faults import is_refusal, is_transaction_failed
from gapless_mirror.lanes.commits import NO_EPOCHS, Change, UnconfirmedCommit, put_positions, written_partitions
from gapless_mirror.lanes.following import TopicFollower
from gapless_mirror.lanes.identity import HEARTBEAT_TOPIC
from gapless_mirror.lanes.parking import parking_of
from gapless_mirror.lanes.partitions import LanePartitions
from gapless_mirror.lanes.progress import PartitionProgress, read_from_next
from gapless_mirror.lanes.refusals import Refusals, UnparkedError
from gapless_mirror.lanes.target_epochs import read_epochs
from gapless_mirror.lanes.transformed import by_target
from gapless_mirror.lanes.unexpected import ConversionError
from gapless_mirror.lanes.writer import InterleavedError, LaneWriter, Written

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_mirror.lanes.control import LaneState
    from gapless_mirror.lanes.divergence import EpochClaim
    from gapless_mirror.lanes.reader import Batch, Reader, Reading
    from gapless_mirror.lanes.setup import LaneSetup
    from gapless_mirror.lanes.sources import SourceView
    from gapless_mirror.lanes.topic_check import TopicCheck

_IDLE_COMMIT_SECONDS = 20.0
"""How often positions are committed that have only moved past offsets without records."""


class _AbortedError(Exception):
    """The transaction was aborted; everything read since it began is read again."""


class LaneCopier:
    """Copies the partitions of one lane. Call `begin` first, and again after each failure."""

    def __init__(self, setup: LaneSetup, unconfirmed: UnconfirmedCommit | None = None) -> None:
        self._setup = setup
        self._writer: LaneWriter
        self._check: TopicCheck
        self._target_check: TopicCheck | None = None
        self._refusals = Refusals(setup.target.bootstrap_servers, setup.on_bad_record, parking_of(setup))
        self._partitions = LanePartitions(self._refusals)
        self._follower = TopicFollower(setup, self._partitions)
        self._unconfirmed = unconfirmed if unconfirmed is not None else UnconfirmedCommit()
        self.transaction_since: float | None = None
        self.committed_at: float | None = None
        self.limited_at: float | None = None
        self.records = 0
        self.bytes = 0

    def begin(
        self,
        state: LaneState,
        reader: Reader,
        writer: LaneWriter,
        check: TopicCheck,
        target_check: TopicCheck | None = None,
    ) -> None:
        """Continue from the positions in the control topic, with new connections."""
        self._writer, self._check, self._target_check = writer, check, target_check
        self._follower.begin(reader)
        self.transaction_since = None
        self._refusals.bad_records.held.clear()
        self._partitions.idle_commit_at = time.monotonic() + _IDLE_COMMIT_SECONDS
        # Changes of another thread's partitions only add to the totals, which do not include heartbeats.
        self._apply(
            [
                change
                for change in self._unconfirmed.take_all()
                if state.positions.get(change.topic_partition) == change.position
                and (change.topic_partition in self.partitions or change.topic_partition[0] != HEARTBEAT_TOPIC)
            ]
        )
        self._partitions.reopen(state, reader)

    def follow(self, view: SourceView, lane: int, pulse: Callable[[], None] = lambda: None) -> None:
        """From now on, copy the partitions of `view` that belong to the lane. See `TopicFollower.follow`."""
        self._follower.follow(view, lane, pulse)

    def step(self, wait_seconds: float, pulse: Callable[[], None], must_commit: Callable[[], bool]) -> bool:
        """Wait for records, and copy them in one transaction.

        Returns:
            Whether a transaction was committed.

        Raises:
            KafkaException: nothing was committed, or the commit is unconfirmed.
        """
        pulse()
        self._follower.resume()
        self._follower.stop_targets(self._refusals.take_missing())
        read_from_next(self._partitions.reader, self._refusals.take_due(self.partitions))
        if self._wait_for_limits(wait_seconds):
            return False
        try:
            return self._copy_transaction(wait_seconds, pulse, must_commit)
        except _AbortedError:
            return False

    def _copy_transaction(
        self, wait_seconds: float, pulse: Callable[[], None], must_commit: Callable[[], bool]
    ) -> bool:
        if not self._setup.transactional and any(each.lacks_position for each in self.partitions.values()):
            # Without transactions records precede their position, and after a crash it would be missing for ever.
            self._partitions.commit_soon()
            return self._commit_idle(pulse)
        self._process(self._partitions.reader.read(self._setup.limits.max_records(), wait_seconds))
        if not self._writer.is_open:
            return self._commit_idle(pulse)
        began = time.monotonic()
        until = began + self._setup.commit_interval_seconds
        while True:
            pulse()
            remaining = until - time.monotonic()
            is_full = self._writer.bytes >= self._setup.memory.transaction_bytes
            if remaining <= 0 or is_full or must_commit() or self._setup.limits.delay_seconds() or self.is_done:
                break
            self._process(self._partitions.reader.read(self._setup.limits.max_records(), min(remaining, 0.1)))
        return self._commit(pulse)

    @property
    def partitions(self) -> dict[TopicPartition, PartitionProgress]:
        """The partitions that are being copied."""
        return self._partitions.progress

    @property
    def needs_refresh(self) -> bool:
        """Whether a source topic has changed, so that the next `SourceView` is needed soon."""
        return self._partitions.needs_refresh

    @property
    def is_done(self) -> bool:
        """Whether every partition has stopped or reached the offset where copying ends."""
        return all(partition.is_done for partition in self.partitions.values())

    @property
    def has_unconfirmed_commit(self) -> bool:
        """Whether the last commit was sent but not confirmed."""
        return bool(self._unconfirmed)

    @property
    def has_moved(self) -> bool:
        """Whether the position of a partition has changed since the last commit."""
        return any(partition.has_moved for partition in self.partitions.values() if partition.stop is None)

    def _process(self, reading: Reading) -> None:
        for index, batch in enumerate(reading.batches):
            try:
                self._copy_batch(batch)
            except _AbortedError:
                # The reader reports an error once, and an end again when the partition is read again.
                self._follower.note_errors(reading)
                unread = {batch.topic_partition for batch in reading.batches[index:]}
                self._partitions.read_again({*reading.ends, *unread, *reading.damaged})
                raise
        again = self._read_in_part(reading)  # from there on; what is behind their records comes again as well
        reading = reading._replace(
            ends={each: end for each, end in reading.ends.items() if each not in again},
            damaged={each: found for each, found in reading.damaged.items() if each not in again},
        )
        for topic_partition, (offset, error) in reading.damaged.items():
            partition = self._partitions.active(topic_partition)
            if partition is not None:
                self._refusals.stop_damaged(partition, offset, error)
        self._follower.note_ends(reading)
        self._follower.note_errors(reading)

    def _read_in_part(self, reading: Reading) -> set[TopicPartition]:
        """Return the partitions that are read, of which not all records of a reading were copied."""
        found = set()
        for batch in reading.batches:
            partition = self._partitions.active(batch.topic_partition)
            if partition is not None and partition.next_offset <= (batch.messages[-1].offset() or 0):
                found.add(batch.topic_partition)
        return found

    def _copy_batch(self, batch: Batch) -> None:
        """Copy the records of a batch; those before one that cannot be converted, which stops its partition."""
        partition = self._partitions.active(batch.topic_partition)
        if partition is None:
            return
        try:
            self._copy_records(partition, batch)
        except ConversionError as error:
            before = [message for message in batch.messages if (message.offset() or 0) < error.offset]
            if error.is_partly_written:
                self._refusals.stop_failed(partition, error)
                self._abort()
                raise _AbortedError from None
            if before:
                self._copy_batch(batch._replace(messages=before))
            if partition.stop is None:
                self._refusals.stop_failed(partition, error)
                self._partitions.reader.drop([batch.topic_partition])

    def _copy_records(self, partition: PartitionProgress, batch: Batch) -> None:
        messages, end, first = batch.messages, partition.copy_until, partition.next_offset
        reached = first
        if (messages[0].offset() or 0) < first:
            messages = [message for message in messages if (message.offset() or 0) >= first]
        messages = self._refusals.bad_records.select(batch.topic_partition, messages)
        if end is not None and messages and (messages[-1].offset() or 0) >= end:
            messages = [message for message in messages if (message.offset() or 0) < end]
            reached = end
        own = self._setup.provenance.without_returned(messages)
        groups = by_target(own, partition.position.target)
        for target, records in groups:
            written = self._append(partition, target, records)
            partition.next_offset = max(partition.next_offset, written.offsets[-1] + 1)
            self._setup.limits.spend(len(records), written.bytes)
        if own:
            timestamp_ms = own[-1].timestamp()[1]
            partition.newest_read_ms = timestamp_ms if timestamp_ms > 0 else None
            partition.error = None
        # Nothing has changed before, if a record cannot be converted.
        partition.returned += len(messages) - len(own)
        if messages:
            partition.note_epoch(messages[-1])
            reached = max(reached, (messages[-1].offset() or 0) + 1)
        partition.next_offset = max(partition.next_offset, reached)
        if partition.is_done:
            self._partitions.reader.drop([batch.topic_partition])
        elif batch.topic_partition in self._refusals.bad_records.most:
            self._wait_for_commit(partition, has_written=bool(groups))

    def _wait_for_commit(self, partition: PartitionProgress, *, has_written: bool) -> None:
        """Read on after the records that were selected; not before they are accepted, if some were written."""
        if has_written:
            self._refusals.bad_records.held.add(partition.topic_partition)
            self._partitions.reader.drop([partition.topic_partition])
        else:
            read_from_next(self._partitions.reader, [partition])

    def _append(self, partition: PartitionProgress, target: str, messages: list[Any]) -> Written:
        """Add records to the transaction, and begin one if none is open.

        Raises:
            _AbortedError: the target refuses records of the transaction, these or earlier ones, or cannot park one.
            KafkaException: nothing of the transaction will be committed.
        """
        writer = self._writer
        try:
            if not writer.is_open:
                writer.begin()
                self.transaction_since = time.monotonic()
            parked = self._refusals.parked(partition, messages)
            written = writer.append(target, partition.topic_partition, messages, parked)
        except UnparkedError:
            self._abort()
            raise _AbortedError from None
        except KafkaException as error:
            if is_refusal(error.args[0]):
                self._refusals.stop_partition(partition, target, error.args[0])
            elif not self._refusals.handle(error.args[0], writer, self.partitions):
                raise
            self._abort()
            raise _AbortedError from None
        written.is_routed = written.target != partition.position.target
        return written

    def _wait_for_limits(self, wait_seconds: float) -> bool:
        delay = self._setup.limits.delay_seconds()
        if delay:
            self.limited_at = time.monotonic()
            time.sleep(min(delay, wait_seconds))
        return delay > 0

    def _commit_idle(self, pulse: Callable[[], None]) -> bool:
        """Commit positions that have only moved past offsets without records, if that is due."""
        now = time.monotonic()
        if now < self._partitions.idle_commit_at and not (self._setup.once and self.is_done):
            return False
        self._partitions.idle_commit_at = now + _IDLE_COMMIT_SECONDS
        if not any(partition.has_moved for partition in self.partitions.values()):
            return False
        self._writer.begin()
        self.transaction_since = now
        return self._commit(pulse)

    def _commit(self, pulse: Callable[[], None]) -> bool:
        writer = self._writer
        moved = [partition for partition in self.partitions.values() if partition.has_moved]
        self._check.start(
            {
                partition.topic_partition[0]: partition.position.source_id
                for partition in moved
                if partition.needs_same_source
            }
        )
        if self._target_check is not None:
            self._target_check.start(
                {
                    partition.position.target: partition.position.target_id
                    for partition in moved
                    if partition.stop is None
                }
            )
        try:
            writer.flush()
            epochs = self._target_epochs(pulse)
            changes = put_positions(writer, self.partitions.values(), self._setup.epoch, epochs)
            changed_topics = self._check.changed_topics(pulse)
            if changed_topics:
                self._abort()
                self._follower.pause_topics(changed_topics)
                return False
            if self._target_check is not None and (changed := self._target_check.changed_topics(pulse)):
                self._abort()
                self._follower.stop_targets(changed)
                return False
            self._unconfirmed.put(changes)
            writer.commit()
        except InterleavedError:
            writer.reporting.interleaved = True
            self._abort()
            return False
        except KafkaException as error:
            if self.has_unconfirmed_commit and is_transaction_failed(error.args[0]):
                raise  # `begin` finds out whether it was committed
            if not self._refusals.handle(error.args[0], writer, self.partitions):
                raise
            self._abort()
            return False
        self.transaction_since, self.committed_at = None, time.monotonic()
        self._partitions.idle_commit_at = self.committed_at + _IDLE_COMMIT_SECONDS
        self._apply(self._unconfirmed.take())
        self._refusals.after_commit(self._writer)
        self._partitions.read_again(self._refusals.bad_records.after_commit())
        return True

    def _target_epochs(self, pulse: Callable[[], None]) -> Mapping[TopicPartition, EpochClaim]:
        """Return the leader epochs in which the target has the records of the transaction, as far as it says."""
        if self._target_check is None:
            return NO_EPOCHS
        epochs = read_epochs(self._target_check.client, written_partitions(self._writer), pulse)
        for partition in self.partitions.values():
            found = epochs.get((partition.position.target, partition.topic_partition[1]))
            if found is not None and partition.position.target_epoch not in {None, found.epoch}:
                self._partitions.needs_refresh = True  # the log may have lost records
        return epochs

    def _apply(self, changes: list[Change]) -> None:
        """Update totals and partitions with changes that are committed: totals are never behind positions."""
        now = time.monotonic()
        self.records += sum(change.records for change in changes)
        self.bytes += sum(change.bytes for change in changes)
        for change in changes:
            change.partition.apply_commit(change.position, change.tail, change.records, change.bytes, now)
            change.partition.map_parts = change.parts

    def _abort(self) -> None:
        """Abort the transaction, and read its records again."""
        self._writer.abort()
        self._unconfirmed.take()
        self._refusals.bad_records.held.clear()
        self.transaction_since = None
        self._partitions.rewind()
