"""Why a restore of a topic has no records to write, other than that they are written already.

The newest generation of a recreated topic may be empty, and limits may exclude everything; older generations with
records are named. Must not know how a restore reports it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gapless_archive.catalog.catalog import generation_order, generations, names_of

if TYPE_CHECKING:
    from gapless_spark.archiving.restore.works import TopicRestore


def reasons_without_records(restores: Sequence[TopicRestore]) -> tuple[str, ...]:
    """Return a sentence for each topic of which nothing was or will be written.

    Raises:
        GaplessError: another generation of such a topic cannot be read.
    """
    return tuple(
        _reason(restore)
        for restore in restores
        if not restore.records and not any(position.records for position in restore.positions.values())
    )


def is_empty(restore: TopicRestore) -> bool:
    """Whether the archive has no records of the chosen generation."""
    return not any(restore.archive.covered(partition) for partition in restore.archive.state.partitions)


def _reason(restore: TopicRestore) -> str:
    source = restore.source
    (name,) = names_of([source.topic_id])
    if not is_empty(restore):
        return f"The archive has no record of {source} (topic ID {name}) in the given partitions, offsets and times."
    others = list(_others(restore))
    text = f"The archive has no records of {source} (topic ID {name})"
    if not others:
        return f"{text}."
    return (
        f"{text}, which was recreated, but of its earlier generations: give --topic-id={others[0]} to restore "
        f"{'this' if len(others) == 1 else 'one'} ({', '.join(others)})."
    )


def _others(restore: TopicRestore) -> Iterator[str]:
    """Yield the names of other generations with records, the newest first as far as the order is known."""
    source, place = restore.source, restore.archive.place
    if len(generations(place, source.region, source.topic)) == 1:
        return
    for generation in reversed(generation_order(place, source.region, source.topic).generations):
        if generation.chain.topic_id != source.topic_id and any(
            map(generation.state.segments, generation.state.partitions)
        ):
            yield names_of([generation.chain.topic_id])[0]
