"""Owns what a mirror remembers in its control topic at the target: positions and topic IDs of the source."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gapless_api.base.errors import GaplessError
from gapless_kafka.doctor.observed import (
    Cluster,
    Group,
    GroupPosition,
    Identity,
    PartitionOffsets,
    Unknown,
)
from gapless_kafka.doctor.observing.reading import MOST_TIMES, PartitionReader
from gapless_kafka.mirror.lanes.control import read_lanes
from gapless_kafka.topics.topic_ids import url_safe_topic_id

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_kafka.doctor.observed import Observations
    from gapless_kafka.doctor.settings import DoctorSettings
    from gapless_kafka.mirror.lanes.identity import MirrorIdentity
    from gapless_kafka.mirror.lanes.records import LanePosition


def with_mirror(seen: Observations, settings: DoctorSettings) -> Observations:
    """Add what the mirror of the settings remembers; nothing without a mirror, or when its cluster does not answer."""
    mirror, connection = settings.mirror, settings.target
    if mirror is None or connection is None or not isinstance(seen.target, Cluster):
        return seen
    partitions = seen.target.partitions.get(mirror.control_topic, {})
    lanes = sorted(partitions)
    ids = (*seen.transactional_ids, *(mirror.transactional_id(lane) for lane in lanes))
    found = replace(seen, transactional_ids=ids, control_topic=mirror.control_topic if lanes else None)
    positions = _positions(seen.target, connection, mirror)
    if isinstance(positions, Unknown):
        return replace(found, unknown=(*seen.unknown, ("target", positions)))
    remembered = {
        Identity("source", topic, url_safe_topic_id(one.source_id), f"the mirror {mirror.name}")
        for (topic, _), one in positions.items()
        if one.source_id
    }
    found = replace(found, remembered=(*seen.remembered, *sorted(remembered, key=lambda one: (one.topic, one.id))))
    if not isinstance(seen.source, Cluster):
        return found
    reader = PartitionReader(settings.source, timeout_seconds=settings.timeout_seconds)
    return replace(found, source=_with_lag(seen.source, mirror, positions, reader))


def _positions(
    target: Cluster, connection: KafkaConnection, mirror: MirrorIdentity
) -> dict[TopicPartition, LanePosition] | Unknown:
    topic = mirror.control_topic
    partitions = target.partitions.get(topic, {})
    if not partitions:
        return Unknown(
            f"What the mirror {mirror.name} remembers was not checked: the target shows no topic {topic}, so it has "
            f"not run yet, or this user may not see the topic"
        )
    lanes = [lane for lane, partition in partitions.items() if partition.leader in target.brokers]
    try:
        states = read_lanes(connection, topic, lanes) if lanes else {}
    except GaplessError as error:
        return Unknown(f"What the mirror {mirror.name} remembers was not checked: {str(error).rstrip('.')}")
    return {place: position for state in states.values() for place, position in state.positions.items()}


def _with_lag(
    source: Cluster, mirror: MirrorIdentity, positions: dict[TopicPartition, LanePosition], reader: PartitionReader
) -> Cluster:
    """The source with the mirror as a reader of it, where the topics are still the ones that it remembers."""
    nexts = {
        place: one.next_offset
        for place, one in positions.items()
        if place[0] in source.topics and url_safe_topic_id(one.source_id) in {"", source.topics[place[0]].id}
    }
    lags = {}
    for place, next_offset in nexts.items():
        offsets = source.offsets.get(place)
        if isinstance(offsets, PartitionOffsets) and offsets.first <= next_offset < offsets.end:
            lags[place] = offsets.end - next_offset
    largest = sorted(lags, key=lambda place: -lags[place])[:MOST_TIMES]
    times = {place: reader.timestamp(place, nexts[place]) for place in largest}
    found = {place: GroupPosition(offset, times.get(place)) for place, offset in nexts.items()}
    reads = Group(mirror.name, found, has_positions=False, noun="mirror")
    return replace(source, groups=(*source.groups, reads))
