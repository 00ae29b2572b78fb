"""Which generation of a topic a restore follows: the one that it, or an earlier run of it, has begun with.

A topic that is deleted and recreated while it is followed gets another generation. Its records belong to another topic,
so they are not appended to the same target: the restore ends when it has written all of the generation that it follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_archive.catalog.catalog import generation_order, generations, names_of

if TYPE_CHECKING:
    from gapless_archive.store.places import Place
    from gapless_kafka.topics.target_topics import TopicDescription
    from gapless_kafka.writing.control_topic import ControlState
    from gapless_spark.archiving.restore.works import TopicRestore


def keep_generations(
    restores: Sequence[TopicRestore],
    described: Mapping[str, TopicDescription],
    state: ControlState | None,
    begun: dict[tuple[str, str], str],
) -> bool:
    """Add to `begun` which generations are followed; return whether one is not the generation of its restore.

    Args:
        restores: the topics, of the generations that would be chosen without earlier runs.
        described: the targets that exist.
        state: of the control topic, with what earlier runs have written; ``None`` without one.
        begun: by region and topic.

    Raises:
        ConfigurationError: earlier runs have written several generations, and not the chosen one.
    """
    is_other = False
    for restore in restores:
        target, source = described.get(restore.target), restore.source
        begun[source.region, source.topic] = source.topic_id
        if state is None or target is None:
            continue
        written = {
            run.source_id
            for work, run in state.works(target.id or target.name).items()
            if run.source == str(source) and any(position.records for position in state.positions(work).values())
        }
        if not written or source.topic_id in written:
            continue
        if len(written) > 1:
            raise ConfigurationError(
                f"{restore.target} has records of {len(written)} generations of {source} "
                f"({', '.join(names_of(written))}), and the newest one, {source.topic_id}, is another; choose one with "
                f"--generation=ID."
            )
        (begun[source.region, source.topic],) = written
        is_other = True
    return is_other


def newer_generation(place: Place, restore: TopicRestore) -> str | None:
    """Describe that another generation is the newest one, or may be; ``None`` if the followed one is.

    Raises:
        GaplessError: the archive cannot be read.
    """
    source = restore.source
    topic_ids = generations(place, source.region, source.topic)
    if topic_ids == [source.topic_id]:
        return None
    newest = generation_order(place, source.region, source.topic).newest
    if newest is None:
        others = ", ".join(names_of(set(topic_ids) - {source.topic_id}))
        return f"the archive has other generations ({others}), and no commit proves which one is the newest"
    if newest.chain.topic_id == source.topic_id:
        return None
    (name,) = names_of([newest.chain.topic_id])
    return f"it was deleted and recreated (topic ID {source.topic_id} -> {name})"
