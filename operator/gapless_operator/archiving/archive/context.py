"""The context of an Archive's reconciliation: the resource, its attempts, its schedules and what it references.

Must not know what follows from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_api.base.schedule import Schedule, ScheduleError
from gapless_api.v1alpha1.archive import Archive, ArchiveSpec
from gapless_api.v1alpha1.schedule import PreciseSchedule
from gapless_api.v1alpha1.schedule import Schedule as ScheduleSpec
from gapless_operator.common.references import ArchiveAccess, NotFound, archive_access, check_storage_access
from gapless_operator.common.refusal import Refusal, refusal_of
from gapless_operator.engines.validate import check_engine
from gapless_operator.lifecycle.context import Context as CommonContext
from gapless_operator.lifecycle.context import resolve
from gapless_operator.lifecycle.tracks import Track, track_of

if TYPE_CHECKING:
    from gapless_api.v1alpha1.storage_location import StorageLocationSpec
    from gapless_operator.common.settings import Program
    from gapless_operator.engines.observed import WorkObserved

ARCHIVE_ROLE, COMPACT_ROLE = "archive", "compact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Context(CommonContext[Archive, ArchiveAccess]):
    """Everything that the reconciliation of an Archive depends on. Create it with `context_of`."""

    main: Track
    """Attempts at archiving."""
    schedule: Schedule | None
    """``None`` for continuous archiving, and for an invalid schedule."""
    compaction: Track
    """Attempts at compacting."""
    compaction_schedule: Schedule | None
    schedule_error: str
    """Why a schedule is invalid; empty if all are valid."""

    @property
    def is_continuous(self) -> bool:
        """Whether the Archive has no schedule and archives continuously."""
        return self.resource.spec.schedule is None


def context_of(archive: Archive, observed: WorkObserved, now: datetime, *, program: Program) -> Context:
    """Build the context."""
    spec, status = archive.spec, archive.status
    schedule, schedule_error = _parse(spec.schedule)
    compaction, compaction_error = _parse(spec.compaction.schedule if spec.compaction is not None else None)
    last_compaction = status.compaction.last_attempt if status.compaction is not None else None
    return Context(
        resource=archive,
        observed=observed,
        now=now,
        program=program,
        access=resolve(lambda: archive_access(archive, observed.referenced)),
        main=track_of(observed, status.last_attempt, now, roles=[ARCHIVE_ROLE]),
        schedule=schedule,
        compaction=track_of(observed, last_compaction, now, roles=[COMPACT_ROLE]),
        compaction_schedule=compaction,
        schedule_error=schedule_error or compaction_error,
    )


def _parse(spec: ScheduleSpec | PreciseSchedule | None) -> tuple[Schedule | None, str]:
    if spec is None:
        return None, ""
    try:
        return Schedule.parse(spec.cron, spec.time_zone, seconds=isinstance(spec, PreciseSchedule)), ""
    except ScheduleError as error:
        return None, str(error)


def compaction_refusal(context: Context) -> Refusal | None:
    """Return why nothing may be compacted, although archiving may continue; ``None`` if it may."""
    spec, access = context.resource.spec, context.access
    deletes = spec.compaction is not None and not spec.hold and (spec.compaction.delete or spec.retention is not None)
    if isinstance(access, NotFound) or not deletes:
        return None
    location = access.archive.location
    return refusal_of(
        lambda: check_storage_access(location, "Delete", name=spec.storage_ref.name),
        lambda: _check_retention(spec, location),
    )


def _check_retention(spec: ArchiveSpec, location: StorageLocationSpec) -> None:
    """Check that the retention keeps records as long as the location requires. Raises ConfigurationError."""
    least, most = location.min_retention_seconds, None if spec.retention is None else spec.retention.max_age_seconds
    if least is not None and most is not None and most < least:
        raise ConfigurationError(
            f"spec.retention.maxAgeSeconds is {most}, and the StorageLocation {spec.storage_ref.name} keeps records "
            f"for at least {least} seconds; raise it, or ask the platform team to lower minRetentionSeconds."
        )


def refusal_now(context: Context) -> Refusal | None:
    """Return why neither archiving nor compacting may run, if it was allowed before; ``None`` if they may."""
    archive, access = context.resource, context.access
    if isinstance(access, NotFound):
        return Refusal(*access)
    return refusal_of(
        lambda: check_engine(archive.spec.engine, context.program),
        lambda: context.program.pod_templates.check(archive.spec.pod_template, archive.metadata.namespace),
        lambda: access.kafka.topics.check(archive.spec.topics, what="spec"),
        lambda: access.archive.check(archive.spec.topics, what="spec"),
        lambda: access.archive.location.archive_bounds.check_prefixes(archive.spec.topic_prefixes, what="spec"),
    )
