"""The text form of a report: one page, the worst finding first."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gapless_api.base.quantities import quantity

if TYPE_CHECKING:
    from gapless_api.wire.doctor_report import DoctorFinding, DoctorReport, SeenCluster

_WIDTH = 110


def page(report: DoctorReport) -> str:
    """Return the page, with a newline at its end."""
    return "\n".join([*_clusters(report), *_findings(report), _summary(report), ""])


def _summary(report: DoctorReport) -> str:
    counts = [(report.errors, "error"), (report.warnings, "warning"), (report.notes, "note")]
    listed = ", ".join(quantity(number, noun) for number, noun in counts if number)
    return f"{listed}." if listed else "No problems found."


def _clusters(report: DoctorReport) -> Iterator[str]:
    for name, cluster in (("Source", report.source), ("Target", report.target)):
        if cluster is not None:
            yield f"{name}: {_cluster(cluster)}"
    if report.source is not None or report.target is not None:
        yield ""


def _cluster(cluster: SeenCluster) -> str:
    topics = len(cluster.topics) + cluster.topics_omitted
    return (
        f"{cluster.bootstrap_servers}, cluster {cluster.id or 'without an ID'}, "
        f"{quantity(len(cluster.brokers), 'broker')}, {quantity(topics, 'topic')} checked"
    )


def _findings(report: DoctorReport) -> Iterator[str]:
    for finding in report.findings:
        yield from _finding(finding)
        yield ""


def _finding(finding: DoctorFinding) -> Iterator[str]:
    where = f": {finding.where}" if finding.where else ""
    yield f"{finding.severity.upper()}  {finding.id} ({finding.side}{where})"
    yield from _wrap(finding.message)
    yield from _wrap(f"To do: {finding.action}")
    if finding.danger:
        yield from _wrap(f"DANGER: {finding.danger}")


def _wrap(text: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent="  ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
