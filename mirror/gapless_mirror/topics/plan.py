"""The plan of which target topics are created, which get more partitions, and which are refused. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from gapless_mirror.topics.carried import new_configuration

if TYPE_CHECKING:
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
    """The new number."""


class Refusal(NamedTuple):
    """A topic that is not copied."""

    topic: str
    """Of the source."""
    sentence: str
    reason: str = "TargetRefuses"
    """A stall reason."""


@dataclass(frozen=True, slots=True)
class TopicsPlan:
    """The changes in the target that are needed to copy topics."""

    creations: tuple[NewTopic, ...] = ()
    growths: tuple[Growth, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    warnings: tuple[str, ...] = ()
    ready: Mapping[str, int] = field(default_factory=dict)
    """The number of partitions of source topics that can be copied once the plan is carried out."""


def plan_topics(  # noqa: PLR0913 -- both sides, and what may be changed
    names: Mapping[str, str],
    source: Mapping[str, TopicDescription],
    target: Mapping[str, TopicDescription],
    *,
    defaults: Mapping[str, str],
    copied: Mapping[str, int],
    creates: bool,
    lost: Mapping[str, str] = MappingProxyType({}),
) -> TopicsPlan:
    """Plan the changes in the target.

    Args:
        names: the target of each source topic.
        source: topics of the source, by their names.
        target: topics of the target, by their names.
        defaults: the configuration of a new topic in the target, as far as known.
        copied: by source topic, how many partitions were copied before.
        creates: whether the mirror may create topics and add partitions.
        lost: why a missing target is not created again, by source topic.
    """
    creations, growths, refusals, warnings, ready = [], [], [], [], {}
    for topic, name in sorted(names.items()):
        original, copy = source.get(topic), target.get(name)
        if original is None:
            refusals.append(Refusal(topic, f"The source has no topic {topic}; create it, or correct topics."))
            continue
        if copy is None and topic in lost:
            refusals.append(Refusal(topic, lost[topic], "TargetDeleted"))
            continue
        partitions = original.partitions
        refusal = _refusal(original, name, copy, copied.get(topic, 0), creates=creates)
        if refusal is not None:
            refusals.append(Refusal(topic, refusal))
            continue
        ready[topic] = partitions
        if copy is None:
            configuration = new_configuration(original, defaults)
            creations.append(NewTopic(source=topic, topic=name, partitions=partitions, configuration=configuration))
        elif copy.partitions < partitions:
            growths.append(Growth(source=topic, topic=name, before=copy.partitions, partitions=partitions))
        else:
            warnings += _warnings(original, copy)
    return TopicsPlan(tuple(creations), tuple(growths), tuple(refusals), tuple(warnings), ready)


def _refusal(
    source: TopicDescription, name: str, copy: TopicDescription | None, copied: int, *, creates: bool
) -> str | None:
    if source.partitions < copied:
        return (
            f"The source topic {source.name} has {source.partitions} partitions, and {copied} were copied: it was "
            f"recreated with fewer. Copy it to another topic with rename, or under another name of the mirror."
        )
    if copy is not None and copy.id and copy.id == source.id:
        return (
            f"The source topic {source.name} and the target topic {name} are the same topic; give another rename, or "
            f"correct the bootstrap servers."
        )
    if copy is None and not creates:
        return (
            f"The target has no topic {name} for {source.name}, and createTopics is false; create it with "
            f"{source.partitions} partitions."
        )
    if copy is not None and copy.partitions < source.partitions and not creates:
        return (
            f"The target topic {name} has {copy.partitions} partitions and {source.name} has {source.partitions}, and "
            f"createTopics is false; add partitions to it."
        )
    return None


def _warnings(source: TopicDescription, copy: TopicDescription) -> list[str]:
    warnings = []
    if copy.partitions > source.partitions:
        warnings.append(
            f"The target topic {copy.name} has {copy.partitions} partitions and {source.name} has "
            f"{source.partitions}: the additional ones stay empty, and Kafka cannot remove partitions. Producers that "
            f"choose partitions by key will choose different ones."
        )
    if copy.configuration.get("message.timestamp.type") == "LogAppendTime":
        warnings.append(
            f"The target topic {copy.name} replaces timestamps by the time of writing "
            f"(message.timestamp.type=LogAppendTime); set it to CreateTime to keep those of the source."
        )
    return warnings
