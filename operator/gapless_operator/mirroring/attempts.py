"""Owns the attempts of a Mirror: when one must be stopped, what follows its end, and when the next one starts.

An attempt only ends by itself when it fails. Two that run at the same time are harmless: the last one that opened a
lane has fenced the other, and the positions are written with the records.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from gapless_api.base.backoff import backoff
from gapless_api.v1alpha1.attempt_status import LastAttempt
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common import continuous_conditions
from gapless_operator.common.children import digest_of
from gapless_operator.common.freshness import FRESH_FOR, is_fresh, is_stale, observed_at
from gapless_operator.common.plan import Event, EventType
from gapless_operator.common.references import NotFound
from gapless_operator.common.refusal import Refusal, refusal_of
from gapless_operator.common.result import Result
from gapless_operator.common.unknown_lag import unknown_lag
from gapless_operator.engines.choice import is_job_fallback, ref_of
from gapless_operator.engines.endings import Ending
from gapless_operator.engines.engine import Run, attempt_annotations
from gapless_operator.engines.scheduling import attempt_name, number_of, unscheduled_suffix
from gapless_operator.engines.tracks import check_again_after, ended, must_end, own_end
from gapless_operator.engines.validate import (
    RECHECK_AFTER,
    check_engine,
    check_number,
    check_pod,
    validated_engine,
)
from gapless_operator.mirroring import conditions as condition_sets
from gapless_operator.mirroring.context import SPARK_ROLE
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
    from datetime import datetime

    from gapless_operator.common.plan import Manifest
    from gapless_operator.common.references import MirrorAccess
    from gapless_operator.engines.engine import Attempt, SparkEngine
    from gapless_operator.mirroring.context import Context

SOON = timedelta(seconds=0.9)
"""When to reconcile again after an end was recorded."""
_MIN_RETRY, _MAX_RETRY = timedelta(seconds=5), timedelta(minutes=5)
_ENDED = Ending(Reason.STOPPED, "The pod has ended, although a mirror runs continuously.")


def stop(context: Context) -> Result | None:
    """Stop an attempt that must not run; return ``None`` if it may run, or there is none."""
    attempt = context.track.current
    if attempt is None or attempt.ended or attempt.meta.deleting:
        return None
    ending = _reason_to_stop(context, attempt)
    if ending is None and (attempt.meta.role == SPARK_ROLE or attempt.started is None):
        # Workers that have started are replaced by the Job, including those on a lost node.
        starting = since_newest_pod(attempt, context.observed.pods)
        ending = must_end(starting, start_seconds=context.start_seconds, run_seconds=None, now=context.now)
    return None if ending is None else _record(context, ending, attempt)


def conclude(context: Context) -> Result | None:
    """Record how an attempt ended by itself; return ``None`` while it runs, or its log is being read."""
    ending = own_end(
        context.track,
        succeeded=_ENDED,
        incomplete=Reason.RECORDS_LOST,
        failed=Reason.MIRROR_FAILED,
        now=context.now,
    )
    return None if ending is None else _record(context, ending, context.track.current)


def watch(context: Context) -> Result | None:
    """Report the progress of the running attempt, and write changed limits; return ``None`` if there is none."""
    attempt = context.track.current
    if attempt is None:
        return None
    pods = [pod for pod in context.running_pods() if is_fresh(pod, context.now, fresh_for=FRESH_FOR)]
    progress = progress_of(pods)
    update: dict[str, Any] = {**figures(context.mirror.status, progress, context.now), **_names(context)}
    if is_stale(context.running_pods(), attempt.meta.created, context.now, fresh_for=FRESH_FOR):
        update |= unknown_lag(context.mirror.status)
    update["last_attempt"] = context.track.last
    copied = progress.last_commit
    if copied is not None and attempt.started is not None and copied >= attempt.started:
        update["failures"] = 0
    starting = since_newest_pod(attempt, context.observed.pods)
    again_after = check_again_after(starting, start_seconds=context.start_seconds, run_seconds=None, now=context.now)
    return Result(
        conditions=condition_sets.running(context, attempt, progress),
        update=update,
        apply=_changed_limits(context),
        observed_at=observed_at(pods),
        again_after=WRITE_EVERY if again_after is None else max(min(again_after, WRITE_EVERY), timedelta()),
    )


def rest_or_start(context: Context) -> Result:
    """Start an attempt if it is due; otherwise report why not."""
    if context.mirror.spec.suspend:
        update = {"workers": 0, "lanes_owned": 0, "problems": (), **unknown_lag(context.mirror.status)}
        return Result(conditions=condition_sets.suspended(context), update=update)
    engine, access = _validated_engine(context), context.access
    if isinstance(engine, Refusal):
        update = unknown_lag(context.mirror.status)
        return Result(conditions=continuous_conditions.blocked(*engine), update=update, again_after=RECHECK_AFTER)
    if isinstance(access, NotFound):
        raise TypeError(access)
    last, generation, number = context.track.last, context.mirror.metadata.generation, 1
    if last is not None and last.generation == generation:
        at = _retry_at(context, last, context.mirror.status.failures)
        if at is not None and at > context.now:
            conditions = condition_sets.after_attempt(last, at)
            old = last.finished is not None and context.now - last.finished >= FRESH_FOR
            update = unknown_lag(context.mirror.status) if old else {}
            until = at if old or last.finished is None else min(at, last.finished + FRESH_FOR)
            return Result(conditions=conditions, update=update, again_after=until - context.now)
        number = number_of(last.name) + 1
    name = attempt_name(context.mirror, unscheduled_suffix(generation, number), prefix=SPARK_ROLE)
    return _start(context, name, access, engine)


def _validated_engine(context: Context) -> SparkEngine | Refusal | None:
    """Return the engine for Spark, ``None`` for engine Workers, or why no attempt may start."""
    spec, access = context.mirror.spec, context.access
    refusal = _refusal_now(context)
    if refusal is not None:
        return refusal
    if not spec.on_spark:
        return None
    is_available = context.observed.spark_operator
    return validated_engine(spec.spark, access, context.spark, spark_operator=is_available, field="spark")


def _refusal_now(context: Context) -> Refusal | None:
    """Return why nothing may be copied, if it was allowed before; ``None`` if it may."""
    spec, access = context.mirror.spec, context.access
    if isinstance(access, NotFound):
        return Refusal(*access)
    return refusal_of(
        lambda: check_name(context.mirror, access.target),
        lambda: check_groups(spec, access.target),
        lambda: access.source.topics.check(spec.topics, what="spec"),
        lambda: access.target.topics.check(target_topics(spec), what="spec"),
        lambda: check_engine(spec.spark, context.spark, field="spark") if spec.on_spark else _check_workers(context),
    )


def _check_workers(context: Context) -> None:
    """Check the number and the size of the workers. Raises ConfigurationError."""
    workers, limits = context.mirror.spec.workers, context.workers.pod_limits
    check_number("workers.count", "pods", workers.count, limits.pods)
    check_pod("workers", workers, limits)


def _start(context: Context, name: str, access: MirrorAccess, engine: SparkEngine | None) -> Result:
    mirror = context.mirror
    generation = mirror.metadata.generation
    annotations = attempt_annotations(generation, work_digest(mirror, access, context.program))
    content, arguments = content_of(mirror, access, name), command_arguments(mirror.spec, access)
    message = f"The {engine.name if engine is not None else 'Job'} {name} is being started."
    manifests: tuple[Manifest, ...]
    if engine is None:
        workers = workers_manifest(
            mirror, context.workers, content, name=name, arguments=arguments, annotations=annotations
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
        manifests = (engine.manifest(run, context.spark),)
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
    engine = "Spark" if context.mirror.spec.on_spark else "Workers"
    return {"mirror_name": mirror_name(context.mirror), "engine": engine}


def _changed_limits(context: Context) -> tuple[Manifest, ...]:
    """Return the ConfigMap of the limits if it differs from the spec."""
    name, manifest = limits_name(context.mirror), limits_map(context.mirror)
    existing = next((child for child in context.observed.config_maps if child.meta.name == name), None)
    return () if existing is not None and existing.meta.digest == digest_of(manifest) else (manifest,)


def _reason_to_stop(context: Context, attempt: Attempt) -> Ending | None:
    """Return why a running attempt must be stopped; ``None`` if it may run."""
    access = context.access
    if isinstance(access, NotFound):
        return Ending(access.reason, f"{attempt.name} was stopped. {access.message}")
    if context.mirror.spec.suspend:
        return Ending(Reason.SUSPENDED, f"{attempt.name} was stopped because spec.suspend is true.")
    if (refusal := _refusal_now(context)) is not None:
        return Ending(Reason.STOPPED, refusal.stops(attempt.name))
    if attempt.meta.role != context.role or attempt.work != work_digest(context.mirror, access, context.program):
        return Ending(
            Reason.STOPPED,
            f"{attempt.name} was stopped because the spec, an object that it names, or the image has changed.",
        )
    return None


def _record(context: Context, ending: Ending, attempt: Attempt | None) -> Result:
    """Record how an attempt ended, and delete what still runs of it before the next one starts."""
    running = context.track.running
    if running is None:
        raise ValueError("no attempt runs")
    last, status = ended(running, ending, attempt, context.now), context.mirror.status
    progress = progress_of([attempt.driver] if attempt is not None and attempt.driver is not None else ())
    is_failure = ending.reason not in {Reason.STOPPED, Reason.SUSPENDED}
    copied = progress.last_commit or status.last_commit_time
    has_copied = copied is not None and running.started is not None and copied >= running.started
    failures = 0 if not is_failure else 1 if has_copied else status.failures + 1
    update: dict[str, Any] = {
        "last_attempt": last,
        "failures": failures,
        "workers": 0,
        "lanes_owned": 0,
    }
    conditions = condition_sets.after_attempt(last, _retry_at(context, last, failures))
    if ending.reason is Reason.SUSPENDED:
        conditions = condition_sets.suspended(context)
    stop = (ref_of(attempt),) if attempt is not None and not attempt.ended and not attempt.meta.deleting else ()
    return Result(conditions=conditions, update=update, stop=stop, again_after=SOON)


def _retry_at(context: Context, last: LastAttempt, failures: int) -> datetime | None:
    """Return when the next attempt starts; ``None`` for now."""
    if last.finished is None or not failures or last.generation != context.mirror.metadata.generation:
        return None
    return last.finished + backoff(failures - 1, first=_MIN_RETRY, longest=_MAX_RETRY)
