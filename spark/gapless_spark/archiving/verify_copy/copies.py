"""The interface of a copy of a topic, and copies in Kafka; must not know the other copy.

Copies are serialised for Spark's executors, with the paths of secrets and never their contents.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import structlog

from gapless_api.base.errors import ConfigurationError, SourceUnreachableError
from gapless_api.offsets.ranges import OffsetRanges
from gapless_api.wire.copy_report import CopyAddress
from gapless_archive.segments.rows import rows_of
from gapless_kafka.reading.cuts import Slice
from gapless_kafka.reading.reader import read_slices
from gapless_kafka.reading.topic_offsets import read_cut, read_settled_cut
from gapless_kafka.topics.topic_configuration import topic_configurations
from gapless_kafka.topics.topic_ids import url_safe_topic_id
from gapless_spark.archiving.verify_copy.findings import Unreadable
from gapless_spark.archiving.verify_copy.streams import offset_at

if TYPE_CHECKING:
    import pyarrow as pa

    from gapless_kafka.access.connection import KafkaConnection
    from gapless_spark.archiving.verify_copy.addresses import KafkaTopic

    Items = Iterator[pa.RecordBatch | Unreadable]


class Copy(Protocol):
    """One copy of a topic, in the state when it was opened."""

    @property
    def about(self) -> CopyAddress:
        """The description in the report."""

    @property
    def may_lag(self) -> bool:
        """Whether it follows another copy, so that a partition may not exist in it yet."""

    @property
    def tombstone_seconds(self) -> float | None:
        """How long compaction keeps tombstones of the topic, or of the archived topic; ``None`` if not compacted."""

    def answerable(self, partition: int) -> OffsetRanges:
        """Return the offsets of a partition that can be read, including those without a record."""

    def absences(self, missing: OffsetRanges, partition: int) -> Iterator[Unreadable]:
        """Yield the reasons why offsets of the other copy cannot be read."""

    def read(self, partition: int, ranges: OffsetRanges) -> Items:
        """Yield the records at these offsets, ascending, with unreadable offsets in between. Raises GaplessError."""

    def check_unchanged(self) -> None:
        """Check that the copy was not replaced since it was opened. Raises GaplessError."""


@dataclass(frozen=True, slots=True)
class KafkaCopy:
    """A topic in Kafka."""

    about: CopyAddress
    connection: KafkaConnection
    log_starts: tuple[int, ...]
    ends: tuple[int, ...]
    """By partition: the last stable offset."""
    timeout_seconds: float
    tombstone_seconds: float | None
    """How long compaction keeps tombstones; ``None`` if the topic is not compacted."""

    @property
    def may_lag(self) -> bool:
        """Whether it may lag: Kafka does not follow another copy."""
        return False

    def answerable(self, partition: int) -> OffsetRanges:
        """Return the offsets from the log start up to the last stable offset."""
        if partition >= len(self.ends) or self.log_starts[partition] >= self.ends[partition]:
            return OffsetRanges()
        return OffsetRanges([(self.log_starts[partition], self.ends[partition] - 1)])

    def absences(self, missing: OffsetRanges, partition: int) -> Iterator[Unreadable]:
        """Yield `missing` as expired or not written."""
        start = self.log_starts[partition]
        for first, last in missing:
            if first < start:
                yield Unreadable(first, min(last, start - 1), "Expired")
            if last >= start:
                yield Unreadable(max(first, start), last, "NotWritten")

    def read(self, partition: int, ranges: OffsetRanges) -> Items:
        """Yield the committed records."""
        for first, last in ranges:
            yield from self._read(partition, first, last + 1)

    def _read(self, partition: int, first: int, end: int) -> Items:
        part = Slice(self.about.topic, partition, first, end, may_skip_expired=True)
        is_first = True
        for messages in read_slices(self.connection, [part]):
            if not messages:
                continue
            rows = rows_of(messages)
            if is_first:
                yield from self._expired(partition, first, offset_at(rows, 0))
                is_first = False
            yield rows
        if is_first:
            yield from self._expired(partition, first, end)

    def _expired(self, partition: int, first: int, found: int) -> Iterator[Unreadable]:
        """Yield the offsets before the first record found that Kafka has deleted since the copy was opened."""
        if found == first:
            return
        cut = read_cut(self.connection, [self.about.topic], timeout_seconds=self.timeout_seconds)
        start = min(cut.topics[0].first_offsets[partition], found)
        if start > first:
            yield Unreadable(first, start - 1, "Expired")

    def check_unchanged(self) -> None:
        """Check that the topic was neither recreated nor truncated."""
        topic, servers = self.about.topic, self.connection.bootstrap_servers
        cut = read_cut(self.connection, [topic], timeout_seconds=self.timeout_seconds)
        now = cut.topics[0]
        if url_safe_topic_id(now.id) != self.about.topic_id:
            raise ConfigurationError(
                f"The topic {topic} at {servers} was deleted and recreated while it was compared (topic ID "
                f"{self.about.topic_id} -> {url_safe_topic_id(now.id)}); compare again."
            )
        if any(end < before for end, before in zip(now.end_offsets, self.ends, strict=False)):
            raise SourceUnreachableError(
                f"The topic {topic} at {servers} lost records while it was compared; check its brokers, and compare "
                f"again."
            )


def open_kafka_copy(
    address: KafkaTopic, connection: KafkaConnection, *, timeout_seconds: float, is_compaction_ignored: bool = False
) -> KafkaCopy:
    """Open a topic in Kafka; wait for transactions that end soon.

    Args:
        address: of the topic.
        connection: to its cluster.
        timeout_seconds: for each request.
        is_compaction_ignored: whether it must be known if the topic is compacted.

    Raises:
        SourceUnreachableError: Kafka does not answer in time, or denies access.
        TopicMissingError: there is no such topic.
    """
    cut = read_settled_cut(connection, [address.topic], timeout_seconds=timeout_seconds)
    (topic,) = cut.topics
    if topic.uncommitted:
        structlog.get_logger().warning(
            "records of open transactions are not compared",
            copy=str(address),
            offsets=topic.uncommitted,
        )
    names = [address.topic]
    configuration = topic_configurations(connection, names, timeout_seconds=timeout_seconds)[address.topic]
    if configuration is None and is_compaction_ignored:
        raise SourceUnreachableError(
            f"Whether the topic {address} is compacted cannot be read; allow DescribeConfigs on it, or compare without "
            f"compacted in --ignore."
        )
    about = CopyAddress(
        address=str(address),
        kind="kafka",
        cluster_id=cut.cluster_id,
        region="",
        topic=address.topic,
        topic_id=url_safe_topic_id(topic.id),
        partitions=len(topic.end_offsets),
    )
    return KafkaCopy(
        about,
        connection,
        topic.first_offsets,
        topic.end_offsets,
        timeout_seconds,
        configuration.tombstone_seconds if configuration is not None else None,
    )
