"""Owns the input of a reconciliation of a Mirror: the resource, its attempts, and the two clusters. No decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapless_api.base.errors import ConfigurationError
from gapless_api.v1alpha1.reasons import Reason
from gapless_operator.common.references import MirrorAccess, NotFound, mirror_access
from gapless_operator.engines.choice import attempts_of
from gapless_operator.engines.engine import Phase
from gapless_operator.engines.scheduling import latest_attempt
from gapless_operator.engines.tracks import Track
from gapless_operator.mirroring.workers import WORKERS_ROLE, worker_attempts

if TYPE_CHECKING:
    from datetime import datetime

    from gapless_api.v1alpha1.mirror import Mirror
    from gapless_operator.common.observed import ObservedPod
    from gapless_operator.common.settings import Program
    from gapless_operator.engines.observed import WorkObserved

SPARK_ROLE = "mirror"


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The input of a reconciliation. Create it with `context_of`."""

    mirror: Mirror
    """With its last status."""
    observed: WorkObserved
    now: datetime
    spark: Program
    """Image and service account of engine Spark, unless the spec sets them."""
    workers: Program
    """Image and service account of engine Workers."""
    access: MirrorAccess | NotFound
    """Both clusters, or why one of them cannot be used."""
    track: Track
    """The current and past attempts: Jobs and SparkApplications. Two may overlap briefly, without harm."""

    @property
    def role(self) -> str:
        """The role of the attempt that should run."""
        return SPARK_ROLE if self.mirror.spec.on_spark else WORKERS_ROLE

    @property
    def program(self) -> Program:
        """The image and service account of the attempt that should run."""
        return self.spark if self.mirror.spec.on_spark else self.workers

    @property
    def start_seconds(self) -> int:
        """How long an attempt may take to start."""
        spec = self.mirror.spec
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
    access: MirrorAccess | NotFound
    try:
        access = mirror_access(mirror, observed.referenced)
    except ConfigurationError as error:
        access = NotFound(Reason.BAD_CONFIGURATION, str(error))
    every = [
        *attempts_of(observed.jobs, observed.applications, observed.pods, now, role=SPARK_ROLE),
        *worker_attempts(observed.jobs, observed.pods, now),
    ]
    attempts = tuple(sorted(every, key=lambda attempt: (attempt.meta.created, attempt.name)))
    return Context(
        mirror=mirror,
        observed=observed,
        now=now,
        spark=spark,
        workers=workers,
        access=access,
        track=Track(attempts=attempts, last=latest_attempt(mirror.status.last_attempt, attempts)),
    )
