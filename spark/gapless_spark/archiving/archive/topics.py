"""Owns what is known of the topics that are archived: which there are, how far they reach, and their chains.

A topic that was recreated gets another chain. Must not know how anything is archived.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gapless_api.base.errors import ConfigurationError
from gapless_archive.catalog.catalog import generations, layouts
from gapless_archive.catalog.chain import new_writer
from gapless_archive.catalog.peer_segments import NO_ID
from gapless_kafka.access.errors import TopicMissingError
from gapless_kafka.reading.topic_offsets import read_cut
from gapless_kafka.topics.topic_choice import chosen_topics, existing_topics
from gapless_kafka.topics.topic_configuration import topic_configurations
from gapless_kafka.topics.topic_ids import url_safe_topic_id
from gapless_spark.archiving.archive.account import TopicAccount
from gapless_spark.archiving.archive.chains import TopicChain
from gapless_spark.archiving.archive.planning import pending_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gapless_archive.store.access import S3Access
    from gapless_archive.store.places import Place, PlaceAddress
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.reading.cuts import Cut, TopicCut
    from gapless_kafka.topics.topic_choice import TopicChoice
    from gapless_kafka.topics.topic_configuration import TopicConfiguration
    from gapless_spark.archiving.archive.planning import Pending, TopicPending
    from gapless_spark.settings.typed import ArchiveSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a run archives to."""

    place: Place
    address: PlaceAddress
    access: S3Access
    region: str


@dataclass(frozen=True, slots=True)
class Look:
    """How far topics reach, and what of them is not archived."""

    cluster_id: str
    topics: Mapping[str, TopicCut]
    chains: Mapping[str, TopicChain]
    """As they were then: a recreated topic gets another one."""
    found: Mapping[str, TopicPending]

    @property
    def pending(self) -> list[Pending]:
        """What is not archived of each partition."""
        return [one for found in self.found.values() for one in found.partitions]

    def still_has(self, one: Pending) -> bool:
        """Whether all that is pending in an earlier look is in the log."""
        topic = self.topics.get(one.topic)
        if topic is None or one.partition >= len(topic.end_offsets):
            return False
        return topic.first_offsets[one.partition] <= one.first and one.end <= topic.end_offsets[one.partition]


class ArchivedTopics:
    """The topics of a choice, and what this run has done for them."""

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
        # Keys of kafka-replicator are not unique, so no two programs may write there at once.
        self._claims = not settings.once or self._layout == "kafka-replicator"
        self._writer = new_writer()
        self._topics: list[str] = []
        self._chains: dict[str, TopicChain] = {}
        self._doubted: set[str] = set()
        """Topics whose chains may say more than we know."""
        self.configurations: dict[str, TopicConfiguration | None] = {}
        self.accounts: dict[str, TopicAccount] = {}

    def find_topics(self) -> None:
        """Find out which topics there are, and their configuration.

        Raises:
            ConfigurationError: a topic may not be read.
            SourceUnreachableError: Kafka does not answer, or refuses us.
        """
        topics = chosen_topics(self._connection, self._choice, timeout_seconds=self._timeout)
        if self._allowed is not None:
            self._allowed.check(topics, what="The archive")
        found = topic_configurations(self._connection, topics, timeout_seconds=self._timeout)
        for topic in found.keys() - self.configurations.keys():
            if found[topic] is None:
                _log().warning("configuration not archived", topic=topic, needs="the operation DescribeConfigs on it")
        self._topics, self.configurations = topics, found

    def look(self) -> Look:
        """Find out how far all topics reach.

        Raises:
            TopicMissingError: a topic that is named did not exist in all of this run.
            FencedError: another program archives a topic now.
            GaplessError: Kafka or the store does not answer, or refuses us.
        """
        cut = self._read_cut() if self._topics else None
        found: dict[str, TopicPending] = {}
        for topic in cut.topics if cut is not None else ():
            chain = self._chain_of(topic)
            found[topic.topic] = pending_of(topic, chain.state.head, chain.bytes_per_offset)
            self._note_bounds(topic, chain, found[topic.topic])
        topics = {topic.topic: topic for topic in cut.topics} if cut is not None else {}
        return Look(cut.cluster_id if cut is not None else "", topics, dict(self._chains), found)

    def counted(self, after: Look) -> Look:
        """What of a look is pending when the commits since are counted."""
        found = {
            name: pending_of(topic, after.chains[name].state.head, after.chains[name].bytes_per_offset)
            for name, topic in after.topics.items()
        }
        for name, pending in found.items():
            self._note_bounds(after.topics[name], after.chains[name], pending)
        return Look(after.cluster_id, after.topics, after.chains, found)

    def doubt(self, topic: str) -> None:
        """Read the chain of a topic again before it is used: a commit may have been made or not."""
        self._doubted.add(topic)

    def _read_cut(self) -> Cut | None:
        """Look at the topics; those that are gone are passed over, unless one that is named never existed."""
        try:
            return read_cut(self._connection, self._topics, timeout_seconds=self._timeout)
        except TopicMissingError:
            existing = set(existing_topics(self._connection, timeout_seconds=self._timeout))
            gone = [topic for topic in self._topics if topic not in existing]
            if any(topic not in self.accounts and topic in self._choice.names for topic in gone):
                raise
            for topic in gone:
                if self._chains.pop(topic, None) is not None:
                    _log().warning("topic deleted", topic=topic)
            self._topics = [topic for topic in self._topics if topic in existing]
            return read_cut(self._connection, self._topics, timeout_seconds=self._timeout) if self._topics else None

    def _chain_of(self, topic: TopicCut) -> TopicChain:
        """The chain of the generation that is there now."""
        topic_id = url_safe_topic_id(topic.id)
        if not topic_id:
            raise ConfigurationError(
                f"Kafka has no topic ID for {topic.topic}, without which a recreated topic cannot be told from the one "
                f"before; archive from brokers of version 2.8 or later."
            )
        known = self._chains.get(topic.topic)
        if known is not None and known.topic_id == topic_id:
            if topic.topic in self._doubted:
                known.reload()
                self._doubted.discard(topic.topic)
            return known
        place, region = self._target.place, self._target.region
        self._check_layout(topic.topic, topic_id)
        chain = TopicChain(place, region, topic.topic, topic_id, writer=self._writer, layout=self._layout)
        account = self.accounts.setdefault(topic.topic, TopicAccount())
        account.topic_id = topic_id
        earlier = [known.topic_id] if known is not None else []
        if not earlier and chain.state.sequence == 0:
            earlier = [found for found in generations(place, region, topic.topic) if found not in {NO_ID, topic_id}]
        if earlier:
            account.recreated_from = earlier[-1]
            account.next_offsets.clear()
            _log().warning("topic recreated", topic=topic.topic, before=earlier[-1], now=topic_id)
        if self._claims:
            chain.claim()
        if self._layout == "kafka-replicator" and (taken := chain.take_over()):
            _log().info("taken over from kafka-replicator", topic=topic.topic, segments=taken)
        if self._hold is not None and chain.hold(is_held=self._hold):
            _log().info("held" if self._hold else "released", topic=topic.topic)
        self._chains[topic.topic] = chain
        return chain

    def _check_layout(self, topic: str, topic_id: str) -> None:
        """Refuse what would mix two layouts, or two generations in the layout that has no topic IDs."""
        name = f"{self._target.place.name}/{self._target.region}/{topic}"
        cure = "archive to another place, or under another --region"
        for found, layout in layouts(self._target.place, self._target.region, topic).items():
            if layout != self._layout:
                raise ConfigurationError(
                    f"{name} is archived in the layout {layout}; give --layout={layout}, or {cure}."
                )
            if layout == "kafka-replicator" and found != topic_id:
                raise ConfigurationError(
                    f"The topic {topic} was deleted and recreated (topic ID {found} → {topic_id}), and the layout of "
                    f"kafka-replicator holds one generation of a topic; {cure}."
                )

    def _note_bounds(self, topic: TopicCut, chain: TopicChain, found: TopicPending) -> None:
        account = self.accounts[topic.topic]
        account.ends = dict(enumerate(topic.high_watermarks))
        account.next_offsets = {
            one.partition: head if (head := chain.state.head(one.partition)) is not None else one.first
            for one in found.partitions
        }
        for number in set(found.truncated) - account.truncated:
            _log().error("truncated", topic=topic.topic, partition=number, archived_up_to=chain.state.head(number))
        account.truncated |= set(found.truncated)


def _log() -> Any:
    import structlog  # noqa: PLC0415 -- slow to import

    return structlog.get_logger()
