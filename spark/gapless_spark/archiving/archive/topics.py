"""The archived topics of a run: which exist, their offsets in Kafka, and their chains.

A recreated topic gets a new chain. Must not know how records are archived.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gapless_api.base.archive_bounds import ALL_ARCHIVED, ArchiveBounds
from gapless_api.base.errors import ConfigurationError
from gapless_archive.catalog.catalog import generations, layouts
from gapless_archive.catalog.chain import new_writer
from gapless_archive.catalog.peer_segments import NO_ID, has_peer_segments
from gapless_kafka.access.errors import TopicMissingError
from gapless_kafka.reading.topic_offsets import read_cut
from gapless_kafka.topics.topic_choice import TopicChoice, chosen_topics, existing_topics
from gapless_kafka.topics.topic_configuration import TopicConfiguration, topic_configurations
from gapless_kafka.topics.topic_ids import url_safe_topic_id
from gapless_spark.archiving.archive.account import TopicAccount
from gapless_spark.archiving.archive.chains import TopicChain
from gapless_spark.archiving.archive.planning import Pending, TopicPending, find_pending
from gapless_spark.archiving.archive.stops import Stops
from gapless_spark.archiving.archive.truncations import Truncations

if TYPE_CHECKING:
    from gapless_archive.store.access import S3Access
    from gapless_archive.store.places import Place, PlaceAddress
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.reading.cuts import Cut, TopicCut
    from gapless_spark.settings.archive import ArchiveSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The archive and region that a run writes to."""

    place: Place
    address: PlaceAddress
    access: S3Access
    region: str
    bounds: ArchiveBounds = ALL_ARCHIVED
    """The regions and topics of the archive that may be written."""


@dataclass(frozen=True, slots=True)
class OffsetSnapshot:
    """The offsets of topics in Kafka at one moment, and which of them are not archived."""

    cluster_id: str
    topics: Mapping[str, TopicCut]
    chains: Mapping[str, TopicChain]
    """At that moment: a recreated topic gets a new one."""
    pending_by_topic: Mapping[str, TopicPending]

    @property
    def pending(self) -> list[Pending]:
        """The offsets of each partition that are not archived."""
        return [partition for topic in self.pending_by_topic.values() for partition in topic.partitions]

    def still_contains(self, partition: Pending) -> bool:
        """Whether Kafka still has all pending offsets of an earlier snapshot."""
        topic, number = self.topics.get(partition.topic), partition.partition
        if topic is None or number >= len(topic.end_offsets):
            return False
        return topic.first_offsets[number] <= partition.first and partition.end <= topic.end_offsets[number]


class ArchivedTopics:
    """The selected topics, and what this run has archived of them."""

    def __init__(
        self,
        settings: ArchiveSettings,
        connection: KafkaConnection,
        choice: TopicChoice,
        target: Target,
        *,
        timeout_seconds: float,
    ) -> None:
        self._connection, self._target, self._choice = connection, target, choice
        self._timeout = timeout_seconds
        self._allowed = settings.allowed_topics
        self._layout, self._hold = settings.layout, settings.hold
        # Object keys of kafka-replicator are not unique, so two programs must not write at once.
        self._claims = not settings.once or self._layout == "kafka-replicator"
        self._truncations = Truncations(connection, timeout_seconds=timeout_seconds)
        self.stops = Stops(retries=not settings.once)
        self._writer = new_writer()
        self._topics: list[str] = []
        self._chains: dict[str, TopicChain] = {}
        self._stale_chains: set[str] = set()
        """Topics whose chains may have a commit of ours that we do not know."""
        self.configurations: dict[str, TopicConfiguration | None] = {}
        self.accounts: dict[str, TopicAccount] = {}

    def find_topics(self) -> None:
        """Find the selected topics and their configuration.

        Raises:
            ConfigurationError: the region or a topic is not allowed.
            SourceUnreachableError: Kafka does not answer, or denies access.
        """
        topics = chosen_topics(self._connection, self._choice, timeout_seconds=self._timeout)
        if self._allowed is not None:
            self._allowed.check_selected(topics, self._choice.names, what="The archive")
        self._target.bounds.check(self._target.region, topics, what="The archive")
        configurations = topic_configurations(self._connection, topics, timeout_seconds=self._timeout)
        for topic in configurations.keys() - self.configurations.keys():
            if configurations[topic] is None:
                _log().warning("configuration not archived", topic=topic, needs="the operation DescribeConfigs on it")
        self._topics, self.configurations = topics, configurations

    def take_snapshot(self) -> OffsetSnapshot:
        """Read the offsets of all topics, and compare them with the archive.

        Raises:
            TopicMissingError: a topic that is selected by name has never existed during this run.
            FencedError: another program archives a topic now.
            GaplessError: Kafka or the store does not answer, or denies access.
        """
        cut = self._read_cut() if self._topics else None
        topics = {topic.topic: topic for topic in cut.topics} if cut is not None else {}
        for topic in topics.values():
            self._chain_of(topic)
        try:
            self._truncations.check(topics.values(), self._chains)
        except TopicMissingError:  # deleted since its offsets were read
            return self.take_snapshot()
        pending = {name: self._find_pending(topic, self._chains[name]) for name, topic in topics.items()}
        return OffsetSnapshot(cut.cluster_id if cut is not None else "", topics, dict(self._chains), pending)

    def update_pending(self, snapshot: OffsetSnapshot) -> OffsetSnapshot:
        """Return a snapshot with the pending offsets after the commits since it was taken."""
        pending = {name: self._find_pending(topic, snapshot.chains[name]) for name, topic in snapshot.topics.items()}
        return replace(snapshot, pending_by_topic=pending)

    def topics_truncated(self, before: OffsetSnapshot, after: OffsetSnapshot, read: Sequence[Pending]) -> set[str]:
        """Return the topics of which a log was truncated below what was read between two snapshots."""
        return self._truncations.topics_changed(before.topics, after.topics, read)

    def _find_pending(self, topic: TopicCut, chain: TopicChain) -> TopicPending:
        pending = find_pending(
            topic,
            chain.state.head,
            chain.bytes_per_offset,
            self._truncations.of(topic),
            known_partitions=chain.known_partitions,
        )
        pending, stops = self.stops.apply(topic.topic, chain.topic_id, pending)
        self._update_account(topic, chain, pending)
        self.accounts[topic.topic].stopped = stops
        return pending

    def mark_stale(self, topic: str) -> None:
        """Reload the chain of a topic before its next use, because it is unknown whether a commit succeeded."""
        self._stale_chains.add(topic)

    def _read_cut(self) -> Cut | None:
        """Read the offsets of all topics; skip deleted ones, unless a topic selected by name has never existed."""
        try:
            return read_cut(self._connection, self._topics, timeout_seconds=self._timeout)
        except TopicMissingError:
            existing = set(existing_topics(self._connection, timeout_seconds=self._timeout))
            deleted = [topic for topic in self._topics if topic not in existing]
            if any(topic not in self.accounts and topic in self._choice.names for topic in deleted):
                raise
            for topic in deleted:
                if self._chains.pop(topic, None) is not None:
                    _log().warning("topic deleted", topic=topic)
            self._topics = [topic for topic in self._topics if topic in existing]
            return read_cut(self._connection, self._topics, timeout_seconds=self._timeout) if self._topics else None

    def _chain_of(self, topic: TopicCut) -> TopicChain:
        """Return the chain of the current generation of a topic."""
        topic_id = url_safe_topic_id(topic.id)
        if not topic_id:
            raise ConfigurationError(
                f"Kafka has no topic ID for {topic.topic}, which is required to detect a recreated topic; archive from "
                f"brokers of version 2.8 or later."
            )
        current = self._chains.get(topic.topic)
        if current is not None and current.topic_id == topic_id:
            if topic.topic in self._stale_chains:
                current.reload()
                self._stale_chains.discard(topic.topic)
            return current
        place, region = self._target.place, self._target.region
        place.check_creation()
        self._check_layout(topic.topic, topic_id)
        chain = TopicChain(place, region, topic.topic, topic_id, writer=self._writer, layout=self._layout)
        account = self.accounts.setdefault(topic.topic, TopicAccount())
        account.topic_id = topic_id
        earlier = [current.topic_id] if current is not None else []
        if not earlier and chain.state.sequence == 0:
            earlier = [each for each in generations(place, region, topic.topic) if each not in {NO_ID, topic_id}]
        if earlier:
            account.recreated_from = earlier[-1]
            account.next_offsets.clear()
            account.truncated.clear()
            _log().warning("topic recreated", topic=topic.topic, before=earlier[-1], now=topic_id)
        if self._claims:
            chain.claim()
        if self._layout == "kafka-replicator" and (adopted := chain.adopt_peer_segments()):
            _log().info("adopted from kafka-replicator", topic=topic.topic, segments=adopted)
        if self._hold is not None and chain.hold(is_held=self._hold):
            _log().info("topic on hold" if self._hold else "topic released", topic=topic.topic)
        self._chains[topic.topic] = chain
        return chain

    def _check_layout(self, topic: str, topic_id: str) -> None:
        """Reject a mix of two layouts, or of two generations in the layout without topic IDs.

        Commits of an earlier release may be beside segments of kafka-replicator; they are continued.
        """
        name = f"{self._target.place.name}/{self._target.region}/{topic}"
        remedy = "archive to another place, or under another --region"
        place, region = self._target.place, self._target.region
        archived = layouts(place, region, topic)
        if self._layout == "gapless" and not archived and has_peer_segments(place, region, topic):
            raise ConfigurationError(
                f"{name} has segments of kafka-replicator, which commits in the layout gapless would hide; give "
                f"--layout=kafka-replicator to continue them, or {remedy}."
            )
        for archived_id, layout in archived.items():
            if layout != self._layout:
                raise ConfigurationError(
                    f"{name} is archived in the layout {layout}; give --layout={layout}, or {remedy}."
                )
            if layout == "kafka-replicator" and archived_id != topic_id:
                raise ConfigurationError(
                    f"The topic {topic} was deleted and recreated (topic ID {archived_id} → {topic_id}), and the "
                    f"layout of kafka-replicator holds one generation of a topic; {remedy}."
                )

    def _update_account(self, topic: TopicCut, chain: TopicChain, pending: TopicPending) -> None:
        account = self.accounts[topic.topic]
        account.ends = dict(enumerate(topic.high_watermarks))
        account.next_offsets = {
            partition.partition: head
            if (head := chain.state.head(partition.partition)) is not None
            else partition.first
            for partition in pending.partitions
        }
        for partition in pending.partitions:
            if partition.truncated_at is None:
                continue
            if partition.partition not in account.truncated:
                archived = chain.state.head(partition.partition)
                same = partition.truncated_at
                _log().error("log truncated", topic=topic.topic, partition=partition.partition, at=same, head=archived)
            account.truncated[partition.partition] = partition.truncated_at


def _log() -> Any:
    import structlog  # noqa: PLC0415 -- slow to import

    return structlog.get_logger()
