"""Which offsets of a consumer group are translated to the target, and why others are not. Pure.

An offset is translated exactly or not at all. A group with members at the target is not changed, and no offset is moved
backwards, because the group has already read that part of the target.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from gapless_api.wire.mirror_groups import GroupFinding, GroupMove, GroupReason
from gapless_kafka.writing.offset_map import OffsetMap, Reach, target_position
from gapless_mirror.lanes.claims import HOLDS, Comparison, PositionState

if TYPE_CHECKING:
    from gapless_api.offsets.ids import TopicPartition
    from gapless_kafka.topics.consumer_groups import GroupCommit


@dataclass(frozen=True, slots=True, kw_only=True)
class MirroredPartition:
    """The position and the offset map of a source partition."""

    target: str
    start: int
    """The first source offset that the mirror is responsible for."""
    next_offset: int
    log_start: int
    """The current log start of the source; the map may have no earlier offsets."""
    runs: OffsetMap
    first_mapped: int | None
    """The first source offset in the map; ``None`` for an empty map."""
    difference: Comparison = HOLDS
    """How the position compares with both clusters; offsets are only translated while it holds."""
    target_start: int = 0
    """The start of the target log: copies before it have expired."""
    target_end: int | None = None
    """The end of the target log, which no translated offset exceeds; ``None`` while it is unknown."""

    @property
    def may_translate(self) -> bool:
        """Whether the offset map is about the logs that exist now. Records that expire in the source change nothing."""
        return self.difference.state in {PositionState.HOLDS, PositionState.SOURCE_OVERTAKEN}

    def expired_copy(self, offset: int) -> int | None:
        """Return the target offset of the next record after a source offset, if that copy has expired."""
        copy = self.runs.record(offset)
        return copy if copy is not None and copy < self.target_start else None

    @property
    def reach(self) -> Reach:
        """The source offsets that can be translated exactly."""
        if self.log_start <= self.start:  # the map is complete
            return Reach(self.start, self.next_offset)
        mapped = self.log_start if self.first_mapped is None else min(self.log_start, self.first_mapped)
        return Reach(max(self.start, mapped), self.next_offset)


_REASONS: Mapping[PositionState, GroupReason] = {
    PositionState.UNKNOWN: "NotConfirmed",
    PositionState.SOURCE_RECREATED: "TopicRecreated",
    PositionState.SOURCE_TRUNCATED: "SourceTruncated",
    PositionState.TARGET_DELETED: "TargetDeleted",
    PositionState.TARGET_RECREATED: "TargetRecreated",
    PositionState.TARGET_TRUNCATED: "TargetTruncated",
    PositionState.TARGET_DIVERGED: "TargetDiverged",
}


class GroupPlan(NamedTuple):
    """The plan for one group."""

    moves: tuple[GroupMove, ...]
    findings: tuple[GroupFinding, ...]

    @property
    def writes(self) -> dict[TopicPartition, int]:
        """The offsets to commit, by target partition."""
        return {(move.target, move.partition): move.target_offset for move in self.moves if move.state == "planned"}

    @property
    def metadata(self) -> dict[TopicPartition, str]:
        """The metadata to commit with them."""
        return {(move.target, move.partition): move.metadata for move in self.moves if move.state == "planned"}


def plan_group(  # noqa: PLR0913 -- both sides, and what is known of the copy
    group: str,
    source: Mapping[TopicPartition, GroupCommit],
    target: Mapping[TopicPartition, GroupCommit],
    partitions: Mapping[TopicPartition, MirroredPartition],
    *,
    is_active: bool,
    end: Callable[[str, int], int],
) -> GroupPlan:
    """Plan the translation of a group.

    Args:
        group: its name.
        source: what it has committed in the source, by source partition.
        target: what it has committed in the target, by target partition.
        partitions: the mirrored partitions, by source partition.
        is_active: whether the group has members at the target.
        end: returns the end of a target partition.
    """
    moves: list[GroupMove] = []
    findings: list[GroupFinding] = []
    for topic_partition, commit in sorted(source.items()):
        mirrored = partitions.get(topic_partition)
        if mirrored is None:
            continue
        committed = target.get((mirrored.target, topic_partition[1]))
        result = _plan_offset(group, topic_partition, commit, mirrored, committed, end)
        if isinstance(result, GroupMove):
            moves.append(result)
        else:
            findings.append(result)
    if is_active and any(move.state == "planned" for move in moves):
        sentence = f"Group {group} has members at the target, so its positions there were not changed; stop them first."
        active = GroupFinding(group=group, topic=None, partition=None, reason="ActiveMembers", message=sentence)
        return GroupPlan(tuple(move for move in moves if move.state == "unchanged"), (active, *findings))
    return GroupPlan(tuple(moves), tuple(findings))


def _plan_offset(  # noqa: PLR0913, PLR0917 -- both sides of one offset
    group: str,
    topic_partition: TopicPartition,
    commit: GroupCommit,
    mirrored: MirroredPartition,
    committed: GroupCommit | None,
    end: Callable[[str, int], int],
) -> GroupMove | GroupFinding:
    (topic, partition), offset = topic_partition, commit.offset
    translated = None
    if mirrored.may_translate and mirrored.reach.holds(offset):
        translated = target_position(offset, mirrored.runs, partial(end, mirrored.target, partition))
        if translated is not None and mirrored.target_end is not None and translated > mirrored.target_end:
            translated = None  # the target has lost the record, and offsets after its end belong to other records
        if translated is not None:
            translated = max(translated, mirrored.target_start)  # no record was before it, or it has expired
    if translated is None:
        reason, sentence = _why_not_translated(group, topic_partition, offset, mirrored)
    elif committed is not None and committed.offset > translated:
        reason = "NotBackwards"
        sentence = (
            f"Group {group} is already at offset {committed.offset:,} of {mirrored.target}/{partition}, after the "
            f"translated offset {translated:,}."
        )
    elif (expired := mirrored.expired_copy(offset)) is not None:
        reason = "ExpiredInTarget"
        sentence = (
            f"Group {group} is at offset {offset:,} of {topic}/{partition}, whose copy at offset {expired:,} of "
            f"{mirrored.target}/{partition} has expired: that log starts at {mirrored.target_start:,}. Set the offset "
            f"of the group at the target yourself, for example to the earliest."
        )
    else:
        return GroupMove(
            group=group,
            topic=topic,
            target=mirrored.target,
            partition=partition,
            source_offset=offset,
            target_offset=translated,
            metadata=commit.metadata,
            state="unchanged" if committed == (translated, commit.metadata) else "planned",
        )
    return GroupFinding(group=group, topic=topic, partition=partition, reason=reason, message=sentence)


def unmirrored(
    group: str, source: Iterable[TopicPartition], mirrored: Collection[TopicPartition], mirror: str
) -> list[GroupFinding]:
    """Return a finding for each topic, or partition, of a group that a mirror does not copy.

    Args:
        group: its name.
        source: the partitions with committed offsets.
        mirrored: the partitions that the mirror copies.
        mirror: its name.
    """
    copied = {topic for topic, _ in mirrored}
    findings: dict[tuple[str, int | None], GroupFinding] = {}
    for topic, number in sorted(source):
        if (topic, number) not in mirrored:
            partition = number if topic in copied else None
            what = topic if partition is None else f"{topic}/{partition}"
            findings[topic, partition] = GroupFinding(
                group=group,
                topic=topic,
                partition=partition,
                reason="NotMirrored",
                message=f"Group {group} also reads {what}, which the mirror {mirror} has not copied: it was left out.",
            )
    return list(findings.values())


def _why_not_translated(
    group: str, topic_partition: TopicPartition, offset: int, mirrored: MirroredPartition
) -> tuple[GroupReason, str]:
    where = f"Group {group} is at offset {offset:,} of {topic_partition[0]}/{topic_partition[1]}"
    if not mirrored.may_translate:
        return _REASONS[mirrored.difference.state], f"{where}. {mirrored.difference.sentence}".rstrip()
    if offset > mirrored.next_offset:
        sentence = f"{where}, and the mirror has copied up to {mirrored.next_offset:,}; translate again later."
        return "AheadOfMirror", sentence
    if offset < mirrored.start:
        sentence = f"{where}, and the mirror started at {mirrored.start:,}: the records between are not in the target."
        return "BehindMap", sentence
    sentence = (
        f"{where}, and the source log starts at {mirrored.log_start:,}: the target offsets of earlier records are no "
        f"longer known. Set the offset of the group at the target yourself, for example to the earliest."
    )
    return "BehindMap", sentence
