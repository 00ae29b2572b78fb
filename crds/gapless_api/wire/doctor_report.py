"""Owns what ``gapless doctor`` has found about one or two Kafka clusters, as a file and as a line of a pod's log.

Must not know how anything is checked. The operator reads the line; the next run of the doctor reads the file, for the
topic IDs that it remembers.
"""

from dataclasses import dataclass, replace
from typing import Literal

from gapless_api.wire.form import Form, PartitionNumber

Severity = Literal["error", "warning", "note"]
Side = Literal["source", "target", "local"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""The worst first."""
MAX_FINDINGS_IN_A_LINE = 40
_MAX_CHARACTERS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorFinding:
    """One thing that is wrong, may become wrong, or could not be checked."""

    id: str
    """Which check found it; docs/reference/doctor-findings.md lists all."""
    severity: Severity
    """`error`: something does not work, or data is lost. `warning`: it may come to that. `note`: good to know, or not
    checked."""
    side: Side
    """Where it was found: the cluster that is read, the one that is written, or this machine."""
    where: str
    """Topics with partitions, brokers, groups, files; empty for the cluster itself."""
    message: str
    """What is wrong, in one sentence."""
    action: str
    """What to do about it."""
    danger: str
    """What the obvious repair destroys; empty for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenTopic:
    """A topic that exists."""

    name: str
    id: str
    """Empty where brokers have none, or do not tell this user."""
    partitions: PartitionNumber


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCluster:
    """A cluster that answered."""

    bootstrap_servers: str
    id: str
    """Empty for none."""
    brokers: tuple[int, ...]
    """The IDs of the brokers that are registered and running."""
    topics: tuple[SeenTopic, ...]
    """The topics that were checked."""
    topics_omitted: int
    """How many topics more were checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorReport:
    """What one run has found."""

    time: str
    """When the run ended, like 2026-11-20T10:00:00Z."""
    product: str
    """The version of Gapless."""
    exit_code: int
    """0: no error. 3: a cluster cannot be reached. 4: errors were found."""
    errors: int
    warnings: int
    notes: int
    source: SeenCluster | None
    """The cluster that is read; null when it did not answer."""
    target: SeenCluster | None
    """The cluster that is written; null when none was given, or it did not answer."""
    findings: tuple[DoctorFinding, ...]
    """The worst first."""
    findings_omitted: int
    """How many findings more there are."""


DOCTOR_REPORT = Form("doctor report", "gaplessDoctorReport", 1, DoctorReport, event="doctor")


def shorten_report(report: DoctorReport) -> DoctorReport:
    """The report for a line of a log: without topics, with the worst findings, and long texts cut."""
    kept = report.findings[:MAX_FINDINGS_IN_A_LINE]
    return replace(
        report,
        source=_without_topics(report.source),
        target=_without_topics(report.target),
        findings=tuple(replace(one, where=_cut(one.where), message=_cut(one.message)) for one in kept),
        findings_omitted=report.findings_omitted + len(report.findings) - len(kept),
    )


def _without_topics(cluster: SeenCluster | None) -> SeenCluster | None:
    if cluster is None:
        return None
    return replace(cluster, topics=(), topics_omitted=cluster.topics_omitted + len(cluster.topics))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_CHARACTERS else f"{text[: _MAX_CHARACTERS - 1]}…"
