"""Owns where a consumer group continues in a copy, given where it would continue in the source. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from gapless_kafka.writing.offset_map import OffsetMap


@dataclass(frozen=True, slots=True)
class Reach:
    """The positions in one source partition that can be translated exactly."""

    first: int
    """Every record from this offset on was copied, and it is known where to."""
    next_offset: int
    """The source offset after the last one that was copied."""

    def holds(self, offset: int) -> bool:
        """Whether a group that continues at `offset` is within."""
        return self.first <= offset <= self.next_offset


def target_position(offset: int, runs: OffsetMap | None, end: Callable[[], int]) -> int:
    """Where a group continues in the copy that would read `offset` next in the source.

    Args:
        offset: of the source; it is within the reach.
        runs: where records went; ``None`` for none.
        end: asks for the end of the copy, where a group continues if no record was copied.
    """
    found = runs.position(offset) if runs is not None else None
    return end() if found is None else found
