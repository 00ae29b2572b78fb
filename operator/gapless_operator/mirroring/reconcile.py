"""The reconciliation of a Mirror; see `gapless_operator.lifecycle` for the order of its steps.

An attempt only ends by itself when it fails. Two that run at the same time are harmless: the last one that opened a
lane has fenced the other, and the positions are written with the records.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from gapless_api.base.backoff import backoff
from gapless_api.v1alpha1.attempt_status import LastAttempt
from gapless_api.v1alpha1.conditions import ConditionType
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common import continuous_conditions
from gapless_operator.common.children import digest_of
from gapless_operator.common.freshness import FRESH_FOR, is_fresh, is_stale, observed_at
from gapless_operator.common.plan import Event, EventType, Manifest, Plan
from gapless_operator.common.references import MirrorAccess, NotFound
from gapless_operator.common.refusal import Refusal, refusal_of
from gapless_operator.common.result import Announced, Result
from gapless_operator.common.unknown_lag import unknown_lag
from gapless_operator.engines.choice import is_job_fallback
from gapless_operator.engines.endings import Ending
from gapless_operator.engines.engine import Attempt, Run, SparkEngine, attempt_annotations
from gapless_operator.engines.scheduling import attempt_name, number_of, unscheduled_suffix
from gapless_operator.engines.validate import (
    RECHECK_AFTER,
    check_engine,
    check_number,
    check_pod,
    validated_engine,
)
from gapless_operator.lifecycle.reconcile import Kind, reconcile
from gapless_operator.lifecycle.tracks import end_by_exit_code
from gapless_operator.lifecycle.work import (
    Deadlines,
    Work,
    has_changed,
    is_suspended,
    reference_is_gone,
    would_be_refused,
)
from gapless_operator.mirroring import conditions as condition_sets
from gapless_operator.mirroring.context import SPARK_ROLE, Context, context_of
from gapless_operator.mirroring.figures import WRITE_EVERY, figures, progress_of
from gapless_operator.mirroring.properties import (
    check_groups,
    check_name,
    command_arguments,
    content_of,
    executor_content,
    limits_map,
    limits_name,
    mirror_name,
    settings_map,
    target_topics,
    work_digest,
)
from gapless_operator.mirroring.workers import disruption_budget, since_newest_pod, workers_manifest

if TYPE_CHECKING:
    from gapless_api.v1alpha1.mirror import Mirror
    from gapless_operator.common.settings import Program
    from gapless_operator.engines.observed import WorkObserved


_MIN_RETRY, _MAX_RETRY = timedelta(seconds=5), timedelta(minutes=5)
_ENDED = Ending(Reason.STOPPED, "The pod has ended, although a mirror runs continuously.")


def _timed(context: Context, attempt: Attempt) -> Attempt | None:
    """Return the attempt since its newest pod; workers that have started are replaced by their Job."""
    if attempt.meta.role != SPARK_ROLE and attempt.started is not None:
        return None
    return since_newest_pod(attempt, context.observed.pods)


def _end(_context: Context, attempt: Attempt) -> Ending:
    return end_by_exit_code(attempt, succeeded=_ENDED, incomplete=Reason.RECORDS_LOST, failed=Reason.MIRROR_FAILED)


def _watch(context: Context, attempt: Attempt) -> Result:
    """Report the progress of the running attempt, and write changed limits."""
    pods = [pod for pod in context.running_pods() if is_fresh(pod, context.now, fresh_for=FRESH_FOR)]
    progress = progress_of(pods)
    update: dict[str, Any] = {**figures(context.resource.status, progress, context.now), **_names(context)}
    if is_stale(context.running_pods(), attempt.meta.created, context.now, fresh_for=FRESH_FOR):
        update |= unknown_lag(context.resource.status)
    update["last_attempt"] = context.track.last
    copied = progress.last_commit
    if copied is not None and attempt.started is not None and copied >= attempt.started:
        update["failures"] = 0
    return Result(
        conditions=condition_sets.running(context, attempt, progress),
        update=update,
        apply=_changed_limits(context),
        observed_at=observed_at(pods),
    )


def _rest_or_start(context: Context) -> Result:
    """Start an attempt if it is due; otherwise report why not."""
    if context.resource.spec.suspend:
        update = {"workers": 0, "lanes_owned": 0, "problems": (), **unknown_lag(context.resource.status)}
        return Result(conditions=condition_sets.suspended(context), update=update)
    engine = _validated_engine(context)
    if isinstance(engine, Refusal):
        update = unknown_lag(context.resource.status)
        return Result(conditions=continuous_conditions.blocked(*engine), update=update, again_after=RECHECK_AFTER)
    last, generation, number = context.track.last, context.resource.metadata.generation, 1
    if last is not None and last.generation == generation:
        at = _retry_at(context, last, context.resource.status.failures)
        if at is not None and at > context.now:
            conditions = condition_sets.after_attempt(last, at)
            old = last.finished is not None and context.now - last.finished >= FRESH_FOR
            update = unknown_lag(context.resource.status) if old else {}
            until = at if old or last.finished is None else min(at, last.finished + FRESH_FOR)
            return Result(conditions=conditions, update=update, again_after=until - context.now)
        number = number_of(last.name) + 1
    name = attempt_name(context.resource, unscheduled_suffix(generation, number), prefix=SPARK_ROLE)
    return _start(context, name, context.resolved, engine)


def _validated_engine(context: Context) -> SparkEngine | Refusal | None:
    """Return the engine for Spark, ``None`` for engine Workers, or why no attempt may start."""
    spec, access = context.resource.spec, context.access
    refusal = _refusal_now(context)
    if refusal is not None:
        return refusal
    if not spec.on_spark:
        return None
    is_available = context.observed.spark_operator
    return validated_engine(spec.spark, access, context.program, spark_operator=is_available, field="spark")


def _refusal_now(context: Context) -> Refusal | None:
    """Return why nothing may be copied, if it was allowed before; ``None`` if it may."""
    spec, access = context.resource.spec, context.access
    if isinstance(access, NotFound):
        return Refusal(*access)
    return refusal_of(
        lambda: check_name(context.resource, access.target),
        lambda: check_groups(spec, access.target),
        lambda: context.program.pod_templates.check(spec.pod_template, context.resource.metadata.namespace),
        lambda: access.source.topics.check(spec.topics, what="spec"),
        lambda: access.target.topics.check(target_topics(spec), what="spec"),
        lambda: _check_pods(context),
    )


def _check_pods(context: Context) -> None:
    """Check the images and sizes of what copies, and of what evaluates SQL. Raises ConfigurationError."""
    spec, limits = context.resource.spec, context.program.pod_limits
    if spec.on_spark or spec.transform is not None:
        check_engine(spec.spark, context.spark_program, field="spark")
    if not spec.on_spark:
        check_number("workers.count", "pods", spec.workers.count, limits.pods)
        check_pod("workers", spec.workers, limits)


def _start(context: Context, name: str, access: MirrorAccess, engine: SparkEngine | None) -> Result:
    mirror = context.resource
    generation = mirror.metadata.generation
    annotations = attempt_annotations(generation, work_digest(mirror, access, context.program, context.spark_program))
    content, arguments = content_of(mirror, access, name), command_arguments(mirror.spec, access)
    message = f"The {engine.name if engine is not None else 'Job'} {name} is being started."
    manifests: tuple[Manifest, ...]
    program = context.program.with_template(mirror.spec.pod_template)
    if engine is None:
        workers = workers_manifest(
            mirror,
            program,
            content,
            spark=context.spark_program,
            name=name,
            arguments=arguments,
            annotations=annotations,
        )
        manifests = (disruption_budget(mirror), workers)
    else:
        run = Run(
            owner=mirror,
            options=mirror.spec.spark,
            name=name,
            role=SPARK_ROLE,
            arguments=arguments,
            driver=content,
            executor=executor_content(access),
            annotations=annotations,
            deadline_seconds=None,
        )
        manifests = (engine.manifest(run, program),)
        if is_job_fallback(mirror.spec.spark, engine.name):
            message = f"{message} spark.type is Auto and there is no Spark operator, so it has no executors."
    kind = engine.name if engine is not None else "Job"
    return Result(
        conditions=condition_sets.starting(context, message),
        update={
            "last_attempt": LastAttempt(name=name, engine=kind, generation=generation, started=context.now),
            **_names(context),
        },
        apply=(settings_map(mirror, access, name), limits_map(mirror), *manifests),
        events=(Event(EventType.NORMAL, Reason.MIRRORING, message),),
        again_after=timedelta(seconds=context.start_seconds),
    )


def _names(context: Context) -> dict[str, Any]:
    engine = "Spark" if context.resource.spec.on_spark else "Workers"
    return {"mirror_name": mirror_name(context.resource), "engine": engine}


def _changed_limits(context: Context) -> tuple[Manifest, ...]:
    """Return the ConfigMap of the limits if it differs from the spec."""
    name, manifest = limits_name(context.resource), limits_map(context.resource)
    existing = next((child for child in context.observed.config_maps if child.meta.name == name), None)
    return () if existing is not None and existing.meta.digest == digest_of(manifest) else (manifest,)


def _is_current(context: Context, attempt: Attempt) -> bool:
    wanted = work_digest(context.resource, context.resolved, context.program, context.spark_program)
    return attempt.meta.role == context.role and attempt.work == wanted


def _record(context: Context, ending: Ending, last: LastAttempt, attempt: Attempt | None) -> Result:
    """Record how an attempt ended, and when the next one starts."""
    status = context.resource.status
    progress = progress_of([attempt.driver] if attempt is not None and attempt.driver is not None else ())
    is_failure = ending.reason not in {Reason.STOPPED, Reason.SUSPENDED}
    copied = progress.last_commit or status.last_commit_time
    has_copied = copied is not None and last.started is not None and copied >= last.started
    failures = 0 if not is_failure else 1 if has_copied else status.failures + 1
    conditions = condition_sets.after_attempt(last, _retry_at(context, last, failures))
    if ending.reason is Reason.SUSPENDED:
        conditions = condition_sets.suspended(context)
    update = {"last_attempt": last, "failures": failures, "workers": 0, "lanes_owned": 0}
    return Result(conditions=conditions, update=update)


def _retry_at(context: Context, last: LastAttempt, failures: int) -> datetime | None:
    """Return when the next attempt starts; ``None`` for now."""
    if last.finished is None or not failures or last.generation != context.resource.metadata.generation:
        return None
    return last.finished + backoff(failures - 1, first=_MIN_RETRY, longest=_MAX_RETRY)


WORK: Work[Context] = Work(
    track=lambda context: context.track,
    must_stop=(reference_is_gone, is_suspended, would_be_refused(_refusal_now), has_changed(_is_current)),
    deadlines=lambda context: Deadlines(context.start_seconds),
    timed=_timed,
    end=_end,
    record=_record,
    watch=_watch,
    look_every=WRITE_EVERY,
    rest_or_start=_rest_or_start,
)


_NORMAL = frozenset(
    {Reason.MIRRORING, Reason.SOURCE_IDLE, Reason.NEVER_MIRRORED, Reason.SUSPENDED, Reason.STOPPED, Reason.RETRYING}
)
_MIRROR: Kind[Context] = Kind(works=(WORK,), announced=Announced(ConditionType.READY, frozenset(Reason) - _NORMAL))


def reconcile_mirror(
    mirror: Mirror, observed: WorkObserved, now: datetime, *, spark: Program, workers: Program
) -> Plan:
    """Return the plan for a Mirror.

    Args:
        mirror: with its last status.
        observed: its child objects, and the objects that it names.
        now: the time.
        spark: image and service account of engine Spark, unless the spec sets them.
        workers: image and service account of engine Workers.
    """
    return reconcile(_MIRROR, mirror, observed, lambda: context_of(mirror, observed, now, spark=spark, workers=workers))
