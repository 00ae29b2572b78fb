"""The positions and topic IDs of the source in a mirror's control topic at the target."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING

from gapless_api.base.errors import GaplessError
from gapless_kafka.topics.topic_ids import url_safe_topic_id
from gapless_mirror.doctor.observed import (
    Cluster,
    Group,
    GroupPosition,
    Identity,
    Observations,
    PartitionOffsets,
    Unknown,
)
from gapless_mirror.doctor.observing.reading import MAX_TIMESTAMPS, PartitionReader
from gapless_mirror.lanes.comparisons import compare_all
from gapless_mirror.lanes.control import LaneState, read_lanes
from gapless_mirror.lanes.layout import lanes_of

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.access.connection import KafkaConnection
    from gapless_mirror.doctor.settings import DoctorSettings
    from gapless_mirror.lanes.identity import MirrorIdentity
    from gapless_mirror.lanes.records import LanePosition


def with_mirror(seen: Observations, settings: DoctorSettings) -> Observations:
    """Add the positions of the configured mirror; nothing without a mirror, or when its cluster is unreachable."""
    mirror, connection, target = settings.mirror, settings.target, seen.target
    if mirror is None or connection is None or not isinstance(target, Cluster):
        return seen
    lanes = sorted(target.partitions.get(mirror.control_topic, {}))
    ids = (*seen.transactional_ids, *(mirror.transactional_id(lane) for lane in lanes))
    seen = replace(seen, transactional_ids=ids, control_topic=mirror.control_topic if lanes else None)
    states = _states(target, connection, mirror)
    if isinstance(states, Unknown):
        return replace(seen, unknown=(*seen.unknown, ("target", states)))
    for state in states:
        for record in (record for records in state.unreadable.values() for record in records):
            seen = replace(seen, unknown=(*seen.unknown, ("target", Unknown(record.sentence.rstrip(".")))))
    positions = {partition: position for state in states for partition, position in state.positions.items()}
    remembered = {
        Identity("source", topic, url_safe_topic_id(position.source_id), f"the mirror {mirror.name}")
        for (topic, _), position in positions.items()
        if position.source_id
    }
    seen = replace(seen, remembered=(*seen.remembered, *sorted(remembered, key=attrgetter("topic", "id"))))
    if not isinstance(seen.source, Cluster):
        return seen
    try:
        compared = compare_all(positions, settings.source, connection, timeout_seconds=settings.timeout_seconds)
    except GaplessError as error:
        reason = f"The positions of the mirror {mirror.name} were not compared: {str(error).rstrip('.')}"
        return replace(seen, unknown=(*seen.unknown, ("target", Unknown(reason))))
    differences = tuple(
        ("{}/{}".format(*each), found.comparison.state.value, found.comparison.sentence)
        for each, found in sorted(compared.items())
        if found.comparison.is_loss
    )
    reader = PartitionReader(settings.source, timeout_seconds=settings.timeout_seconds)
    with_lag = _with_lag(seen.source, mirror, positions, reader)
    return replace(seen, source=with_lag, position_differences=differences)


def _states(target: Cluster, connection: KafkaConnection, mirror: MirrorIdentity) -> list[LaneState] | Unknown:
    topic = mirror.control_topic
    partitions = target.partitions.get(topic, {})
    if not partitions:
        return Unknown(
            f"The positions of the mirror {mirror.name} were not checked: the target has no topic {topic}, or this "
            f"user may not describe it"
        )
    lanes = [lane for lane, partition in partitions.items() if partition.leader in target.brokers]
    try:
        states = read_lanes(connection, topic, lanes) if lanes else {}
        if len(lanes) == len(partitions):  # otherwise their number cannot be compared
            states = {lane: states[lane] for lane in range(lanes_of(topic, len(partitions), states))}
    except GaplessError as error:
        return Unknown(f"The positions of the mirror {mirror.name} were not checked: {str(error).rstrip('.')}")
    return list(states.values())


def _with_lag(
    source: Cluster, mirror: MirrorIdentity, positions: dict[TopicPartition, LanePosition], reader: PartitionReader
) -> Cluster:
    """Add the mirror as a group of the source, where topic IDs are unchanged."""
    next_offsets = {
        (topic, number): position.next_offset
        for (topic, number), position in positions.items()
        if topic in source.topics and url_safe_topic_id(position.source_id) in {"", source.topics[topic].id}
    }
    lags = {}
    for partition, next_offset in next_offsets.items():
        offsets = source.offsets.get(partition)
        if isinstance(offsets, PartitionOffsets) and offsets.first <= next_offset < offsets.end:
            lags[partition] = offsets.end - next_offset
    largest = sorted(lags, key=lambda partition: -lags[partition])[:MAX_TIMESTAMPS]
    timestamps = {partition: reader.timestamp(partition, next_offsets[partition]) for partition in largest}
    group_positions = {
        partition: GroupPosition(offset, timestamps.get(partition)) for partition, offset in next_offsets.items()
    }
    group = Group(mirror.name, group_positions, has_positions=False, noun="mirror")
    return replace(source, groups=(*source.groups, group))
