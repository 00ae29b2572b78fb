"""Owns which attempt of a GapScan is due: cron lines, time zones, retries, and what is too late.

Must not know how an attempt begins or what it found. With a schedule each of its times is one attempt, and the next
time is the next try. Without one there is one attempt for each change of the spec, tried again with growing pauses
until it has a result or cannot have one.

Daylight saving follows what Debian's cron does: a line with fixed hours runs once on every day (a time that the clock
jumps over runs right after the jump, one that it shows twice runs the first time), a line with ``*`` in minutes or
hours follows the real passing of time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from gapless_api.base.backoff import backoff
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.scanning.manifests import attempt_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gapless_api.v1alpha1.gapscan import GapScan
    from gapless_api.v1alpha1.scan_status import LastAttempt
    from gapless_operator.engines.engine import Attempt

PARTIAL = frozenset({Reason.UNREADABLE_RECORDS, Reason.UNKNOWN_EVENTS})
"""How an attempt ends whose result is not complete: more may be missing."""
COMPLETED = frozenset({Reason.GAPS_FOUND, Reason.NOTHING_MISSING, Reason.NOTHING_TO_DO}) | PARTIAL
"""How an attempt ends that has a result."""
FINAL = frozenset(
    {
        Reason.BAD_CONFIGURATION,
        Reason.RUN_DEADLINE_EXCEEDED,
        Reason.RESULT_TOO_LARGE,
        Reason.RESULT_UNREADABLE,
        Reason.DEFECT,
    }
)
"""What the same attempt again would only repeat; everything else may be mended outside of the spec."""
_FIRST_RETRY, _LAST_RETRY = timedelta(seconds=30), timedelta(minutes=30)
_UNSCHEDULED = re.compile(r"-g(\d+)-(\d+)$")
_LOOK_BACK = tuple(timedelta(days=days) for days in (1 / 24, 1, 8, 35, 366, 8 * 366))
"""How far to look for the latest time, nearest first, so that a line that is due every minute costs sixty steps."""


class ScheduleError(ValueError):
    """The cron line or the time zone cannot be understood; the text says which and what to write."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A cron line in a time zone. Make it with `Schedule.parse`."""

    cron: str
    zone: ZoneInfo

    @classmethod
    def parse(cls, cron: str, time_zone: str) -> Schedule:
        """Read a cron line of five fields and the name of a time zone.

        Raises:
            ScheduleError: one of them is none.
        """
        try:
            zone = ZoneInfo(time_zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ScheduleError(
                f"The time zone {time_zone!r} of the schedule is unknown; write one like Europe/Stockholm or Etc/UTC."
            ) from None
        if len(cron.split()) == 5:
            try:
                CronSim(cron, datetime.min.replace(tzinfo=UTC))
            except CronSimError:
                pass
            else:
                return cls(cron, zone)
        raise ScheduleError(
            f"The schedule {cron!r} is no cron line; write minute, hour, day of month, month and day of week, such as "
            f"'30 2 * * *'."
        )

    def next_after(self, moment: datetime) -> datetime | None:
        """The first time after `moment`, in UTC; ``None`` when there is none."""
        return next(self._times(moment), None)

    def latest_until(self, now: datetime, *, after: datetime) -> datetime | None:
        """The latest time after `after` and not after `now`, in UTC; ``None`` when there is none.

        Times that were missed before it are passed over: one scan answers for all of them.
        """
        for reach in _LOOK_BACK:
            start = max(after, now - reach)
            latest = None
            for moment in self._times(start):
                if moment > now:
                    break
                latest = moment
            if latest is not None or start == after:
                return latest
        return None

    def _times(self, after: datetime) -> Iterator[datetime]:
        try:
            for moment in CronSim(self.cron, after.astimezone(self.zone)):
                in_utc = moment.astimezone(UTC)
                if in_utc > after:
                    yield in_utc
        except CronSimError:
            return


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """What the clock asks of a GapScan; at most one of these, and nothing while it is suspended."""

    attempt: str | None = None
    """Name of the attempt that should begin now."""
    scheduled: datetime | None = None
    """The time of the schedule that `attempt` is for."""
    missed: datetime | None = None
    """A time of the schedule for which it is too late."""
    retry_at: datetime | None = None
    """When the next attempt without a schedule begins."""


def due_of(
    scan: GapScan, schedule: Schedule | None, last: LastAttempt | None, attempts: Iterable[Attempt], now: datetime
) -> Due:
    """Say which attempt is due.

    Args:
        scan: the resource, with its status.
        schedule: its schedule; ``None`` for none, and for one that cannot be read.
        last: the attempt that began last.
        attempts: all that exist.
        now: the time.
    """
    if scan.spec.suspend:
        return Due()
    if scan.spec.schedule is not None:
        moment = None if schedule is None else schedule.latest_until(now, after=_acted_until(scan, last, attempts))
        return _due_by_schedule(scan, moment, now)
    return _due_by_generation(scan, last, now)


def _due_by_schedule(scan: GapScan, moment: datetime | None, now: datetime) -> Due:
    """What is due at a time of the schedule that was not acted upon; its next time is always waited for."""
    if moment is None:
        return Due()
    deadline = scan.spec.schedule.starting_deadline_seconds if scan.spec.schedule is not None else None
    if deadline is not None and now - moment > timedelta(seconds=deadline):
        return Due(missed=moment)
    return Due(attempt=attempt_name(scan, str(minute_of(moment))), scheduled=moment)


def _due_by_generation(scan: GapScan, last: LastAttempt | None, now: datetime) -> Due:
    """Which attempt at this generation of the spec is due."""
    generation = scan.metadata.generation
    if last is None or last.generation != generation:
        return Due(attempt=attempt_name(scan, f"g{generation}-1"))
    retry = retry_at(scan, last)
    if retry is None or retry > now:
        return Due(retry_at=retry)
    return Due(attempt=attempt_name(scan, f"g{generation}-{_number(last) + 1}"))


def minute_of(moment: datetime) -> int:
    """The number of minutes from 1970 to `moment`: what an attempt is named after."""
    return int(moment.timestamp()) // 60


def retry_at(scan: GapScan, last: LastAttempt) -> datetime | None:
    """When a scan without a schedule is tried again; ``None`` when it has a result or cannot have one."""
    if scan.spec.schedule is not None or last.outcome is None or last.finished is None:
        return None
    reason = reason_of(last)
    if reason in COMPLETED or reason in FINAL or last.generation != scan.metadata.generation:
        return None
    return last.finished + backoff(_number(last) - 1, first=_FIRST_RETRY, longest=_LAST_RETRY)


def latest_schedule_time(scan: GapScan, attempt: Attempt) -> datetime | None:
    """The time of the schedule that is done with, once `attempt` is recorded."""
    known = scan.status.last_schedule_time
    return max((moment for moment in (known, attempt.scheduled) if moment is not None), default=None)


def reason_of(last: LastAttempt) -> Reason:
    """How it ended; a word that we do not know was written by a newer version."""
    try:
        return Reason(str(last.outcome))
    except ValueError:
        return Reason.SCAN_FAILED


def _acted_until(scan: GapScan, last: LastAttempt | None, attempts: Iterable[Attempt]) -> datetime:
    """Up to which time of the schedule nothing is left to do."""
    acted = [scan.metadata.creation_timestamp]
    if scan.status.last_schedule_time is not None:
        acted.append(scan.status.last_schedule_time)
    elif last is not None and last.started is not None:
        acted.append(last.started)  # the schedule came later than the first scan
    acted += [attempt.scheduled for attempt in attempts if attempt.scheduled is not None]
    return max(acted)


def _number(last: LastAttempt) -> int:
    """Which attempt of its generation it was."""
    found = _UNSCHEDULED.search(last.name)
    return int(found.group(2)) if found is not None else 1
