"""Owns what is known when a Restore is reconciled; must not know what follows from any of it."""

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
    """All that is known when a Restore is reconciled. Make it with `context_of`."""

    restore: Restore
    """With its status as it was written last."""
    status: RestoreStatus
    """The same, but for what a change of the spec has made void, and with the number of an attempt that a crash kept
    from getting there: another one must not have its name."""
    observed: WorkObserved
    now: datetime
    program: Program
    access: ArchiveAccess | NotFound
    """Kafka and the archive, or what the spec names of them and is not there."""
    track: Track
    """Attempts at plans and at restoring, which never run beside each other."""

    @property
    def role(self) -> str:
        """What is to be done now."""
        return PLAN_ROLE if self.restore.spec.mode == "Plan" else RESTORE_ROLE

    @property
    def running_role(self) -> str:
        """What the attempt does that runs."""
        attempt = self.track.current
        return attempt.meta.role if attempt is not None else _ROLES.get(self.status.last_role or "", self.role)


def context_of(
    restore: Restore, status: RestoreStatus, observed: WorkObserved, now: datetime, *, program: Program
) -> Context:
    """Put together what is known."""
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
