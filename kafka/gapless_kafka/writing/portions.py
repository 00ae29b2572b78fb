"""The unit of writing: records of one source partition as columns, with the position after them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gapless_kafka.reading.headers import Header
    from gapless_kafka.writing.positions import Position, RefusedRecords, WorkPartition


class Columns(NamedTuple):
    """Records of one source partition as columns, ascending by offset. Null and empty stay distinct."""

    offsets: Sequence[int]
    timestamps: Sequence[int | None]
    """Milliseconds since 1970; ``None`` for a record without timestamp."""
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Sequence[Header]] | None = None
    """``None`` when no record has headers."""


class Portion(NamedTuple):
    """Records of one source partition and the position after them, written in one transaction."""

    partition: WorkPartition
    columns: Columns
    position: Position
    """The position after the records; it names the target partition."""
    refused: RefusedRecords | None = None
    """Records that are skipped because the target refuses them, recorded with the position."""
