"""The selection of topics of an archive that a command works on, and its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gapless_api.base.archive_bounds import ALL_ARCHIVED, ARCHIVE_BOUNDS, ArchiveBounds
from gapless_api.base.errors import ConfigurationError
from gapless_api.base.quantities import names, partition_numbers
from gapless_api.base.settings import Setting
from gapless_archive.catalog.catalog import chain_of, generations, is_region, not_archived, only_region, topics
from gapless_archive.catalog.chain import Chain, new_writer
from gapless_archive.catalog.peer_segments import PEER_GENERATION, PeerChain
from gapless_archive.store.access import S3Access, access_from
from gapless_archive.store.places import Place, PlaceAddress, open_place, parse_place

_GROUP = "What to work on"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Selected topics of an archive."""

    address: PlaceAddress
    access: S3Access
    region: str | None = None
    """``None`` for the only one."""
    topics: tuple[str, ...] = ()
    """Names, and prefixes of names followed by ``*``; empty for all."""
    topic_id: str | None = None
    """``None`` for all generations."""
    partitions: frozenset[int] | None = None
    """``None`` for all."""
    bounds: ArchiveBounds = ALL_ARCHIVED
    """Outside of these, nothing is selected."""

    def open(self, *, storage_class: str | None = None) -> Place:
        """Open the archive; `storage_class` is that of new objects. Raises ConfigurationError."""
        access = self.access if storage_class is None else replace(self.access, storage_class=storage_class)
        return open_place(self.address, access)

    def chains(self, place: Place, *, changes: bool = True) -> list[Chain]:
        """Return the chains of the topics, by name and ID; none if the given region has no topic yet.

        Args:
            place: the archive.
            changes: whether the command changes the archive. It then skips topics that kafka-replicator has archived,
                unless they are selected by name or there are no others, which is an error.

        Raises:
            ConfigurationError: the archive does not have a selected topic or ID, or the topic is read-only; or the
                region or a topic is not allowed.
            StoreUnreachableError: the store does not answer.
        """
        region = only_region(place, self.region)
        self.bounds.check(region, what="The command")
        existing = topics(place, region)
        if not existing and not self.topics:
            return []  # nothing is archived yet
        patterns = self.topics or ("*",)
        matching = {pattern: _matching(pattern, existing, place, region) for pattern in patterns}
        for pattern, found in matching.items():
            self.bounds.check_matching(pattern, found, what="The command")
        selected = sorted({name for found in matching.values() for name in found})
        writer = new_writer()
        chains = [
            chain_of(place, region, topic, topic_id, writer=writer)
            for topic in selected
            for topic_id in sorted(generations(place, region, topic))
            if self.topic_id in {None, topic_id or PEER_GENERATION}
        ]
        if not chains:
            raise ConfigurationError(
                f"{place.name} has no topic with the ID {self.topic_id} in the region {region}; gapless segments list "
                f"shows all topic IDs."
            )
        if not changes:
            return chains
        writable = [chain for chain in chains if not isinstance(chain, PeerChain)]
        topics_with_commits = {chain.topic for chain in writable}
        for chain in chains:
            named = chain.topic in self.topics and chain.topic not in topics_with_commits
            if isinstance(chain, PeerChain) and (named or not writable):
                raise chain.read_only_error()
        return writable


def _matching(pattern: str, existing: list[str], place: Place, region: str) -> list[str]:
    if pattern.endswith("*"):
        matching = [name for name in existing if name.startswith(pattern[:-1])]
    else:
        matching = [pattern] if pattern in existing else []
    if not matching:
        raise not_archived(place, region, pattern)
    return matching


def region_name(text: str) -> str:
    """Parse the name of a region. Raises ValueError with the end of the sentence "it must be …"."""
    if not is_region(text):
        raise ValueError("a name of up to 63 letters, digits, dashes, dots and underscores, such as site-a")
    return text


ARCHIVE = Setting(
    "archive",
    "The archive: a folder, or s3://BUCKET/PREFIX.",
    parse=parse_place,
    required=True,
    metavar="PLACE",
    group=_GROUP,
)
REGION = Setting(
    "region",
    "Name of the cluster in the archive.",
    parse=region_name,
    shown_default="the only one of the archive",
    aliases=("localRegion", "LocalRegion"),
    metavar="NAME",
    group=_GROUP,
)
TOPICS = Setting(
    "topics",
    "Archived topics, separated by commas; NAME* stands for all that begin so.",
    parse=names("one or several topics, separated by commas"),
    default=(),
    shown_default="all",
    aliases=("topic", "Topics"),
    metavar="TOPIC,…",
    group=_GROUP,
)
GENERATION = Setting(
    "generation",
    "Topic ID, where the archive has a topic that was deleted and recreated; kafka-replicator for its segments beside "
    "others.",
    shown_default="all",
    aliases=("topicId",),
    metavar="ID",
    group=_GROUP,
)
PARTITIONS = Setting(
    "partitions",
    "Partitions, such as 0,4-7.",
    parse=partition_numbers,
    aliases=("partition",),
    shown_default="all",
    metavar="NUMBERS",
    group=_GROUP,
)
SELECTION_SETTINGS: tuple[Setting, ...] = (ARCHIVE, REGION, TOPICS, GENERATION, PARTITIONS, *ARCHIVE_BOUNDS)
"""The settings of a command that works on an archive."""


def selection_from(values: Mapping[str, Any]) -> Selection:
    """Build the selection from a command's `SELECTION_SETTINGS` and `S3_SETTINGS`."""
    address: PlaceAddress = values["archive"]
    if address.folder is not None:
        address = replace(address, folder=address.folder.absolute())  # Spark tasks run in other folders
    return Selection(
        address=address,
        access=access_from(values),
        region=values["region"],
        topics=values["topics"],
        topic_id=values["generation"],
        partitions=values["partitions"],
        bounds=ArchiveBounds.of(values),
    )
