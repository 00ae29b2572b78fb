"""Owns the seam behind which Spark runs: what every engine can do and what it says about an attempt.

Must not know any engine. An attempt is one object (a Job, a SparkApplication) that does some work once; a second try is
another object with another name, because half of what goes wrong with such objects comes from using one twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, Protocol

from gapless_api.v1alpha1.resource import GROUP
from gapless_operator.common.observed import moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from gapless_api.v1alpha1.resource import Resource
    from gapless_api.v1alpha1.spark_options import SparkOptions
    from gapless_operator.common.observed import Meta, ObservedPod
    from gapless_operator.common.plan import Manifest, Ref
    from gapless_operator.common.pod_trouble import Trouble
    from gapless_operator.common.settings import Program
    from gapless_operator.engines.pod import Content

EngineName = Literal["Job", "SparkApplication"]

GENERATION_ANNOTATION = f"{GROUP}/generation"
"""Of the resource that an attempt works for."""
SCHEDULED_ANNOTATION = f"{GROUP}/scheduled-at"
"""The time of the schedule that an attempt is for."""
WORK_ANNOTATION = f"{GROUP}/work"
"""Digest of what an attempt does; another one means that the spec has changed since."""


class Phase(StrEnum):
    """How far an attempt is."""

    PENDING = "Pending"
    """Its driver does not run yet."""
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What an attempt is to do, the same for every engine."""

    owner: Resource
    options: SparkOptions
    name: str
    role: str
    """What it is for, by which its attempts are found again."""
    arguments: tuple[str, ...]
    """Of ``gapless``."""
    driver: Content
    executor: Content
    annotations: Mapping[str, str]
    """What the attempt says about itself; see `attempt_annotations`."""
    deadline_seconds: int | None
    """How long it may take from its creation on; ``None`` for ever."""


def attempt_annotations(generation: int, work: str, scheduled: datetime | None = None) -> dict[str, str]:
    """What every attempt says about itself."""
    annotations = {GENERATION_ANNOTATION: str(generation), WORK_ANNOTATION: work}
    if scheduled is not None:
        annotations[SCHEDULED_ANNOTATION] = f"{scheduled:%Y-%m-%dT%H:%M:%SZ}"
    return annotations


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What an engine says about one attempt."""

    meta: Meta
    engine: EngineName
    phase: Phase
    started: datetime | None = None
    """When its driver began to run."""
    finished: datetime | None = None
    complaint: str = ""
    """What the engine says about a failure; empty for nothing."""
    trouble: Trouble | None = None
    """Why its driver does not start."""
    driver: ObservedPod | None = None
    """The pod whose log tells the result, as long as it is there."""

    @property
    def name(self) -> str:
        """Of the object."""
        return self.meta.name

    @property
    def ended(self) -> bool:
        """Whether nothing runs any more."""
        return self.phase in {Phase.SUCCEEDED, Phase.FAILED}

    @property
    def generation(self) -> int:
        """Of the resource that it works for."""
        text = self.meta.annotations.get(GENERATION_ANNOTATION, "")
        return int(text) if text.isdecimal() else 0

    @property
    def scheduled(self) -> datetime | None:
        """The time of the schedule that it is for."""
        return moment(self.meta.annotations.get(SCHEDULED_ANNOTATION))

    @property
    def work(self) -> str:
        """Digest of what it does."""
        return self.meta.annotations.get(WORK_ANNOTATION, "")


class SparkEngine(Protocol):
    """Something that runs Spark for us."""

    name: EngineName

    def manifest(self, run: Run, program: Program) -> Manifest:
        """The object that carries `run` out."""

    def ref(self, attempt: Attempt) -> Ref:
        """What to delete to end an attempt."""


def pods_of(pods: Iterable[ObservedPod], labels: Mapping[str, str]) -> list[ObservedPod]:
    """The pods that bear all of `labels`, newest last."""
    found = [pod for pod in pods if labels.items() <= pod.meta.labels.items()]
    return sorted(found, key=lambda pod: (pod.meta.created, pod.meta.name))
