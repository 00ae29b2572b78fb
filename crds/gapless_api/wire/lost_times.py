"""When events were lost, as an audit tells it in its report; must not know how it is found.

It has a version of its own, so that a report without it, or with that of another release, can be read.
"""

from dataclasses import dataclass

from gapless_api.wire.form import Form


@dataclass(frozen=True, slots=True, kw_only=True)
class LostHour:
    """The losses of one hour."""

    hour: str
    """Its beginning, in UTC."""
    missing: int
    expected: int
    percent: float | None
    """Null if nothing was expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostTimes:
    """When events were lost, on the clock of the receiving side."""

    after: str | None
    """When the last event before the first loss arrived; null if that is unknown for a partition, or nothing is
    missing."""
    before: str | None
    """When the first event after the last loss arrived; null if that is unknown for a partition, or nothing is
    missing."""
    hours: tuple[LostHour, ...]
    """The newest hours with losses, ascending."""
    hours_omitted: int


LOST_TIMES = Form("times of losses", "gapless_lost_times", 1, LostTimes, snake_case=True)
"""The member ``lost`` of the report of an audit."""
