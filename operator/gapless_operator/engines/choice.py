"""The list of engines: which one a spec selects, and the attempts of all of them.

Must not know how an engine works, nor what the work is.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from gapless_operator.engines.job import JobEngine, job_attempts
from gapless_operator.engines.sparkapplication import (
    ObservedSparkApplication,
    SparkApplicationEngine,
    application_attempts,
)

if TYPE_CHECKING:
    from gapless_api.v1alpha1.spark_options import SparkOptions
    from gapless_operator.common.observed import ObservedJob, ObservedPod
    from gapless_operator.common.plan import Ref
    from gapless_operator.engines.engine import Attempt, EngineName, SparkEngine

_ENGINES: dict[str, SparkEngine] = {"Job": JobEngine(), "SparkApplication": SparkApplicationEngine()}


def engine_for(spec: SparkOptions, *, spark_operator: bool) -> SparkEngine | None:
    """Return the engine that a spec selects; ``None`` if it is not available.

    Args:
        spec: the options of the resource.
        spark_operator: whether SparkApplications are available.
    """
    kind = spec.type
    if kind == "Auto":
        # Executors are useless without Spark.
        kind = "SparkApplication" if spark_operator and spec.reader == "Spark" else "Job"
    if kind == "SparkApplication" and not spark_operator:
        return None
    return _ENGINES[kind]


def is_job_fallback(spec: SparkOptions, engine: EngineName) -> bool:
    """Return whether work runs as a Job only because SparkApplications are not available."""
    return spec.type == "Auto" and spec.reader == "Spark" and engine == "Job"


def ref_of(attempt: Attempt) -> Ref:
    """Return the object of an attempt, for deletion."""
    return _ENGINES[attempt.engine].ref(attempt)


def attempts_of(
    jobs: Iterable[ObservedJob],
    applications: Iterable[ObservedSparkApplication],
    pods: Iterable[ObservedPod],
    now: datetime,
    *,
    role: str,
) -> tuple[Attempt, ...]:
    """Return all attempts with a `role`, of every engine, oldest first."""
    pods = tuple(pods)
    attempts = [
        *job_attempts(jobs, pods, now, role=role),
        *application_attempts(applications, pods, now, role=role),
    ]
    return tuple(sorted(attempts, key=lambda attempt: (attempt.meta.created, attempt.name)))
