"""Owns how a spec says when runs begin: cron lines and time zones; must not know what runs, nor when that is next."""

import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gapless_api.v1alpha1.common import int32
from gapless_api.v1alpha1.model import ApiModel, Rule


def _cron_field(value: str) -> str:
    """The regular expression of one field, out of that of one value; RE2 and Python read it alike."""
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
"""Minute, hour, day of the month, month, day of the week; the last two also as three letters."""
_CRON = re.compile(CRON_PATTERN)
_PATTERN_WITH_SECONDS = f"({_cron_field(_MINUTE)} +)?{CRON_PATTERN}"
_CRON_WITH_SECONDS = re.compile(_PATTERN_WITH_SECONDS)
_TimeZone = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_+/-]+$")]


class Schedule(ApiModel):
    """When runs begin."""

    RULES: ClassVar = (
        Rule(
            f"self.cron.matches('^{CRON_PATTERN}$')".replace("\\", "\\\\"),
            "write five fields: minute hour day-of-month month day-of-week, such as 0 3 * * * for 03:00 every night",
            lambda schedule: _CRON.fullmatch(schedule.cron) is not None,
            "cron",
        ),
    )

    cron: Annotated[str, Field(min_length=9, max_length=200)]
    """Five fields as in a crontab: minute, hour, day of the month, month, day of the week."""
    time_zone: _TimeZone = "UTC"
    """Time zone of the fields, such as Europe/Stockholm."""
    starting_deadline_seconds: Annotated[int, int32(10, 604800)] | None = None
    """How late a run may start if the operator was not running at its time; later ones are skipped. If absent, the
    last missed run always starts."""
    concurrency_policy: Literal["Forbid", "Replace"] = "Forbid"
    """What happens if the previous run has not ended when the next one is due: Forbid skips the new one, Replace ends
    the old one. There is no Allow: two runs of the same work compete and have one result."""


class PreciseSchedule(ApiModel):
    """When runs begin, with seconds where they matter."""

    RULES: ClassVar = (
        Rule(
            f"self.cron.matches('^{_PATTERN_WITH_SECONDS}$')".replace("\\", "\\\\"),
            "write five fields: minute hour day-of-month month day-of-week, such as 0 3 * * * for 03:00 every night, "
            "or six with seconds before them",
            lambda schedule: _CRON_WITH_SECONDS.fullmatch(schedule.cron) is not None,
            "cron",
        ),
    )

    cron: Annotated[str, Field(min_length=9, max_length=200)]
    """Five fields as in a crontab: minute, hour, day of the month, month, day of the week. Six begin with seconds."""
    time_zone: _TimeZone = "UTC"
    """Time zone of the fields, such as Europe/Stockholm."""
