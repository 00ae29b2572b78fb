"""Owns what a new id of an upstream topic means for an audit: refused, or restarted for that topic when named.

Must not know where inventories or states are kept. Offsets name events only together with the topic's id (KIP-516): a
topic that was deleted and recreated under its old name gives other events the same keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gapless_api.base.errors import ConfigurationError
from gapless_api.offsets.ranges import OffsetRanges
from gapless_api.wire.audit_state import PartitionRun, UpstreamTopic

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from gapless_api.offsets.ids import TopicPartition


class Origin(NamedTuple):
    """Where the events of a source partition come from."""

    cluster: str
    """Kafka's own id of the upstream cluster."""
    topic_id: str
    """Kafka's own for the topic, another one when it is recreated."""


class Replaced(NamedTuple):
    """An upstream topic that has another id than it had."""

    topic: str
    """As the events' keys name it."""
    old_id: str
    new_id: str


class Generations(NamedTuple):
    """Which upstream topics there are now, and which source partitions begin anew."""

    upstream: tuple[UpstreamTopic, ...] = ()
    restarted: frozenset[TopicPartition] = frozenset()
    """What was received of them before counts for topics that no longer exist."""


def generations(
    known: Iterable[UpstreamTopic],
    origins: Mapping[TopicPartition, Origin],
    replaced: Iterable[Replaced],
    confirmed: Collection[tuple[str, str]],
) -> Generations:
    """Compare what inventories say with what was known before.

    Args:
        known: what earlier audits knew.
        origins: what the newest inventories say of each source partition.
        replaced: topics of which inventories with an older id are there, too.
        confirmed: topic and new id of those that somebody has said to begin anew.

    Raises:
        ConfigurationError: a topic has another id, and nobody has said to begin anew; the sentence says how.
    """
    before = {
        (one.topic, number): Origin(one.cluster, one.id)
        for one in known
        for run in one.partitions
        for number in range(run.first, run.last + 1)
    }
    changes = {
        Replaced(place[0], before[place].topic_id, origin.topic_id)
        for place, origin in origins.items()
        if place in before and before[place].topic_id != origin.topic_id
    }
    known_ids = {(topic, origin.topic_id) for (topic, _), origin in before.items()}
    changes |= {change for change in replaced if (change.topic, change.new_id) not in known_ids}
    for change in sorted(changes):
        if (change.topic, change.new_id) not in confirmed:
            raise ConfigurationError(
                f"The upstream topic {change.topic} was deleted and recreated (topic ID {change.old_id} -> "
                f"{change.new_id}), so what was received before is not of the new one; give "
                f"--new-generation={change.topic}:{change.new_id} to begin again for this topic alone."
            )
    ids = {(change.topic, topic_id) for change in changes for topic_id in (change.old_id, change.new_id)}
    restarted = frozenset(
        place for places in (before, origins) for place, origin in places.items() if (place[0], origin.topic_id) in ids
    )
    now = {place: origin for place, origin in before.items() if place not in restarted} | dict(origins)
    return Generations(_listed(now), restarted)


def _listed(origins: Mapping[TopicPartition, Origin]) -> tuple[UpstreamTopic, ...]:
    numbers: dict[tuple[str, Origin], list[int]] = {}
    for (topic, number), origin in origins.items():
        numbers.setdefault((topic, origin), []).append(number)
    return tuple(
        UpstreamTopic(
            topic=topic,
            id=origin.topic_id,
            cluster=origin.cluster,
            partitions=tuple(PartitionRun(run.first, run.last) for run in OffsetRanges.of_offsets(some)),
        )
        for (topic, origin), some in sorted(numbers.items())
    )
