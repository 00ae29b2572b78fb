"""Owns the one source of events: Kafka, and an archive for what Kafka no longer has, spliced in offset order.

Nothing of an archive is loaded before something is found to have expired.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.base.errors import ConfigurationError
from gapless_api.offsets.ids import MAX_OFFSET
from gapless_kafka.topics.topic_ids import url_safe_topic_id
from gapless_sender.base.lazy_log import log
from gapless_sender.source.kafka_source import LARGEST_READ, KafkaSource
from gapless_sender.source.plan import Reason
from gapless_sender.source.range_cursor import RangeCursor

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from gapless_api.offsets.ranges import OffsetRanges
    from gapless_api.wire.resend_report import DamagedObject
    from gapless_sender.link.transmitter import BatchSize
    from gapless_sender.settings.archive import ArchiveSettings
    from gapless_sender.source.archive_source import ArchivedPartition
    from gapless_sender.source.archived_topics import ArchivedTopics
    from gapless_sender.source.plan import PartitionPlan, Place
    from gapless_sender.source.range_cursor import Chunk


class Bounds(NamedTuple):
    """Which offsets of a partition are in Kafka."""

    low: int
    """The first one."""
    high: int
    """The one after the last."""


class KnownTopic(NamedTuple):
    """What is known of a topic without the archive."""

    name: str
    topic_id: str | None
    """As Kafka's tools write it; ``None`` where brokers do not tell."""
    cluster_id: str
    """Empty where brokers do not tell."""
    exists: bool
    """Whether Kafka has it."""


@dataclass(slots=True)
class Held:
    """What an archive has of some wanted offsets, as far as its catalog says."""

    events: int = 0
    """Those that have a record, which may be outside the time range."""
    absent: int = 0
    """Those of which it is known that there is no record."""
    outside: int = 0
    """Those of segments that have nothing in the time range."""
    value_bytes: float = 0.0
    """Estimated, of `events`."""


class EventSource:
    """Kafka, and the archive behind it if there is one."""

    def __init__(
        self, kafka: KafkaSource, archive: ArchiveSettings | None = None, known_ids: Mapping[str, str] | None = None
    ) -> None:
        """Read `kafka`; `known_ids` are the IDs that topics had in an earlier run."""
        self.kafka = kafka
        self._settings = archive
        self._known_ids = known_ids or {}
        self._archive: ArchivedTopics | None = None
        self._topics: dict[str, KnownTopic] = {}

    @property
    def damaged(self) -> tuple[DamagedObject, ...]:
        """Objects of the archive that could not be read."""
        return tuple(self._archive.damage.objects.values()) if self._archive is not None else ()

    def partition_count(self, topic: str) -> int:
        """How many partitions a topic has. Raises like `Topics.partition_count` and `ArchivedTopics.topic`."""
        if self.exists(topic):
            return self.kafka.topics.partition_count(topic)
        archive = self._archived_topics().topic(self._known(topic))
        if archive is None:
            return self.kafka.topics.partition_count(topic)  # which says that there is none
        return max(archive.state.partition_count, *(number + 1 for number in archive.state.partitions), 0)

    def check(self, place: Place) -> int:
        """Make sure that the partition exists, and return how many its topic has. Raises like `partition_count`."""
        count = self.partition_count(place.upstream_topic)
        if place.upstream_partition >= count:
            raise ConfigurationError(
                f"Partition {place.upstream_partition} of the topic {place.upstream_topic} does not exist, which has "
                f"{count} (0 to {count - 1}); correct the partition, or partitionStartValue if events carry shifted "
                f"numbers (this one is {place.partition} there)."
            )
        return count

    def bounds(self, place: Place) -> Bounds:
        """Which offsets Kafka has of a partition; of a topic that is only in the archive, none."""
        if self.exists(place.upstream_topic):
            return Bounds(*self.kafka.topics.watermarks(place.upstream))
        archived = self.archived(place)
        end = 0 if archived is None else archived.end
        return Bounds(end, end)

    def first_since(self, place: Place, timestamp_ms: int | None) -> Bounds:
        """The first offset at which records of `timestamp_ms` or later may be found, and the partition's end."""
        low, high = self.bounds(place)
        archived = self.archived(place) if low else None
        first = archived.first_since(timestamp_ms) if archived is not None else None
        if first is not None and first < low:
            return Bounds(first, high)
        if timestamp_ms is None or not self.exists(place.upstream_topic):
            return Bounds(low, high)
        return Bounds(self.kafka.topics.first_offset_since(place.upstream, timestamp_ms, high), high)

    def archived(self, place: Place) -> ArchivedPartition | None:
        """The partition in the archive; ``None`` when there is no archive, or it does not have the topic.

        Raises:
            ConfigurationError: the archive has another generation of the topic, or is none.
            StoreUnreachableError: the store does not answer.
        """
        if self._settings is None:
            return None
        return self._archived_topics().partition(self._known(place.upstream_topic), place.upstream_partition)

    def prepare(self, plan: PartitionPlan, cursor: int) -> None:
        """Make sure that the archive can be read if something from `cursor` on has expired. Raises like `archived`."""
        index = plan.wanted.index_reaching(cursor)
        if self._settings is None or index >= len(plan.wanted):
            return
        if max(plan.wanted[index].first, cursor) < self.bounds(plan.place).low:
            self.archived(plan.place)

    def read(  # noqa: PLR0913 -- what of a partition is read, and how much at once
        self,
        plan: PartitionPlan,
        cursor: int,
        *,
        first_ms: int | None = None,
        last_ms: int | None = None,
        fill: Collection[Reason] = (),
        size: Callable[[], BatchSize] = lambda: LARGEST_READ,
    ) -> Iterator[Chunk]:
        """Read the wanted offsets from `cursor` on; each chunk goes on where the one before ended.

        Takes what `KafkaSource.read` takes.

        Raises:
            SourceStalledError: no record came within the deadline.
            SourceUnreachableError: Kafka refuses the topic, or the archive's store does not answer.
            ConfigurationError: the topic was deleted or recreated, or the archive has another one.
            LocalStorageError: the folder of the archive cannot be read.
        """
        ranges = RangeCursor(
            plan, cursor, first_ms=first_ms, last_ms=last_ms, fill=fill, most_filled=lambda: size().events
        )
        place = plan.place
        if self.exists(place.upstream_topic):
            yield from self.kafka.read(place, ranges, size=size, expired=self._read_expired)
        else:
            yield from self._read_expired(place, ranges, MAX_OFFSET + 1)

    def _read_expired(self, place: Place, ranges: RangeCursor, end: int) -> Iterator[Chunk]:
        """What becomes of wanted offsets below `end`, the first one that Kafka has."""
        archived = self.archived(place)
        if archived is not None:
            yield from archived.read(ranges, end)
        yield from ranges.pass_over(end - 1, Reason.EXPIRED)

    def held(self, plan: PartitionPlan, gone: OffsetRanges, *, first_ms: int | None, last_ms: int | None) -> Held:
        """What the archive has of `gone`, offsets of `plan` that Kafka no longer has. Raises like `archived`."""
        archived = self.archived(plan.place) if gone else None
        if archived is None:
            return Held()
        return archived.held(gone, RangeCursor(plan, 0, first_ms=first_ms, last_ms=last_ms))

    def exists(self, topic: str) -> bool:
        """Whether Kafka has `topic`; without an archive it must."""
        return self._settings is None or self._known(topic).exists

    def _known(self, topic: str) -> KnownTopic:
        found = self._topics.get(topic)
        if found is None:
            topics, known = self.kafka.topics, self._known_ids.get(topic)
            exists = topics.exists(topic)
            topic_id = topics.topic_id(topic) if exists else None if known is None else url_safe_topic_id(known)
            found = self._topics[topic] = KnownTopic(topic, topic_id, topics.cluster_id(), exists)
            if not exists:
                log("warning", "Kafka no longer has this topic; only the archive is read", topic=topic)
        return found

    def _archived_topics(self) -> ArchivedTopics:
        if self._archive is None:
            assert self._settings is not None, "asked only with an archive"  # noqa: S101
            from gapless_sender.source.archived_topics import ArchivedTopics  # noqa: PLC0415 -- it loads pyarrow

            self._archive = ArchivedTopics(self._settings)
        return self._archive
