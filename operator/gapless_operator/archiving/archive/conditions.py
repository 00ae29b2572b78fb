"""The conditions of an Archive, one function for each case; must not know what is done in that case.

Messages contain no numbers, which would cause a write for each change. Numbers are in the status.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gapless_api.v1alpha1.conditions import ConditionType
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.archiving.archive.figures import line_of
from gapless_operator.archiving.no_progress import NO_PROGRESS_AFTER, find_no_progress
from gapless_operator.common import continuous_conditions
from gapless_operator.common.conditions import NOT_STALLED, ConditionUpdate
from gapless_operator.common.freshness import SLOWLY_FRESH_FOR, unreadable
from gapless_operator.common.observed import moment
from gapless_operator.engines.endings import NEEDS_USER_ACTION, reason_of, stalled_by

if TYPE_CHECKING:
    from gapless_api.v1alpha1.attempt_status import LastAttempt
    from gapless_api.wire.archive_progress import ArchiveLine
    from gapless_operator.archiving.archive.context import Context
    from gapless_operator.engines.engine import Attempt

DONE = frozenset({Reason.ARCHIVED, Reason.STOPPED})
"""Reasons of ended attempts that are not failures."""
_WORST_FIRST = (
    Reason.RETENTION_OVERTAKING,
    Reason.NO_PROGRESS,
    Reason.LOG_TRUNCATED,
    Reason.RECORDS_LOST,
    Reason.TOPIC_RECREATED,
)
Updates = dict[ConditionType, ConditionUpdate]


def starting(context: Context, message: str) -> Updates:
    """Return the conditions while an attempt is being started."""
    return _ready_if_unset(context) | {
        ConditionType.RECONCILING: ConditionUpdate(True, Reason.ARCHIVING, message),
        ConditionType.STALLED: NOT_STALLED,
    }


def running(context: Context, attempt: Attempt) -> Updates:
    """Return the conditions while an attempt runs or is being started."""
    line = line_of(attempt)
    state = "is running" if attempt.started is not None else "is being started"
    trouble = f" {attempt.trouble.message}" if attempt.trouble is not None else ""
    what = f"The {attempt.engine} {attempt.name} {state}.{trouble}"
    if line is None:
        no_progress = find_no_progress(attempt, context.now)
        return _ready_if_unset(context) | {
            ConditionType.RECONCILING: ConditionUpdate(True, Reason.ARCHIVING, what),
            ConditionType.STALLED: no_progress or stalled_by(attempt, context.now),
        }
    unknown = unreadable(attempt.running_drivers(), context.now, fresh_for=SLOWLY_FRESH_FOR)
    if unknown is not None:
        return {
            ConditionType.READY: unknown,
            ConditionType.PROGRESSING: unknown,
            ConditionType.RECONCILING: ConditionUpdate(not context.is_continuous, Reason.ARCHIVING, what),
            ConditionType.STALLED: NOT_STALLED,
        }
    problem = _problem(context, attempt, line)
    progressing = ConditionUpdate(True, Reason.ARCHIVING)
    if problem is not None and problem.reason in {Reason.RETENTION_OVERTAKING, Reason.NO_PROGRESS}:
        progressing = problem._replace(status=False)
    reconciling = ConditionUpdate(False, Reason.SETTLED)
    if not context.is_continuous:
        reconciling = ConditionUpdate(True, Reason.ARCHIVING, what)
    return {
        ConditionType.READY: ConditionUpdate(True, Reason.ARCHIVING, what),
        ConditionType.PROGRESSING: progressing,
        ConditionType.RECONCILING: reconciling,
        ConditionType.STALLED: problem or NOT_STALLED,
    }


def after_attempt(context: Context, last: LastAttempt | None, again_at: datetime | None) -> Updates:
    """Return the conditions while no attempt runs.

    Args:
        context: of the reconciliation.
        last: the attempt that ended last; ``None`` before the first one.
        again_at: when the next one starts; ``None`` for none.
    """
    when = f"The next run starts at {again_at:%Y-%m-%d %H:%M:%S} UTC." if again_at is not None else ""
    waits = ConditionUpdate(False, Reason.SCHEDULED, when)
    if context.is_continuous and again_at is not None:
        waits = ConditionUpdate(True, Reason.RETRYING, when)
    if last is None or last.outcome is None:
        return _ready_if_unset(context) | {ConditionType.RECONCILING: waits, ConditionType.STALLED: NOT_STALLED}
    reason = reason_of(last, Reason.ARCHIVE_FAILED)
    ready = ConditionUpdate(reason in DONE, reason, last.message or "")
    if reason is Reason.STOPPED and context.is_continuous:
        ready = ConditionUpdate(False, reason, last.message or "")
    stalled = ConditionUpdate(True, reason, last.message or "") if reason in NEEDS_USER_ACTION else NOT_STALLED
    return {
        ConditionType.READY: ready,
        ConditionType.PROGRESSING: ready,
        ConditionType.RECONCILING: waits,
        ConditionType.STALLED: stalled,
    }


def suspended(context: Context) -> Updates:
    """Return the conditions while spec.suspend is true, with what still runs."""
    return continuous_conditions.suspended(
        context.observed.pods, "spec.suspend is true, so nothing is archived or compacted."
    )


def _ready_if_unset(context: Context) -> Updates:
    """Set ``Ready`` only if it has no current value."""
    if continuous_conditions.is_ready_known(context.resource.status.conditions):
        return {}
    message = "Nothing has been archived since the Archive was created or resumed."
    return {ConditionType.READY: ConditionUpdate(None, Reason.NEVER_ARCHIVED, message)}


def _problem(context: Context, attempt: Attempt, line: ArchiveLine) -> ConditionUpdate | None:
    """Return the problem of a running attempt: the worst that it reports, or that it commits nothing."""
    reported = {Reason(problem.reason): problem.message for problem in reversed(line.problems)}
    for reason in _WORST_FIRST:
        if reason in reported:
            return ConditionUpdate(True, reason, reported[reason])
    if (no_progress := find_no_progress(attempt, context.now)) is not None:
        return no_progress
    since = moment(line.last_commit) or attempt.started or attempt.meta.created
    if attempt.started is not None:
        since = max(since, attempt.started)
    limit = max(NO_PROGRESS_AFTER, 3 * timedelta(seconds=context.resource.spec.segments.max_age_seconds))
    if not line.lag_records or context.now - since < limit:
        return None
    return ConditionUpdate(
        True,
        Reason.NO_PROGRESS,
        f"No segment has been committed since {since:%Y-%m-%d %H:%M} UTC, although records wait to be archived.",
    )
