"""Which generation of an archived topic is the one that Kafka has; must not know how segments are read.

Offsets identify events only together with the topic ID, so another generation is refused, never read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_archive.catalog.catalog import find_chain, generations, has_topics, names_of, only_region
from gapless_archive.catalog.peer_segments import NO_ID, PEER_NOTE, layout_note, uncommitted_note
from gapless_archive.reading import TopicArchive, open_archive
from gapless_archive.segments.peer_adoption import read_state
from gapless_archive.store.access import check_endpoint
from gapless_archive.store.places import open_place
from gapless_sender.base.lazy_log import log
from gapless_sender.source.archive_source import ArchivedPartition, DamagedObjects

if TYPE_CHECKING:
    from gapless_archive.catalog.chain import Chain
    from gapless_sender.settings.archive import ArchiveSettings
    from gapless_sender.source.archived import TopicIdentity


class ArchivedTopics:
    """The topics of an archive, one of which is in memory at a time."""

    def __init__(self, settings: ArchiveSettings) -> None:
        """Open the archive. Raises ConfigurationError when the settings of the store are invalid."""
        if settings.refuse_local and settings.address.folder is None:
            check_endpoint(settings.access.endpoint_url)
        self.damaged = DamagedObjects()
        self._place = open_place(settings.address, settings.access)
        self._region, self._topic_id, self._bounds = settings.region, settings.topic_id, settings.bounds
        self._open: tuple[TopicIdentity, TopicArchive | None] | None = None
        self._warned: set[str] = set()

    def partition(self, topic: TopicIdentity, partition: int) -> ArchivedPartition | None:
        """Return a partition of `topic`; ``None`` when the archive does not have the topic. Raises like `topic`."""
        archive = self.topic(topic)
        return None if archive is None else ArchivedPartition(archive, partition, self.damaged)

    def topic(self, topic: TopicIdentity) -> TopicArchive | None:
        """Return the generation of `topic`; ``None`` when the archive does not have the topic at all.

        Raises:
            ConfigurationError: the archive has other generations only, or several of which none can be selected; or it
                is empty or damaged; or the region or the topic is not allowed.
            StoreUnreachableError: the store does not respond.
        """
        if self._open is None or self._open[0] != topic:
            archive = self._open_topic(topic)
            notes = [] if archive is None else [layout_note(archive.chain), uncommitted_note(archive.state)]
            if note := "; ".join(filter(None, notes)):
                self._warn(topic, note)
            self._open = (topic, archive)
        return self._open[1]

    def _open_topic(self, topic: TopicIdentity) -> TopicArchive | None:
        region = self._region = only_region(self._place, self._region)
        self._bounds.check(region, [topic.name], what="The resend")
        topic_ids = generations(self._place, region, topic.name)
        if not topic_ids:
            if not has_topics(self._place, region):
                raise ConfigurationError(
                    f"{self._place.name} holds no archived topic of the region {region}; correct --archive or "
                    f"--archive-region."
                )
            self._warn(topic, "the archive does not have this topic")
            return None
        if topic_ids == [NO_ID]:
            self._warn(topic, f"{PEER_NOTE}; make sure that its events are those of the current topic")
            return open_archive(self._place, topic.name, region=region)
        if topic.topic_id is not None:
            if topic.topic_id not in topic_ids:
                raise ConfigurationError(
                    f"The topic {topic.name} has the ID {topic.topic_id}, but {self._place.name} has "
                    f"{_ids(topic_ids)} of it, whose offsets identify other events; archive the current topic, or omit "
                    f"--archive."
                )
            return open_archive(self._place, topic.name, region=region, topic_id=topic.topic_id)
        if topic.exists and len(topic_ids) > 1:
            raise ConfigurationError(
                f"Kafka does not return the ID of the topic {topic.name}, and {self._place.name} has "
                f"{_ids(topic_ids)} of it; grant this user the operation Describe on the topic, or omit --archive."
            )
        chain = find_chain(
            self._place,
            topic.name,
            region=region,
            topic_id=None if topic.exists else self._topic_id,
            remedy="choose one with --archive-topic-id=ID",
        )
        return self._of_this_cluster(topic, chain)

    def _warn(self, topic: TopicIdentity, message: str) -> None:
        if topic.name not in self._warned:
            self._warned.add(topic.name)
            log("warning", message, topic=topic.name, archive=self._place.name)

    def _of_this_cluster(self, topic: TopicIdentity, chain: Chain) -> TopicArchive:
        state = read_state(chain)
        cluster_id = state.last.cluster_id if state.last is not None else ""
        if cluster_id and topic.cluster_id and cluster_id != topic.cluster_id:
            raise ConfigurationError(
                f"{self._place.name} has the topic {topic.name} of the cluster {cluster_id}, but this cluster is "
                f"{topic.cluster_id}; correct the bootstrap servers or --archive-region, or omit --archive."
            )
        return TopicArchive(self._place, chain, state)


def _ids(topic_ids: list[str]) -> str:
    return f"the ID{'s' if len(topic_ids) > 1 else ''} {', '.join(names_of(topic_ids))}"
