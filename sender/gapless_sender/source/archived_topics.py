"""Owns which generation of a topic in an archive is the topic that Kafka has; must not know how segments are read.

Offsets name events only together with the topic's ID, so another generation is refused, never read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_archive.catalog.catalog import find_chain, generations, has_topics, only_region
from gapless_archive.catalog.peer_segments import NO_ID, PEER_NOTE, layout_note
from gapless_archive.reading import TopicArchive, open_archive
from gapless_archive.store.access import check_endpoint
from gapless_archive.store.places import open_place
from gapless_sender.base.lazy_log import log
from gapless_sender.source.archive_source import ArchivedPartition, DamageNotes

if TYPE_CHECKING:
    from gapless_archive.catalog.chain import Chain
    from gapless_sender.settings.archive import ArchiveSettings
    from gapless_sender.source.event_source import KnownTopic


class ArchivedTopics:
    """The topics of an archive, one of which is held in memory at a time."""

    def __init__(self, settings: ArchiveSettings) -> None:
        """Open the archive. Raises ConfigurationError when the settings of a store are wrong."""
        if settings.refuse_local and settings.address.folder is None:
            check_endpoint(settings.access.endpoint_url)
        self.damage = DamageNotes()
        self._place = open_place(settings.address, settings.access)
        self._region = settings.region
        self._open: tuple[KnownTopic, TopicArchive | None] | None = None
        self._named: set[str] = set()

    def partition(self, topic: KnownTopic, partition: int) -> ArchivedPartition | None:
        """A partition of `topic`; ``None`` when the archive does not have the topic. Raises like `topic`."""
        archive = self.topic(topic)
        return None if archive is None else ArchivedPartition(archive, partition, self.damage)

    def topic(self, topic: KnownTopic) -> TopicArchive | None:
        """The generation of `topic`; ``None`` when the archive does not have the topic at all.

        Raises:
            ConfigurationError: it has other generations only, or it cannot be told which one is meant; or the archive
                is empty or damaged.
            StoreUnreachableError: the store does not answer.
        """
        if self._open is None or self._open[0] != topic:
            archive = self._opened(topic)
            if archive is not None and (note := layout_note(archive.chain)):
                self._warn(topic, note)
            self._open = (topic, archive)
        return self._open[1]

    def _opened(self, topic: KnownTopic) -> TopicArchive | None:
        region = self._region = only_region(self._place, self._region)
        found = generations(self._place, region, topic.name)
        if not found:
            if not has_topics(self._place, region):
                raise ConfigurationError(
                    f"{self._place.name} holds no archived topic of the region {region}; correct --archive or "
                    f"--archive-region."
                )
            self._warn(topic, "the archive does not have this topic")
            return None
        if found == [NO_ID]:
            self._warn(topic, f"{PEER_NOTE}; make sure that these are the events of the topic as it is now")
            return open_archive(self._place, topic.name, region=region)
        if topic.topic_id is not None:
            if topic.topic_id not in found:
                raise ConfigurationError(
                    f"The topic {topic.name} has the ID {topic.topic_id}, and {self._place.name} has {_ids(found)} of "
                    f"it, whose offsets name other events; archive the topic as it is now, or omit --archive."
                )
            return open_archive(self._place, topic.name, region=region, topic_id=topic.topic_id)
        if topic.exists and len(found) > 1:
            raise ConfigurationError(
                f"Kafka does not return the ID of the topic {topic.name}, and {self._place.name} has {_ids(found)} of "
                f"it; grant this user the operation Describe on the topic, or omit --archive."
            )
        return self._of_this_cluster(topic, find_chain(self._place, topic.name, region=region))

    def _warn(self, topic: KnownTopic, message: str) -> None:
        if topic.name not in self._named:
            self._named.add(topic.name)
            log("warning", message, topic=topic.name, archive=self._place.name)

    def _of_this_cluster(self, topic: KnownTopic, chain: Chain) -> TopicArchive:
        state = chain.load()
        cluster_id = state.last.cluster_id if state.last is not None else ""
        if cluster_id and topic.cluster_id and cluster_id != topic.cluster_id:
            raise ConfigurationError(
                f"{self._place.name} has the topic {topic.name} of the cluster {cluster_id}, and this is the cluster "
                f"{topic.cluster_id}; correct the bootstrap servers or --archive-region, or omit --archive."
            )
        return TopicArchive(self._place, chain, state)


def _ids(found: list[str]) -> str:
    return f"the ID{'s' if len(found) > 1 else ''} {', '.join(sorted(found))}"
