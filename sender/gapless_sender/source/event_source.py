"""The source of events: Kafka, and an archive for what Kafka has deleted, merged in offset order.

Nothing of an archive is loaded until an offset turns out to have expired.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.base.errors import ConfigurationError
from gapless_api.offsets.ids import MAX_OFFSET
from gapless_kafka.topics.topic_ids import url_safe_topic_id
from gapless_sender.base.lazy_log import log
from gapless_sender.source.archived import ArchivedCounts, TopicIdentity
from gapless_sender.source.kafka_source import MAX_READ, KafkaSource, mark_expired
from gapless_sender.source.range_cursor import Chunk, RangeCursor

if TYPE_CHECKING:
    from gapless_api.offsets.ranges import OffsetRanges
    from gapless_api.wire.resend_report import DamagedObject
    from gapless_sender.link.transmitter import BatchSize
    from gapless_sender.settings.archive import ArchiveSettings
    from gapless_sender.source.archive_source import ArchivedPartition
    from gapless_sender.source.archived_topics import ArchivedTopics
    from gapless_sender.source.plan import PartitionPlan, Reason
    from gapless_sender.source.requests import MappedPartition


class Bounds(NamedTuple):
    """The offsets of a partition that Kafka has."""

    low: int
    """The first one."""
    high: int
    """The one after the last."""


class EventSource:
    """Kafka, and the archive behind it if there is one."""

    def __init__(
        self, kafka: KafkaSource, archive: ArchiveSettings | None = None, known_ids: Mapping[str, str] | None = None
    ) -> None:
        """Read from `kafka`; `known_ids` are the topic IDs of an earlier run."""
        self.kafka = kafka
        self._settings = archive
        self._known_ids = known_ids or {}
        self._archive: ArchivedTopics | None = None
        self._topics: dict[str, TopicIdentity] = {}

    @property
    def damaged(self) -> tuple[DamagedObject, ...]:
        """Objects of the archive that could not be read."""
        return tuple(self._archive.damaged.objects.values()) if self._archive is not None else ()

    def partition_count(self, topic: str) -> int:
        """Return how many partitions a topic has.

        Raises the errors of `Topics.partition_count` and `ArchivedTopics.topic`.
        """
        if self.exists(topic):
            return self.kafka.topics.partition_count(topic)
        archive = self._archived_topics().topic(self._topic_identity(topic))
        if archive is None:
            return self.kafka.topics.partition_count(topic)  # raises: the topic does not exist
        return max(archive.state.partition_count, *(number + 1 for number in archive.state.partitions), 0)

    def check(self, partition: MappedPartition) -> int:
        """Check that the partition exists, and return how many its topic has. Raises like `partition_count`."""
        count = self.partition_count(partition.upstream_topic)
        if partition.upstream_partition >= count:
            raise ConfigurationError(
                f"Partition {partition.upstream_partition} of the topic {partition.upstream_topic} does not exist; the "
                f"topic has {count} (0 to {count - 1}). Correct the partition, or partitionStartValue if events carry "
                f"shifted numbers (this one is {partition.partition} there)."
            )
        return count

    def bounds(self, partition: MappedPartition) -> Bounds:
        """Return which offsets Kafka has of a partition; none if its topic is only in the archive."""
        if self.exists(partition.upstream_topic):
            return Bounds(*self.kafka.topics.watermarks(partition.upstream))
        archived = self.archived_partition(partition)
        end = 0 if archived is None else archived.end
        return Bounds(end, end)

    def first_since(self, partition: MappedPartition, timestamp_ms: int | None) -> Bounds:
        """Return the first offset from which records may have `timestamp_ms` or later, and the partition's end."""
        low, high = self.bounds(partition)
        archived = self.archived_partition(partition) if low else None
        first = archived.first_since(timestamp_ms) if archived is not None else None
        if first is not None and first < low:
            return Bounds(first, high)
        if timestamp_ms is None or not self.exists(partition.upstream_topic):
            return Bounds(low, high)
        return Bounds(self.kafka.topics.first_offset_since(partition.upstream, timestamp_ms, high), high)

    def archived_partition(self, partition: MappedPartition) -> ArchivedPartition | None:
        """Return the partition in the archive; ``None`` without an archive, or when it does not have the topic.

        Raises:
            ConfigurationError: the archive has another generation of the topic, or is not an archive.
            StoreUnreachableError: the store does not respond.
        """
        if self._settings is None:
            return None
        identity = self._topic_identity(partition.upstream_topic)
        return self._archived_topics().partition(identity, partition.upstream_partition)

    def check_archive(self, plan: PartitionPlan, cursor: int) -> None:
        """Check that the archive can be read if an offset from `cursor` on has expired.

        Raises like `archived_partition`.
        """
        index = plan.requested.index_reaching(cursor)
        if self._settings is None or index >= len(plan.requested):
            return
        if max(plan.requested[index].first, cursor) < self.bounds(plan.partition).low:
            self.archived_partition(plan.partition)

    def read(  # noqa: PLR0913 -- what to read of a partition, and the batch size
        self,
        plan: PartitionPlan,
        cursor: int,
        *,
        first_ms: int | None = None,
        last_ms: int | None = None,
        fill: Collection[Reason] = (),
        size: Callable[[], BatchSize] = lambda: MAX_READ,
    ) -> Iterator[Chunk]:
        """Read the requested offsets from `cursor` on; each chunk continues where the one before ended.

        Takes the arguments of `RangeCursor` and `KafkaSource.read`.

        Raises:
            SourceStalledError: no record arrived within the timeout.
            SourceUnreachableError: Kafka refuses the topic, or the archive's store does not respond.
            ConfigurationError: the topic was deleted or recreated, or the archive has another one.
            LocalStorageError: the folder of the archive cannot be read.
        """
        ranges = RangeCursor(
            plan, cursor, first_ms=first_ms, last_ms=last_ms, fill=fill, max_filled=lambda: size().events
        )
        partition = plan.partition
        if self.exists(partition.upstream_topic):
            yield from self.kafka.read(partition, ranges, size=size, expired=self._read_expired)
        else:
            yield from self._read_expired(partition, ranges, MAX_OFFSET + 1)

    def _read_expired(self, partition: MappedPartition, ranges: RangeCursor, end: int) -> Iterator[Chunk]:
        """Read requested offsets below `end`, the first one that Kafka has, from the archive if there is one."""
        archived = self.archived_partition(partition)
        return mark_expired(partition, ranges, end) if archived is None else archived.read(ranges, end)

    def count_archived(
        self, plan: PartitionPlan, expired: OffsetRanges, *, first_ms: int | None, last_ms: int | None
    ) -> ArchivedCounts:
        """Count what the archive has of `expired`, offsets of `plan` that Kafka has deleted.

        Raises like `archived_partition`.
        """
        archived = self.archived_partition(plan.partition) if expired else None
        if archived is None:
            return ArchivedCounts()
        return archived.count(expired, RangeCursor(plan, 0, first_ms=first_ms, last_ms=last_ms))

    def exists(self, topic: str) -> bool:
        """Return whether Kafka has `topic`; without an archive it must."""
        return self._settings is None or self._topic_identity(topic).exists

    def _topic_identity(self, topic: str) -> TopicIdentity:
        identity = self._topics.get(topic)
        if identity is None:
            topics, known_id = self.kafka.topics, self._known_ids.get(topic)
            exists = topics.exists(topic)
            topic_id = topics.topic_id(topic) if exists else None if known_id is None else url_safe_topic_id(known_id)
            identity = self._topics[topic] = TopicIdentity(topic, topic_id, topics.cluster_id(), exists)
            if not exists:
                log("warning", "Kafka no longer has this topic; only the archive is read", topic=topic)
        return identity

    def _archived_topics(self) -> ArchivedTopics:
        if self._archive is None:
            assert self._settings is not None, "called only with an archive"  # noqa: S101
            from gapless_sender.source.archived_topics import ArchivedTopics  # noqa: PLC0415 -- it loads pyarrow

            self._archive = ArchivedTopics(self._settings)
        return self._archive
