"""Owns how the state of source partitions is read from control topic records: positions and offset maps. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gapless_kafka.mirror.groups.planning import MirroredPartition
from gapless_kafka.mirror.lanes.records import read_record
from gapless_kafka.writing.offset_map import OffsetMap, runs_in_force, unpack_runs
from gapless_kafka.writing.positions import latest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.mirror.lanes.comparisons import Compared
    from gapless_kafka.mirror.lanes.records import LaneMapPart, LanePosition


@dataclass(frozen=True, slots=True)
class ControlRecords:
    """Positions, and packed parts of offset maps in the order in which they were written, by source partition."""

    positions: dict[TopicPartition, LanePosition] = field(default_factory=dict)
    parts: dict[TopicPartition, list[LaneMapPart]] = field(default_factory=dict)


def control_records(records: Iterable[tuple[bytes | None, bytes | None]]) -> ControlRecords:
    """Decode the records of all lanes. Raises ValueError for an unreadable record."""
    control = ControlRecords()
    for key, value in latest(records).items():
        lane_key, message = read_record(key, value)
        topic_partition = (lane_key.source, lane_key.partition)
        if lane_key.kind == "position":
            control.positions[topic_partition] = message
        elif lane_key.kind == "map":
            control.parts.setdefault(topic_partition, []).append(message)
    return control


def mirrored_partitions(
    control: ControlRecords,
    partitions: Collection[TopicPartition],
    compared: Mapping[TopicPartition, Compared],
) -> dict[TopicPartition, MirroredPartition]:
    """Combine positions and offset maps; partitions without a position are left out.

    Args:
        control: the records of the control topic.
        partitions: the source partitions.
        compared: their positions, compared with both clusters.

    Raises:
        ValueError: a part of a map is invalid.
    """
    mirrored = {}
    for topic_partition in partitions:
        position = control.positions.get(topic_partition)
        found = compared.get(topic_partition)
        if position is None or found is None:
            continue
        runs = [
            run
            for part in control.parts.get(topic_partition, ())
            if (part.target, part.source_id) == (position.target, position.source_id)
            for run in unpack_runs(part.runs)
        ]
        held = runs_in_force(runs, position.next_offset)
        mirrored[topic_partition] = MirroredPartition(
            target=position.target,
            start=position.start,
            next_offset=position.next_offset,
            log_start=0 if found.source is None else found.source.start,
            runs=OffsetMap(held, end=runs[-1].target + runs[-1].length if runs else None),
            first_mapped=held[0].first if held else None,
            difference=found.comparison,
            target_end=None if found.target is None else found.target.end,
        )
    return mirrored
