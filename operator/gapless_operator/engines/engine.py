"""Owns the seam behind which Spark runs: what every engine can do and what it says about an attempt.

Must not know any engine. An attempt is one object (a Job, a SparkApplication) that runs one scan once; a second try is
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

    from gapless_api.v1alpha1.gapscan import GapScan
    from gapless_operator.common.observed import Meta, ObservedPod
    from gapless_operator.common.plan import Manifest, Ref
    from gapless_operator.common.pod_trouble import Trouble
    from gapless_operator.common.references import ScanPlaces
    from gapless_operator.common.settings import Program

EngineName = Literal["Job", "SparkApplication"]

SCAN_ROLE = "scan"
GENERATION_ANNOTATION = f"{GROUP}/generation"
"""Of the GapScan that an attempt looks for."""
SCHEDULED_ANNOTATION = f"{GROUP}/scheduled-at"
"""The time of the schedule that an attempt is for."""
WORK_ANNOTATION = f"{GROUP}/work"
"""Digest of what an attempt does; another one means that the spec has changed since."""
QUESTION_ANNOTATION = f"{GROUP}/question"
"""Digest of where an attempt looks; only what two attempts with the same one have found can be compared."""

OUTPUT_ANNOTATION = f"{GROUP}/output"
"""Where an attempt puts the bundle, as JSON: neither the spec nor what it names may say it any more when it ends."""


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

    name: str
    scheduled: datetime | None
    work: str
    command: str
    """``scan`` or ``audit``."""
    settings_map: str
    """Name of the ConfigMap with the command's settings."""
    places: ScanPlaces
    """Kafka and storage, as the spec names them."""
    older_entry: tuple[str, str] | None = None
    """ConfigMap and entry with the bundle to compare with; ``None`` for none, or for one that is elsewhere."""
    question: str = ""
    output: str = ""
    """Where the bundle goes, as `OUTPUT_ANNOTATION` has it."""

    def annotations(self, scan: GapScan) -> dict[str, str]:
        """What an attempt says about itself."""
        annotations = {
            GENERATION_ANNOTATION: str(scan.metadata.generation),
            WORK_ANNOTATION: self.work,
            QUESTION_ANNOTATION: self.question,
            OUTPUT_ANNOTATION: self.output,
        }
        if self.scheduled is not None:
            annotations[SCHEDULED_ANNOTATION] = f"{self.scheduled:%Y-%m-%dT%H:%M:%SZ}"
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
        """Of the GapScan that it looks for."""
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

    @property
    def question(self) -> str:
        """Digest of where it looks; empty when an older operator made it."""
        return self.meta.annotations.get(QUESTION_ANNOTATION, "")

    @property
    def output(self) -> str:
        """Where it puts the bundle, as JSON; empty when an older operator made it."""
        return self.meta.annotations.get(OUTPUT_ANNOTATION, "")


class SparkEngine(Protocol):
    """Something that runs Spark for us."""

    name: EngineName

    def manifest(self, scan: GapScan, run: Run, program: Program) -> Manifest:
        """The object that carries `run` out."""

    def ref(self, attempt: Attempt) -> Ref:
        """What to delete to end an attempt."""


def pods_of(pods: Iterable[ObservedPod], labels: Mapping[str, str]) -> list[ObservedPod]:
    """The pods that bear all of `labels`, newest last."""
    found = [pod for pod in pods if labels.items() <= pod.meta.labels.items()]
    return sorted(found, key=lambda pod: (pod.meta.created, pod.meta.name))
