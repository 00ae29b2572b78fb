"""The check that mirrors do not copy records in a loop. Pure.

A topic that was copied from the target is no source. Two mirrors in opposite directions are safe if neither copies the
topics that the other writes, or if the running one writes the provenance header to them, which lets the other one skip
their records.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_mirror.lanes.provenance import ALWAYS, AUTO, NEVER, Mode
from gapless_mirror.topics.names import SAME_NAME, RenameRule

if TYPE_CHECKING:
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
    target_name: str = ""
    """The target's name in the names of topics that were copied from it; empty if it is not known."""
    opposite: tuple[Flow, ...] = ()
    """The mirrors in the opposite direction when this one started: topics that they copy back get the header."""

    def copies(self, topic: str) -> bool:
        """Whether the mirror copies a source topic of this name."""
        return topic in self.choice.chosen([topic])

    def adds_header(self, topic: str) -> bool:
        """Whether all copies of the records of a source topic get the provenance header."""
        if self.provenance != AUTO:
            return self.provenance == ALWAYS
        return any(_is_copied_back(topic, self, other, self.opposite) for other in self.opposite)


def opposite_to(ours: Flow, others: Iterable[Flow]) -> tuple[Flow, ...]:
    """Return the mirrors that copy from our target to our source."""
    if ours.source_id == ours.target_id:
        return ()
    return tuple(other for other in others if other.source_id == ours.target_id)


def why_returned(ours: Flow, topic: str, others: Iterable[Flow]) -> str | None:
    """Return why a source topic is a copy of a topic of the target, so that it is not copied; ``None`` if it is not.

    A topic that keeps its name in both directions is not such a copy: both clusters may write to it.

    Args:
        ours: the mirror.
        topic: of its source.
        others: the mirrors that write to its source.
    """
    if ours.source_id and ours.source_id == ours.target_id:
        return None
    if ours.target_name and RenameRule(ours.rename.template, ours.target_name).has_passed(topic):
        return f"The name of {topic} says that it was copied from the target {ours.target_name}"
    for other in opposite_to(ours, others):
        if other.rename.has_passed(topic):
            return (
                f"The name of {topic} says that it was copied from the target {other.rename.source_name}, as by the "
                f"mirror {other.name}"
            )
        original = other.rename.original(topic)
        if original is None or not other.copies(original):
            continue
        first = ours.rename.original(original)
        if first is not None and first != topic and ours.copies(first):
            return f"The mirror {other.name} writes {topic}, a copy of {original}, which is our copy of {first}"
        if other.rename.template != SAME_NAME and ours.rename.target(topic) != original:
            return f"The mirror {other.name} writes {topic}, a copy of the target's topic {original}"
    return None


def refuse_loop(ours: Flow, topics: Iterable[str], others: Iterable[Flow]) -> None:
    """Check that a mirror would not copy its own records again.

    Args:
        ours: the mirror that is about to start.
        topics: the source topics that it copies.
        others: the mirrors that write to the source.

    Raises:
        ConfigurationError: records would be copied in a loop; the message says what to change.
    """
    selected, others = sorted(topics), tuple(others)
    if ours.source_id and ours.source_id == ours.target_id:
        _refuse_same_cluster(ours, selected)
    for each in selected:
        why = why_returned(ours, each, others)
        if why is not None:
            raise ConfigurationError(f"{why}; a mirror does not copy it back. Delete it from topics.")
    for other in opposite_to(ours, others):
        topic = next((topic for topic in selected if _is_copied_back(topic, ours, other, others)), None)
        if topic is None:
            continue
        copy, back = ours.rename.target(topic), other.rename.target(ours.rename.target(topic))
        loop = f"{topic} would be copied to {copy}, and from there to {back}"
        if not other.adds_header(copy):
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
    others = tuple(others)
    opposite = opposite_to(ours, others)
    return next((other for other in opposite if _is_copied_back(topic, ours, other, others)), None)


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


def _is_copied_back(topic: str, ours: Flow, other: Flow, others: Iterable[Flow]) -> bool:
    """Whether `other` copies our copy of `topic` to a topic that we copy."""
    copy = ours.rename.target(topic)
    back = other.rename.target(copy)
    return (
        other.copies(copy) and ours.copies(back) and (back in ours.choice.names or not why_returned(ours, back, others))
    )
