"""The context of a Restore's reconciliation; must not know what follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from gapless_api.v1alpha1.restore import Restore
from gapless_operator.common.references import ArchiveAccess, restore_access
from gapless_operator.lifecycle.context import Context as CommonContext
from gapless_operator.lifecycle.context import resolve
from gapless_operator.lifecycle.tracks import Track, track_of

if TYPE_CHECKING:
    from gapless_api.v1alpha1.restore_status import RestoreStatus
    from gapless_operator.common.settings import Program
    from gapless_operator.engines.observed import WorkObserved

PLAN_ROLE, RESTORE_ROLE = "restore-plan", "restore"
_ROLES = {"plan": PLAN_ROLE, "restore": RESTORE_ROLE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Context(CommonContext[Restore, ArchiveAccess]):
    """Everything that the reconciliation of a Restore depends on. Create it with `context_of`."""

    status: RestoreStatus
    """The last written status without what a change of the spec has invalidated. Its attempt number is that of the last
    attempt, even if a crash prevented its recording, so that no other attempt gets the same name."""
    track: Track
    """Attempts at planning and restoring, which never run concurrently."""

    @property
    def role(self) -> str:
        """The role of the next attempt."""
        return PLAN_ROLE if self.resource.spec.mode == "Plan" else RESTORE_ROLE

    @property
    def running_role(self) -> str:
        """The role of the running attempt."""
        attempt = self.track.current
        return attempt.meta.role if attempt is not None else _ROLES.get(self.status.last_role or "", self.role)


def context_of(
    restore: Restore, status: RestoreStatus, observed: WorkObserved, now: datetime, *, program: Program
) -> Context:
    """Build the context."""
    track = track_of(observed, status.last_attempt, now, roles=_ROLES.values())
    if track.last is not None:
        status = status.model_copy(update={"attempt": max(status.attempt, int(track.last.name.rpartition("-")[2]))})
    return Context(
        resource=restore,
        status=status,
        observed=observed,
        now=now,
        program=program,
        access=resolve(lambda: restore_access(restore, observed.referenced)),
        track=track,
    )
