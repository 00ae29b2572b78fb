"""Owns one cycle of archiving: read, look at Kafka again, commit. Both ways to run share it.

What was read counts only when the topic is the same as before, and its log still reaches as far. What Kafka deleted
before it was read is lost: that stands in the chain, and in the account.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError, GaplessError, SourceUnreachableError, StoreUnreachableError
from gapless_archive.segments.builder import Origin
from gapless_archive.segments.peer_writer import CODEC as PEER_CODEC
from gapless_archive.segments.writer import CODEC
from gapless_kafka.reading.lag import Observations
from gapless_kafka.topics.group_position import PositionPublisher
from gapless_spark.archiving.archive.chains import PlanAgainError
from gapless_spark.archiving.archive.planning import cut_of
from gapless_spark.archiving.archive.status import RunStatus, partition_status
from gapless_spark.archiving.archive.tasks import SliceWriter
from gapless_spark.archiving.archive.topics import ArchivedTopics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gapless_api.cli.reading_progress import Progress
    from gapless_api.offsets.ids import TopicPartition
    from gapless_archive.catalog.entry import Segment
    from gapless_archive.segments.level_zero import TopicSegment
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.topics.topic_choice import TopicChoice
    from gapless_spark.archiving.archive.chains import TopicChain
    from gapless_spark.archiving.archive.engines import CycleEngine
    from gapless_spark.archiving.archive.planning import Pending, TopicPending
    from gapless_spark.archiving.archive.thresholds import TopicThresholds
    from gapless_spark.archiving.archive.topics import Look, Target
    from gapless_spark.settings.typed import ArchiveSettings

_NO_GROUP = "none"


class Archiver:
    """Archives the topics of a choice."""

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

    def cycle(self, look: Look, chosen: Sequence[Pending], progress: Progress) -> Look:
        """Archive what was chosen of a look, commit it with what was lost, and return what another look finds.

        Raises:
            PlanAgainError: nothing could be used, because Kafka deleted records or a topic before they were read.
            FencedError: another program archives a topic now.
            GaplessError: it could not be read or written.
        """
        written = self._written(look, chosen, progress) if chosen else []
        after = self.topics.look() if chosen else look
        added: dict[str, list[Segment]] = {}
        for topic, segment in written:
            added.setdefault(topic, []).append(segment)
        unusable = {one.topic for one in chosen if not self._is_usable(look, after, one)}
        touched: dict[TopicPartition, int] = {}
        for topic, found in look.found.items():
            if topic in unusable or after.chains.get(topic) is not look.chains[topic]:
                self._discard(
                    topic, look.chains[topic], added.get(topic, []), "the topic was deleted, recreated or truncated"
                )
                continue
            touched |= self._commit(look, topic, added.get(topic, []), found)
        if self._positions is not None:
            self._positions.publish(touched)
        if touched or not chosen:
            return self.topics.counted(after)
        raise PlanAgainError

    def _written(self, look: Look, chosen: Sequence[Pending], progress: Progress) -> list[TopicSegment]:
        chains = {one.topic: look.chains[one.topic] for one in chosen}
        cut = cut_of(look.cluster_id, chosen, {topic: chain.topic_id for topic, chain in chains.items()})
        writer = SliceWriter(
            self._target.address,
            self._target.access,
            {topic: chain.prefix for topic, chain in chains.items()},
            {topic: self.thresholds.of(topic).limits for topic in chains},
            {
                (one.topic, one.partition): Origin(
                    log_start=one.log_start,
                    high_watermark=one.high_watermark,
                    epoch=chains[one.topic].epoch,
                    codec=self._codec,
                    layout=self._layout,
                )
                for one in chosen
            },
            self._layout,
            {(one.topic, one.partition): chains[one.topic].key_first(one.partition, one.first) for one in chosen}
            if self._layout == "kafka-replicator"
            else {},
        )
        try:
            return self._engine.write(cut, sum(one.bytes for one in chosen), writer, progress)
        except StoreUnreachableError:
            raise
        except (SourceUnreachableError, ConfigurationError) as error:  # the latter of a topic that was deleted
            after = self.topics.look()
            if all(self._is_usable(look, after, one) and after.still_has(one) for one in chosen):
                raise
            _log().warning("batch discarded", reason=str(error))
            raise PlanAgainError from error

    def _is_usable(self, look: Look, after: Look, one: Pending) -> bool:
        """Whether what was read belongs to the topic that is there now, which was not cut short meanwhile."""
        topic = after.topics.get(one.topic)
        same = topic is not None and after.chains[one.topic] is look.chains[one.topic]
        return same and topic is not None and one.end <= topic.end_offsets[one.partition]

    def _commit(
        self, look: Look, topic: str, added: Sequence[Segment], found: TopicPending
    ) -> dict[TopicPartition, int]:
        """Commit for a topic; return how far the partitions are archived that it touched."""
        chain, configuration = look.chains[topic], self.topics.configurations.get(topic)
        try:
            chain.commit(
                added,
                found.lost,
                cluster_id=look.cluster_id,
                partitions=len(look.topics[topic].end_offsets),
                configuration=configuration.own if configuration is not None else None,
            )
        except PlanAgainError:
            self._discard(topic, chain, added, "another program has archived some of it meanwhile")
            return {}
        except StoreUnreachableError:
            self.topics.doubt(topic)  # the commit may have been made
            raise
        account = self.topics.accounts[topic]
        account.add(added, found.lost)
        partitions = {segment.partition for segment in added} | {lost.partition for lost in found.lost}
        heads = {number: head for number in partitions if (head := chain.state.head(number)) is not None}
        account.next_offsets |= heads
        for lost in found.lost:
            _log().error("lost", topic=topic, partition=lost.partition, first=lost.first, last=lost.end - 1)
        if added:
            records = sum(segment.records for segment in added)
            size = sum(segment.bytes for segment in added)
            _log().info("archived", topic=topic, segments=len(added), records=records, bytes=size, lag=account.lag)
        return {(topic, number): head for number, head in heads.items()}

    def _discard(self, topic: str, chain: TopicChain, written: Sequence[Segment], reason: str) -> None:
        """Remove objects that no commit will name; what stays is removed later, as what a killed run has left."""
        _log().warning("batch discarded", topic=topic, reason=reason)
        with contextlib.suppress(GaplessError):
            for name in chain.unneeded({segment.object for segment in written} - {""}):
                self._target.place.delete(name)

    def status(self, look: Look) -> RunStatus:
        """How far all topics are, as a look and those before show it."""
        now = time.time()
        self._observations.note(look.pending, now)
        retention = {
            topic: found.retention_seconds if found is not None else None
            for topic, found in self.topics.configurations.items()
        }
        return RunStatus(
            region=self._target.region,
            now=now,
            partitions=tuple(
                partition_status(one, look.chains[one.topic], self._observations, retention.get(one.topic), now)
                for one in look.pending
            ),
            chains={topic: look.chains[topic] for topic in look.topics},
            accounts=self.topics.accounts,
            oldest_seconds=max((self.thresholds.of(topic).age_seconds for topic in look.topics), default=0.0),
            read_by=self._engine.read_by,
        )

    def finish(self) -> None:
        """Wait for what is going on beside the work."""
        if self._positions is not None:
            self._positions.finish()


def _not_published(error: GaplessError) -> None:
    _log().warning("position not published", reason=str(error))


def _log() -> Any:
    import structlog  # noqa: PLC0415 -- slow to import

    return structlog.get_logger()
