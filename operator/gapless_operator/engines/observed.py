"""The observed state of kinds whose work runs in attempts; must not know what their reconcilers decide."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gapless_operator.common.children import running_children
from gapless_operator.common.references import ReferencedObjects
from gapless_operator.engines.sparkapplication import APPLICATION_LABEL, ObservedSparkApplication, running_applications

if TYPE_CHECKING:
    from gapless_operator.common.observed import ObservedChild, ObservedJob, ObservedPod
    from gapless_operator.common.plan import Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkObserved:
    """The observed children and references of a resource whose work runs in attempts."""

    spark_operator: bool = False
    """Whether SparkApplications may be used in its namespace."""
    jobs: tuple[ObservedJob, ...] = ()
    applications: tuple[ObservedSparkApplication, ...] = ()
    pods: tuple[ObservedPod, ...] = ()
    """Pods of both; drivers with their logs."""
    config_maps: tuple[ObservedChild, ...] = ()
    referenced: ReferencedObjects = field(default_factory=ReferencedObjects)
    """The objects that the spec refers to, as far as they exist."""

    def running(self) -> tuple[Ref, ...]:
        """Return the SparkApplications, Jobs and pods that have not ended and are not being deleted."""
        return (*running_applications(self.applications), *running_children(self.jobs, self.pods))

    def orphans(self) -> tuple[Ref, ...]:
        """Return the pods that run although their Job or SparkApplication does not exist any more."""
        owners = {job.meta.name for job in self.jobs} | {application.meta.name for application in self.applications}
        return running_children((), (pod for pod in self.pods if _owner_name(pod) not in owners))


def _owner_name(pod: ObservedPod) -> str:
    return pod.job or pod.meta.labels.get(APPLICATION_LABEL, "")
