"""Owns which positions of a consumer group are written at the target, and why others are not. Pure.

A position is translated exactly or not at all. A group that has members at the target is left alone, and no position
goes backwards: the group has read there already.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.wire.mirror_groups import GroupFinding, GroupMove
from gapless_kafka.writing.offset_map import OffsetMap, Reach, target_position

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gapless_api.offsets.ids import TopicPartition
    from gapless_api.wire.mirror_groups import GroupReason


@dataclass(frozen=True, slots=True, kw_only=True)
class MirroredPartition:
    """How far a source partition is copied, and where its records went."""

    target: str
    start: int
    """The first source offset that the mirror answers for."""
    next_offset: int
    log_start: int
    """Of the source now: parts of the map below it may be gone."""
    runs: OffsetMap
    first_mapped: int | None
    """The first source offset in the map; ``None`` for an empty map."""
    recreated: bool = False
    """Whether the source topic is another one than the one that was copied."""

    @property
    def reach(self) -> Reach:
        """The positions that can be translated exactly."""
        if self.log_start <= self.start:  # nothing was taken out of the map
            return Reach(self.start, self.next_offset)
        mapped = self.log_start if self.first_mapped is None else min(self.log_start, self.first_mapped)
        return Reach(max(self.start, mapped), self.next_offset)


class GroupPlan(NamedTuple):
    """What becomes of one group."""

    moves: tuple[GroupMove, ...]
    findings: tuple[GroupFinding, ...]

    @property
    def writes(self) -> dict[TopicPartition, int]:
        """The positions to write, by target partition."""
        return {(one.target, one.partition): one.target_offset for one in self.moves if one.state == "planned"}


def plan_group(  # noqa: PLR0913 -- both sides, and what is known of the copy
    group: str,
    source: Mapping[TopicPartition, int],
    target: Mapping[TopicPartition, int],
    partitions: Mapping[TopicPartition, MirroredPartition],
    *,
    is_active: bool,
    end: Callable[[str, int], int],
) -> GroupPlan:
    """Translate the positions of a group.

    Args:
        group: its name.
        source: where it continues in the source, by source partition.
        target: where it continues in the target, by target partition.
        partitions: what was copied, by source partition.
        is_active: whether the group has members at the target.
        end: asks for the end of a partition of the target.
    """
    moves: list[GroupMove] = []
    findings: list[GroupFinding] = []
    for place, offset in sorted(source.items()):
        one = partitions.get(place)
        if one is None:
            continue
        outcome = _plan_position(group, place, offset, one, target.get((one.target, place[1])), end)
        if isinstance(outcome, GroupMove):
            moves.append(outcome)
        else:
            findings.append(outcome)
    if is_active and any(move.state == "planned" for move in moves):
        sentence = f"Group {group} has members at the target, so its positions there were not changed; stop them first."
        active = GroupFinding(group=group, topic=None, partition=None, reason="ActiveMembers", message=sentence)
        return GroupPlan(tuple(move for move in moves if move.state == "unchanged"), (active, *findings))
    return GroupPlan(tuple(moves), tuple(findings))


def _plan_position(  # noqa: PLR0913, PLR0917 -- both sides of one position
    group: str,
    place: TopicPartition,
    offset: int,
    one: MirroredPartition,
    now: int | None,
    end: Callable[[str, int], int],
) -> GroupMove | GroupFinding:
    topic, partition = place
    found = None
    if not one.recreated and one.reach.holds(offset):
        found = target_position(offset, one.runs, partial(end, one.target, partition))
    if found is None:
        reason, sentence = _outside(group, place, offset, one)
    elif now is not None and now > found:
        reason = "NotBackwards"
        sentence = (
            f"Group {group} continues at offset {now:,} of {one.target}/{partition} already, behind the translated "
            f"offset {found:,}."
        )
    else:
        return GroupMove(
            group=group,
            topic=topic,
            target=one.target,
            partition=partition,
            source_offset=offset,
            target_offset=found,
            state="unchanged" if now == found else "planned",
        )
    return GroupFinding(group=group, topic=topic, partition=partition, reason=reason, message=sentence)


def _outside(group: str, place: TopicPartition, offset: int, one: MirroredPartition) -> tuple[GroupReason, str]:
    where = f"Group {group} continues at offset {offset:,} of {place[0]}/{place[1]}"
    if one.recreated:
        return "TopicRecreated", f"{where}, which was deleted and recreated: its offsets name other records now."
    if offset > one.next_offset:
        sentence = f"{where}, and the mirror has copied up to {one.next_offset:,}; translate again when it is there."
        return "AheadOfMirror", sentence
    if offset < one.start:
        sentence = f"{where}, and the mirror began at {one.start:,}: the records between are not in the target."
        return "BehindMap", sentence
    sentence = (
        f"{where}, and the source keeps records from {one.log_start:,} on: where earlier ones went is not known any "
        f"more. Choose the group's position at the target yourself, such as its earliest record."
    )
    return "BehindMap", sentence
