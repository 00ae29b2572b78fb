"""Owns the check that mirrors do not copy records in a loop. Pure.

Two mirrors in opposite directions are safe if neither copies the topics that the other writes, or if the running one
writes the provenance header, which lets the other one skip its records.
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
"""The prefix of the names of control topics, which are on the target cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """What a mirror copies, from where, and to where."""

    name: str
    source_id: str
    """The cluster ID of the source."""
    target_id: str
    choice: TopicChoice
    rename: RenameRule
    provenance: Mode

    def copies(self, topic: str) -> bool:
        """Whether the mirror copies a source topic of this name."""
        return topic in self.choice.chosen([topic])


def refuse_loop(ours: Flow, topics: Iterable[str], others: Iterable[Flow]) -> None:
    """Check that a mirror would not copy its own records again.

    Args:
        ours: the mirror that is about to start.
        topics: the source topics that it copies.
        others: the mirrors that write to the source.

    Raises:
        ConfigurationError: records would be copied in a loop; the message says what to change.
    """
    selected = sorted(topics)
    if ours.source_id and ours.source_id == ours.target_id:
        _refuse_same_cluster(ours, selected)
    for other in others:
        if other.source_id != ours.target_id or ours.source_id == ours.target_id:
            continue
        topic = next((topic for topic in selected if _is_copied_back(topic, ours, other)), None)
        if topic is None:
            continue
        copy, back = ours.rename.target(topic), other.rename.target(ours.rename.target(topic))
        loop = f"{topic} would be copied to {copy}, and from there to {back}"
        if other.provenance != ALWAYS:
            raise ConfigurationError(
                f"The mirror {other.name} copies in the opposite direction, and records would loop: {loop}. Restart "
                f"{other.name} with provenance=always and then start this one, or select other topics or names."
            )
        if ours.provenance == NEVER:
            raise ConfigurationError(
                f"The mirror {other.name} copies in the opposite direction, and records would loop: {loop}. Give "
                f"provenance=auto or always, or select other topics or names."
            )


def mirror_back(ours: Flow, topic: str, others: Iterable[Flow]) -> Flow | None:
    """Return the mirror that copies our copy of `topic` back to a topic that we copy; ``None`` for none."""
    if ours.source_id == ours.target_id:
        return None
    opposite = (other for other in others if other.source_id == ours.target_id)
    return next((other for other in opposite if _is_copied_back(topic, ours, other)), None)


def _refuse_same_cluster(ours: Flow, topics: Iterable[str]) -> None:
    for topic in topics:
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


def _is_copied_back(topic: str, ours: Flow, other: Flow) -> bool:
    """Whether `other` copies our copy of `topic` to a topic that we copy."""
    copy = ours.rename.target(topic)
    return other.copies(copy) and ours.copies(other.rename.target(copy))
