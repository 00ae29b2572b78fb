"""Owns what follows when a position cannot be read any more: nothing, a loss, or another topic; pure."""

from __future__ import annotations

from dataclasses import dataclass

from gapless_kafka.mirror.lanes.observations import Stop

OVERTOOK, RECREATED = "RetentionOvertook", "TopicRecreated"


@dataclass(frozen=True, slots=True)
class Loss:
    """Source records that are gone before they were copied."""

    first: int
    end: int
    """Exclusive; not after `first` when nobody can tell how many are lost."""
    next_offset: int
    """Where copying can continue."""
    stop: Stop
    """Why the partition stops, unless such a loss is skipped."""


def unreadable(place: str, position: int, log_start: int, log_end: int) -> Loss | None:
    """What a log that does not hold a position means; ``None`` if it holds it.

    Args:
        place: the partition, for messages.
        position: the offset that is read next.
        log_start: the first offset that the source has.
        log_end: the offset after its last one.
    """
    if log_start > position:
        return Loss(
            position,
            log_start,
            log_start,
            Stop(
                reason=OVERTOOK,
                message=f"The source has deleted the offsets {position}-{log_start - 1} of {place} before they were "
                f"copied ({log_start - position} offsets); keep records longer, and start the mirror with "
                f"--on-data-loss=skip-and-record to continue at {log_start}.",
            ),
        )
    if log_end < position:
        return Loss(
            position,
            position,
            log_end,
            Stop(
                reason=RECREATED,
                message=f"The source log of {place} ends at {log_end} and was copied up to {position}: the topic was "
                f"recreated or has lost records; start the mirror with --on-data-loss=skip-and-record to continue "
                f"at {log_end}.",
            ),
        )
    return None


def recreated(place: str, position: int, known_end: int, ids: tuple[str, str], log_start: int) -> Loss:
    """What it means that a topic was deleted and recreated.

    Args:
        place: the partition, for messages.
        position: the offset that was to be read next in the former topic.
        known_end: the last end that was seen of it.
        ids: the topic IDs, of the former one and of the new one.
        log_start: the first offset of the new one.
    """
    return Loss(
        position,
        max(known_end, position),
        log_start,
        Stop(
            reason=RECREATED,
            message=f"The source topic of {place} was deleted and recreated (topic ID {ids[0]} -> {ids[1]}) when it "
            f"was copied up to {position}; start the mirror with --on-data-loss=skip-and-record to copy the new topic "
            f"from its beginning, behind the records of the former one.",
        ),
    )
