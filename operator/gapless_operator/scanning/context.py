"""Owns what is known when a GapScan is reconciled: the resource, its attempts, its schedule, and what is due.

Must not know what follows from any of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.schedule import Schedule, ScheduleError
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.references import NotFound, scan_access
from gapless_operator.engines.choice import attempts_of
from gapless_operator.engines.scheduling import Due, latest_attempt
from gapless_operator.scanning.scan_pod import SCAN_ROLE, state_of
from gapless_operator.scanning.scheduling import due_of

if TYPE_CHECKING:
    from datetime import datetime

    from gapless_api.v1alpha1.attempt_status import LastAttempt
    from gapless_api.v1alpha1.gapscan import GapScan
    from gapless_operator.common.references import ScanAccess
    from gapless_operator.common.settings import Program
    from gapless_operator.engines.engine import Attempt
    from gapless_operator.engines.observed import WorkObserved


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """All that is known when a GapScan is reconciled. Make it with `context_of`."""

    scan: GapScan
    """With its status as it was written last."""
    observed: WorkObserved
    now: datetime
    program: Program
    """What the pods of scans are made of, unless the spec says otherwise."""
    attempts: tuple[Attempt, ...]
    """All that there are, oldest first."""
    last: LastAttempt | None
    """The attempt that began last, whether or not the status knows of it."""
    schedule: Schedule | None
    """``None`` for a scan without one, and for one that nobody can read."""
    schedule_error: str
    """Why the schedule cannot be read; empty when it can."""
    due: Due
    places: ScanAccess | NotFound
    """Kafka and storage, or what the spec names of them and is not there."""

    @property
    def running(self) -> LastAttempt | None:
        """The attempt that runs as far as the status knows."""
        return self.last if self.last is not None and self.last.outcome is None else None

    def attempt(self, name: str) -> Attempt | None:
        """The attempt of that name, if it is still there."""
        return next((attempt for attempt in self.attempts if attempt.name == name), None)

    def state_user(self) -> str | None:
        """What may still use the state that an attempt needs for itself; ``None`` for nothing, or without a state."""
        if state_of(self.scan) is None:
            return None
        for attempt in self.attempts:
            if not attempt.ended:
                return f"the {attempt.engine} {attempt.name}"
        # A pod may outlive its owner, for example on a node that does not answer; executors know nothing of the state.
        for pod in self.observed.pods:
            if not pod.ended and pod.meta.labels.get("spark-role") != "executor":
                return f"the pod {pod.meta.name}"
        return None


def context_of(scan: GapScan, observed: WorkObserved, now: datetime, *, program: Program) -> Context:
    """Put together what is known."""
    attempts = attempts_of(observed.jobs, observed.applications, observed.pods, now, role=SCAN_ROLE)
    places: ScanAccess | NotFound
    try:
        places = scan_access(scan, observed.referenced)
    except ConfigurationError as error:
        places = NotFound(Reason.BAD_CONFIGURATION, str(error))
    schedule, schedule_error = None, ""
    if scan.spec.schedule is not None:
        try:
            schedule = Schedule.parse(scan.spec.schedule.cron, scan.spec.schedule.time_zone)
        except ScheduleError as error:
            schedule_error = str(error)
    last = latest_attempt(scan.status.last_attempt, attempts)
    return Context(
        scan=scan,
        observed=observed,
        now=now,
        program=program,
        attempts=attempts,
        last=last,
        schedule=schedule,
        schedule_error=schedule_error,
        due=due_of(scan, schedule, last, attempts, now),
        places=places,
    )
