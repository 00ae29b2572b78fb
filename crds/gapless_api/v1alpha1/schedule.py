"""The schedule of a spec: cron lines and time zones; must not know what runs, nor the next time."""

import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gapless_api.v1alpha1.common import int32
from gapless_api.v1alpha1.model import ApiModel, Rule


def _cron_field(value: str) -> str:
    """Return the regular expression of a field whose values match `value`; it is valid in RE2 and Python."""
    part = rf"(\*|{value}(-{value})?)(/[1-9][0-9]?)?"
    return f"{part}(,{part})*"


_MINUTE = "[0-5]?[0-9]"
CRON_PATTERN = " +".join(
    _cron_field(value)
    for value in (
        _MINUTE,
        "([01]?[0-9]|2[0-3])",
        "(0?[1-9]|[12][0-9]|3[01])",
        "(0?[1-9]|1[0-2]|[A-Za-z]{3})",
        "([0-7]|[A-Za-z]{3})",
    )
)
"""Minute, hour, day of month, month, day of week; the last two also as three-letter names."""
_CRON = re.compile(CRON_PATTERN)
_PATTERN_WITH_SECONDS = f"({_cron_field(_MINUTE)} +)?{CRON_PATTERN}"
_CRON_WITH_SECONDS = re.compile(_PATTERN_WITH_SECONDS)
_TimeZone = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_+/-]+$")]


class Schedule(ApiModel):
    """Schedule of runs."""

    RULES: ClassVar = (
        Rule(
            f"self.cron.matches('^{CRON_PATTERN}$')".replace("\\", "\\\\"),
            "write five fields: minute, hour, day of month, month, day of week, such as 0 3 * * * for 03:00 every day",
            lambda schedule: _CRON.fullmatch(schedule.cron) is not None,
            "cron",
        ),
    )

    cron: Annotated[str, Field(min_length=9, max_length=200)]
    """Schedule in cron format with five fields: minute, hour, day of month, month, day of week."""
    time_zone: _TimeZone = "UTC"
    """Time zone of the schedule, such as Europe/Stockholm."""
    starting_deadline_seconds: Annotated[int, int32(10, 604800)] | None = None
    """Deadline in seconds for starting a run that missed its scheduled time. Later runs are skipped. If absent, the
    last missed run always starts."""
    concurrency_policy: Literal["Forbid", "Replace"] = "Forbid"
    """What happens if the previous run has not finished when the next one is due. Forbid skips the new run. Replace
    stops the previous run. There is no Allow, because concurrent runs of the same work have only one result."""


class PreciseSchedule(ApiModel):
    """Schedule of runs, optionally with seconds."""

    RULES: ClassVar = (
        Rule(
            f"self.cron.matches('^{_PATTERN_WITH_SECONDS}$')".replace("\\", "\\\\"),
            "write five fields: minute, hour, day of month, month and day of week, such as 0 3 * * * for 03:00 every "
            "day; or six fields that begin with the second",
            lambda schedule: _CRON_WITH_SECONDS.fullmatch(schedule.cron) is not None,
            "cron",
        ),
    )

    cron: Annotated[str, Field(min_length=9, max_length=200)]
    """Schedule in cron format with five fields: minute, hour, day of month, month, day of week; or with six fields,
    which begin with the second."""
    time_zone: _TimeZone = "UTC"
    """Time zone of the schedule, such as Europe/Stockholm."""
