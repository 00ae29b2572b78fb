"""Which topics of an archive are compacted. The settings select the same topics as in ``gapless archive``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gapless_api.base.archive_bounds import ArchiveBounds
from gapless_kafka.topics.topic_choice import TopicChoice

if TYPE_CHECKING:
    from gapless_archive.catalog.chain import Chain
    from gapless_archive.selection import Selection
    from gapless_archive.store.places import Place
    from gapless_spark.settings.compact import CompactSettings


def selected_chains(selection: Selection, place: Place, options: CompactSettings) -> list[Chain]:
    """Return the chains of the topics to compact, by name and ID.

    Raises:
        ConfigurationError: the archive does not have a topic that is selected by name, or the topic is read-only; or
            the region or a selected topic is not allowed.
        StoreUnreachableError: the store does not answer.
    """
    by_name_only = not options.topic_prefix and options.topic_pattern is None and not options.exclude
    if by_name_only and not options.ignore_missing_topics:
        return selection.chains(place)
    if selection.topics and not options.ignore_missing_topics:
        selection.chains(place)  # raises for topics that the archive does not have
    chains = replace(selection, topics=(), bounds=ArchiveBounds(regions=selection.bounds.regions)).chains(place)
    topics = [chain.topic for chain in chains]
    prefixes = tuple(name[:-1] for name in selection.topics if name.endswith("*"))
    names = tuple(name for name in selection.topics if not name.endswith("*"))
    choice = TopicChoice(names, (*options.topic_prefix, *prefixes), options.topic_pattern, options.exclude)
    if not names and choice.is_fixed:
        choice = replace(choice, names=tuple(topics))
    selected = set(choice.chosen(topics))
    chosen = [chain for chain in chains if chain.topic in selected]
    for chain in chosen:
        selection.bounds.check(chain.region, [chain.topic], what="The command")
    return chosen
