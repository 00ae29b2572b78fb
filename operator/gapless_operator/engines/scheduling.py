"""Which attempt is due, and the names of attempts; must not know the work of an attempt."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gapless_api.v1alpha1.attempt_status import LastAttempt
from gapless_operator.common.children import child_name

if TYPE_CHECKING:
    from gapless_api.base.schedule import Schedule
    from gapless_api.v1alpha1.resource import Resource
    from gapless_operator.engines.engine import Attempt

_UNSCHEDULED = re.compile(r"-g(\d+)-(\d+)$")
_MAX_ATTEMPT_NAME_LENGTH = 40
"""Spark appends ``-driver`` and ``-exec-…``, and truncates longer names in a way that makes them ambiguous."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """What is due now; at most one field is set, and none while the resource is suspended."""

    attempt: str | None = None
    """Name of the attempt to start now."""
    scheduled: datetime | None = None
    """Scheduled time of `attempt`."""
    missed: datetime | None = None
    """Scheduled time that missed its starting deadline."""
    retry_at: datetime | None = None
    """Time of the next unscheduled attempt."""


def due_by_schedule(
    schedule: Schedule | None,
    *,
    after: datetime,
    deadline_seconds: int | None,
    name: Callable[[str], str],
    now: datetime,
) -> Due:
    """Return what is due by a schedule.

    Args:
        schedule: ``None`` for an invalid schedule, by which nothing is due.
        after: scheduled times up to this one are done; see `handled_until`.
        deadline_seconds: how late a run may start; ``None`` for no limit.
        name: returns the name of an attempt for its suffix.
        now: the current time.
    """
    moment = None if schedule is None else schedule.latest_until(now, after=after)
    if moment is None:
        return Due()
    if deadline_seconds is not None and now - moment > timedelta(seconds=deadline_seconds):
        return Due(missed=moment)
    return Due(attempt=name(suffix_of(moment)), scheduled=moment)


def suffix_of(moment: datetime) -> str:
    """Return the name suffix of a scheduled attempt: minutes since 1970, and seconds if any."""
    minutes, seconds = divmod(int(moment.timestamp()), 60)
    return f"{minutes}-{seconds}" if seconds else str(minutes)


def handled_until(
    created: datetime, handled: datetime | None, last: LastAttempt | None, attempts: Iterable[Attempt]
) -> datetime:
    """Return the time up to which scheduled times are done.

    Args:
        created: when the resource was created.
        handled: the latest scheduled time that was processed, according to the status.
        last: the latest attempt.
        attempts: all existing attempts.
    """
    times = [created]
    if handled is not None:
        times.append(handled)
    elif last is not None and last.started is not None:
        times.append(last.started)  # the schedule was added after the first run
    times += [attempt.scheduled for attempt in attempts if attempt.scheduled is not None]
    return max(times)


def latest_attempt(last: LastAttempt | None, attempts: Sequence[Attempt]) -> LastAttempt | None:
    """Return the latest attempt: that of the status, or a newer one that is not in the status because of a crash."""
    by_name = {attempt.name: attempt for attempt in attempts}
    if last is not None and last.name in by_name:
        # The clock of the API server, so that creation times can be compared.
        last = last.model_copy(update={"started": by_name[last.name].meta.created})
    newest = attempts[-1] if attempts else None
    if newest is None or newest.meta.deleting or (last is not None and newest.name == last.name):
        return last
    if last is not None and last.started is not None and newest.meta.created <= last.started:
        return last
    return LastAttempt(
        name=newest.name, engine=newest.engine, generation=newest.generation, started=newest.meta.created
    )


def attempt_name(owner: Resource, suffix: str, *, prefix: str) -> str:
    """Return the name of an attempt. It is deterministic, so that a crash cannot start the same attempt twice.

    Args:
        owner: the resource.
        suffix: the unique part of the name.
        prefix: added if the name does not begin with a letter, as the Spark operator requires.
    """
    prefix = "" if owner.metadata.name[0].isalpha() else f"{prefix}-"
    return prefix + child_name(owner, suffix, max_length=_MAX_ATTEMPT_NAME_LENGTH - len(prefix))


def settings_name(attempt: str) -> str:
    """Return the name of the ConfigMap with the settings of an attempt."""
    return f"{attempt}-settings"


def number_of(name: str) -> int:
    """Return the number of an unscheduled attempt of its generation."""
    match = _UNSCHEDULED.search(name)
    return int(match.group(2)) if match is not None else 1


def unscheduled_suffix(generation: int, number: int) -> str:
    """Return the name suffix of an unscheduled attempt."""
    return f"g{generation}-{number}"
