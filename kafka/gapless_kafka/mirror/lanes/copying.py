"""Owns how the partitions of a lane are copied: from the reader to one transaction with the positions behind it.

Must not know how a lane is taken. A transaction that fails is given up, and its records are read again.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException

from gapless_kafka.mirror.lanes.commits import Change, CommitInDoubt, put_positions
from gapless_kafka.mirror.lanes.identity import HEARTBEAT_TOPIC
from gapless_kafka.mirror.lanes.progress import PartitionProgress, lost_offsets, position_in
from gapless_kafka.mirror.lanes.recovery import Recovery
from gapless_kafka.mirror.lanes.refusals import Refusals
from gapless_kafka.mirror.lanes.writer import InterleavedError
from gapless_kafka.writing.faults import is_refusal, is_transaction_failed

if TYPE_CHECKING:
    from collections.abc import Callable

    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.mirror.lanes.control import LaneState
    from gapless_kafka.mirror.lanes.reader import Batch, Reader, Reading
    from gapless_kafka.mirror.lanes.setup import LaneSetup
    from gapless_kafka.mirror.lanes.sources import SourceTopic, SourceView
    from gapless_kafka.mirror.lanes.topic_check import TopicCheck
    from gapless_kafka.mirror.lanes.writer import LaneWriter, Written

_IDLE_COMMIT_SECONDS = 20.0
"""After which a position is committed that has moved over offsets without records."""


class _GivenUpError(Exception):
    """The transaction was given up, and all that was read since it began is read again."""


class Copying:
    """What a lane copies, from `begin` on."""

    def __init__(self, setup: LaneSetup, in_doubt: CommitInDoubt | None = None) -> None:
        self._setup = setup
        self._reader: Reader
        self._writer: LaneWriter
        self._state: LaneState
        self._view_number = -1
        self._check: TopicCheck
        self._recovery = Recovery(setup)
        self._idle_commit_at = 0.0
        self._refusals = Refusals(setup.target.bootstrap_servers)
        self._in_doubt = in_doubt if in_doubt is not None else CommitInDoubt()
        self.partitions: dict[TopicPartition, PartitionProgress] = {}
        self.awaits_view = False
        """Whether a topic has changed, so that the source is to be looked at soon."""
        self.transaction_since: float | None = None
        self.committed_at: float | None = None
        self.limited_at: float | None = None
        self.records = 0
        self.bytes = 0

    def begin(self, state: LaneState, reader: Reader, writer: LaneWriter, check: TopicCheck) -> None:
        """Continue from what the control topic holds, with new connections."""
        self._state, self._reader, self._writer, self._check = state, reader, writer, check
        self._view_number = -1
        self.transaction_since = None
        self._recovery.begin(reader)
        self._idle_commit_at = time.monotonic() + _IDLE_COMMIT_SECONDS
        made = [one for one in self._in_doubt.take() if state.positions.get(one.one.place) == one.position]
        # Of another thread's partitions only records count here, and heartbeats are none.
        self._count([one for one in made if one.one.place in self.partitions or one.one.place[0] != HEARTBEAT_TOPIC])
        former, self.partitions = self.partitions, {}
        for place, one in former.items():
            position = state.positions.get(place)
            if position is not None or (one.is_new and self._refusals.holds(place)):
                kept = one.reopened(position)
                kept.tail = state.tails.get(place)
                kept.map_parts, kept.expired_parts = state.map_parts.get(place, []), []
                self.partitions[place] = kept
                if kept.stop is None:
                    self._reader.add({place: kept.next_offset})

    def follow(self, view: SourceView, lane: int) -> None:
        """Copy the partitions of a later `view` that belong to the lane, from now on."""
        if view.number == self._view_number:
            return
        self._view_number = view.number
        self.awaits_view = False
        offsets: dict[TopicPartition, int] = {}
        chosen = set()
        for topic, partition in view.places(lane, self._setup.lanes):
            place = (topic.name, partition)
            chosen.add(place)
            known = self.partitions.get(place)
            if known is None:
                known = self._taken(place, topic)
                self.partitions[place] = known
                if known.continues:
                    self._recovery.look_at(place)  # which reads on there if the log has it
                elif not known.is_done:
                    offsets[place] = known.next_offset
                if known.is_new:
                    self._idle_commit_at = 0.0
            if topic.id and known.position.source_id and topic.id != known.position.source_id:
                offsets.pop(place, None)
                if self._recovery.follow_recreated(known, topic):
                    self._idle_commit_at = 0.0
                continue
            known.source_end = (topic.id, topic.end_offsets[partition])
            known.expire_map(topic.first_offsets[partition])
            if known.is_suspect:
                known.is_suspect = False
                offsets[place] = known.next_offset
        self._drop([place for place in self.partitions if place not in chosen])
        self._reader.add(offsets)

    def step(self, wait_seconds: float, pulse: Callable[[], None], hurry: Callable[[], bool]) -> bool:
        """Wait for records, and copy them in one transaction.

        Returns:
            Whether something was committed.

        Raises:
            KafkaException: nothing was committed, or nobody knows.
        """
        pulse()
        if self._recovery.resume(self.partitions):
            self._idle_commit_at = 0.0
        self._reader.add({one.place: one.next_offset for one in self._refusals.due(self.partitions)})
        if self._wait_for_limits(wait_seconds):
            return False
        try:
            return self._copy_one(wait_seconds, pulse, hurry)
        except _GivenUpError:
            return False

    def _copy_one(self, wait_seconds: float, pulse: Callable[[], None], hurry: Callable[[], bool]) -> bool:
        self._take(self._reader.read(self._setup.limits.most_records(), wait_seconds))
        if not self._writer.is_open:
            return self._commit_idle(pulse)
        began = time.monotonic()
        until = began + self._setup.commit_interval_seconds
        while True:
            pulse()
            left = until - time.monotonic()
            full = self._writer.bytes >= self._setup.memory.transaction_bytes
            if left <= 0 or full or hurry() or self._setup.limits.delay_seconds() or self.is_done:
                break
            self._take(self._reader.read(self._setup.limits.most_records(), min(left, 0.1)))
        return self._commit(pulse)

    @property
    def is_done(self) -> bool:
        """Whether all partitions are where copying ends."""
        return all(one.is_done for one in self.partitions.values())

    @property
    def is_unsure(self) -> bool:
        """Whether nobody knows if the last commit was made."""
        return bool(self._in_doubt)

    @property
    def has_moved(self) -> bool:
        """Whether a position has changed that is not committed."""
        return any(one.has_moved for one in self.partitions.values() if one.stop is None)

    def _taken(self, place: TopicPartition, topic: SourceTopic) -> PartitionProgress:
        """A partition that was not copied by this lane's owner before."""
        partition, known = place[1], self._state.positions.get(place)
        is_new, position = known is None, position_in(topic, partition, known, self._setup.epoch)
        return PartitionProgress(
            place,
            position,
            position.next_offset,
            time.monotonic(),
            tail=self._state.tails.get(place),
            map_parts=self._state.map_parts.get(place, []),
            copy_until=topic.end_offsets[partition] if self._setup.once else None,
            is_new=is_new,
            continues=is_new and partition in topic.former,
            lost_before=lost_offsets(position),
        )

    def _take(self, reading: Reading) -> None:
        for number, batch in enumerate(reading.batches):
            try:
                self._copy(batch)
            except _GivenUpError:
                self._read_again({unread.place for unread in reading.batches[number:]})
                raise
        for place, end in reading.ends.items():
            one = self.partitions.get(place)
            if one is not None and not one.is_done:
                one.end_seen, one.progressed_at, one.error = end, time.monotonic(), None
                one.next_offset = max(one.next_offset, end)
        for place, error in reading.errors:
            one = self.partitions.get(place)
            if one is not None and not one.is_done:
                self._recovery.note(one, error)

    def _copy(self, batch: Batch) -> None:
        one = self.partitions.get(batch.place)
        if one is None or one.is_done:
            return
        messages = batch.messages
        if (messages[0].offset() or 0) < one.next_offset:
            messages = [message for message in messages if (message.offset() or 0) >= one.next_offset]
        end = one.copy_until
        if end is not None and messages and (messages[-1].offset() or 0) >= end:
            messages = [message for message in messages if (message.offset() or 0) < end]
            one.next_offset = end
        kept, last = self._setup.provenance.kept(messages), messages[-1] if messages else None
        one.returned += len(messages) - len(kept)
        messages = kept
        if messages:
            written = self._append(one, batch.target or one.position.target, messages)
            one.next_offset = max(one.next_offset, written.offsets[-1] + 1)
            at = messages[-1].timestamp()[1]
            one.newest_read_ms = at if at > 0 else None
            one.error = None
            self._setup.limits.spend(len(messages), written.bytes)
        if last is not None:
            one.next_offset = max(one.next_offset, (last.offset() or 0) + 1)
        if one.is_done:
            self._reader.drop([batch.place])

    def _append(self, one: PartitionProgress, target: str, messages: list[Any]) -> Written:
        """Hand records over.

        Raises:
            _GivenUpError: the target refuses some, these or others of the transaction.
            KafkaException: nothing of the transaction will be committed.
        """
        writer = self._writer
        try:
            if not writer.is_open:
                writer.begin()
                self.transaction_since = time.monotonic()
            written = writer.append(target, one.place, messages)
        except KafkaException as error:
            if is_refusal(error.args[0]):
                self._refusals.stop(one, target, error.args[0])
            elif not self._refusals.handle(error.args[0], writer, self.partitions):
                raise
            self._give_up()
            raise _GivenUpError from None
        written.is_routed = target != one.position.target
        return written

    def _wait_for_limits(self, wait_seconds: float) -> bool:
        delay = self._setup.limits.delay_seconds()
        if delay:
            self.limited_at = time.monotonic()
            time.sleep(min(delay, wait_seconds))
        return delay > 0

    def _commit_idle(self, pulse: Callable[[], None]) -> bool:
        """Commit positions that have moved over offsets without records, now and then."""
        now = time.monotonic()
        if now < self._idle_commit_at and not (self._setup.once and self.is_done):
            return False
        self._idle_commit_at = now + _IDLE_COMMIT_SECONDS
        if not any(one.has_moved for one in self.partitions.values()):
            return False
        self._writer.begin()
        self.transaction_since = now
        return self._commit(pulse)

    def _commit(self, pulse: Callable[[], None]) -> bool:
        writer = self._writer
        moved = {place[0]: one.position.source_id for place, one in self.partitions.items() if one.has_moved}
        self._check.ask(moved)
        try:
            writer.flush()
            changes = put_positions(writer, self.partitions.values(), self._setup.epoch)
            changed = self._check.changed(pulse)
            if changed:
                self._suspect(changed)
                return False
            self._in_doubt.put(changes)
            writer.commit()
        except InterleavedError:
            writer.reporting.interleaved = True
            self._give_up()
            return False
        except KafkaException as error:
            if self.is_unsure and is_transaction_failed(error.args[0]):
                raise  # who opens the lane again finds out whether the commit was made
            if not self._refusals.handle(error.args[0], writer, self.partitions):
                raise
            self._give_up()
            return False
        self._note_commit()
        return True

    def _note_commit(self) -> None:
        self.transaction_since, self.committed_at = None, time.monotonic()
        self._idle_commit_at = self.committed_at + _IDLE_COMMIT_SECONDS
        self._count(self._in_doubt.take())
        self._refusals.committed(self._writer)

    def _count(self, changes: list[Change]) -> None:
        """Take note of what is committed."""
        now = time.monotonic()
        for one, position, tail, parts, records, size in changes:
            one.committed(position, tail, records, size, now)
            one.map_parts += [first for first in parts if first not in one.map_parts[-1:]]
            self.records += records
            self.bytes += size

    def _suspect(self, topics: set[str]) -> None:
        """Wait for a look at the source, because what was read of some topics may be of recreated ones."""
        self._give_up()
        self.awaits_view = True
        for one in self.partitions.values():
            if one.place[0] in topics:
                one.is_suspect = True
                self._reader.drop([one.place])

    def _give_up(self) -> None:
        """Abort the transaction, and read its records again."""
        self._writer.abort()
        self._in_doubt.take()
        self.transaction_since = None
        self._rewind(list(self.partitions.values()))

    def _read_again(self, places: set[TopicPartition]) -> None:
        """Go back to what is known of some partitions, of which records were read and not looked at."""
        known = [one for place in places if (one := self.partitions.get(place)) is not None and not one.is_done]
        self._reader.add({one.place: one.next_offset for one in known})

    def _rewind(self, some: list[PartitionProgress]) -> None:
        """Go back to what is committed."""
        moved = [one for one in some if one.next_offset != one.position.next_offset]
        for one in moved:
            one.next_offset = one.position.next_offset
            one.returned = 0
        self._reader.drop(one.place for one in moved)
        self._reader.add({one.place: one.next_offset for one in moved if one.stop is None})

    def _drop(self, places: list[TopicPartition]) -> None:
        self._reader.drop(places)
        for place in places:
            one = self.partitions.pop(place)
            if not one.is_new:
                self._state.positions[place] = one.position
                self._state.map_parts[place] = one.map_parts
                if one.tail is not None:
                    self._state.tails[place] = one.tail
