"""How a batch is written of which the target refuses records: all others, each refused one found and handled.

A refusal names no record. So fewer and fewer records are written in a transaction, until one alone is refused; then
more and more are written again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gapless_kafka.writing.faults import RecordsRefusedError, Refusal
from gapless_kafka.writing.positions import RefusedRecords

if TYPE_CHECKING:
    from gapless_spark.archiving.restore.pending import Batch

    Write = Callable[[Batch, RefusedRecords | None], None]
    """Writes a batch in one transaction. Raises RecordsRefusedError."""


class BadRecord(NamedTuple):
    """A record at which a partition stops."""

    offset: int
    """Of the source."""
    sentence: str
    is_unexpected: bool
    """Whether an exception that no rule expects was raised."""


def write_around(batch: Batch, write: Write, *, skips: bool, refused: list[RefusedRecords]) -> BadRecord | None:
    """Write the records of a batch that was refused as a whole, up to its end or to the record where it stops.

    Args:
        batch: of one partition.
        write: writes a batch, together with what is recorded about refused records.
        skips: whether records are skipped that the target refuses because of what they are.
        refused: those that were skipped before; those of the batch are added.

    Raises:
        GaplessError: nothing can be written.
    """
    most = max(batch.records // 2, 1)
    remaining: Batch | None = batch
    while remaining is not None:
        part = remaining.first(most)
        try:
            write(part, None)
            most *= 2
        except RecordsRefusedError as error:
            if part.records > 1:
                most = max(part.records // 2, 1)
                continue
            (refusal,) = error.refusals.values()
            (offset,) = part.columns.offsets
            if not skips or not refusal.may_skip:
                return BadRecord(offset, refusal.sentence, refusal.is_unexpected)
            skipped = _extended(refused, offset, refusal)
            part = part.without_records()
            write(part, skipped)
            refused[-1:] = [*refused[-1:], skipped] if not refused or refused[-1].first != skipped.first else [skipped]
            remaining = remaining.rest(1, part.after)
            continue
        remaining = remaining.rest(part.records, part.after)
    return None


def _extended(refused: Sequence[RefusedRecords], offset: int, refusal: Refusal) -> RefusedRecords:
    """Return what is recorded about a record: together with those just before it, if they have the same cause."""
    before = refused[-1] if refused else None
    is_next = before is not None and (before.last, before.cause) == (offset - 1, refusal.cause)
    first = before.first if before is not None and is_next else offset
    return RefusedRecords(first=first, last=offset, cause=refusal.cause)
