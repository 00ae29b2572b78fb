"""Where source partitions start that were added to topics which a mirror copied already, and which these are.

A mirror begins a topic at the start of its logs. A partition that is added later has all its records after that, so
what expires in it before the mirror sees it is a loss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from gapless_mirror.lanes.control import read_lanes
from gapless_mirror.lanes.identity import HEARTBEAT_TOPIC, lane_of
from gapless_mirror.lanes.new_partition import start_at
from gapless_mirror.lanes.records import LanePosition

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.reading.cuts import TopicCut
    from gapless_mirror.lanes.setup import LaneSetup
    from gapless_mirror.lanes.sources import SourceTopic


def starts_of_added(
    partitions: Mapping[TopicPartition, SourceTopic], setup: LaneSetup, pulse: Callable[[], None]
) -> dict[TopicPartition, LanePosition]:
    """Return offset 0 for partitions that have lost records, and that their topics had not when the mirror began them.

    The position of partition 0, which every topic has, says how many there were then.

    Args:
        partitions: source partitions without a position, and their topics.
        setup: what all lanes have in common.
        pulse: called while waiting for Kafka.

    Raises:
        GaplessError: the control topic cannot be read.
    """
    expired = {
        (name, number): topic
        for (name, number), topic in partitions.items()
        if number > 0
        and topic.first_offsets[number] > 0
        and number not in topic.group_offsets
        and name != HEARTBEAT_TOPIC
    }
    if not expired:
        return {}
    lanes = {name: lane_of(name, 0, setup.lanes) for name, _ in expired}
    states = read_lanes(setup.target, setup.identity.control_topic, sorted(set(lanes.values())), pulse=pulse)
    began = {name: states[lane].positions.get((name, 0)) for name, lane in lanes.items()}
    return {
        (name, number): start_at(topic, 0, setup.epoch)
        for (name, number), topic in expired.items()
        if _is_added(number, began[name])
    }


def not_begun(
    positions: Mapping[TopicPartition, LanePosition], cuts: Mapping[str, TopicCut]
) -> dict[TopicPartition, LanePosition]:
    """Return where the mirror will begin the partitions of its topics of which it has no position yet.

    Args:
        positions: of the mirror.
        cuts: source topics as they are now, by name; those without any position are left out.
    """
    begun = {topic: position for (topic, _), position in positions.items()}
    starts = {}
    for topic, position in begun.items():
        cut = cuts.get(topic)
        if cut is None:
            continue
        for number, log_start in enumerate(cut.first_offsets):
            if (topic, number) in positions:
                continue
            start = 0 if _is_added(number, positions.get((topic, 0))) else max(log_start, 0)
            starts[topic, number] = LanePosition(
                target=position.target, source_id=cut.id, epoch=0, start=start, next_offset=start
            )
    return starts


def _is_added(number: int, first: LanePosition | None) -> bool:
    """Whether a topic had no partition `number` when the mirror began its partition 0."""
    return first is not None and 0 < first.source_partitions <= number
