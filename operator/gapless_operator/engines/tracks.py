"""Owns the attempts at one kind of work of a resource: the latest one, how it ends, and which are deleted.

Must not know what the work is. A resource may have several tracks, such as archiving and compacting, whose attempts run
beside each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from gapless_api.base.exit_codes import ExitCode
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.plan import Ref
from gapless_operator.engines.choice import attempts_of, ref_of
from gapless_operator.engines.endings import (
    Ending,
    failure_of,
    is_waiting_for_log,
    start_deadline,
    start_problem,
    without_a_log,
)
from gapless_operator.engines.engine import Phase
from gapless_operator.engines.scheduling import latest_attempt, settings_name

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from gapless_api.v1alpha1.attempt_status import LastAttempt
    from gapless_operator.engines.engine import Attempt
    from gapless_operator.engines.observed import WorkObserved

SETTINGS_ROLE = "settings"
LOST_AFTER = timedelta(seconds=60)
"""After how long on a node that is not ready an attempt is replaced. The one that may still run there is harmless."""
_ENDED_KEPT = 2
"""Attempts that have ended and are kept for their logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """The attempts at one kind of work. Make it with `track_of`."""

    attempts: tuple[Attempt, ...]
    """All that there are, oldest first."""
    last: LastAttempt | None
    """The attempt that began last, whether or not the status knows of it."""

    @property
    def running(self) -> LastAttempt | None:
        """The attempt that runs as far as the status knows."""
        return self.last if self.last is not None and self.last.outcome is None else None

    @property
    def current(self) -> Attempt | None:
        """What its engine says about the attempt that runs; ``None`` when none does, or it is gone."""
        running = self.running
        return next((one for one in self.attempts if running is not None and one.name == running.name), None)


def track_of(observed: WorkObserved, last: LastAttempt | None, now: datetime, *, roles: Iterable[str]) -> Track:
    """Put together the attempts at what has one of `roles`; `last` is the one of the status."""
    found = [
        attempt
        for role in roles
        for attempt in attempts_of(observed.jobs, observed.applications, observed.pods, now, role=role)
    ]
    attempts = tuple(sorted(found, key=lambda attempt: (attempt.meta.created, attempt.name)))
    return Track(attempts=attempts, last=latest_attempt(last, attempts))


def must_end(attempt: Attempt, *, start_seconds: int, run_seconds: int | None, now: datetime) -> Ending | None:
    """Why an attempt that has not ended must: it does not start, runs too long, or its node is lost.

    Args:
        attempt: the attempt.
        start_seconds: how long it may take to start.
        run_seconds: how long it may run; ``None`` for ever.
        now: the time.
    """
    if attempt.phase is Phase.PENDING:
        return start_problem(attempt, start_seconds, now)
    driver = attempt.driver
    if (
        driver is not None
        and driver.is_lost
        and driver.lost_since is not None
        and now - driver.lost_since >= LOST_AFTER
    ):
        return Ending(
            Reason.NODE_LOST, f"Node {driver.node} of pod {driver.meta.name} is not ready; another pod takes over."
        )
    if run_seconds is None or now - (attempt.started or attempt.meta.created) < timedelta(seconds=run_seconds):
        return None
    return Ending(
        Reason.RUN_DEADLINE_EXCEEDED,
        f"The {attempt.engine} {attempt.name} ran for more than {run_seconds} seconds; raise runDeadlineSeconds, or "
        f"give the engine more.",
    )


def check_again_after(
    attempt: Attempt, *, start_seconds: int, run_seconds: int | None, now: datetime
) -> timedelta | None:
    """When `must_end` must be called again at the latest; ``None`` for no such time."""
    if attempt.phase is Phase.PENDING:
        return start_deadline(attempt, start_seconds) - now
    if run_seconds is None:
        return None
    return (attempt.started or attempt.meta.created) + timedelta(seconds=run_seconds) - now


def own_end(track: Track, *, succeeded: Ending, incomplete: Reason, failed: Reason, now: datetime) -> Ending | None:
    """How the attempt that the status thinks runs has ended by itself; ``None`` while it runs or its log is being read.

    Args:
        track: whose attempt it is; one must be running as far as the status knows.
        succeeded: what a success means.
        incomplete: the reason of an end with something left (exit code 4).
        failed: the reason of a failure of which nothing is known.
        now: the time.
    """
    running, attempt = track.running, track.current
    if running is None:
        return None
    if attempt is None or (attempt.meta.deleting and not attempt.ended):
        return Ending(Reason.STOPPED, f"The {running.engine} {running.name} was deleted before it ended.")
    if not attempt.ended or is_waiting_for_log(attempt, now):
        return None
    driver = attempt.driver
    if attempt.phase is Phase.SUCCEEDED:
        return succeeded
    if driver is None or not driver.ended:
        return without_a_log(attempt, otherwise=failed)
    found = failure_of(driver, otherwise=failed)
    return found._replace(reason=incomplete) if driver.exit_code == ExitCode.INCOMPLETE else found


def ended(last: LastAttempt, ending: Ending, attempt: Attempt | None, now: datetime) -> LastAttempt:
    """The attempt with its end."""
    finished = (attempt.finished if attempt is not None and attempt.ended else None) or now
    return last.model_copy(update={"finished": finished, "outcome": str(ending.reason), "message": ending.message})


def leftovers(tracks: Iterable[Track], observed: WorkObserved) -> tuple[Ref, ...]:
    """What to delete: attempts that must not run any more, old ones, and the settings of those that are gone."""
    kept = set[str]()
    gone: list[Attempt] = []
    for track in tracks:
        running = track.running
        others = [one for one in track.attempts if running is None or one.name != running.name]
        old = [one for one in others if one.ended]
        recent = {one.name for one in old[-_ENDED_KEPT:]}
        gone += [one for one in others if one.name not in recent and not one.meta.deleting]
        kept |= recent | ({running.name} if running is not None else set())
    needed = {settings_name(name) for name in kept}
    loose = [
        child
        for child in observed.config_maps
        if child.meta.role == SETTINGS_ROLE and child.meta.name not in needed and not child.meta.deleting
    ]
    return (
        *(ref_of(attempt) for attempt in gone),
        *(Ref("v1", "ConfigMap", child.meta.name, child.meta.uid) for child in loose),
    )
