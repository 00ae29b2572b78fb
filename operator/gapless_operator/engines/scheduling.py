"""Owns which attempt is due by a clock, and what attempts are called; must not know what an attempt is for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from gapless_api.v1alpha1.attempt_status import LastAttempt
from gapless_operator.common.children import child_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from gapless_api.base.schedule import Schedule
    from gapless_api.v1alpha1.resource import Resource
    from gapless_operator.engines.engine import Attempt

_UNSCHEDULED = re.compile(r"-g(\d+)-(\d+)$")
_LONGEST_ATTEMPT = 40
"""Spark puts ``-driver`` and ``-exec-…`` behind it and shortens badly what is too long then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """What the clock asks; at most one of these, and nothing while the resource is suspended."""

    attempt: str | None = None
    """Name of the attempt that should begin now."""
    scheduled: datetime | None = None
    """The time of the schedule that `attempt` is for."""
    missed: datetime | None = None
    """A time of the schedule for which it is too late."""
    retry_at: datetime | None = None
    """When the next attempt without a schedule begins."""


def due_by_schedule(
    schedule: Schedule | None,
    *,
    after: datetime,
    deadline_seconds: int | None,
    name: Callable[[str], str],
    now: datetime,
) -> Due:
    """What is due at a time of a schedule that was not acted upon; its next time is always waited for.

    Args:
        schedule: ``None`` for one that cannot be read, of which nothing is due.
        after: up to which time nothing is left to do; see `acted_until`.
        deadline_seconds: how late a run may start; ``None`` for any time.
        name: makes the name of an attempt of its last part.
        now: the time.
    """
    moment = None if schedule is None else schedule.latest_until(now, after=after)
    if moment is None:
        return Due()
    if deadline_seconds is not None and now - moment > timedelta(seconds=deadline_seconds):
        return Due(missed=moment)
    return Due(attempt=name(suffix_of(moment)), scheduled=moment)


def suffix_of(moment: datetime) -> str:
    """The last part of the name of an attempt at a time of a schedule: minutes from 1970, and seconds if any."""
    minutes, seconds = divmod(int(moment.timestamp()), 60)
    return f"{minutes}-{seconds}" if seconds else str(minutes)


def acted_until(
    created: datetime, handled: datetime | None, last: LastAttempt | None, attempts: Iterable[Attempt]
) -> datetime:
    """Up to which time of a schedule nothing is left to do.

    Args:
        created: when the resource was created.
        handled: the latest time of the schedule that the status is done with.
        last: the attempt that began last.
        attempts: all that exist.
    """
    acted = [created]
    if handled is not None:
        acted.append(handled)
    elif last is not None and last.started is not None:
        acted.append(last.started)  # the schedule came later than the first run
    acted += [attempt.scheduled for attempt in attempts if attempt.scheduled is not None]
    return max(acted)


def latest_attempt(last: LastAttempt | None, attempts: Sequence[Attempt]) -> LastAttempt | None:
    """The attempt that began last: the one of the status, or a newer one that a crash kept from getting there."""
    known = {attempt.name: attempt for attempt in attempts}
    if last is not None and last.name in known:
        # The API server's clock, not ours, so that attempts can be compared.
        last = last.model_copy(update={"started": known[last.name].meta.created})
    newest = attempts[-1] if attempts else None
    if newest is None or newest.meta.deleting or (last is not None and newest.name == last.name):
        return last
    if last is not None and last.started is not None and newest.meta.created <= last.started:
        return last
    return LastAttempt(
        name=newest.name, engine=newest.engine, generation=newest.generation, started=newest.meta.created
    )


def attempt_name(owner: Resource, suffix: str, *, prefix: str) -> str:
    """The name of an attempt: the same for the same reason to run, so that no crash can begin it twice.

    Args:
        owner: whose attempt it is.
        suffix: what tells it from the others.
        prefix: what a name gets that does not begin with a letter, which the Spark operator wants.
    """
    prefix = "" if owner.metadata.name[0].isalpha() else f"{prefix}-"
    return prefix + child_name(owner, suffix, longest=_LONGEST_ATTEMPT - len(prefix))


def settings_name(attempt: str) -> str:
    """The name of the ConfigMap with the settings of an attempt."""
    return f"{attempt}-settings"


def number_of(name: str) -> int:
    """Which attempt at its generation an unscheduled one is, by its name."""
    found = _UNSCHEDULED.search(name)
    return int(found.group(2)) if found is not None else 1


def unscheduled_suffix(generation: int, number: int) -> str:
    """The last part of the name of an attempt without a schedule."""
    return f"g{generation}-{number}"
