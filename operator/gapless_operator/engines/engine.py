"""The interface of engines: what every engine does, and how it describes an attempt.

Must not know any engine. An attempt is one object (a Job, a SparkApplication) that does some work once. A retry is a
new object with a new name, because reusing such an object causes many problems.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, Protocol

from gapless_api.v1alpha1.resource import GROUP, Resource
from gapless_operator.common.observed import Meta, ObservedPod, moment

if TYPE_CHECKING:
    from gapless_api.v1alpha1.spark_options import SparkOptions
    from gapless_operator.common.plan import Manifest, Ref
    from gapless_operator.common.pod_trouble import Trouble
    from gapless_operator.common.settings import Program
    from gapless_operator.engines.pod import Content

EngineName = Literal["Job", "SparkApplication"]

GENERATION_ANNOTATION = f"{GROUP}/generation"
"""Generation of the resource for which an attempt was started."""
SCHEDULED_ANNOTATION = f"{GROUP}/scheduled-at"
"""Scheduled time of an attempt."""
WORK_ANNOTATION = f"{GROUP}/work"
"""Digest of the work of an attempt, to detect changes of the spec."""


class Phase(StrEnum):
    """Phase of an attempt."""

    PENDING = "Pending"
    """The driver has not started."""
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The work of an attempt, independent of the engine."""

    owner: Resource
    options: SparkOptions
    name: str
    role: str
    """Purpose of the attempt; a label of its objects."""
    arguments: tuple[str, ...]
    """Arguments of the command ``gapless``."""
    driver: Content
    executor: Content
    annotations: Mapping[str, str]
    """See `attempt_annotations`."""
    deadline_seconds: int | None
    """Maximum duration since creation; ``None`` for no limit."""


def attempt_annotations(generation: int, work: str, scheduled: datetime | None = None) -> dict[str, str]:
    """Return the annotations of an attempt."""
    annotations = {GENERATION_ANNOTATION: str(generation), WORK_ANNOTATION: work}
    if scheduled is not None:
        annotations[SCHEDULED_ANNOTATION] = f"{scheduled:%Y-%m-%dT%H:%M:%SZ}"
    return annotations


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """The observed state of an attempt."""

    meta: Meta
    engine: EngineName
    phase: Phase
    started: datetime | None = None
    """When the driver started."""
    finished: datetime | None = None
    error_message: str = ""
    """Error message of the engine; empty if there is none."""
    trouble: Trouble | None = None
    """Why the driver does not start."""
    driver: ObservedPod | None = None
    """The pod whose log contains the result; ``None`` if it does not exist."""

    @property
    def name(self) -> str:
        """Name of the object."""
        return self.meta.name

    @property
    def ended(self) -> bool:
        """Whether the attempt has ended."""
        return self.phase in {Phase.SUCCEEDED, Phase.FAILED}

    def running_drivers(self) -> tuple[ObservedPod, ...]:
        """Return the pod whose log shows the progress, unless there is none or it has ended."""
        return () if self.driver is None or self.driver.ended else (self.driver,)

    @property
    def generation(self) -> int:
        """Generation of the resource for which the attempt was started."""
        text = self.meta.annotations.get(GENERATION_ANNOTATION, "")
        return int(text) if text.isdecimal() else 0

    @property
    def scheduled(self) -> datetime | None:
        """Scheduled time of the attempt; ``None`` if it has none."""
        return moment(self.meta.annotations.get(SCHEDULED_ANNOTATION))

    @property
    def work(self) -> str:
        """Digest of the work."""
        return self.meta.annotations.get(WORK_ANNOTATION, "")


class SparkEngine(Protocol):
    """An engine that runs Spark."""

    name: EngineName

    def manifest(self, run: Run, program: Program) -> Manifest:
        """Return the object that executes `run`."""

    def ref(self, attempt: Attempt) -> Ref:
        """Return the object of an attempt, for deletion."""


def pods_of(pods: Iterable[ObservedPod], labels: Mapping[str, str]) -> list[ObservedPod]:
    """Return the pods with all of `labels`, newest last."""
    matching = [pod for pod in pods if labels.items() <= pod.meta.labels.items()]
    return sorted(matching, key=lambda pod: (pod.meta.created, pod.meta.name))
