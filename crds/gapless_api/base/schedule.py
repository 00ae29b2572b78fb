"""Owns when a schedule is due: a cron line in a time zone. Needs the extra ``schedule`` of this package.

Daylight saving follows what Debian's cron does: a line with fixed hours runs once on every day (a time that the clock
jumps over runs right after the jump, one that it shows twice runs the first time), a line with ``*`` in minutes or
hours, or with seconds, follows the real passing of time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    def parse(cls, cron: str, time_zone: str, *, seconds: bool = False) -> Schedule:
        """Read a cron line of five fields and the name of a time zone.

        Args:
            cron: the line.
            time_zone: such as Europe/Stockholm.
            seconds: whether a sixth field, for seconds, may stand before the others.

        Raises:
            ScheduleError: one of them is none.
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
        first = "second (may be left out), " if seconds else ""
        raise ScheduleError(
            f"The schedule {cron!r} is no cron line; write {first}minute, hour, day of month, month and day of week, "
            f"such as '30 2 * * *'."
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
