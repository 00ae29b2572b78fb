"""The offsets of Kafka's partitions: the first and last one, and on request the absent ones in between.

Must not know the file of an inventory, nor its receiver. Memory usage depends on the absent ranges, not on the number
of records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError, SourceStalledError
from gapless_api.inventory.form import PartitionOffsets
from gapless_api.offsets.ids import MAX_PARTITION, TopicPartition
from gapless_api.offsets.ranges import OffsetRanges, RangesBuilder
from gapless_kafka.reading.epoch_starts import read_epoch_starts
from gapless_sender.source.plan import PartitionMapping, PartitionPlan, Reason
from gapless_sender.source.range_cursor import RangeCursor
from gapless_sender.source.requests import MappedPartition

if TYPE_CHECKING:
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_sender.source.kafka_source import KafkaSource

EntriesByPartition = dict[MappedPartition, PartitionOffsets]


def query_entries(source: KafkaSource, topics: Iterable[str], mapping: PartitionMapping) -> EntriesByPartition:
    """Query Kafka for the first and last offsets of `topics`, in the partitions of the cluster's window.

    Raises:
        ConfigurationError: a topic does not exist, or a partition number becomes too high.
        SourceUnreachableError: Kafka does not respond or denies access to a topic.
    """
    entries: EntriesByPartition = {}
    for topic in topics:
        downstream = mapping.downstream(topic) or topic
        # Before the offsets: if the topic is recreated meanwhile, they must not be taken for those of the new one.
        topic_id = source.topics.topic_id(mapping.upstream(downstream))
        for number in range(source.topics.partition_count(mapping.upstream(downstream))):
            shifted = mapping.window.to_downstream(number)
            if shifted > MAX_PARTITION:
                raise ConfigurationError(
                    f"Partition {number} of the topic {topic} becomes {shifted} with partitionStartValue "
                    f"{mapping.window.start}, and the maximum is {MAX_PARTITION}; correct the start value."
                )
            if mapping.window.handles(shifted):
                partition = mapping.partition(downstream, shifted)
                low, high = source.topics.watermarks(partition.upstream)
                last = high - 1 if high > low else None
                entries[partition] = PartitionOffsets(downstream, shifted, low, last, topic_id=topic_id)
    return entries


def add_epochs(connection: KafkaConnection, entries: EntriesByPartition, timeout_seconds: float) -> EntriesByPartition:
    """Return `entries` with the leader epochs of the logs, where the brokers return them.

    They show the receiving side that a log was truncated under its topic ID, also when it has grown again.

    Raises:
        SourceUnreachableError: Kafka does not respond or denies access to a topic.
    """
    bounds = {partition.upstream: (entry.first, entry.end) for partition, entry in entries.items()}
    found = read_epoch_starts(connection, bounds, timeout_seconds=timeout_seconds)
    return {partition: replace(entry, epochs=found.get(partition.upstream)) for partition, entry in entries.items()}


def check_topic_ids(source: KafkaSource, entries: EntriesByPartition) -> None:
    """Check that the topic IDs are still those of `entries`.

    Raises:
        ConfigurationError: a topic was deleted and recreated meanwhile.
        SourceUnreachableError: Kafka does not respond.
    """
    for topic, before in {partition.upstream_topic: entry.topic_id for partition, entry in entries.items()}.items():
        now = source.topics.topic_id(topic)
        if now != before:
            raise ConfigurationError(
                f"The topic {topic} was deleted and recreated while its offsets were read (topic ID {before} -> "
                f"{now}); run again."
            )


class AbsentOffsetReader:
    """Finds absent offsets by reading partitions, except what an older inventory covers."""

    def __init__(
        self, source: KafkaSource, previous: Mapping[TopicPartition, PartitionOffsets], *, max_ranges: int
    ) -> None:
        """`previous` are older entries by topic and partition; more than `max_ranges` in all partitions are refused."""
        self._source = source
        self._previous = previous
        self._max_ranges = max_ranges
        self._ranges = 0

    def count_offsets(self, entries: Iterable[PartitionOffsets]) -> int:
        """Return how many offsets will be read."""
        starts = ((entry, self._start(entry)[0]) for entry in entries if entry.last is not None)
        return sum(max((entry.last or 0) - start + 1, 0) for entry, start in starts)

    def read(
        self, partition: MappedPartition, entry: PartitionOffsets, advanced: Callable[[int], None]
    ) -> PartitionOffsets:
        """Read the partition and return `entry` with its absent offsets.

        Args:
            partition: the partition.
            entry: its first and last offset; what retention deletes meanwhile is cut off.
            advanced: called with the number of offsets after each step.

        Raises:
            ConfigurationError: there are too many ranges.
            SourceUnreachableError: Kafka refuses, stalls, or has fewer offsets than before.
        """
        start, before = self._start(entry)
        if entry.last is None or start > entry.last:
            return self._count_ranges(replace(entry, absent=before), partition)
        builder, first, cursor = RangesBuilder(), entry.first, start
        plan = PartitionPlan(partition, OffsetRanges([(start, entry.last)]))
        for chunk in self._source.read(partition, RangeCursor(plan, start)):
            for low, high, reason in chunk.absent:
                if reason is Reason.NOT_YET_WRITTEN:
                    raise SourceStalledError(
                        f"Kafka had offset {entry.last} of {partition} and now ends at {low}; check the brokers, which "
                        f"have lost records, and run again."
                    )
                if reason is Reason.EXPIRED:
                    first = high + 1
                else:
                    builder.add(low, high)
            self._check_limit(len(builder), partition)
            advanced(chunk.upto - cursor)
            cursor = chunk.upto
        if first > entry.last:
            return replace(entry, first=first, last=None, absent=OffsetRanges())
        absent = before | builder.build()
        return self._count_ranges(replace(entry, first=first, absent=absent.clip(first, entry.last)), partition)

    def _start(self, entry: PartitionOffsets) -> tuple[int, OffsetRanges]:
        """Return the offset from which to read, and the known absent offsets before it."""
        previous = self._previous.get((entry.topic, entry.partition))
        if previous is None or previous.absent is None or entry.last is None:
            return entry.first, OffsetRanges()
        if None not in {previous.topic_id, entry.topic_id} and previous.topic_id != entry.topic_id:
            return entry.first, OffsetRanges()
        start = previous.first if previous.last is None else previous.last + 1
        if start > entry.last + 1 or previous.first > entry.first:  # The topic was recreated, and there are no IDs.
            return entry.first, OffsetRanges()
        if entry.first_difference(previous, same_ends=False) is not None:  # The log was truncated.
            return entry.first, OffsetRanges()
        return max(start, entry.first), previous.absent.clip(entry.first, entry.last)

    def _count_ranges(self, entry: PartitionOffsets, partition: MappedPartition) -> PartitionOffsets:
        self._check_limit(len(entry.absent or ()), partition)
        self._ranges += len(entry.absent or ())
        return entry

    def _check_limit(self, more: int, partition: MappedPartition) -> None:
        if self._ranges + more > self._max_ranges:
            raise ConfigurationError(
                f"There are more than {self._max_ranges} ranges of absent offsets, the last of them in {partition}; "
                f"raise absentLimit (some 16 bytes of memory each), or make an inventory of fewer topics at a time."
            )
