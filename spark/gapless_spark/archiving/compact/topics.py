"""Owns which topics of an archive are compacted. A choice means the same topics as it does to ``gapless archive``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gapless_kafka.topics.topic_choice import TopicChoice

if TYPE_CHECKING:
    from gapless_archive.catalog.chain import Chain
    from gapless_archive.selection import Selection
    from gapless_archive.store.places import Place
    from gapless_spark.settings.compact import CompactSettings


def chosen_chains(selection: Selection, place: Place, told: CompactSettings) -> list[Chain]:
    """The chains of the topics that are compacted, by name and ID.

    Raises:
        ConfigurationError: the archive does not have a topic that is named, or may not be changed.
        StoreUnreachableError: the store does not answer.
    """
    by_name_only = not told.topic_prefix and told.topic_pattern is None and not told.exclude
    if by_name_only and not told.ignore_missing_topics:
        return selection.chains(place)
    if selection.topics and not told.ignore_missing_topics:
        selection.chains(place)  # refuses what the archive does not have
    everything = replace(selection, topics=()).chains(place)
    topics = [chain.topic for chain in everything]
    starts = tuple(name[:-1] for name in selection.topics if name.endswith("*"))
    names = tuple(name for name in selection.topics if not name.endswith("*"))
    choice = TopicChoice(names, (*told.topic_prefix, *starts), told.topic_pattern, told.exclude)
    if not names and choice.is_fixed:
        choice = replace(choice, names=tuple(topics))
    chosen = set(choice.chosen(topics))
    return [chain for chain in everything if chain.topic in chosen]
