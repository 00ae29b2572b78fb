"""The times of a schedule: a cron expression in a time zone. Needs the extra ``schedule`` of this package.

Daylight saving time is handled as in Debian's cron: an expression with fixed hours runs once every day (a time that the
clock skips runs right after the change, one that occurs twice runs the first time); an expression with ``*`` in minutes
or hours, or with seconds, follows elapsed time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

_LOOK_BACK = tuple(timedelta(days=days) for days in (1 / 24, 1, 8, 35, 366, 8 * 366))
"""How far back to search for the latest time; the shortest first, so that `* * * * *` takes sixty steps."""


class ScheduleError(ValueError):
    """The cron expression or the time zone is invalid; the message says which and what to write."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A cron expression in a time zone. Create it with `Schedule.parse`."""

    cron: str
    zone: ZoneInfo

    @classmethod
    def parse(cls, cron: str, time_zone: str, *, seconds: bool = False) -> Schedule:
        """Parse a cron expression of five fields and the name of a time zone.

        Args:
            cron: the expression.
            time_zone: such as Europe/Stockholm.
            seconds: whether a field for seconds may precede the others.

        Raises:
            ScheduleError: the expression or the time zone is invalid.
        """
        try:
            zone = ZoneInfo(time_zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ScheduleError(
                f"The time zone {time_zone!r} of the schedule is unknown; write one like Europe/Stockholm or Etc/UTC."
            ) from None
        if len(cron.split()) in ({5, 6} if seconds else {5}):
            try:
                CronSim(cron, datetime.min.replace(tzinfo=UTC))
            except CronSimError:
                pass
            else:
                return cls(cron, zone)
        first = "second (optional), " if seconds else ""
        raise ScheduleError(
            f"The schedule {cron!r} is not a cron expression; write {first}minute, hour, day of month, month and "
            f"day of week, such as '30 2 * * *'."
        )

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first scheduled time after `moment`, in UTC; ``None`` if there is none."""
        return next(self._times(moment), None)

    def latest_until(self, now: datetime, *, after: datetime) -> datetime | None:
        """Return the latest scheduled time after `after` and up to `now`, in UTC; ``None`` if there is none.

        Missed times before it are skipped: one run makes up for all of them.
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
