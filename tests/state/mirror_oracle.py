"""What the target of a mirror must hold of a topic, and which claims about it are true. Pure.

Must not know Kafka or the product: it is told what was done to both topics, and compares what is there now.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from state.logs import Found, Log, Topic

HOLDS = "Holds"
MISSING = "PositionMissing"
UNKNOWN = "Unknown"


@dataclass
class Copied:
    """How far a partition is copied, as the test has seen it in the target."""

    source_id: str
    next_offset: int
    """Each committed source record before it is in the target, or listed as lost."""
    target_id: str
    target_end: int = 0
    """The offset after the last copy in the topic `target_id`; 0 for none."""
    source_end: int = 0
    """The end of the source log when the position was committed, after `next_offset` where a mirror was killed."""
    cut_at: int | None = None
    """Where the source log was cut below `source_end`; ``None`` if it was not."""
    target_cut: bool = False
    """Whether the target log was cut below `target_end`."""


@dataclass
class MirrorOracle:
    """One topic of a mirror."""

    copied: dict[int, Copied] = field(default_factory=dict)
    """By partition; those without a position are missing."""

    def cut_source(self, partition: int, end: int) -> None:
        """Note that a source log has lost its records from offset `end` on, with its topic ID unchanged."""
        one = self.copied.get(partition)
        if one is not None and end < one.source_end:
            one.cut_at = end if one.cut_at is None else min(one.cut_at, end)

    def cut_target(self, partition: int, target_id: str, end: int) -> None:
        """Note that a target log has lost its copies from offset `end` on, with its topic ID unchanged."""
        one = self.copied.get(partition)
        if one is not None and one.target_id == target_id and end < one.target_end:
            one.target_cut = True

    def forget(self) -> None:
        """Note that the mirror has lost its positions."""
        self.copied.clear()

    def state(self, partition: int, source: Topic, target: Topic | None) -> str:
        """Return how the position of a partition compares with both topics, by the name that the product has for it."""
        one = self.copied.get(partition)
        if one is None:
            copy = target.logs.get(partition) if target is not None else None
            return MISSING if copy is not None and copy.records else HOLDS
        lost = _target_loss(one, partition, target) if one.target_end else ""
        return lost or _source_loss(one, source, source.logs[partition])

    def is_outdated(self, partition: int, source: Topic, target: Topic | None) -> bool:
        """Return whether the target has copies of records that the position does not know of."""
        one = self.copied.get(partition)
        if one is None or not one.target_end or self.state(partition, source, target) != HOLDS or target is None:
            return False
        following = {record.value for record in source.logs[partition].records if record.offset >= one.next_offset}
        behind = (record for record in target.logs[partition].records if record.offset >= one.target_end)
        return any(record.value in following for record in behind)

    def continues_at(self, partition: int, source: Topic, target: Topic | None, decisions: set[str]) -> int | None:
        """Return the source offset from which a run must append to the target; ``None`` if it must refuse."""
        state, log = self.state(partition, source, target), source.logs[partition]
        one = self.copied.get(partition)
        is_lost = target is None and any(each.target_end for each in self.copied.values())
        if is_lost and "--on-target-loss=copy-again" not in decisions:
            return None  # the topic is not created again, also where a partition had no copies
        is_outdated = self.is_outdated(partition, source, target)
        if is_outdated and not decisions & {"--start-at-target", "--copy-again"}:
            return None
        if (state == MISSING or is_outdated) and "--start-at-target" in decisions:
            return _after_tail(target.logs[partition] if target is not None else None, log)
        if _decision(state) not in {"", *decisions}:
            return None
        if one is not None and state == "SourceTruncated":
            return max(log.start, min(log.end if one.cut_at is None else one.cut_at, one.next_offset))
        return one.next_offset if one is not None and state == HOLDS else log.start

    def pending(self, partition: int, source: Topic) -> list[Found]:
        """Return the source records that are not copied yet, where the position holds."""
        one = self.copied.get(partition)
        return [record for record in source.logs[partition].records if one is None or record.offset >= one.next_offset]

    def adopt(
        self,
        partition: int,
        next_offset: int,
        both: tuple[Topic, Topic],
        *,
        appended: bool,
        killed: bool,
        continued: bool,
    ) -> None:
        """Note that a run has committed a position that is true; one that was `killed` perhaps did not commit it.

        Args:
            partition: of the topic.
            next_offset: of the position.
            both: the topics of source and target.
            appended: whether the run has copied something.
            killed: whether it was killed.
            continued: whether it has started behind the records of the target, which then count as its copies.
        """
        source, target = both
        copy, one = target.logs[partition], self.copied.get(partition)
        if killed and one is not None and one.next_offset == next_offset and not appended:
            return
        # after a loss in the target, its end is unknown until something is copied again
        has_copies = one is not None and bool(one.target_end) and not _target_loss(one, partition, target)
        end = one.target_end if has_copies and one is not None else 0
        if appended or (copy.records and continued):
            end = copy.records[-1].offset + 1
        self.copied[partition] = Copied(source.id, next_offset, target.id, end, source.logs[partition].end)


def _target_loss(one: Copied, partition: int, target: Topic | None) -> str:
    if target is None:
        return "TargetDeleted"
    if target.id != one.target_id:
        return "TargetRecreated"
    copy = target.logs.get(partition)
    if copy is None or copy.end < one.target_end:
        return "TargetTruncated"
    return "TargetDiverged" if one.target_cut else ""


def _source_loss(one: Copied, source: Topic, log: Log) -> str:
    if source.id != one.source_id:
        return "TopicRecreated"
    if one.cut_at is not None or log.end < one.source_end:
        return "SourceTruncated"
    return "RetentionOvertook" if log.start > one.next_offset else HOLDS


def _decision(state: str) -> str:
    """Return the option that lets a mirror continue; empty if none is needed."""
    if state == MISSING:
        return "--copy-again"
    if state == HOLDS:
        return ""
    return "--on-target-loss=copy-again" if state.startswith("Target") else "--on-data-loss=skip-and-record"


def _after_tail(copy: Log | None, log: Log) -> int | None:
    """Return the source offset after the record that the target ends with; ``None`` if the source has it no longer."""
    last = copy.records[-1].value if copy is not None and copy.records else None
    return next((record.offset + 1 for record in log.records if record.value == last), None)
