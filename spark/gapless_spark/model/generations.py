"""How an audit reacts to a new ID of an upstream topic: it refuses it, or restarts for a topic that is confirmed.

Must not know where inventories or states are stored. Offsets identify events only together with the topic ID (KIP-516):
in a topic that was deleted and recreated under the same name, other events have the same keys.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.base.errors import ConfigurationError
from gapless_api.offsets.ranges import OffsetRanges
from gapless_api.wire.audit_state import PartitionRun, UpstreamTopic

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition


class Origin(NamedTuple):
    """The upstream topic of a source partition."""

    cluster: str
    """Kafka's ID of the upstream cluster."""
    topic_id: str
    """Kafka's ID of the topic, which changes when the topic is recreated."""


class RecreatedTopic(NamedTuple):
    """An upstream topic whose topic ID has changed."""

    topic: str
    """The name in the keys of events."""
    old_id: str
    new_id: str


class Generations(NamedTuple):
    """The current upstream topics, and the source partitions that are restarted."""

    upstream: tuple[UpstreamTopic, ...] = ()
    restarted: frozenset[TopicPartition] = frozenset()
    """What was received of them before belongs to topics that no longer exist."""


def resolve_generations(
    known: Iterable[UpstreamTopic],
    origins: Mapping[TopicPartition, Origin],
    replaced: Iterable[RecreatedTopic],
    confirmed: Collection[tuple[str, str]],
) -> Generations:
    """Compare the topic IDs in inventories with those that earlier audits recorded.

    Args:
        known: the upstream topics that earlier audits recorded.
        origins: the upstream topic of each source partition in the newest inventories.
        replaced: topics for which there are also inventories with an older ID.
        confirmed: topic and new ID of the topics that may be restarted.

    Raises:
        ConfigurationError: a topic ID has changed and is not confirmed; the message says how to confirm it.
    """
    before = {
        (topic.topic, partition): Origin(topic.cluster, topic.id)
        for topic in known
        for run in topic.partitions
        for partition in range(run.first, run.last + 1)
    }
    changes = {
        RecreatedTopic(key[0], before[key].topic_id, origin.topic_id)
        for key, origin in origins.items()
        if key in before and before[key].topic_id != origin.topic_id
    }
    known_ids = {(topic, origin.topic_id) for (topic, _), origin in before.items()}
    changes |= {change for change in replaced if (change.topic, change.new_id) not in known_ids}
    for change in sorted(changes):
        if (change.topic, change.new_id) not in confirmed:
            raise ConfigurationError(
                f"The upstream topic {change.topic} was deleted and recreated (topic ID {change.old_id} -> "
                f"{change.new_id}), so the events received before do not belong to the new topic; give "
                f"--new-generation={change.topic}:{change.new_id} to restart the audit of this topic only."
            )
    ids = {(change.topic, topic_id) for change in changes for topic_id in (change.old_id, change.new_id)}
    restarted = frozenset(
        key
        for known_origins in (before, origins)
        for key, origin in known_origins.items()
        if (key[0], origin.topic_id) in ids
    )
    now = {key: origin for key, origin in before.items() if key not in restarted} | dict(origins)
    return Generations(_upstream_topics(now), restarted)


def _upstream_topics(origins: Mapping[TopicPartition, Origin]) -> tuple[UpstreamTopic, ...]:
    numbers: dict[tuple[str, Origin], list[int]] = {}
    for (topic, number), origin in origins.items():
        numbers.setdefault((topic, origin), []).append(number)
    return tuple(
        UpstreamTopic(
            topic=topic,
            id=origin.topic_id,
            cluster=origin.cluster,
            partitions=tuple(PartitionRun(run.first, run.last) for run in OffsetRanges.of_offsets(partitions)),
        )
        for (topic, origin), partitions in sorted(numbers.items())
    )
