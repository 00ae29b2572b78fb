"""Owns the context of a Restore's reconciliation; must not know what follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.references import ArchiveAccess, NotFound, restore_access
from gapless_operator.engines.tracks import Track, track_of

if TYPE_CHECKING:
    from datetime import datetime

    from gapless_api.v1alpha1.restore import Restore
    from gapless_api.v1alpha1.restore_status import RestoreStatus
    from gapless_operator.common.settings import Program
    from gapless_operator.engines.observed import WorkObserved

PLAN_ROLE, RESTORE_ROLE = "restore-plan", "restore"
_ROLES = {"plan": PLAN_ROLE, "restore": RESTORE_ROLE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Everything that the reconciliation of a Restore depends on. Create it with `context_of`."""

    restore: Restore
    """With its last written status."""
    status: RestoreStatus
    """The last written status without what a change of the spec has invalidated. Its attempt number is that of the last
    attempt, even if a crash prevented its recording, so that no other attempt gets the same name."""
    observed: WorkObserved
    now: datetime
    program: Program
    access: ArchiveAccess | NotFound
    """Kafka and the archive, or which reference cannot be resolved."""
    track: Track
    """Attempts at planning and restoring, which never run concurrently."""

    @property
    def role(self) -> str:
        """The role of the next attempt."""
        return PLAN_ROLE if self.restore.spec.mode == "Plan" else RESTORE_ROLE

    @property
    def running_role(self) -> str:
        """The role of the running attempt."""
        attempt = self.track.current
        return attempt.meta.role if attempt is not None else _ROLES.get(self.status.last_role or "", self.role)


def context_of(
    restore: Restore, status: RestoreStatus, observed: WorkObserved, now: datetime, *, program: Program
) -> Context:
    """Build the context."""
    access: ArchiveAccess | NotFound
    try:
        access = restore_access(restore, observed.referenced)
    except ConfigurationError as error:
        access = NotFound(Reason.BAD_CONFIGURATION, str(error))
    track = track_of(observed, status.last_attempt, now, roles=_ROLES.values())
    if track.last is not None:
        status = status.model_copy(update={"attempt": max(status.attempt, int(track.last.name.rpartition("-")[2]))})
    return Context(
        restore=restore,
        status=status,
        observed=observed,
        now=now,
        program=program,
        access=access,
        track=track,
    )
