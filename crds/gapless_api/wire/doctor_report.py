"""The report of ``gapless doctor`` about one or two Kafka clusters, as a file and as a line in the log of a pod.

Must not know the checks. The operator reads the line; the next run of the doctor reads topic IDs from the file.
"""

from dataclasses import dataclass, replace
from typing import Literal

from gapless_api.wire.form import Form, PartitionNumber

Severity = Literal["error", "warning", "note"]
Side = Literal["source", "target", "local"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""Most severe first."""
MAX_FINDINGS_IN_A_LINE = 40
_MAX_CHARACTERS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorFinding:
    """A problem, a possible problem, or a check that could not be done."""

    id: str
    """The ID of the check; docs/reference/doctor-findings.md lists all."""
    severity: Severity
    """`error`: something does not work, or data is lost. `warning`: this may happen. `note`: information, or a check
    that could not be done."""
    side: Side
    """The cluster that is read, the cluster that is written, or this machine."""
    where: str
    """Topics with partitions, brokers, groups, files; empty for the cluster itself."""
    message: str
    """What is wrong, in one sentence."""
    action: str
    """What to do about it."""
    danger: str
    """What the obvious repair would destroy; empty for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenTopic:
    """An existing topic."""

    name: str
    id: str
    """Empty if the brokers have none, or do not show it to this user."""
    partitions: PartitionNumber


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCluster:
    """A cluster that answered."""

    bootstrap_servers: str
    id: str
    """Empty for none."""
    brokers: tuple[int, ...]
    """The IDs of the registered, running brokers."""
    topics: tuple[SeenTopic, ...]
    """The topics that were checked."""
    topics_omitted: int
    """The number of other topics that were checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorReport:
    """The result of a run."""

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
    """The cluster that is read; null if it did not answer."""
    target: SeenCluster | None
    """The cluster that is written; null if none was given, or it did not answer."""
    findings: tuple[DoctorFinding, ...]
    """Most severe first."""
    findings_omitted: int
    """The number of other findings."""


DOCTOR_REPORT = Form("doctor report", "gaplessDoctorReport", 1, DoctorReport, event="doctor")


def shorten_report(report: DoctorReport) -> DoctorReport:
    """Shorten a report for a log line: without topics, with the most severe findings, and long texts cut."""
    kept = report.findings[:MAX_FINDINGS_IN_A_LINE]
    return replace(
        report,
        source=_without_topics(report.source),
        target=_without_topics(report.target),
        findings=tuple(replace(each, where=_cut(each.where), message=_cut(each.message)) for each in kept),
        findings_omitted=report.findings_omitted + len(report.findings) - len(kept),
    )


def _without_topics(cluster: SeenCluster | None) -> SeenCluster | None:
    if cluster is None:
        return None
    return replace(cluster, topics=(), topics_omitted=cluster.topics_omitted + len(cluster.topics))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_CHARACTERS else f"{text[: _MAX_CHARACTERS - 1]}…"
