"""Owns how the partitions of a lane are copied: records are read, and written in one transaction with their positions.

Must not know how a lane is acquired. When a transaction fails, it is aborted and its records are read again.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException

from gapless_kafka.mirror.lanes.commits import Change, UnconfirmedCommit, put_positions
from gapless_kafka.mirror.lanes.identity import HEARTBEAT_TOPIC
from gapless_kafka.mirror.lanes.progress import new_progress, read_from_next
from gapless_kafka.mirror.lanes.recovery import Recovery
from gapless_kafka.mirror.lanes.refusals import Refusals
from gapless_kafka.mirror.lanes.starting import decide_starts
from gapless_kafka.mirror.lanes.target_loss import TargetLosses
from gapless_kafka.mirror.lanes.writer import InterleavedError
from gapless_kafka.writing.faults import is_refusal, is_transaction_failed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.mirror.lanes.control import LaneState
    from gapless_kafka.mirror.lanes.observations import Stop
    from gapless_kafka.mirror.lanes.progress import PartitionProgress
    from gapless_kafka.mirror.lanes.reader import Batch, Reader, Reading
    from gapless_kafka.mirror.lanes.records import LanePosition
    from gapless_kafka.mirror.lanes.setup import LaneSetup
    from gapless_kafka.mirror.lanes.sources import SourceTopic, SourceView
    from gapless_kafka.mirror.lanes.topic_check import TopicCheck
    from gapless_kafka.mirror.lanes.writer import LaneWriter, Written

_IDLE_COMMIT_SECONDS = 20.0
"""How often positions are committed that have only moved past offsets without records."""


class _AbortedError(Exception):
    """The transaction was aborted; everything read since it began is read again."""


class LaneCopier:
    """Copies the partitions of one lane. Call `begin` first, and again after each failure."""

    def __init__(self, setup: LaneSetup, unconfirmed: UnconfirmedCommit | None = None) -> None:
        self._setup = setup
        self._reader: Reader
        self._writer: LaneWriter
        self._state: LaneState
        self._view_number = -1
        self._check: TopicCheck
        self._recovery = Recovery(setup)
        self._target_check: TopicCheck | None = None
        self._target_losses = TargetLosses(setup)
        self._idle_commit_at = 0.0
        self._refusals = Refusals(setup.target.bootstrap_servers, setup.on_bad_record)
        self._unconfirmed = unconfirmed if unconfirmed is not None else UnconfirmedCommit()
        self._starts: Mapping[TopicPartition, LanePosition | Stop] = {}
        """Where partitions start without a position, although their targets have records, or why they do not."""
        self.partitions: dict[TopicPartition, PartitionProgress] = {}
        self.needs_refresh = False
        """Whether a source topic has changed, so that the next `SourceView` is needed soon."""
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
        self._state, self._reader, self._writer, self._check = state, reader, writer, check
        self._target_check = target_check
        self._view_number = -1
        self.transaction_since = None
        self._recovery.begin(reader)
        self._refusals.bad_records.held.clear()
        self._idle_commit_at = time.monotonic() + _IDLE_COMMIT_SECONDS
        # Changes of another thread's partitions only add to the totals, which do not include heartbeats.
        self._apply(
            [
                change
                for change in self._unconfirmed.take()
                if state.positions.get(change.topic_partition) == change.position
                and (change.topic_partition in self.partitions or change.topic_partition[0] != HEARTBEAT_TOPIC)
            ]
        )
        previous, self.partitions = self.partitions, {}
        for topic_partition, partition in previous.items():
            position = state.positions.get(topic_partition)
            if position is not None or (partition.is_new and self._refusals.is_waiting(topic_partition)):
                reopened = partition.reopen(position)
                reopened.tail = state.tails.get(topic_partition)
                reopened.map_parts, reopened.expired_parts = state.map_parts.get(topic_partition, []), []
                self.partitions[topic_partition] = reopened
                if reopened.stop is None and self._refusals.is_reading(topic_partition):
                    read_from_next(self._reader, [reopened])

    def follow(self, view: SourceView, lane: int, pulse: Callable[[], None] = lambda: None) -> None:
        """From now on, copy the partitions of `view` that belong to the lane.

        Args:
            view: of the source.
            lane: of the mirror.
            pulse: called while waiting for Kafka.

        Raises:
            KafkaException: it cannot be found out where a partition starts; nothing has changed.
            GaplessError: the same.
        """
        if view.number == self._view_number:
            return
        followed = list(view.lane_partitions(lane, self._setup.lanes))
        unknown = {(topic.name, number): topic for topic, number in followed}
        for known in self.partitions.keys() | self._state.positions.keys():
            unknown.pop(known, None)
        self._starts = decide_starts(unknown, self._state, self._setup, pulse) if unknown else {}
        self._view_number = view.number
        self.needs_refresh = False
        starting: dict[TopicPartition, PartitionProgress] = {}
        selected = set()
        for topic, number in followed:
            selected.add((topic.name, number))
            self._follow_partition(topic, number, starting)
        self._drop([topic_partition for topic_partition in self.partitions if topic_partition not in selected])
        read_from_next(self._reader, [partition for partition in starting.values() if partition.must_read])

    def _follow_partition(
        self, topic: SourceTopic, number: int, starting: dict[TopicPartition, PartitionProgress]
    ) -> None:
        """Compare a partition with both clusters, and add it to `starting` if reading it starts."""
        topic_partition = (topic.name, number)
        partition = self.partitions.get(topic_partition)
        if partition is None:
            start = self._starts.get(topic_partition)
            partition = new_progress(topic_partition, topic, self._state, self._setup, start)
            self.partitions[topic_partition] = partition
            if partition.starts_at_group:
                self._recovery.schedule_check(topic_partition)  # reading starts if the log has the offset
            else:
                starting[topic_partition] = partition
            if partition.is_new:
                self._idle_commit_at = 0.0
        if partition.is_undecided or not self._follow_target(partition, topic, starting):
            return
        if topic.id and partition.position.source_id and topic.id != partition.position.source_id:
            starting.pop(topic_partition, None)
            if self._recovery.follow_recreated(partition, topic):
                self._idle_commit_at = 0.0
            return
        partition.source_end = (topic.id, topic.end_offsets[number])
        partition.expire_map(topic.first_offsets[number])
        if partition.awaits_refresh:
            partition.awaits_refresh = False
            starting[topic_partition] = partition
        ends = topic.high_watermarks or topic.end_offsets
        if partition.next_offset > ends[number] and partition.stop is None:
            # The end may be older than the position, or the log may have lost records.
            starting.pop(topic_partition, None)
            self._reader.drop([topic_partition])
            partition.awaits_check = True
            self._recovery.schedule_check(topic_partition)

    def _follow_target(
        self, partition: PartitionProgress, topic: SourceTopic, starting: dict[TopicPartition, PartitionProgress]
    ) -> bool:
        """Compare a partition with its target; return whether it may be copied."""
        before = partition.next_offset
        may_copy = self._target_losses.follow(partition, topic)
        if partition.is_adopted or partition.before_skip is not None:
            self._idle_commit_at = 0.0
        if not may_copy or partition.next_offset != before:
            self._reader.drop([partition.topic_partition])
            starting.pop(partition.topic_partition, None)
        if may_copy and partition.next_offset != before:
            starting[partition.topic_partition] = partition
        return may_copy

    def step(self, wait_seconds: float, pulse: Callable[[], None], must_commit: Callable[[], bool]) -> bool:
        """Wait for records, and copy them in one transaction.

        Returns:
            Whether a transaction was committed.

        Raises:
            KafkaException: nothing was committed, or the commit is unconfirmed.
        """
        pulse()
        if self._recovery.resume(self.partitions):
            self._idle_commit_at = 0.0
        read_from_next(self._reader, self._refusals.take_due(self.partitions))
        if self._wait_for_limits(wait_seconds):
            return False
        try:
            return self._copy_transaction(wait_seconds, pulse, must_commit)
        except _AbortedError:
            return False

    def _copy_transaction(
        self, wait_seconds: float, pulse: Callable[[], None], must_commit: Callable[[], bool]
    ) -> bool:
        self._process(self._reader.read(self._setup.limits.max_records(), wait_seconds))
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
            self._process(self._reader.read(self._setup.limits.max_records(), min(remaining, 0.1)))
        return self._commit(pulse)

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
                self._handle_errors(reading)
                self._read_again({*reading.ends, *(unread.topic_partition for unread in reading.batches[index:])})
                raise
        for topic_partition, end in reading.ends.items():
            partition = self._active(topic_partition)
            if partition is not None:
                partition.end_seen, partition.progressed_at, partition.error = end, time.monotonic(), None
                partition.next_offset = max(partition.next_offset, end)
                if partition.copy_until is not None and end < partition.copy_until:
                    self._check_shorter_log(partition)
        self._handle_errors(reading)

    def _check_shorter_log(self, partition: PartitionProgress) -> None:
        """Find out why a log ends before the offset that it had reached: it was truncated, or the topic recreated."""
        self._reader.drop([partition.topic_partition])
        partition.awaits_check = self.needs_refresh = True
        self._recovery.schedule_check(partition.topic_partition)

    def _handle_errors(self, reading: Reading) -> None:
        for topic_partition, error in reading.errors:
            partition = self._active(topic_partition)
            if partition is not None:
                self._recovery.note_error(partition, error)
        for topic_partition, known in reading.epochs.items():
            partition = self.partitions.get(topic_partition)
            if partition is not None and known[1] <= partition.next_offset:
                partition.read_epoch = known

    def _active(self, topic_partition: TopicPartition) -> PartitionProgress | None:
        """Return a partition if it is still being copied."""
        partition = self.partitions.get(topic_partition)
        if partition is None or partition.is_done or not self._refusals.is_reading(topic_partition):
            return None
        return partition

    def _copy_batch(self, batch: Batch) -> None:
        partition = self._active(batch.topic_partition)
        if partition is None:
            return
        messages, end, first = batch.messages, partition.copy_until, partition.next_offset
        if (messages[0].offset() or 0) < first:
            messages = [message for message in messages if (message.offset() or 0) >= first]
        messages = self._refusals.bad_records.select(batch.topic_partition, messages)
        if end is not None and messages and (messages[-1].offset() or 0) >= end:
            messages = [message for message in messages if (message.offset() or 0) < end]
            partition.next_offset = end
        own = self._setup.provenance.without_returned(messages)
        partition.returned += len(messages) - len(own)
        if own:
            written = self._append(partition, batch.target or partition.position.target, own)
            partition.next_offset = max(partition.next_offset, written.offsets[-1] + 1)
            timestamp_ms = own[-1].timestamp()[1]
            partition.newest_read_ms = timestamp_ms if timestamp_ms > 0 else None
            partition.error = None
            self._setup.limits.spend(len(own), written.bytes)
        if messages:
            partition.note_epoch(messages[-1])
            partition.next_offset = max(partition.next_offset, (messages[-1].offset() or 0) + 1)
        if partition.is_done:
            self._reader.drop([batch.topic_partition])
        elif batch.topic_partition in self._refusals.bad_records.most:
            self._wait_for_commit(partition, has_written=bool(own))

    def _wait_for_commit(self, partition: PartitionProgress, *, has_written: bool) -> None:
        """Read on after the records that were selected; not before they are accepted, if some were written."""
        if has_written:
            self._refusals.bad_records.held.add(partition.topic_partition)
            self._reader.drop([partition.topic_partition])
        else:
            read_from_next(self._reader, [partition])

    def _append(self, partition: PartitionProgress, target: str, messages: list[Any]) -> Written:
        """Add records to the transaction, and begin one if none is open.

        Raises:
            _AbortedError: the target refuses records of the transaction, these or earlier ones.
            KafkaException: nothing of the transaction will be committed.
        """
        writer = self._writer
        try:
            if not writer.is_open:
                writer.begin()
                self.transaction_since = time.monotonic()
            written = writer.append(target, partition.topic_partition, messages)
        except KafkaException as error:
            if is_refusal(error.args[0]):
                self._refusals.stop_partition(partition, target, error.args[0])
            elif not self._refusals.handle(error.args[0], writer, self.partitions):
                raise
            self._abort()
            raise _AbortedError from None
        written.is_routed = target != partition.position.target
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
        if now < self._idle_commit_at and not (self._setup.once and self.is_done):
            return False
        self._idle_commit_at = now + _IDLE_COMMIT_SECONDS
        if not any(partition.has_moved for partition in self.partitions.values()):
            return False
        self._writer.begin()
        self.transaction_since = now
        return self._commit(pulse)

    def _commit(self, pulse: Callable[[], None]) -> bool:
        writer = self._writer
        moved = [partition for partition in self.partitions.values() if partition.has_moved]
        self._check.start({partition.topic_partition[0]: partition.position.source_id for partition in moved})
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
            changes = put_positions(writer, self.partitions.values(), self._setup.epoch)
            changed_topics = self._check.changed_topics(pulse)
            if changed_topics:
                self._pause_topics(changed_topics)
                return False
            if self._target_check is not None and (changed := self._target_check.changed_topics(pulse)):
                self._stop_targets(changed)
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
        self._idle_commit_at = self.committed_at + _IDLE_COMMIT_SECONDS
        self._apply(self._unconfirmed.take())
        self._refusals.after_commit(self._writer)
        self._read_again(self._refusals.bad_records.after_commit())
        return True

    def _apply(self, changes: list[Change]) -> None:
        """Update partitions and totals with changes that are committed."""
        now = time.monotonic()
        for partition, position, tail, parts, records, size in changes:
            partition.apply_commit(position, tail, records, size, now)
            partition.map_parts = parts
            self.records += records
            self.bytes += size

    def _pause_topics(self, topics: set[str]) -> None:
        """Abort, and read nothing from `topics` until the source is refreshed: they may have been recreated."""
        self._abort()
        self.needs_refresh = True
        for partition in self.partitions.values():
            if partition.topic_partition[0] in topics:
                partition.awaits_refresh = True
                self._reader.drop([partition.topic_partition])

    def _stop_targets(self, targets: set[str]) -> None:
        """Abort, and stop the partitions whose target topics were deleted or recreated."""
        self._abort()
        self.needs_refresh = True
        for partition in self.partitions.values():
            if partition.position.target in targets:
                self._target_losses.stop_changed(partition)
                self._reader.drop([partition.topic_partition])
                partition.awaits_refresh = partition.stop is None

    def _abort(self) -> None:
        """Abort the transaction, and read its records again."""
        self._writer.abort()
        self._unconfirmed.take()
        self._refusals.bad_records.held.clear()
        self.transaction_since = None
        rewound = []
        for partition in self.partitions.values():
            if partition.next_offset != partition.position.next_offset:
                partition.next_offset = partition.position.next_offset
                partition.returned, partition.read_epoch = 0, None
                rewound.append(partition)
        self._reader.drop(partition.topic_partition for partition in rewound)
        reads = self._refusals.is_reading
        read_from_next(self._reader, [each for each in rewound if each.stop is None and reads(each.topic_partition)])

    def _read_again(self, topic_partitions: set[TopicPartition]) -> None:
        """Read partitions again whose records were read and not processed."""
        active = map(self._active, topic_partitions)
        read_from_next(self._reader, [partition for partition in active if partition is not None])

    def _drop(self, topic_partitions: list[TopicPartition]) -> None:
        """Stop copying partitions that no longer belong to the mirror."""
        self._reader.drop(topic_partitions)
        for topic_partition in topic_partitions:
            partition = self.partitions.pop(topic_partition)
            if not partition.is_new and not partition.is_undecided:
                self._state.positions[topic_partition] = partition.position
                self._state.map_parts[topic_partition] = partition.map_parts
                if partition.tail is not None:
                    self._state.tails[topic_partition] = partition.tail
