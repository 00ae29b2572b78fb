"""Owns which attempt of a GapScan is due, and when to ask again; must not know how an attempt begins or what it found.

With a schedule each of its times is one attempt, and the next time is the next try. Without one there is one attempt
for each change of the spec, tried again with growing pauses until it has an answer or cannot have one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.scanning.manifests import attempt_name
from gapless_operator.scanning.outcome import ANSWERED, FINAL
from gapless_operator.scanning.schedule import minute_of

if TYPE_CHECKING:
    from gapless_api.v1alpha1.scan_status import LastAttempt
    from gapless_operator.engines.engine import Attempt
    from gapless_operator.scanning.context import Situation

_FIRST_RETRY, _LAST_RETRY = timedelta(seconds=30), timedelta(minutes=30)
_UNSCHEDULED = re.compile(r"-g(\d+)-(\d+)$")


@dataclass(frozen=True, slots=True)
class Due:
    """An attempt that should begin."""

    name: str
    scheduled: datetime | None


def due(situation: Situation) -> tuple[Due | None, datetime | None]:
    """The attempt that should begin now; or when to ask again."""
    scan, last, now = situation.scan, situation.last, situation.now
    if scan.spec.suspend or situation.schedule_error:
        return None, None
    if situation.schedule is not None:
        moment = next_scheduled(situation)
        if moment is not None:
            return Due(attempt_name(scan, str(minute_of(moment))), moment), None
        return None, None  # With a schedule its next time is always waited for.
    generation = scan.metadata.generation
    if last is None or last.generation != generation:
        return Due(attempt_name(scan, f"g{generation}-1"), None), None
    retry = retry_at(situation, last)
    if retry is None or retry > now:
        return None, retry
    return Due(attempt_name(scan, f"g{generation}-{_number(last) + 1}"), None), None


def retry_at(situation: Situation, last: LastAttempt) -> datetime | None:
    """When a scan without a schedule is tried again; ``None`` when it has answered or cannot."""
    scan = situation.scan
    if scan.spec.schedule is not None or last.outcome is None or last.finished is None:
        return None
    reason = reason_of(last)
    if reason in ANSWERED or reason in FINAL or last.generation != scan.metadata.generation:
        return None
    pause: timedelta = min(_FIRST_RETRY * 2 ** min(_number(last) - 1, 16), _LAST_RETRY)
    return last.finished + pause


def next_scheduled(situation: Situation) -> datetime | None:
    """The time of the schedule that has come and was not acted upon, unless it is too late for it."""
    moment = _latest_scheduled(situation)
    return None if moment is None or _too_late(situation, moment) else moment


def missed(situation: Situation) -> datetime | None:
    """A time of the schedule for which it is too late."""
    moment = None if situation.scan.spec.suspend else _latest_scheduled(situation)
    return moment if moment is not None and _too_late(situation, moment) else None


def acted_upon(situation: Situation, attempt: Attempt) -> datetime | None:
    """The time of the schedule that is done with, once `attempt` is recorded."""
    known = situation.scan.status.last_schedule_time
    return max((moment for moment in (known, attempt.scheduled) if moment is not None), default=None)


def reason_of(last: LastAttempt) -> Reason:
    """How it ended; a word that we do not know was written by a newer version."""
    try:
        return Reason(str(last.outcome))
    except ValueError:
        return Reason.SCAN_FAILED


def _latest_scheduled(situation: Situation) -> datetime | None:
    if situation.schedule is None:
        return None
    scan, last = situation.scan, situation.last
    acted = [scan.metadata.creation_timestamp]
    if scan.status.last_schedule_time is not None:
        acted.append(scan.status.last_schedule_time)
    elif last is not None and last.started is not None:
        acted.append(last.started)  # the schedule came later than the first scan
    acted += [attempt.scheduled for attempt in situation.attempts if attempt.scheduled is not None]
    return situation.schedule.latest_until(situation.now, after=max(acted))


def _too_late(situation: Situation, moment: datetime) -> bool:
    schedule = situation.scan.spec.schedule
    deadline = schedule.starting_deadline_seconds if schedule is not None else None
    return deadline is not None and situation.now - moment > timedelta(seconds=deadline)


def _number(last: LastAttempt) -> int:
    """Which attempt of its generation it was."""
    found = _UNSCHEDULED.search(last.name)
    return int(found.group(2)) if found is not None else 1
