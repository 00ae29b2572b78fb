"""Owns what is written in one step: records of one source partition as columns, and where they go. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gapless_kafka.writing.positions import Position, WorkPartition

Header = tuple[str, bytes | None]


class Columns(NamedTuple):
    """Records of one source partition, ascending by offset, a column for each part. Null and empty are two things."""

    offsets: Sequence[int]
    timestamps: Sequence[int | None]
    """Milliseconds since 1970; ``None`` for a record without timestamp."""
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Sequence[Header]] | None = None
    """``None`` when no record has any."""


class Portion(NamedTuple):
    """Records of one source partition, and the position behind them. Both are written in one transaction."""

    partition: WorkPartition
    columns: Columns
    position: Position
    """After the records; it names the partition of the target."""
