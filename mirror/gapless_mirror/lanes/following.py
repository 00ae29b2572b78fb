"""How a lane follows its topics: refreshes, ends and errors of logs, and recreated topics decide what is copied.

Must not know how records are copied, nor what a transaction holds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from gapless_mirror.lanes.added_partitions import starts_of_added
from gapless_mirror.lanes.claims import LogNow, log_in
from gapless_mirror.lanes.divergence import Divergence, EpochClaim, find_diverged, source_claim, target_claim
from gapless_mirror.lanes.new_partition import new_progress
from gapless_mirror.lanes.progress import PartitionProgress, read_from_next
from gapless_mirror.lanes.recovery import Recovery
from gapless_mirror.lanes.starting import decide_outdated, decide_starts
from gapless_mirror.lanes.target_loss import TargetLosses

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_mirror.lanes.observations import Stop
    from gapless_mirror.lanes.partitions import LanePartitions
    from gapless_mirror.lanes.reader import Reader, Reading
    from gapless_mirror.lanes.records import LanePosition
    from gapless_mirror.lanes.setup import LaneSetup
    from gapless_mirror.lanes.sources import SourceTopic, SourceView


NO_DIVERGENCE = Divergence({}, {})


class Diverged(NamedTuple):
    """The logs of both clusters that have other records than the positions say."""

    source: Divergence
    target: Divergence


class TopicFollower:
    """Compares the partitions of a lane with the topics of both clusters, and starts, stops and removes them."""

    def __init__(self, setup: LaneSetup, partitions: LanePartitions) -> None:
        self._setup = setup
        self._partitions = partitions
        self._recovery = Recovery(setup)
        self._target_losses = TargetLosses(setup)
        self._view_number = -1
        self._starts: Mapping[TopicPartition, LanePosition | Stop] = {}
        """Where partitions start without a position that are not as in a new mirror, or why they do not start."""
        self._diverged = Diverged(NO_DIVERGENCE, NO_DIVERGENCE)
        self._compared: set[TopicPartition] = set()
        """Those whose positions were compared with the copies since they were read."""

    def begin(self, reader: Reader) -> None:
        """Continue with a new reader, and follow the next `SourceView` although it may be the last one again."""
        self._view_number = -1
        self._compared.clear()
        self._recovery.begin(reader)

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
        for known in self._partitions.progress.keys() | self._partitions.state.positions.keys():
            unknown.pop(known, None)
        decided = decide_starts(unknown, self._partitions.state, self._setup, pulse) if unknown else {}
        outdated = self._leave_outdated(followed, pulse)
        self._starts = {**starts_of_added(unknown, self._setup, pulse), **decided, **outdated}
        self._view_number = view.number
        self._partitions.needs_refresh = False
        starting: dict[TopicPartition, PartitionProgress] = {}
        self._diverged = self._find_diverged(followed)
        selected = set()
        for topic, number in followed:
            selected.add((topic.name, number))
            self._follow_partition(topic, number, starting)
        self._partitions.remove([known for known in self._partitions.progress if known not in selected])
        read_from_next(self._partitions.reader, [partition for partition in starting.values() if partition.must_read])

    def _leave_outdated(
        self, followed: Iterable[tuple[SourceTopic, int]], pulse: Callable[[], None]
    ) -> Mapping[TopicPartition, LanePosition | Stop]:
        """Forget the positions that are older than the copies, and return where these partitions start.

        Raises like `follow`.
        """
        state = self._partitions.state
        read = {
            (topic.name, number): (topic, position)
            for topic, number in followed
            if topic.copy is not None
            and (topic.name, number) not in self._compared
            and (position := state.positions.get((topic.name, number))) is not None
        }
        if not read:
            return {}
        starts = decide_outdated(read, self._setup, pulse)
        self._compared |= read.keys()
        for topic_partition in starts:
            del state.positions[topic_partition]
            self._partitions.progress.pop(topic_partition, None)
        self._partitions.reader.drop(starts)
        return starts

    def _follow_partition(
        self, topic: SourceTopic, number: int, starting: dict[TopicPartition, PartitionProgress]
    ) -> None:
        """Compare a partition with both clusters, and add it to `starting` if reading it starts."""
        topic_partition = (topic.name, number)
        partition = self._partitions.progress.get(topic_partition)
        if partition is None:
            start = self._starts.get(topic_partition)
            partition = new_progress(topic_partition, topic, self._partitions.state, self._setup, start)
            self._partitions.progress[topic_partition] = partition
            if partition.is_owed:
                self._recovery.schedule_check(topic_partition)  # reading starts if the log has the offset
            else:
                starting[topic_partition] = partition
            if partition.is_new or partition.is_adopted:
                self._partitions.commit_soon()
        source_claim = partition.source_claim
        if partition.is_undecided or not self._follow_target(partition, topic, starting):
            return
        if topic.id and partition.position.source_id and topic.id != partition.position.source_id:
            starting.pop(topic_partition, None)
            if self._recovery.follow_recreated(partition, topic):
                self._partitions.commit_soon()
            return
        diverged_at = self._diverged.source.ends.get(topic_partition)
        if partition.source_claim != source_claim:
            diverged_at = None  # copying again begins with the source as it is, whatever the log had before
        self._follow_source(partition, topic, starting, diverged_at)

    def _follow_source(
        self,
        partition: PartitionProgress,
        topic: SourceTopic,
        starting: dict[TopicPartition, PartitionProgress],
        diverged_at: int | None,
    ) -> None:
        """Compare a partition with its source log, which has other records from `diverged_at` on, or nowhere."""
        topic_partition = partition.topic_partition
        log = topic.log(topic_partition[1])
        partition.expire_map(log.start)
        if partition.awaits_refresh:
            partition.awaits_refresh = False
            starting[topic_partition] = partition
        had_reached = max(partition.next_offset, partition.claim.source_end or 0, partition.source_end[1])
        if (log.end < had_reached or diverged_at is not None) and partition.stop is None:
            # The end may be older than the position, or the log may have lost records.
            starting.pop(topic_partition, None)
            self._partitions.reader.drop([topic_partition])
            partition.awaits_check = True
            self._recovery.check_truncated(topic_partition, diverged_at)
            return
        if topic_partition not in self._diverged.source.errors:
            partition.source_end = (topic.id, log.epoch_end, log.epoch)

    def _follow_target(
        self, partition: PartitionProgress, topic: SourceTopic, starting: dict[TopicPartition, PartitionProgress]
    ) -> bool:
        """Compare a partition with its target; return whether it may be copied."""
        before = partition.next_offset
        at = (partition.position.target, partition.topic_partition[1])
        if at in self._diverged.target.errors:
            topic = replace(topic, copy=None)  # nothing is known of it
        may_copy = self._target_losses.follow(partition, topic, self._diverged.target.ends.get(at))
        self._partitions.needs_refresh |= partition.awaits_refresh and not may_copy
        if partition.is_adopted or partition.before_skip is not None:
            self._partitions.commit_soon()
        if not may_copy or partition.next_offset != before:
            self._partitions.reader.drop([partition.topic_partition])
            starting.pop(partition.topic_partition, None)
        if may_copy and partition.next_offset != before:
            starting[partition.topic_partition] = partition
        return may_copy

    def _find_diverged(self, followed: Iterable[tuple[SourceTopic, int]]) -> Diverged:
        """Find the logs of both clusters that may have other records than the positions say.

        Only those are asked about whose leader has changed since they were compared last. Raises GaplessError.
        """
        sources: dict[TopicPartition, tuple[EpochClaim | None, LogNow | None]] = {}
        targets: dict[TopicPartition, tuple[EpochClaim | None, LogNow | None]] = {}
        checked = []
        for topic, number in followed:
            topic_partition = (topic.name, number)
            partition = self._partitions.progress.get(topic_partition)
            position = self._partitions.state.positions.get(topic_partition) if partition is None else partition.claim
            if position is None:
                continue
            is_same_source = position.source_id == topic.id  # the records of another topic are compared by nothing
            source, target = topic.log(number), log_in(topic.copy, number, is_target=True) if topic.copy else None
            epochs = (source.epoch, -1 if target is None else target.epoch)
            if partition is not None and partition.checked_epochs == epochs:
                continue
            claim = source_claim(position) if partition is None else partition.source_claim
            if is_same_source:
                sources[topic_partition] = (claim, source)
            if target is not None and target.id == position.target_id:
                targets[position.target, number] = (target_claim(position), target)
            if is_same_source:
                checked.append((partition, epochs, topic_partition, (position.target, number)))
        found = Diverged(
            find_diverged(self._setup.source, sources) if sources else NO_DIVERGENCE,
            find_diverged(self._setup.target, targets) if targets else NO_DIVERGENCE,
        )
        for partition, epochs, topic_partition, target_partition in checked:
            is_same = found.source.is_same(topic_partition) and found.target.is_same(target_partition)
            if partition is not None and is_same:
                partition.checked_epochs = epochs
        return found

    def resume(self) -> None:
        """Check the logs of the partitions that may have lost records, and read them again."""
        if self._recovery.resume(self._partitions.progress):
            self._partitions.commit_soon()

    def note_ends(self, reading: Reading) -> None:
        """Note which partitions were read up to the ends of their logs."""
        for topic_partition, end in reading.ends.items():
            partition = self._partitions.active(topic_partition)
            if partition is not None:
                partition.end_seen, partition.progressed_at, partition.error = end, time.monotonic(), None
                partition.next_offset = max(partition.next_offset, end)
                if partition.copy_until is not None and end < partition.copy_until:
                    self._check_shorter_log(partition)

    def _check_shorter_log(self, partition: PartitionProgress) -> None:
        """Find out why a log ends before the offset that it had reached: it was truncated, or the topic recreated."""
        self._partitions.reader.drop([partition.topic_partition])
        partition.awaits_check = self._partitions.needs_refresh = True
        self._recovery.schedule_check(partition.topic_partition)

    def note_errors(self, reading: Reading) -> None:
        """Note the errors of reading partitions."""
        for topic_partition, error in reading.errors:
            partition = self._partitions.active(topic_partition)
            if partition is not None:
                self._recovery.note_error(partition, error)

    def pause_topics(self, topics: set[str]) -> None:
        """After an abort, read nothing from `topics` until the source is refreshed: they may have been recreated."""
        self._partitions.needs_refresh = True
        for partition in self._partitions.progress.values():
            if partition.topic_partition[0] in topics:
                partition.awaits_refresh = True
                self._partitions.reader.drop([partition.topic_partition])

    def stop_targets(self, targets: set[str]) -> None:
        """After an abort, stop the partitions whose target topics were deleted or recreated. Raises GaplessError."""
        self._partitions.needs_refresh |= bool(targets)
        for partition in self._partitions.progress.values():
            if partition.position.target in targets:
                self._target_losses.stop_changed(partition)
                self._partitions.reader.drop([partition.topic_partition])
                partition.awaits_refresh = partition.stop is None
