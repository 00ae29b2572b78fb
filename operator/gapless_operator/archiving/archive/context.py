"""Owns what is known when an Archive is reconciled: the resource, its attempts at archiving and compacting, its clocks.

Must not know what follows from any of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.schedule import Schedule, ScheduleError
from gapless_api.v1alpha1.reasons import Reason
from gapless_api.v1alpha1.schedule import PreciseSchedule
from gapless_operator.common.references import ArchiveAccess, NotFound, archive_access
from gapless_operator.engines.tracks import Track, track_of

if TYPE_CHECKING:
    from datetime import datetime

    from gapless_api.v1alpha1.archive import Archive
    from gapless_api.v1alpha1.schedule import Schedule as ScheduleSpec
    from gapless_operator.common.settings import Program
    from gapless_operator.engines.observed import WorkObserved

ARCHIVE_ROLE, COMPACT_ROLE = "archive", "compact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """All that is known when an Archive is reconciled. Make it with `context_of`."""

    archive: Archive
    """With its status as it was written last."""
    observed: WorkObserved
    now: datetime
    program: Program
    """What the pods are made of, unless the spec says otherwise."""
    access: ArchiveAccess | NotFound
    """Kafka and storage, or what the spec names of them and is not there."""
    main: Track
    """Attempts at archiving."""
    schedule: Schedule | None
    """``None`` for continuous archiving, and for a schedule that nobody can read."""
    compaction: Track
    """Attempts at compacting."""
    compaction_schedule: Schedule | None
    schedule_error: str
    """Why a schedule cannot be read; empty when all can."""

    @property
    def is_continuous(self) -> bool:
        """Whether archiving never ends."""
        return self.archive.spec.schedule is None


def context_of(archive: Archive, observed: WorkObserved, now: datetime, *, program: Program) -> Context:
    """Put together what is known."""
    access: ArchiveAccess | NotFound
    try:
        access = archive_access(archive, observed.referenced)
    except ConfigurationError as error:
        access = NotFound(Reason.BAD_CONFIGURATION, str(error))
    spec, status = archive.spec, archive.status
    schedule, problem = _parsed(spec.schedule)
    compaction, other_problem = _parsed(spec.compaction.schedule if spec.compaction is not None else None)
    of_compaction = status.compaction.last_attempt if status.compaction is not None else None
    return Context(
        archive=archive,
        observed=observed,
        now=now,
        program=program,
        access=access,
        main=track_of(observed, status.last_attempt, now, roles=[ARCHIVE_ROLE]),
        schedule=schedule,
        compaction=track_of(observed, of_compaction, now, roles=[COMPACT_ROLE]),
        compaction_schedule=compaction,
        schedule_error=problem or other_problem,
    )


def _parsed(given: ScheduleSpec | PreciseSchedule | None) -> tuple[Schedule | None, str]:
    if given is None:
        return None, ""
    try:
        return Schedule.parse(given.cron, given.time_zone, seconds=isinstance(given, PreciseSchedule)), ""
    except ScheduleError as error:
        return None, str(error)
