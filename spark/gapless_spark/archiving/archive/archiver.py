"""One cycle of archiving, for single and continuous runs: read, verify topics and offsets, commit.

A batch is committed only if the topic was not recreated and its log was not truncated meanwhile. Offsets that Kafka
deleted before they were read are recorded as lost, in the chain and in the report.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError, GaplessError, SourceUnreachableError, StoreUnreachableError
from gapless_archive.segments.builder import Origin
from gapless_archive.segments.peer_writer import CODEC as PEER_CODEC
from gapless_archive.segments.writer import CODEC
from gapless_kafka.access.errors import PartitionUnreadableError
from gapless_kafka.reading.lag import Observations
from gapless_kafka.topics.group_position import PositionPublisher
from gapless_spark.archiving.archive.chains import PlanAgainError, TopicChain
from gapless_spark.archiving.archive.planning import Pending, TopicPending, build_cut
from gapless_spark.archiving.archive.status import RunStatus, partition_status
from gapless_spark.archiving.archive.tasks import SliceWriter
from gapless_spark.archiving.archive.topics import ArchivedTopics, OffsetSnapshot, Target

if TYPE_CHECKING:
    from gapless_api.cli.reading_progress import Progress
    from gapless_api.offsets.ids import TopicPartition
    from gapless_archive.catalog.entry import Segment
    from gapless_archive.segments.level_zero import TopicSegment
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.topics.topic_choice import TopicChoice
    from gapless_spark.archiving.archive.engines import CycleEngine
    from gapless_spark.archiving.archive.thresholds import TopicThresholds
    from gapless_spark.settings.archive import ArchiveSettings

_NO_GROUP = "none"


class Archiver:
    """Archives the selected topics."""

    def __init__(  # noqa: PLR0913 -- what a run needs
        self,
        settings: ArchiveSettings,
        *,
        timeout_seconds: float,
        connection: KafkaConnection,
        target: Target,
        choice: TopicChoice,
        thresholds: TopicThresholds,
        engine: CycleEngine,
    ) -> None:
        self.topics = ArchivedTopics(settings, connection, choice, target, timeout_seconds=timeout_seconds)
        self._target, self.thresholds, self._engine = target, thresholds, engine
        self._layout, self._codec = settings.layout, PEER_CODEC if settings.layout == "kafka-replicator" else CODEC
        group = settings.group_id or f"gapless-archive-{target.region}"
        self._positions = (
            PositionPublisher(connection, group, timeout_seconds=timeout_seconds, failed=_not_published)
            if group != _NO_GROUP
            else None
        )
        self._observations = Observations()

    def cycle(self, snapshot: OffsetSnapshot, chosen: Sequence[Pending], progress: Progress) -> OffsetSnapshot:
        """Archive the selected offsets, commit them with the lost ranges, and return the next snapshot.

        Raises:
            PlanAgainError: the batch was discarded, because Kafka deleted records or a topic before they were read.
            FencedError: another program archives a topic now.
            GaplessError: Kafka cannot be read, or the archive cannot be written.
        """
        written = self._write(snapshot, chosen, progress) if chosen else []
        after = self.topics.take_snapshot() if chosen else snapshot
        added: dict[str, list[Segment]] = {}
        for topic, segment in written:
            added.setdefault(topic, []).append(segment)
        unusable = {partition.topic for partition in chosen if not self._is_usable(snapshot, after, partition)}
        unusable |= self.topics.topics_truncated(snapshot, after, chosen)
        archived: dict[TopicPartition, int] = {}
        for topic, pending in snapshot.pending_by_topic.items():
            if topic in unusable or after.chains.get(topic) is not snapshot.chains[topic]:
                self._discard(
                    topic, snapshot.chains[topic], added.get(topic, []), "the topic was deleted, recreated or truncated"
                )
                continue
            archived |= self._commit(snapshot, topic, added.get(topic, []), pending)
        if self._positions is not None:
            self._positions.publish(archived)
        if archived or not chosen:
            return self.topics.update_pending(after)
        raise PlanAgainError

    def _write(self, snapshot: OffsetSnapshot, chosen: Sequence[Pending], progress: Progress) -> list[TopicSegment]:
        chains = {partition.topic: snapshot.chains[partition.topic] for partition in chosen}
        cut = build_cut(snapshot.cluster_id, chosen, {topic: chain.topic_id for topic, chain in chains.items()})
        writer = SliceWriter(
            self._target.address,
            self._target.access,
            {topic: chain.prefix for topic, chain in chains.items()},
            {topic: self.thresholds.of(topic).limits for topic in chains},
            {
                (partition.topic, partition.partition): Origin(
                    log_start=partition.log_start,
                    high_watermark=partition.high_watermark,
                    epoch=chains[partition.topic].epoch,
                    codec=self._codec,
                    layout=self._layout,
                )
                for partition in chosen
            },
            self._layout,
            {
                (partition.topic, partition.partition): chains[partition.topic].key_first(
                    partition.partition, partition.first
                )
                for partition in chosen
            }
            if self._layout == "kafka-replicator"
            else {},
        )
        try:
            return self._engine.write(cut, sum(partition.bytes for partition in chosen), writer, progress)
        except StoreUnreachableError:
            raise
        except PartitionUnreadableError as error:
            self.topics.stops.add(error, chains[error.topic].topic_id, chosen)
            raise PlanAgainError from error
        except (SourceUnreachableError, ConfigurationError) as error:  # the latter when a topic was deleted
            after = self.topics.take_snapshot()
            if all(
                self._is_usable(snapshot, after, partition) and after.still_contains(partition) for partition in chosen
            ):
                raise
            _log().warning("batch discarded", reason=str(error))
            raise PlanAgainError from error

    def _is_usable(self, snapshot: OffsetSnapshot, after: OffsetSnapshot, partition: Pending) -> bool:
        """Whether the topic still exists with the same topic ID, and was not truncated below what was read."""
        topic = after.topics.get(partition.topic)
        same = topic is not None and after.chains[partition.topic] is snapshot.chains[partition.topic]
        return same and topic is not None and partition.end <= topic.end_offsets[partition.partition]

    def _commit(
        self, snapshot: OffsetSnapshot, topic: str, added: Sequence[Segment], pending: TopicPending
    ) -> dict[TopicPartition, int]:
        """Commit the segments and lost ranges of a topic; return the next offsets of the affected partitions."""
        chain, configuration = snapshot.chains[topic], self.topics.configurations.get(topic)
        try:
            chain.commit(
                added,
                pending.lost,
                started=pending.started,
                cluster_id=snapshot.cluster_id,
                partitions=len(snapshot.topics[topic].end_offsets),
                configuration=configuration.own if configuration is not None else None,
                leader_epochs=dict(enumerate(snapshot.topics[topic].leader_epochs)),
            )
        except PlanAgainError:
            self._discard(topic, chain, added, "another program has archived some of these offsets")
            return {}
        except StoreUnreachableError:
            self.topics.mark_stale(topic)  # the commit may have succeeded
            raise
        account = self.topics.accounts[topic]
        account.add(added, pending.lost)
        partitions = {segment.partition for segment in added} | {lost.partition for lost in pending.lost}
        heads = {number: head for number in partitions if (head := chain.state.head(number)) is not None}
        account.next_offsets |= heads
        for lost in pending.lost:
            _log().error("lost", topic=topic, partition=lost.partition, first=lost.first, last=lost.end - 1)
        if added:
            records = sum(segment.records for segment in added)
            size = sum(segment.bytes for segment in added)
            _log().info("archived", topic=topic, segments=len(added), records=records, bytes=size, lag=account.lag)
        return {(topic, number): head for number, head in heads.items()}

    def _discard(self, topic: str, chain: TopicChain, written: Sequence[Segment], reason: str) -> None:
        """Delete objects that will not be committed; if that fails, compaction deletes them later."""
        _log().warning("batch discarded", topic=topic, reason=reason)
        with contextlib.suppress(GaplessError):
            for name in chain.deletable({segment.object for segment in written} - {""}):
                self._target.place.delete(name)

    def status(self, snapshot: OffsetSnapshot) -> RunStatus:
        """Return the status of all topics from this snapshot and earlier ones."""
        now = time.time()
        self._observations.note(snapshot.pending, now)
        retention = {
            topic: configuration.retention_seconds if configuration is not None else None
            for topic, configuration in self.topics.configurations.items()
        }
        return RunStatus(
            region=self._target.region,
            now=now,
            partitions=tuple(
                partition_status(
                    partition, snapshot.chains[partition.topic], self._observations, retention.get(partition.topic), now
                )
                for partition in snapshot.pending
            ),
            chains={topic: snapshot.chains[topic] for topic in snapshot.topics},
            accounts=self.topics.accounts,
            oldest_seconds=max((self.thresholds.of(topic).age_seconds for topic in snapshot.topics), default=0.0),
            read_by=self._engine.read_by,
        )

    def finish(self) -> None:
        """Wait until the consumer group positions are published."""
        if self._positions is not None:
            self._positions.finish()


def _not_published(error: GaplessError) -> None:
    _log().warning("position not published", reason=str(error))


def _log() -> Any:
    import structlog  # noqa: PLC0415 -- slow to import

    return structlog.get_logger()
