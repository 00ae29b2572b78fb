"""The attempts at one kind of work of a resource: the latest one, how it ends, and which are deleted.

Must not know what the work is. A resource may have several tracks, such as archiving and compaction, whose attempts run
in parallel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
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
from gapless_operator.engines.engine import Attempt, Phase
from gapless_operator.engines.scheduling import latest_attempt, settings_name

if TYPE_CHECKING:
    from gapless_api.v1alpha1.attempt_status import LastAttempt
    from gapless_operator.engines.observed import WorkObserved

SETTINGS_ROLE = "settings"
LOST_AFTER = timedelta(seconds=60)
"""How long the node of an attempt may be not ready before the attempt is replaced. If the old one still runs, it does
no harm."""
_MAX_ENDED_ATTEMPTS = 2
"""Ended attempts that are kept for their logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """The attempts at one kind of work; see `track_of`."""

    attempts: tuple[Attempt, ...]
    """All existing attempts, oldest first."""
    last: LastAttempt | None
    """The latest attempt, even if it is not in the status yet."""

    @property
    def running(self) -> LastAttempt | None:
        """The running attempt, according to the status."""
        return self.last if self.last is not None and self.last.outcome is None else None

    @property
    def current(self) -> Attempt | None:
        """The observed state of the running attempt; ``None`` if none is running, or it was deleted."""
        running = self.running
        if running is None:
            return None
        return next((attempt for attempt in self.attempts if attempt.name == running.name), None)


def track_of(observed: WorkObserved, last: LastAttempt | None, now: datetime, *, roles: Iterable[str]) -> Track:
    """Return the track of all attempts with one of `roles`; `last` is the latest attempt in the status."""
    by_role = [
        attempt
        for role in roles
        for attempt in attempts_of(observed.jobs, observed.applications, observed.pods, now, role=role)
    ]
    attempts = tuple(sorted(by_role, key=lambda attempt: (attempt.meta.created, attempt.name)))
    return Track(attempts=attempts, last=latest_attempt(last, attempts))


def must_end(attempt: Attempt, *, start_seconds: int, run_seconds: int | None, now: datetime) -> Ending | None:
    """Return why an attempt must be stopped: it does not start, runs too long, or its node is lost.

    Args:
        attempt: an attempt that has not ended.
        start_seconds: how long it may take to start.
        run_seconds: how long it may run; ``None`` for no limit.
        now: the current time.
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
        f"the resources of the engine.",
    )


def check_again_after(
    attempt: Attempt, *, start_seconds: int, run_seconds: int | None, now: datetime
) -> timedelta | None:
    """Return how long `must_end` need not be called again; ``None`` for no limit."""
    if attempt.phase is Phase.PENDING:
        return start_deadline(attempt, start_seconds) - now
    if run_seconds is None:
        return None
    return (attempt.started or attempt.meta.created) + timedelta(seconds=run_seconds) - now


def own_end(track: Track, now: datetime, *, end_of: Callable[[Attempt], Ending]) -> Ending | None:
    """Return how the running attempt has ended by itself; ``None`` while it runs or its log is being read.

    Args:
        track: the track of the attempt.
        now: the current time.
        end_of: says how an attempt has ended whose log was read.
    """
    running, attempt = track.running, track.current
    if running is None:
        return None
    if attempt is None or (attempt.meta.deleting and not attempt.ended):
        return Ending(Reason.STOPPED, f"The {running.engine} {running.name} was deleted before it ended.")
    return end_of(attempt) if attempt.ended and not is_waiting_for_log(attempt, now) else None


def end_by_exit_code(attempt: Attempt, *, succeeded: Ending, incomplete: Reason, failed: Reason) -> Ending:
    """Return how an attempt has ended.

    Args:
        attempt: an attempt that has ended, and whose log was read.
        succeeded: the end of a successful attempt.
        incomplete: the reason of an incomplete result (exit code 4).
        failed: the reason of a failure with unknown cause.
    """
    driver = attempt.driver
    if attempt.phase is Phase.SUCCEEDED:
        return succeeded
    if driver is None or not driver.ended:
        return without_a_log(attempt, otherwise=failed)
    failure = failure_of(driver, otherwise=failed)
    return failure._replace(reason=incomplete) if driver.exit_code == ExitCode.INCOMPLETE else failure


def ended(last: LastAttempt, ending: Ending, attempt: Attempt | None, now: datetime) -> LastAttempt:
    """Return the status of an attempt with its end."""
    finished = (attempt.finished if attempt is not None and attempt.ended else None) or now
    return last.model_copy(update={"finished": finished, "outcome": str(ending.reason), "message": ending.message})


def leftovers(tracks: Iterable[Track], observed: WorkObserved) -> tuple[Ref, ...]:
    """Return what to delete: attempts that must not run any more, old attempts, and settings without an attempt."""
    kept = set[str]()
    obsolete: list[Attempt] = []
    for track in tracks:
        running = track.running
        others = [attempt for attempt in track.attempts if running is None or attempt.name != running.name]
        ended_attempts = [attempt for attempt in others if attempt.ended]
        recent = {attempt.name for attempt in ended_attempts[-_MAX_ENDED_ATTEMPTS:]}
        obsolete += [attempt for attempt in others if attempt.name not in recent and not attempt.meta.deleting]
        kept |= recent | ({running.name} if running is not None else set())
    needed = {settings_name(name) for name in kept}
    unused = [
        child
        for child in observed.config_maps
        if child.meta.role == SETTINGS_ROLE and child.meta.name not in needed and not child.meta.deleting
    ]
    return (
        *(ref_of(attempt) for attempt in obsolete),
        *(Ref("v1", "ConfigMap", child.meta.name, child.meta.uid) for child in unused),
    )
