"""Owns what the reconcilers of work in attempts are shown: GapScan, Archive, Restore, Mirror.

Must not know what they decide.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gapless_operator.common.references import Named

if TYPE_CHECKING:
    from gapless_operator.common.observed import ObservedChild, ObservedJob, ObservedPod
    from gapless_operator.engines.sparkapplication import ObservedSparkApplication


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkObserved:
    """What belongs to a resource whose work is done in attempts."""

    spark_operator: bool = False
    """Whether SparkApplications may be used in its namespace."""
    jobs: tuple[ObservedJob, ...] = ()
    applications: tuple[ObservedSparkApplication, ...] = ()
    pods: tuple[ObservedPod, ...] = ()
    """Of both, drivers with their logs."""
    config_maps: tuple[ObservedChild, ...] = ()
    named: Named = field(default_factory=Named)
    """What it names, as far as it is there."""
