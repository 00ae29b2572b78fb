"""Owns what the status of a GapScan says of how far its running attempt has read; must not know how a log is read."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.v1alpha1.scan_status import ReadingProgress

if TYPE_CHECKING:
    from datetime import datetime

    from gapless_operator.engines.engine import Attempt

WRITE_EVERY = timedelta(seconds=5)
"""How often progress is written into the status at most."""


def progress_while_reading(before: ReadingProgress | None, attempt: Attempt, now: datetime) -> ReadingProgress | None:
    """What the status should say of the progress; `before` itself while it must not, or need not, change.

    Args:
        before: what the status says; of an earlier attempt, it is dropped.
        attempt: which runs.
        now: the time.
    """
    if before is not None and before.attempt != attempt.name:
        before = None
    line = attempt.driver.output.reading if attempt.driver is not None else None
    if line is None:
        return before
    counts = min(line.offsets, MAX_OFFSET), min(line.read, MAX_OFFSET)
    if before is not None:
        is_old = before.updated_at is not None and now - before.updated_at < WRITE_EVERY
        if is_old or (before.offsets, before.read) == counts:
            return before
    offsets, read = counts
    return ReadingProgress(
        attempt=attempt.name,
        offsets=offsets,
        read=read,
        percent=min(100 * read // offsets, 100) if offsets else 100,
        offsets_per_second=line.offsets_per_second,
        eta_seconds=line.eta_seconds,
        updated_at=now,
    )
