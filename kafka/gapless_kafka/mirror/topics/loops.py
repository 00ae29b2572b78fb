"""Owns the refusal of mirrors that would copy records in a circle. Pure.

Two mirrors in opposite directions are safe when their topics do not meet, or when the one that runs writes the header
of provenance, by which the other one leaves its records out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_kafka.mirror.lanes.provenance import ALWAYS, NEVER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gapless_kafka.mirror.lanes.provenance import Mode
    from gapless_kafka.mirror.topics.names import RenameRule
    from gapless_kafka.topics.topic_choice import TopicChoice

CONTROL_TOPIC_PREFIX = "_gapless_mirror_"
"""How the names of mirrors' control topics begin, on the clusters that they write to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """What a mirror copies, from where, and to where."""

    name: str
    source_id: str
    """Kafka's id of the source cluster."""
    target_id: str
    choice: TopicChoice
    rename: RenameRule
    provenance: Mode

    def copies(self, topic: str) -> bool:
        """Whether the mirror copies a topic of the source, if there is one of this name."""
        return topic in self.choice.chosen([topic])


def refuse_loop(ours: Flow, topics: Iterable[str], others: Iterable[Flow]) -> None:
    """Refuse a mirror that would copy its own records again.

    Args:
        ours: the mirror that is about to start.
        topics: the source's topics that it copies.
        others: mirrors whose control topics are on the source: it is their target.

    Raises:
        ConfigurationError: records would come back, with what to change.
    """
    chosen = sorted(topics)
    if ours.source_id and ours.source_id == ours.target_id:
        _refuse_same_cluster(ours, chosen)
    for other in others:
        if other.source_id != ours.target_id or ours.source_id == ours.target_id:
            continue
        met = next((topic for topic in chosen if _comes_back(topic, ours, other)), None)
        if met is None:
            continue
        there, back = ours.rename.target(met), other.rename.target(ours.rename.target(met))
        circle = f"{met} would be copied to {there}, and from there to {back}"
        if other.provenance != ALWAYS:
            raise ConfigurationError(
                f"The mirror {other.name} copies the other way, and records would go in a circle: {circle}. Start "
                f"{other.name} again with provenance=always and then this one, or choose topics or names that do not "
                f"meet."
            )
        if ours.provenance == NEVER:
            raise ConfigurationError(
                f"The mirror {other.name} copies the other way, and records would go in a circle: {circle}. Give "
                f"provenance=auto or always, or choose topics or names that do not meet."
            )


def mirror_back(ours: Flow, topic: str, others: Iterable[Flow]) -> Flow | None:
    """The mirror that copies what we copy of `topic` back to a topic that we copy; ``None`` for none."""
    if ours.source_id == ours.target_id:
        return None
    return next((one for one in others if one.source_id == ours.target_id and _comes_back(topic, ours, one)), None)


def _refuse_same_cluster(ours: Flow, chosen: Iterable[str]) -> None:
    for topic in chosen:
        target = ours.rename.target(topic)
        if target == topic:
            raise ConfigurationError(
                f"Source and target are the same cluster ({ours.source_id}), and {topic} would be copied to itself; "
                f"correct the bootstrap servers, or give rename."
            )
        if ours.copies(target):
            raise ConfigurationError(
                f"Source and target are the same cluster ({ours.source_id}), and the copy {target} of {topic} would be "
                f"copied again; leave it out with exclude."
            )


def _comes_back(topic: str, ours: Flow, other: Flow) -> bool:
    """Whether what we copy of `topic` is copied back to a topic that we copy."""
    there = ours.rename.target(topic)
    return other.copies(there) and ours.copies(other.rename.target(there))
