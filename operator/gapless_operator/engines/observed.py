"""Owns the observed state of kinds whose work runs in attempts; must not know what their reconcilers decide."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gapless_operator.common.references import ReferencedObjects

if TYPE_CHECKING:
    from gapless_operator.common.observed import ObservedChild, ObservedJob, ObservedPod
    from gapless_operator.engines.sparkapplication import ObservedSparkApplication


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
