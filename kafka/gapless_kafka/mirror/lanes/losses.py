"""Owns how a loss is detected and described when a source log no longer holds a position; pure."""

from __future__ import annotations

from dataclasses import dataclass

from gapless_kafka.mirror.lanes.observations import Stop

RETENTION_OVERTOOK, TOPIC_RECREATED = "RetentionOvertook", "TopicRecreated"


@dataclass(frozen=True, slots=True)
class Loss:
    """Source records that were deleted before they were copied."""

    first: int
    end: int
    """Exclusive; equal to `first` when the number of lost records is unknown."""
    next_offset: int
    """Where copying can continue."""
    stop: Stop
    """Why the partition stops, unless losses are skipped."""


def loss_at(position: int, log_start: int, log_end: int, name: str) -> Loss | None:
    """Return the loss if the source log does not hold `position`, otherwise ``None``.

    Args:
        position: the offset to read next.
        log_start: the first offset in the log.
        log_end: the offset after its last one.
        name: the partition, for messages.
    """
    if log_start > position:
        return Loss(
            position,
            log_start,
            log_start,
            Stop(
                reason=RETENTION_OVERTOOK,
                message=f"The source has deleted the offsets {position}-{log_start - 1} of {name} before they were "
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
                reason=TOPIC_RECREATED,
                message=f"The source log of {name} ends at {log_end}, but {name} was copied up to {position}: the "
                f"topic was recreated or has lost records; start the mirror with --on-data-loss=skip-and-record to "
                f"continue at {log_end}.",
            ),
        )
    return None


def recreation_loss(name: str, position: int, known_end: int, ids: tuple[str, str], log_start: int) -> Loss:
    """Return the loss when a topic was deleted and recreated.

    Args:
        name: the partition, for messages.
        position: the next offset to read in the deleted topic.
        known_end: the last known end of the deleted topic.
        ids: the topic IDs, old and new.
        log_start: the first offset in the new topic.
    """
    return Loss(
        position,
        max(known_end, position),
        log_start,
        Stop(
            reason=TOPIC_RECREATED,
            message=f"The source topic of {name} was deleted and recreated (topic ID {ids[0]} -> {ids[1]}) after "
            f"offset {position} was reached; start the mirror with --on-data-loss=skip-and-record to append the new "
            f"topic from its beginning.",
        ),
    )
