"""Owns rows of a partition that wait in memory until they are written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gapless_archive.segments.writer import copied, joined

if TYPE_CHECKING:
    import pyarrow as pa

MOST_HELD = 64 * 1024 * 1024
"""Bytes of all partitions that wait."""
MOST_UNUSED = 64 * 1024 * 1024
"""Bytes that were written and stay in memory, because they came together with others that wait."""


@dataclass(slots=True)
class HeldRows:
    """Rows that follow on each other."""

    held: list[pa.RecordBatch] = field(default_factory=list, init=False)
    held_bytes: int = field(default=0, init=False)
    """Of their content."""
    held_records: int = field(default=0, init=False)

    def hold(self, rows: pa.RecordBatch, size: int) -> None:
        """Take the next rows, with so many bytes of content."""
        self.held.append(rows)
        self.held_bytes += size
        self.held_records += rows.num_rows

    def let_go(self) -> None:
        """Copy what is held, so that nothing else stays in memory for its sake."""
        self.held = [copied(self.held)]

    def release(self) -> pa.RecordBatch:
        """All that is held, which is one row at least; nothing is held afterwards."""
        rows, self.held, self.held_bytes, self.held_records = joined(self.held), [], 0, 0
        return rows
