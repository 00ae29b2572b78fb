"""The input of a reconciliation of a Mirror: the resource, its attempts, and the two clusters. No decisions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from gapless_api.v1alpha1.mirror import Mirror
from gapless_operator.common.references import MirrorAccess, mirror_access
from gapless_operator.engines.choice import attempts_of
from gapless_operator.engines.engine import Phase
from gapless_operator.engines.scheduling import latest_attempt
from gapless_operator.lifecycle.context import Context as CommonContext
from gapless_operator.lifecycle.context import resolve
from gapless_operator.lifecycle.tracks import Track
from gapless_operator.mirroring.workers import WORKERS_ROLE, worker_attempts

if TYPE_CHECKING:
    from gapless_operator.common.observed import ObservedPod
    from gapless_operator.common.settings import Program
    from gapless_operator.engines.observed import WorkObserved

SPARK_ROLE = "mirror"


@dataclass(frozen=True, slots=True, kw_only=True)
class Context(CommonContext[Mirror, MirrorAccess]):
    """The input of a reconciliation, with both clusters. Create it with `context_of`."""

    spark_program: Program
    """The settings of the pods of Spark, also for the container that evaluates SQL beside a worker."""
    track: Track
    """The current and past attempts: Jobs and SparkApplications. Two may overlap briefly, without harm."""

    @property
    def role(self) -> str:
        """The role of the attempt that should run."""
        return SPARK_ROLE if self.resource.spec.on_spark else WORKERS_ROLE

    @property
    def start_seconds(self) -> int:
        """How long an attempt may take to start."""
        spec = self.resource.spec
        return spec.spark.start_deadline_seconds if spec.on_spark else spec.workers.start_deadline_seconds

    def running_pods(self) -> tuple[ObservedPod, ...]:
        """Return the pods of the current attempt that have neither ended nor are being deleted."""
        attempt = self.track.current
        if attempt is None or attempt.phase is not Phase.RUNNING:
            return ()
        if attempt.meta.role == SPARK_ROLE:
            return (attempt.driver,) if attempt.driver is not None and not attempt.driver.ended else ()
        return tuple(
            pod for pod in self.observed.pods if pod.job == attempt.name and not pod.ended and not pod.meta.deleting
        )


def context_of(mirror: Mirror, observed: WorkObserved, now: datetime, *, spark: Program, workers: Program) -> Context:
    """Return the context of a Mirror."""
    every = [
        *attempts_of(observed.jobs, observed.applications, observed.pods, now, role=SPARK_ROLE),
        *worker_attempts(observed.jobs, observed.pods, now),
    ]
    attempts = tuple(sorted(every, key=lambda attempt: (attempt.meta.created, attempt.name)))
    return Context(
        resource=mirror,
        observed=observed,
        now=now,
        program=spark if mirror.spec.on_spark else workers,
        spark_program=spark,
        access=resolve(lambda: mirror_access(mirror, observed.referenced)),
        track=Track(attempts=attempts, last=latest_attempt(mirror.status.last_attempt, attempts)),
    )
