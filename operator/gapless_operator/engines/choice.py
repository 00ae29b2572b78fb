"""Owns the list of engines: which one work gets, and what all of them together say about attempts.

Must not know how any of them works, nor what the work is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless_operator.engines.job import JobEngine, job_attempts
from gapless_operator.engines.sparkapplication import SparkApplicationEngine, application_attempts

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from gapless_api.v1alpha1.spark_options import SparkOptions
    from gapless_operator.common.observed import ObservedJob, ObservedPod
    from gapless_operator.common.plan import Ref
    from gapless_operator.engines.engine import Attempt, EngineName, SparkEngine
    from gapless_operator.engines.sparkapplication import ObservedSparkApplication

_ENGINES: dict[str, SparkEngine] = {"Job": JobEngine(), "SparkApplication": SparkApplicationEngine()}


def engine_for(spec: SparkOptions, *, spark_operator: bool) -> SparkEngine | None:
    """The engine of a spec; ``None`` where the cluster does not have it.

    Args:
        spec: of the resource.
        spark_operator: whether the cluster knows SparkApplications.
    """
    kind = spec.type
    if kind == "Auto":
        # Without Spark there is nothing for executors to do.
        kind = "SparkApplication" if spark_operator and spec.reader == "Spark" else "Job"
    if kind == "SparkApplication" and not spark_operator:
        return None
    return _ENGINES[kind]


def fell_back(spec: SparkOptions, engine: EngineName) -> bool:
    """Whether work runs as a Job only because the cluster does not know SparkApplications."""
    return spec.type == "Auto" and spec.reader == "Spark" and engine == "Job"


def ref_of(attempt: Attempt) -> Ref:
    """What to delete to be rid of an attempt, whichever engine made it."""
    return _ENGINES[attempt.engine].ref(attempt)


def attempts_of(
    jobs: Iterable[ObservedJob],
    applications: Iterable[ObservedSparkApplication],
    pods: Iterable[ObservedPod],
    now: datetime,
    *,
    role: str,
) -> tuple[Attempt, ...]:
    """All attempts of a resource at what has a `role`, of every engine, oldest first."""
    everything = tuple(pods)
    found = [
        *job_attempts(jobs, everything, now, role=role),
        *application_attempts(applications, everything, now, role=role),
    ]
    return tuple(sorted(found, key=lambda attempt: (attempt.meta.created, attempt.name)))
