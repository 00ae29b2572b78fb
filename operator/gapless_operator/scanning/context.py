"""The input of each step of a GapScan's reconciler: the resource, its attempts, its schedule, and what is due.

Must not know what a step decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from gapless_api.base.schedule import Schedule, ScheduleError
from gapless_api.v1alpha1.gapscan import GapScan
from gapless_operator.common.references import ScanAccess, scan_access
from gapless_operator.lifecycle.context import Context as CommonContext
from gapless_operator.lifecycle.context import resolve
from gapless_operator.lifecycle.tracks import Track, track_of
from gapless_operator.scanning.scan_pod import SCAN_ROLE, state_of
from gapless_operator.scanning.scheduling import due_of

if TYPE_CHECKING:
    from gapless_operator.common.settings import Program
    from gapless_operator.engines.observed import WorkObserved
    from gapless_operator.engines.scheduling import Due


@dataclass(frozen=True, slots=True, kw_only=True)
class Context(CommonContext[GapScan, ScanAccess]):
    """All that is known when a GapScan is reconciled; made by `context_of`."""

    track: Track
    """The attempts at scanning."""
    schedule: Schedule | None
    """``None`` for a scan without one, or with an invalid one."""
    schedule_error: str
    """Why the schedule is invalid; empty when it is valid."""
    due: Due

    def state_user(self) -> str | None:
        """Return what may still use the state, which an attempt needs exclusively; ``None`` for nothing or no state."""
        if state_of(self.resource) is None:
            return None
        for attempt in self.track.attempts:
            if not attempt.ended:
                return f"the {attempt.engine} {attempt.name}"
        # A pod may outlive its owner, for example on a lost node. Executors do not use the state.
        for pod in self.observed.pods:
            if not pod.ended and pod.meta.labels.get("spark-role") != "executor":
                return f"the pod {pod.meta.name}"
        return None


def context_of(scan: GapScan, observed: WorkObserved, now: datetime, *, program: Program) -> Context:
    """Collect what is known."""
    schedule, schedule_error = None, ""
    if scan.spec.schedule is not None:
        try:
            schedule = Schedule.parse(scan.spec.schedule.cron, scan.spec.schedule.time_zone)
        except ScheduleError as error:
            schedule_error = str(error)
    track = track_of(observed, scan.status.last_attempt, now, roles=[SCAN_ROLE])
    return Context(
        resource=scan,
        observed=observed,
        now=now,
        program=program,
        access=resolve(lambda: scan_access(scan, observed.referenced)),
        track=track,
        schedule=schedule,
        schedule_error=schedule_error,
        due=due_of(scan, schedule, track.last, track.attempts, now),
    )
