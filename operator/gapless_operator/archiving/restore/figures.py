"""The plan, the progress and the losses in a Restore's status, from the lines that its pods log.

Must not know what follows from them.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gapless_api.base.quantities import first_of
from gapless_api.offsets.ids import MAX_OFFSET
from gapless_api.v1alpha1.restore_status import (
    MAX_STATUS_LOST_RANGES,
    MAX_STATUS_PLANNED_TOPICS,
    LostRange,
    PlannedTopic,
    RestorePlan,
    RestoreProgress,
)
from gapless_operator.common.observed import moment

if TYPE_CHECKING:
    from gapless_api.wire.reading_progress import ReadingLine
    from gapless_api.wire.restore_progress import RestoreLine, RestorePlanLine
    from gapless_operator.engines.engine import Attempt

WRITE_EVERY = timedelta(seconds=5)
"""The minimum interval between writes of progress to the status."""
_MAX_FINDING_LENGTH, _MAX_FINDINGS = 512, 50
_MAX_NAMED = 3


def plan_of(attempt: Attempt) -> RestorePlan | None:
    """Return the plan that an attempt has logged; ``None`` when there is none."""
    line = attempt.driver.output.restore_plan if attempt.driver is not None else None
    return None if line is None else _plan(line)


def last_line(attempt: Attempt | None) -> RestoreLine | None:
    """Return the last progress line of an attempt; ``None`` while there is none."""
    return attempt.driver.output.restore if attempt is not None and attempt.driver is not None else None


def progress_of(
    before: RestoreProgress | None, attempt: Attempt | None, now: datetime, *, at_once: bool = False
) -> RestoreProgress | None:
    """Return the progress for the status; `before` itself until the next write is due.

    Args:
        before: the progress in the status.
        attempt: that runs or has ended; ``None`` for a deleted one.
        now: the time.
        at_once: whether to write now, because the attempt has ended.
    """
    output = attempt.driver.output if attempt is not None and attempt.driver is not None else None
    if output is None:
        return before
    is_recent = before is not None and before.updated_at is not None and now - before.updated_at < WRITE_EVERY
    if is_recent and not at_once:
        return before
    progress = None
    if output.restore is not None:
        progress = _progress(output.restore)
    elif output.reading is not None:
        progress = _reading(output.reading)
    if progress is None or (before is not None and progress == before.model_copy(update={"updated_at": None})):
        return before
    return progress.model_copy(update={"updated_at": now.replace(microsecond=0)})


def without_rate(progress: RestoreProgress | None) -> RestoreProgress | None:
    """Return the progress while nothing looks at it: without the current rate and what was estimated from it."""
    return None if progress is None else progress.model_copy(update={"records_per_second": None, "eta_seconds": None})


def lost_ranges(line: RestoreLine | None) -> tuple[LostRange, ...]:
    """Return what could not be restored, up to the maximum length of the status."""
    return tuple(
        LostRange(topic=lost.topic, partition=lost.partition, first=lost.first, last=lost.last, reason=lost.reason[:64])
        for lost in (line.lost_ranges[:MAX_STATUS_LOST_RANGES] if line is not None else ())
    )


def waits_for(line: RestoreLine) -> str:
    """Name the topics that the archive has nothing of."""
    names = first_of(line.waits_for, _MAX_NAMED)
    return (
        f"The archive has nothing of {names} yet; what will be archived of it will be restored. Everything else is "
        f"restored."
    )


def _plan(line: RestorePlanLine) -> RestorePlan:
    return RestorePlan(
        records=_count(line.records),
        bytes=_count(line.bytes),
        segments=_count(line.segments),
        restored_before=_count(line.restored_before),
        topics=tuple(
            PlannedTopic(
                topic=topic.topic,
                to_topic=topic.to_topic,
                topic_id=topic.topic_id or None,
                partitions=topic.partitions,
                records=_count(topic.records),
                create=topic.create,
            )
            for topic in line.topics[:MAX_STATUS_PLANNED_TOPICS]
        ),
        topics_omitted=_count(line.topics_omitted + max(len(line.topics) - MAX_STATUS_PLANNED_TOPICS, 0)),
        findings=tuple(text[:_MAX_FINDING_LENGTH] for text in line.findings[:_MAX_FINDINGS]),
    )


def _progress(line: RestoreLine) -> RestoreProgress:
    done = line.planned - line.remaining
    return RestoreProgress(
        planned=_count(line.planned),
        restored=_count(line.restored),
        lost=_count(line.lost),
        remaining=_count(line.remaining),
        percent=_percent(done, line.planned),
        records_per_second=line.records_per_second,
        eta_seconds=line.eta_seconds,
        last_write_time=moment(line.last_write),
    )


def _reading(line: ReadingLine) -> RestoreProgress:
    """Return the progress in offsets, of which some have no record, while records are being written."""
    return RestoreProgress(
        planned=_count(line.offsets),
        restored=_count(line.read),
        remaining=_count(max(line.offsets - line.read, 0)),
        percent=_percent(line.read, line.offsets),
        records_per_second=line.offsets_per_second,
        eta_seconds=line.eta_seconds,
    )


def _percent(done: int, planned: int) -> int:
    return min(max(100 * done // planned, 0), 100) if planned else 100


def _count(number: int) -> int:
    return min(number, MAX_OFFSET)
