"""Owns the input of each step of a GapScan's reconciler: the resource, its attempts, its schedule, and what is due.

Must not know what a step decides.
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
    """All that is known when a GapScan is reconciled; made by `context_of`."""

    scan: GapScan
    """With the status that was last written."""
    observed: WorkObserved
    now: datetime
    program: Program
    """What the pods of scans are made of, unless the spec says otherwise."""
    attempts: tuple[Attempt, ...]
    """All that exist, oldest first."""
    last: LastAttempt | None
    """The attempt that was started last, even if it is not in the status yet."""
    schedule: Schedule | None
    """``None`` for a scan without one, or with an invalid one."""
    schedule_error: str
    """Why the schedule is invalid; empty when it is valid."""
    due: Due
    places: ScanAccess | NotFound
    """Kafka and storage, or which of them does not exist."""

    @property
    def running(self) -> LastAttempt | None:
        """Return the last attempt while its outcome is not recorded."""
        return self.last if self.last is not None and self.last.outcome is None else None

    def attempt(self, name: str) -> Attempt | None:
        """Return the attempt of that name, if it still exists."""
        return next((attempt for attempt in self.attempts if attempt.name == name), None)

    def state_user(self) -> str | None:
        """Return what may still use the state, which an attempt needs exclusively; ``None`` for nothing or no state."""
        if state_of(self.scan) is None:
            return None
        for attempt in self.attempts:
            if not attempt.ended:
                return f"the {attempt.engine} {attempt.name}"
        # A pod may outlive its owner, for example on a lost node. Executors do not use the state.
        for pod in self.observed.pods:
            if not pod.ended and pod.meta.labels.get("spark-role") != "executor":
                return f"the pod {pod.meta.name}"
        return None


def context_of(scan: GapScan, observed: WorkObserved, now: datetime, *, program: Program) -> Context:
    """Collect what is known."""
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
