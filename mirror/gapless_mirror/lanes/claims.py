"""The comparison of a position with what both clusters say now. Pure.

A position is a claim about two logs: the source had these records, and the target has their copies. Every program that
uses a position compares it here first; each difference is a state with a name, and only `PositionState.HOLDS` allows
to continue from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from gapless_kafka.topics.topic_ids import url_safe_topic_id

if TYPE_CHECKING:
    from gapless_kafka.reading.cuts import TopicCut
    from gapless_mirror.lanes.records import LanePosition


_ADVICE = (
    "Find out who changed the target. To copy again from the start of the source log, start the mirror with "
    "--on-target-loss=copy-again."
)


class PositionState(StrEnum):
    """How a position compares with both clusters. The values other than the first two are stall reasons."""

    HOLDS = "Holds"
    """Both logs are what they were."""
    UNKNOWN = "Unknown"
    """A cluster has not answered about the partition, so nothing may be concluded."""
    SOURCE_RECREATED = "TopicRecreated"
    """The source topic was deleted, or deleted and recreated: another topic ID."""
    SOURCE_TRUNCATED = "SourceTruncated"
    """The source log has the same topic ID, and no longer has the records that were copied."""
    SOURCE_OVERTAKEN = "RetentionOvertook"
    """The source has deleted records before they were copied."""
    TARGET_DELETED = "TargetDeleted"
    """The target topic does not exist, and had copies."""
    TARGET_RECREATED = "TargetRecreated"
    """The target topic has another ID than the one that the copies were written to."""
    TARGET_TRUNCATED = "TargetTruncated"
    """The target log ends before the last copy."""
    TARGET_DIVERGED = "TargetDiverged"
    """The target log was truncated before the last copy, and has other records there now."""


TARGET_LOSSES = frozenset(
    {
        PositionState.TARGET_DELETED,
        PositionState.TARGET_RECREATED,
        PositionState.TARGET_TRUNCATED,
        PositionState.TARGET_DIVERGED,
    }
)
TARGET_REASONS = frozenset(state.value for state in TARGET_LOSSES)


@dataclass(frozen=True, slots=True)
class LogNow:
    """What a cluster says about a log; `None` instead of it means that nothing is known."""

    exists: bool = True
    id: str = ""
    """The topic ID; empty where brokers have none."""
    start: int = 0
    end: int = 0
    """Of the source: its last stable offset. Of the target: its high watermark."""
    diverged_at: int | None = None
    """The offset where the log with the position's leader epoch ended, if that is before the offset that the position
    says it had reached (KIP-320)."""
    epoch: int = -1
    """A leader epoch; -1 where it is unknown."""
    epoch_end: int = 0
    """An offset that the log has reached in this epoch."""
    known_end: int = 0
    """Of the source: an offset that the log had reached before, with the same topic ID; 0 for none."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a comparison."""

    state: PositionState
    sentence: str = ""
    """What is different or unknown, and what to do; empty if the position holds."""

    @property
    def is_loss(self) -> bool:
        """Whether copying must not continue from the position."""
        return self.state not in {PositionState.HOLDS, PositionState.UNKNOWN}


HOLDS = Comparison(PositionState.HOLDS)


def log_in(cut: TopicCut | None, partition: int, *, is_target: bool = False) -> LogNow | None:
    """Return the log of a partition in a cut; one that is not in it does not exist.

    Returns ``None`` for a partition that the topic does not have, or of which nothing is known.
    """
    if cut is None:
        return LogNow(exists=False)
    if partition >= len(cut.end_offsets) or cut.end_offsets[partition] < 0:
        return None
    ends = cut.high_watermarks if is_target and cut.high_watermarks else cut.end_offsets
    epoch = cut.leader_epochs[partition] if cut.leader_epochs else -1
    first, epoch_end = cut.first_offsets[partition], cut.end_offsets[partition]
    return LogNow(True, cut.id, first, ends[partition], epoch=epoch, epoch_end=epoch_end)


def compare_position(name: str, position: LanePosition, source: LogNow | None, target: LogNow | None) -> Comparison:
    """Compare a position with both logs, which were read after the position was.

    A loss in the target comes first: it also concerns records that the source has no longer.

    Args:
        name: the partition, for the sentence.
        position: as committed.
        source: of the source; ``None`` while unknown.
        target: of the target; ``None`` while unknown.
    """
    for found in (compare_target(name, position, target), compare_source(name, position, source)):
        if found.is_loss:
            return found
    if source is None or target is None:
        return Comparison(PositionState.UNKNOWN)
    return HOLDS


def compare_target(name: str, position: LanePosition, target: LogNow | None) -> Comparison:
    """Compare a position with the target alone. Without copies, another topic is as good as the first."""
    if target is None:
        return Comparison(PositionState.UNKNOWN)
    if not has_copies(position):
        return HOLDS
    if not target.exists:
        return Comparison(
            PositionState.TARGET_DELETED, target_deleted_sentence(name, position.target, position.next_offset)
        )
    return _compare_target_log(position, target, _copied(name, position.target, position.next_offset), _ADVICE)


def has_copies(position: LanePosition) -> bool:
    """Return whether the target has, or had, copies of a partition."""
    return bool(position.target_end or position.records)


def target_deleted_sentence(name: str, target: str, next_offset: int) -> str:
    """Return the sentence about copies that were deleted with the topic `target`.

    Args:
        name: the partition.
        target: the topic.
        next_offset: the source offset after the last copy.
    """
    copied = _copied(name, target, next_offset)
    return f"The target topic {target} was deleted: {copied}, and these copies are gone. {_ADVICE}"


def _copied(name: str, target: str, next_offset: int) -> str:
    return f"{name} was copied to {target} up to source offset {next_offset:,}"


def _compare_target_log(position: LanePosition, target: LogNow, copied: str, advice: str) -> Comparison:
    if target.id and position.target_id and target.id != position.target_id:
        ids = f"topic ID {url_safe_topic_id(position.target_id)} -> {url_safe_topic_id(target.id)}"
        return Comparison(
            PositionState.TARGET_RECREATED,
            f"The target topic {position.target} was deleted and recreated ({ids}): {copied}, and these copies are "
            f"gone. {advice}",
        )
    if position.target_end is not None and target.end < position.target_end:
        return Comparison(
            PositionState.TARGET_TRUNCATED,
            f"The target log of {position.target} ends at {target.end:,}, and the mirror wrote up to "
            f"{position.target_end:,}: {copied}, and the last copies are gone. {advice} Copies that the target still "
            f"has are then in it twice.",
        )
    if target.diverged_at is not None:
        return Comparison(
            PositionState.TARGET_DIVERGED,
            f"The target log of {position.target} was truncated at {target.diverged_at:,} and has other records from "
            f"there on (leader epoch {position.target_epoch} ended there), and the mirror wrote up to "
            f"{position.target_end or 0:,}: {copied}, and the last copies are gone. {advice} Copies that the target "
            f"still has are then in it twice.",
        )
    return HOLDS


def compare_source(name: str, position: LanePosition, source: LogNow | None) -> Comparison:
    """Compare a position with the source alone."""
    if source is None:
        return Comparison(PositionState.UNKNOWN)
    if not source.exists:
        return Comparison(
            PositionState.SOURCE_RECREATED,
            f"The source topic of {name} was deleted; recreate it, or leave it out of the mirror.",
        )
    if source.id and position.source_id and source.id != position.source_id:
        ids = f"topic ID {url_safe_topic_id(position.source_id)} -> {url_safe_topic_id(source.id)}"
        return Comparison(
            PositionState.SOURCE_RECREATED,
            f"The source topic of {name} was deleted and recreated ({ids}) after offset {position.next_offset:,} was "
            f"reached; start the mirror with --on-data-loss=skip-and-record to append the new topic from its "
            f"beginning.",
        )
    if source.end < known_end(position, source) or source.diverged_at is not None:
        return Comparison(PositionState.SOURCE_TRUNCATED, truncation_sentence(name, position, source))
    if source.start > position.next_offset:
        return Comparison(
            PositionState.SOURCE_OVERTAKEN,
            f"The source has deleted the offsets {position.next_offset:,}-{source.start - 1:,} of {name} before "
            f"they were copied; keep records longer, and start the mirror with --on-data-loss=skip-and-record to "
            f"continue at {source.start:,}.",
        )
    return HOLDS


def known_end(position: LanePosition, source: LogNow) -> int:
    """Return the offset that the source log had reached with the topic ID of the position."""
    return max(position.next_offset, position.source_end or 0, source.known_end)


def kept_end(source: LogNow) -> int:
    """Return the end of the records that a truncated source log still has."""
    kept = source.end if source.diverged_at is None else min(source.diverged_at, source.end)
    return max(source.start, kept)


def resume_offset(position: LanePosition, source: LogNow) -> int:
    """Return the offset where copying can continue after a truncation: at most the first one with other records."""
    return max(source.start, min(kept_end(source), position.next_offset))


def truncation_sentence(name: str, position: LanePosition, source: LogNow) -> str:
    """Say that a source log lost records under the same topic ID."""
    at, had_reached = resume_offset(position, source), known_end(position, source)
    what = (
        f"ends at {source.end:,}"
        if source.end < had_reached
        else f"has other records from offset {kept_end(source):,} on (its leader epoch ended there)"
    )
    had = f"was copied up to {position.next_offset:,}"
    if kept_end(source) >= position.next_offset:
        had = f"had reached {had_reached:,}, and was copied up to {position.next_offset:,}"
    cause = "it was truncated under the same topic ID" if source.id else "it was truncated, or the topic was recreated"
    return (
        f"The source log of {name} {what}, but {had}: {cause}, as after an unclean leader election or the replacement "
        f"of a disk. Compare both topics; start the mirror with "
        f"--on-data-loss=skip-and-record to append the source from offset {at:,}. The copies that the source lost stay "
        f"in the target."
    )
