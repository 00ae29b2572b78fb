"""How a loss is detected and described when a source log no longer holds a position; pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gapless_mirror.lanes.claims import LogNow, PositionState, compare_source, kept_end, resume_offset
from gapless_mirror.lanes.observations import Stop

if TYPE_CHECKING:
    from gapless_mirror.lanes.records import LanePosition

TOPIC_RECREATED = PositionState.SOURCE_RECREATED.value
SOURCE_TRUNCATED = PositionState.SOURCE_TRUNCATED.value


@dataclass(frozen=True, slots=True)
class Loss:
    """Source records that were deleted before they were copied, or that a truncated log has lost."""

    first: int
    end: int
    """Exclusive; equal to `first` when the number of lost records is unknown."""
    next_offset: int
    """Where copying can continue."""
    stop: Stop
    """Why the partition stops, unless losses are skipped."""


def source_loss(name: str, position: LanePosition, source: LogNow, known_end: int = 0) -> Loss | None:
    """Return the loss if the source log does not hold the next offset of a position, otherwise ``None``.

    Args:
        name: the partition, for messages.
        position: with the next offset to read.
        source: the source log.
        known_end: an offset that the log had reached with this topic ID; 0 for none.
    """
    found = compare_source(name, position, replace(source, known_end=known_end))
    if not found.is_loss:
        return None
    stop = Stop(reason=found.state.value, message=found.sentence)
    if found.state is PositionState.SOURCE_OVERTAKEN:
        return Loss(position.next_offset, source.start, source.start, stop)
    # The copies of what a truncated log lost stay in the target; the range says which of them the source has not.
    # A run that ends may know an end of the log as it is now, so only a shorter log has lost records before it.
    first = kept_end(source)
    end = max(position.next_offset, position.source_end or 0, known_end if source.end < known_end else 0)
    return Loss(first, max(end, first), resume_offset(position, source), stop)


def recreation_loss(name: str, position: int, known_end: int, ids: tuple[str, str]) -> Loss:
    """Return the loss when a topic was deleted and recreated. What the new topic has lost since is another one.

    Args:
        name: the partition, for messages.
        position: the next offset to read in the deleted topic.
        known_end: the last known end of the deleted topic.
        ids: the topic IDs, old and new.
    """
    return Loss(
        position,
        max(known_end, position),
        0,
        Stop(
            reason=TOPIC_RECREATED,
            message=f"The source topic of {name} was deleted and recreated (topic ID {ids[0]} -> {ids[1]}) after "
            f"offset {position} was reached; start the mirror with --on-data-loss=skip-and-record to append the new "
            f"topic from its beginning.",
        ),
    )
