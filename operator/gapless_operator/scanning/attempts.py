"""The life of a GapScan's attempts: when one waits or starts, its progress, and which are deleted.

Must not know whether an attempt may start (`validate`), nor how one ends (`outcome`). The name of an attempt follows
from its schedule time or generation, so a crash starts none twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from gapless_api.v1alpha1.attempt_status import LastAttempt
from gapless_api.v1alpha1.conditions import ConditionType
from gapless_api.v1alpha1.reasons import Reason
from gapless_api.v1alpha1.scan_status import ReadingProgress
from gapless_operator.common.conditions import NOT_STALLED, ConditionUpdate
from gapless_operator.common.plan import Event, EventType, Ref
from gapless_operator.common.pod_trouble import unfinished_stop
from gapless_operator.common.result import Result
from gapless_operator.engines.choice import is_job_fallback, ref_of
from gapless_operator.engines.engine import Attempt, Phase, Run, attempt_annotations
from gapless_operator.engines.scheduling import settings_name
from gapless_operator.scanning import conditions as condition_sets
from gapless_operator.scanning.findings import clamp
from gapless_operator.scanning.manifests import (
    BUNDLE_ROLE,
    OUTPUT_ANNOTATION,
    QUESTION_ANNOTATION,
    SETTINGS_ROLE,
    bundle_name,
    bundle_place,
    command,
    older_bundle,
    source_digest,
    work_digest,
)
from gapless_operator.scanning.properties import settings_map
from gapless_operator.scanning.scan_pod import SCAN_ROLE, arguments, driver_content, executor_content
from gapless_operator.scanning.scheduling import latest_schedule_time
from gapless_operator.scanning.validate import RECHECK_AFTER, Validated

if TYPE_CHECKING:
    from gapless_operator.scanning.context import Context

WRITE_EVERY = timedelta(seconds=5)
"""How often progress is written into the status at most."""
_FELL_BACK = "engine.type is Auto and this cluster has no Spark operator, so the scan runs as a Job, without executors."


def watch(context: Context, attempt: Attempt) -> Result:
    """Show the progress of the running attempt.

    A schedule time meanwhile is skipped (Forbid) or has replaced the attempt already (Replace).
    """
    progress = update_progress(context.resource.status.progress, attempt, context.now)
    return Result(
        conditions=condition_sets.working(context, _describe_progress(context, attempt), attempt),
        update={"last_schedule_time": latest_schedule_time(context.resource, attempt), "progress": progress},
    )


def queue(context: Context) -> Result | None:
    """Wait while an earlier attempt still uses the state; ``None`` when none does."""
    user = context.state_user()
    if user is None:
        return None
    message = (
        f"The next scan begins when {user} has ended, because two scans must not use source.events.state at the same "
        f"time."
    )
    return Result(
        conditions={
            ConditionType.RECONCILING: ConditionUpdate(True, Reason.SCANNING, message),
            ConditionType.STALLED: NOT_STALLED,
        },
        again_after=RECHECK_AFTER,
    )


def start(context: Context, validated: Validated) -> Result:
    """Write the attempt that is due and its settings."""
    scan, now, name, (places, engine) = context.resource, context.now, context.due.attempt, validated
    if name is None:
        raise ValueError("no attempt is due")
    older = older_bundle(scan, places)
    run = Run(
        owner=scan,
        options=scan.spec.engine,
        name=name,
        role=SCAN_ROLE,
        arguments=arguments(command(scan), places),
        driver=driver_content(
            scan,
            places,
            settings_map=settings_name(name),
            older_entry=older.entry if older is not None else None,
        ),
        executor=executor_content(places),
        annotations={
            **attempt_annotations(scan.metadata.generation, work_digest(scan, places), context.due.scheduled),
            QUESTION_ANNOTATION: source_digest(scan, places),
            OUTPUT_ANNOTATION: bundle_place(scan, places, name).written(),
        },
        deadline_seconds=scan.spec.engine.start_deadline_seconds + scan.spec.engine.run_deadline_seconds,
    )
    program = context.program.with_template(scan.spec.pod_template)
    message = f"The {engine.name} {name} is being started."
    events = [Event(EventType.NORMAL, Reason.SCANNING, message)]
    if is_job_fallback(scan.spec.engine, engine.name):
        message = f"{message} {_FELL_BACK}"
        before = context.track.last
        if before is None or (before.engine, before.generation) != (engine.name, scan.metadata.generation):
            events.append(Event(EventType.NORMAL, Reason.NO_SPARK_OPERATOR, _FELL_BACK))
    last = LastAttempt(name=name, engine=engine.name, generation=scan.metadata.generation, started=now)
    update: dict[str, Any] = {"last_attempt": last, "progress": None}
    if context.due.scheduled is not None:
        update["last_schedule_time"] = context.due.scheduled
    return Result(
        conditions=condition_sets.working(context, message),
        update=update,
        apply=(settings_map(scan, places, name), engine.manifest(run, program)),
        events=tuple(events),
        again_after=timedelta(seconds=scan.spec.engine.start_deadline_seconds),
    )


def show_last_attempt(context: Context) -> Result | None:
    """Show how the last attempt ended; ``None`` when the next one is due, or the schedule is invalid."""
    due, now = context.due, context.now
    if due.attempt is not None or context.schedule_error:
        return None
    update: dict[str, Any] = {}
    events: tuple[Event, ...] = ()
    if due.missed is not None:
        update["last_schedule_time"] = due.missed
        message = f"The scan of {due.missed:%Y-%m-%d %H:%M} UTC was skipped: startingDeadlineSeconds has passed."
        events = (Event(EventType.WARNING, "ScanMissed", message),)
    conditions = condition_sets.after_attempt(context, context.track.last)
    if context.resource.spec.suspend:
        unfinished = unfinished_stop(context.observed.pods)
        message = f"spec.suspend is true: no scans begin until it is false. {unfinished}".rstrip()
        conditions[ConditionType.RECONCILING] = ConditionUpdate(False, Reason.SUSPENDED, message)
    again_after = None if due.retry_at is None else due.retry_at - now
    return Result(conditions=conditions, update=update, events=events, again_after=again_after)


def superseded_objects(context: Context) -> tuple[Ref, ...]:
    """Return attempts beyond the history limits or stopped early, and ConfigMaps of deleted attempts."""
    scan, running = context.resource, context.track.running
    limits = scan.spec.history_limits
    attempts = [attempt for attempt in context.track.attempts if running is None or attempt.name != running.name]
    succeeded = [attempt for attempt in attempts if attempt.phase is Phase.SUCCEEDED]
    failed = [attempt for attempt in attempts if attempt.phase is Phase.FAILED]
    kept = {*_newest(succeeded, limits.successful), *_newest(failed, limits.failed)}
    outdated = [attempt for attempt in attempts if attempt.name not in kept and not attempt.meta.deleting]
    if running is not None:
        kept.add(running.name)
    # The bundle in the status is kept, even if its attempt is not.
    needed = {scan.status.bundle.location if scan.status.bundle is not None else ""}
    needed |= {name for attempt in kept for name in (settings_name(attempt), bundle_name(attempt))}
    orphans = [
        child
        for child in context.observed.config_maps
        if child.meta.role in {SETTINGS_ROLE, BUNDLE_ROLE} and child.meta.name not in needed and not child.meta.deleting
    ]
    return (
        *(ref_of(attempt) for attempt in outdated),
        *(Ref("v1", "ConfigMap", child.meta.name, child.meta.uid) for child in orphans),
    )


def update_progress(before: ReadingProgress | None, attempt: Attempt, now: datetime) -> ReadingProgress | None:
    """Return the progress for the status; `before` itself if it is unchanged or was written just before.

    Args:
        before: the progress in the status; dropped if it is of an earlier attempt.
        attempt: that runs.
        now: the time.
    """
    if before is not None and before.attempt != attempt.name:
        before = None
    line = attempt.driver.output.reading if attempt.driver is not None else None
    if line is None:
        return before
    counts = clamp(line.offsets), clamp(line.read)
    if before is not None:
        is_recent = before.updated_at is not None and now - before.updated_at < WRITE_EVERY
        if is_recent or (before.offsets, before.read) == counts:
            return before
    offsets, read = counts
    return ReadingProgress(
        attempt=attempt.name,
        offsets=offsets,
        read=read,
        percent=min(100 * read // offsets, 100) if offsets else 100,
        offsets_per_second=line.offsets_per_second,
        eta_seconds=line.eta_seconds,
        updated_at=now,
    )


def _describe_progress(context: Context, attempt: Attempt) -> str:
    if attempt.ended:
        return f"The {attempt.engine} {attempt.name} has ended; its log is being read."
    state = "is running" if attempt.phase is not Phase.PENDING else "is being started"
    trouble = f" {attempt.trouble.message}" if attempt.trouble is not None else ""
    why = f" {_FELL_BACK}" if is_job_fallback(context.resource.spec.engine, attempt.engine) else ""
    return f"The {attempt.engine} {attempt.name} {state}.{why}{trouble}"


def _newest(attempts: Sequence[Attempt], count: int) -> list[str]:
    return [attempt.name for attempt in attempts[max(len(attempts) - count, 0) :]]
