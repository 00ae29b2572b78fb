"""Owns what Kafka's partitions hold: where each begins and ends, and on request which offsets between are no events.

Must not know the file of an inventory, nor who gets it. Memory holds the absent ranges and what the reader of
Kafka holds, whatever the number of records.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError, SourceStalledError
from gapless_api.inventory.form import PartitionOffsets
from gapless_api.offsets.ids import MAX_PARTITION, TopicPartition
from gapless_api.offsets.ranges import OffsetRanges, RangesBuilder
from gapless_sender.source.plan import PartitionPlan, Place, Reason
from gapless_sender.source.range_cursor import RangeCursor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gapless_sender.source.kafka_source import KafkaSource
    from gapless_sender.source.plan import Names

EntriesByPlace = dict[Place, PartitionOffsets]


def entries_of(source: KafkaSource, topics: Iterable[str], names: Names) -> EntriesByPlace:
    """Ask Kafka where the partitions of `topics` begin and end, those of the cluster's window.

    Raises:
        ConfigurationError: a topic does not exist, or a partition gets a number that none can have.
        SourceUnreachableError: Kafka does not answer or does not let us see a topic.
    """
    found: EntriesByPlace = {}
    for topic in topics:
        wire = names.wire(topic) or topic
        # Before the offsets: if the topic is recreated meanwhile, they must not pass for those of the new one.
        topic_id = source.topics.topic_id(names.upstream(wire))
        for number in range(source.topics.partition_count(names.upstream(wire))):
            partition = names.window.to_downstream(number)
            if partition > MAX_PARTITION:
                raise ConfigurationError(
                    f"Partition {number} of the topic {topic} becomes {partition} with partitionStartValue "
                    f"{names.window.start}, and {MAX_PARTITION} is the highest there can be; correct the start value."
                )
            if names.window.handles(partition):
                place = names.place(wire, partition)
                low, high = source.topics.watermarks(place.upstream)
                found[place] = PartitionOffsets(
                    wire, partition, low, high - 1 if high > low else None, topic_id=topic_id
                )
    return found


def check_topic_ids(source: KafkaSource, entries: EntriesByPlace) -> None:
    """Make sure that the topics are those that they were when `entries` were found.

    Raises:
        ConfigurationError: one was deleted and recreated meanwhile.
        SourceUnreachableError: Kafka does not answer.
    """
    for topic, before in {place.upstream_topic: entry.topic_id for place, entry in entries.items()}.items():
        now = source.topics.topic_id(topic)
        if now != before:
            raise ConfigurationError(
                f"The topic {topic} was deleted and recreated while it was looked at (topic ID {before} -> {now}); run "
                f"again."
            )


class Absences:
    """Finds absent offsets by reading partitions; what an older look has seen is not read again."""

    def __init__(
        self, source: KafkaSource, known: Mapping[TopicPartition, PartitionOffsets], *, most_ranges: int
    ) -> None:
        """`known` are older entries by topic and partition; more than `most_ranges` in all partitions are refused."""
        self._source = source
        self._known = known
        self._most_ranges = most_ranges
        self._ranges = 0

    def to_read(self, entries: Iterable[PartitionOffsets]) -> int:
        """How many offsets will be walked through."""
        starts = ((entry, self._begin(entry)[0]) for entry in entries if entry.last is not None)
        return sum(max((entry.last or 0) - start + 1, 0) for entry, start in starts)

    def found(self, place: Place, entry: PartitionOffsets, advanced: Callable[[int], None]) -> PartitionOffsets:
        """Read the partition and return `entry` with its absent offsets.

        Args:
            place: the partition.
            entry: its ends; what retention takes away meanwhile is cut off.
            advanced: is told how many more offsets are behind us.

        Raises:
            ConfigurationError: there are too many ranges to keep.
            SourceUnreachableError: Kafka refuses, stalls, or has less than it said.
        """
        start, before = self._begin(entry)
        if entry.last is None or start > entry.last:
            return self._kept(replace(entry, absent=before), place)
        builder, first, cursor = RangesBuilder(), entry.first, start
        plan = PartitionPlan(place, OffsetRanges([(start, entry.last)]))
        for chunk in self._source.read(place, RangeCursor(plan, start)):
            for low, high, reason in chunk.holes:
                if reason is Reason.NOT_YET_WRITTEN:
                    raise SourceStalledError(
                        f"Kafka had offset {entry.last} of {place} and now ends at {low}; see to the brokers, which "
                        f"have lost records, and run again."
                    )
                if reason is Reason.EXPIRED:
                    first = high + 1
                else:
                    builder.add(low, high)
            self._check(len(builder), place)
            advanced(chunk.upto - cursor)
            cursor = chunk.upto
        if first > entry.last:
            return replace(entry, first=first, last=None, absent=OffsetRanges())
        absent = before | builder.build()
        return self._kept(replace(entry, first=first, absent=absent.clip(first, entry.last)), place)

    def _begin(self, entry: PartitionOffsets) -> tuple[int, OffsetRanges]:
        """Where to begin to read, and what is known to be absent before."""
        known = self._known.get((entry.topic, entry.partition))
        if known is None or known.absent is None or entry.last is None:
            return entry.first, OffsetRanges()
        if None not in {known.topic_id, entry.topic_id} and known.topic_id != entry.topic_id:
            return entry.first, OffsetRanges()
        begin = known.first if known.last is None else known.last + 1
        if begin > entry.last + 1 or known.first > entry.first:  # The topic was recreated where no ids tell.
            return entry.first, OffsetRanges()
        return max(begin, entry.first), known.absent.clip(entry.first, entry.last)

    def _kept(self, entry: PartitionOffsets, place: Place) -> PartitionOffsets:
        self._check(len(entry.absent or ()), place)
        self._ranges += len(entry.absent or ())
        return entry

    def _check(self, more: int, place: Place) -> None:
        if self._ranges + more > self._most_ranges:
            raise ConfigurationError(
                f"There are more than {self._most_ranges} ranges of absent offsets, the last of them in {place}; raise "
                f"absentLimit (some 16 bytes of memory each), or make an inventory for fewer topics at a time."
            )
