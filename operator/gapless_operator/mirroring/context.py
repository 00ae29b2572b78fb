"""Owns what is known when a Mirror is reconciled: the resource, what copies for it, and the two clusters.

Must not know what follows from any of it.
"""

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
    """All that is known when a Mirror is reconciled. Make it with `context_of`."""

    mirror: Mirror
    """With its status as it was written last."""
    observed: WorkObserved
    now: datetime
    spark: Program
    """What the pods of engine Spark are made of, unless the spec says otherwise."""
    workers: Program
    """What the pods of engine Workers are made of."""
    access: MirrorAccess | NotFound
    """Both clusters, or what the spec names of them and is not there."""
    track: Track
    """What copies, and what has copied: Jobs and SparkApplications, which never run beside each other for long."""

    @property
    def role(self) -> str:
        """What should run."""
        return SPARK_ROLE if self.mirror.spec.on_spark else WORKERS_ROLE

    @property
    def program(self) -> Program:
        """What it is made of."""
        return self.spark if self.mirror.spec.on_spark else self.workers

    @property
    def start_seconds(self) -> int:
        """How long it may take to start."""
        spec = self.mirror.spec
        return spec.spark.start_deadline_seconds if spec.on_spark else spec.workers.start_deadline_seconds

    def running_pods(self) -> tuple[ObservedPod, ...]:
        """The pods of the current attempt that have not ended, those that are being deleted left out."""
        attempt = self.track.current
        if attempt is None or attempt.phase is not Phase.RUNNING:
            return ()
        if attempt.meta.role == SPARK_ROLE:
            return (attempt.driver,) if attempt.driver is not None and not attempt.driver.ended else ()
        return tuple(
            pod for pod in self.observed.pods if pod.job == attempt.name and not pod.ended and not pod.meta.deleting
        )


def context_of(mirror: Mirror, observed: WorkObserved, now: datetime, *, spark: Program, workers: Program) -> Context:
    """Put together what is known."""
    access: MirrorAccess | NotFound
    try:
        access = mirror_access(mirror, observed.referenced)
    except ConfigurationError as error:
        access = NotFound(Reason.BAD_CONFIGURATION, str(error))
    found = [
        *attempts_of(observed.jobs, observed.applications, observed.pods, now, role=SPARK_ROLE),
        *worker_attempts(observed.jobs, observed.pods, now),
    ]
    attempts = tuple(sorted(found, key=lambda attempt: (attempt.meta.created, attempt.name)))
    return Context(
        mirror=mirror,
        observed=observed,
        now=now,
        spark=spark,
        workers=workers,
        access=access,
        track=Track(attempts=attempts, last=latest_attempt(mirror.status.last_attempt, attempts)),
    )
