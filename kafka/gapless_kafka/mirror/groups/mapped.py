"""Owns what a control topic says about source partitions: how far each is copied, and where records went. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gapless_kafka.mirror.groups.planning import MirroredPartition
from gapless_kafka.mirror.lanes.records import read_record
from gapless_kafka.writing.offset_map import OffsetMap, unpack_runs
from gapless_kafka.writing.positions import latest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.mirror.lanes.records import LaneMapPart, LanePosition


@dataclass(frozen=True, slots=True)
class ControlRecords:
    """Positions and parts of offset maps, which are unpacked only where they are needed."""

    positions: dict[TopicPartition, LanePosition] = field(default_factory=dict)
    parts: dict[TopicPartition, list[LaneMapPart]] = field(default_factory=dict)


def control_records(records: Iterable[tuple[bytes | None, bytes | None]]) -> ControlRecords:
    """Sort the records of all lanes. Raises ValueError for what is none."""
    found = ControlRecords()
    for key, value in latest(records).items():
        about, message = read_record(key, value)
        place = (about.source, about.partition)
        if about.kind == "position":
            found.positions[place] = message
        elif about.kind == "map":
            found.parts.setdefault(place, []).append(message)
    return found


def mirrored_partitions(
    found: ControlRecords,
    places: Collection[TopicPartition],
    log_starts: Mapping[TopicPartition, int],
    topic_ids: Mapping[str, str],
) -> dict[TopicPartition, MirroredPartition]:
    """Put together what is known of some source partitions; one that the source does not have is left out.

    Args:
        found: in the control topic.
        places: the source partitions.
        log_starts: of the source.
        topic_ids: of the source; empty where brokers have none.

    Raises:
        ValueError: a part of a map cannot be read.
    """
    mirrored = {}
    for place in places:
        position = found.positions.get(place)
        if position is None or place not in log_starts:
            continue
        runs = [
            run
            for part in found.parts.get(place, ())
            if (part.target, part.source_id) == (position.target, position.source_id)
            for run in unpack_runs(part.runs)
        ]
        identity = topic_ids.get(place[0], "")
        mirrored[place] = MirroredPartition(
            target=position.target,
            start=position.start,
            next_offset=position.next_offset,
            log_start=log_starts[place],
            runs=OffsetMap(runs),
            first_mapped=min((run.first for run in runs), default=None),
            recreated=bool(identity and position.source_id and identity != position.source_id),
        )
    return mirrored
