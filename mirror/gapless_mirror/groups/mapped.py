"""How the state of source partitions is read from control topic records: positions and offset maps. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gapless_kafka.writing.offset_map import OffsetMap, runs_in_force, unpack_runs
from gapless_mirror.groups.planning import MirroredPartition
from gapless_mirror.lanes.stored import StoredRecord, decode_records

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_mirror.lanes.comparisons import Compared
    from gapless_mirror.lanes.records import LaneMapPart, LanePosition


@dataclass(frozen=True, slots=True)
class ControlRecords:
    """Positions, and packed parts of offset maps in the order in which they were written, by source partition."""

    positions: dict[TopicPartition, LanePosition] = field(default_factory=dict)
    unreadable: dict[TopicPartition, str] = field(default_factory=dict)
    """A sentence about a record that cannot be read, by the source partition, which then has no position."""
    parts: dict[TopicPartition, list[LaneMapPart]] = field(default_factory=dict)


def control_records(topic: str, lanes: Mapping[int, Iterable[StoredRecord]]) -> ControlRecords:
    """Decode the records of the lanes of a control topic.

    Raises:
        ConfigurationError: a record that concerns a whole lane cannot be read.
    """
    control = ControlRecords()
    for lane, records in lanes.items():
        decoded = decode_records(topic, lane, records)
        for lane_key, message in decoded.records:
            topic_partition = (lane_key.source, lane_key.partition)
            if lane_key.kind == "position":
                control.positions[topic_partition] = message
            elif lane_key.kind == "map":
                control.parts.setdefault(topic_partition, []).append(message)
        for topic_partition, unreadable in decoded.unreadable.items():
            control.unreadable[topic_partition] = unreadable[0].sentence
            control.positions.pop(topic_partition, None)
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
            target_start=0 if found.target is None else found.target.start,
            target_end=None if found.target is None else found.target.end,
        )
    return mirrored
