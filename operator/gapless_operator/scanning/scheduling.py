"""Which attempt of a GapScan is due, and when a failed one is retried; must not know what it found.

With a schedule there is one attempt per schedule time and no retry in between. Without one there is one attempt per
change of the spec, retried with growing pauses until it has a result or cannot have one.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gapless_api.base.backoff import backoff
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.engines.endings import INTERRUPTED, reason_of
from gapless_operator.engines.scheduling import (
    Due,
    attempt_name,
    due_by_schedule,
    handled_until,
    number_of,
    unscheduled_suffix,
)
from gapless_operator.scanning.scan_pod import SCAN_ROLE

if TYPE_CHECKING:
    from gapless_api.base.schedule import Schedule
    from gapless_api.v1alpha1.attempt_status import LastAttempt
    from gapless_api.v1alpha1.gapscan import GapScan
    from gapless_operator.engines.engine import Attempt

PARTIAL = frozenset({Reason.UNREADABLE_RECORDS, Reason.UNKNOWN_EVENTS})
"""Outcomes with an incomplete result: more events may be missing."""
COMPLETED = frozenset({Reason.GAPS_FOUND, Reason.NOTHING_MISSING, Reason.NOTHING_TO_DO}) | PARTIAL
"""Outcomes with a result."""
FINAL = frozenset(
    {
        Reason.BAD_CONFIGURATION,
        Reason.RUN_DEADLINE_EXCEEDED,
        Reason.RESULT_TOO_LARGE,
        Reason.RESULT_UNREADABLE,
        Reason.DEFECT,
    }
)
"""Outcomes that a retry would only repeat; any other cause may be removed without a change of the spec."""
_FIRST_PAUSE, _MAX_PAUSE = timedelta(seconds=30), timedelta(minutes=30)


def due_of(
    scan: GapScan, schedule: Schedule | None, last: LastAttempt | None, attempts: Iterable[Attempt], now: datetime
) -> Due:
    """Return which attempt is due.

    Args:
        scan: the resource, with its status.
        schedule: its schedule; ``None`` for none, and for an invalid one.
        last: the attempt that was started last.
        attempts: all that exist.
        now: the time.
    """
    if scan.spec.suspend:
        return Due()
    if scan.spec.schedule is not None:
        return due_by_schedule(
            schedule,
            after=handled_until(scan.metadata.creation_timestamp, scan.status.last_schedule_time, last, attempts),
            deadline_seconds=scan.spec.schedule.starting_deadline_seconds,
            name=lambda suffix: attempt_name(scan, suffix, prefix=SCAN_ROLE),
            now=now,
        )
    return _due_by_generation(scan, last, now)


def _due_by_generation(scan: GapScan, last: LastAttempt | None, now: datetime) -> Due:
    """Return which attempt at this generation of the spec is due."""
    generation = scan.metadata.generation
    number = 1
    if last is not None and last.generation == generation:
        retry = retry_at(scan, last)
        if retry is None or retry > now:
            return Due(retry_at=retry)
        number = number_of(last.name) + 1
    return Due(attempt=attempt_name(scan, unscheduled_suffix(generation, number), prefix=SCAN_ROLE))


def retry_at(scan: GapScan, last: LastAttempt) -> datetime | None:
    """Return when a scan without a schedule is retried; ``None`` when it has a result or cannot have one."""
    if scan.spec.schedule is not None or last.outcome is None or last.finished is None:
        return None
    reason = reason_of(last, Reason.SCAN_FAILED)
    if reason in COMPLETED or reason in FINAL or last.generation != scan.metadata.generation:
        return None
    if reason in INTERRUPTED:
        return last.finished
    return last.finished + backoff(number_of(last.name) - 1, first=_FIRST_PAUSE, longest=_MAX_PAUSE)


def latest_schedule_time(scan: GapScan, attempt: Attempt) -> datetime | None:
    """Return the latest schedule time that has had its attempt, including `attempt`."""
    recorded = scan.status.last_schedule_time
    return max((moment for moment in (recorded, attempt.scheduled) if moment is not None), default=None)
