"""Owns what a mirror changes about topics of the target: which are created, and which get more partitions. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from gapless_kafka.mirror.topics.carried import new_configuration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gapless_kafka.topics.target_topics import TopicDescription


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic of the target to create."""

    source: str
    topic: str
    partitions: int
    configuration: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """A topic of the target that gets more partitions."""

    source: str
    topic: str
    before: int
    partitions: int
    """How many it has afterwards."""


class Refusal(NamedTuple):
    """A topic that is not copied."""

    topic: str
    """Of the source."""
    sentence: str


@dataclass(frozen=True, slots=True)
class TopicsPlan:
    """What is to be done so that every topic can be copied."""

    creations: tuple[NewTopic, ...] = ()
    growths: tuple[Growth, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    warnings: tuple[str, ...] = ()
    ready: Mapping[str, int] = field(default_factory=dict)
    """Source topics that can be copied once the plan is carried out, with their partitions."""


def plan_topics(  # noqa: PLR0913 -- both sides, and what may be changed
    names: Mapping[str, str],
    source: Mapping[str, TopicDescription],
    target: Mapping[str, TopicDescription],
    *,
    defaults: Mapping[str, str],
    copied: Mapping[str, int],
    creates: bool,
) -> TopicsPlan:
    """Plan what has to be done at the target.

    Args:
        names: the target of each source topic.
        source: topics of the source, by their names.
        target: topics of the target, by their names.
        defaults: settings of a new topic in the target, as far as known.
        copied: for source topics of which something was copied, the count of partitions that were.
        creates: whether the mirror may create topics and add partitions.
    """
    creations, growths, refusals, warnings, ready = [], [], [], [], {}
    for topic, name in sorted(names.items()):
        has, found = source.get(topic), target.get(name)
        if has is None:
            refusals.append(Refusal(topic, f"The source has no topic {topic}; create it, or correct topics."))
            continue
        refusal = _refusal(has, name, found, copied.get(topic, 0), creates=creates)
        if refusal is not None:
            refusals.append(Refusal(topic, refusal))
            continue
        ready[topic] = has.partitions
        if found is None:
            configuration = new_configuration(has, defaults)
            creations.append(NewTopic(source=topic, topic=name, partitions=has.partitions, configuration=configuration))
        elif found.partitions < has.partitions:
            growths.append(Growth(source=topic, topic=name, before=found.partitions, partitions=has.partitions))
        else:
            warnings += _warnings(has, found)
    return TopicsPlan(tuple(creations), tuple(growths), tuple(refusals), tuple(warnings), ready)


def _refusal(
    source: TopicDescription, name: str, found: TopicDescription | None, copied: int, *, creates: bool
) -> str | None:
    if source.partitions < copied:
        return (
            f"The source topic {source.name} has {source.partitions} partitions, and {copied} were copied: it was "
            f"recreated with fewer. Copy it to another topic with rename, or under another name of the mirror."
        )
    if found is not None and found.id and found.id == source.id:
        return (
            f"The source topic {source.name} and the target topic {name} are the same topic; give another rename, or "
            f"correct the bootstrap servers."
        )
    if found is None and not creates:
        return (
            f"The target has no topic {name} for {source.name}, and createTopics is false; create it with "
            f"{source.partitions} partitions."
        )
    if found is not None and found.partitions < source.partitions and not creates:
        return (
            f"The target topic {name} has {found.partitions} partitions and {source.name} has {source.partitions}, and "
            f"createTopics is false; add partitions to it."
        )
    return None


def _warnings(source: TopicDescription, found: TopicDescription) -> list[str]:
    warnings = []
    if found.partitions > source.partitions:
        warnings.append(
            f"The target topic {found.name} has {found.partitions} partitions and {source.name} has "
            f"{source.partitions}: the rest stays empty, and Kafka cannot remove partitions. Programs that choose "
            f"partitions by keys will choose others."
        )
    if found.configuration.get("message.timestamp.type") == "LogAppendTime":
        warnings.append(
            f"The target topic {found.name} replaces timestamps by the time of writing "
            f"(message.timestamp.type=LogAppendTime); set it to CreateTime to keep those of the source."
        )
    return warnings
