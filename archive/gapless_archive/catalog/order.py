"""The order of the generations of a topic; must not know where their chains are stored.

The order comes from records in the chains, never from a clock: an archiving program records which other generations
exist when Kafka has its own, and how far each was archived. What was archived afterwards contradicts that record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gapless_archive.catalog.entry import Predecessor

if TYPE_CHECKING:
    from gapless_archive.catalog.chain import Chain
    from gapless_archive.catalog.state import TopicState


class Generation(NamedTuple):
    """One generation of a topic."""

    chain: Chain
    state: TopicState

    def as_predecessor(self) -> Predecessor:
        """Return what a later generation records of this one."""
        return Predecessor(self.chain.topic_id, self.state.epoch, self.state.archived_offsets)

    def precedes(self, other: Generation) -> bool:
        """Whether it is proved that `other` is a later generation."""
        return self._is_recorded_by(other) and not other._is_recorded_by(self)

    def _is_recorded_by(self, other: Generation) -> bool:
        """Whether `other` has recorded to follow this generation, and nothing of this one was archived since."""
        known = other.state.predecessors.get(self.chain.topic_id)
        return (
            known is not None
            and self.state.epoch <= known.epoch
            and self.state.archived_offsets <= known.archived_offsets
        )


class GenerationOrder(NamedTuple):
    """The generations of a topic, ordered as far as their chains prove it."""

    generations: tuple[Generation, ...]
    """The oldest first; those of unknown order by topic ID."""
    newest: Generation | None
    """The one that all others precede; ``None`` when that is not proved."""


def order_generations(generations: Sequence[Generation]) -> GenerationOrder:
    """Order the generations of a topic."""
    counts = {
        each.chain.topic_id: sum(other is not each and other.precedes(each) for other in generations)
        for each in generations
    }
    ordered = sorted(generations, key=lambda each: (counts[each.chain.topic_id], each.chain.topic_id))
    newest = ordered[-1] if ordered and counts[ordered[-1].chain.topic_id] == len(ordered) - 1 else None
    return GenerationOrder(tuple(ordered), newest)
