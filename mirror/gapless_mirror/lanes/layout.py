"""The number of lanes of a mirror: it is written once, because partitions are divided among lanes by it. Pure.

Kafka can add partitions to the control topic; those are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_mirror.lanes.identity import lane_of

if TYPE_CHECKING:
    from gapless_mirror.lanes.control import LaneState


def lanes_of(topic: str, partitions: int, states: Mapping[int, LaneState]) -> int:
    """Return the number of lanes of a mirror.

    Args:
        topic: the control topic.
        partitions: which it has.
        states: of all lanes.

    Raises:
        ConfigurationError: the topic has fewer partitions, or positions were written with different numbers.
    """
    first = states.get(0)
    if first is None or first.layout is None:
        return _inferred(topic, partitions, states)
    lanes = first.layout.lanes
    if partitions < lanes:
        raise ConfigurationError(
            f"The topic {topic} has {partitions:,} partitions, and the mirror has {lanes:,} lanes: positions are lost. "
            f"Delete the topic, and start the mirror with --start-at-target, which finds the positions again."
        )
    return lanes


def _inferred(topic: str, partitions: int, states: Mapping[int, LaneState]) -> int:
    """Return the largest number of lanes by which every position is in its lane: earlier releases did not write it."""
    placed = [
        (lane, each) for lane, state in states.items() for each in (*state.positions.keys(), *state.unreadable.keys())
    ]
    for lanes in range(partitions, 0, -1):
        if all(lane_of(*each, lanes) == lane for lane, each in placed):
            return lanes
    raise ConfigurationError(
        f"The positions in the topic {topic} were written with different numbers of partitions, so some source "
        f"partitions were copied twice, or by no one. Stop the mirror, delete the topic, and start the mirror with "
        f"--start-at-target, which finds the positions again."
    )
