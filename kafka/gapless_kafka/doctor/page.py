"""Owns how a report is shown to people: one page, the worst first."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gapless_api.wire.doctor_report import DoctorFinding, DoctorReport, SeenCluster

_WIDTH = 110


def page(report: DoctorReport) -> str:
    """The page, with a line feed at its end."""
    return "\n".join([*_clusters(report), *_findings(report), sentence(report), ""])


def sentence(report: DoctorReport) -> str:
    """The result in one sentence."""
    counts = [(report.errors, "error"), (report.warnings, "warning"), (report.notes, "note")]
    listed = ", ".join(f"{number:,} {noun}{'' if number == 1 else 's'}" for number, noun in counts if number)
    return f"{listed}." if listed else "Nothing is wrong."


def _clusters(report: DoctorReport) -> Iterator[str]:
    for name, cluster in (("Source", report.source), ("Target", report.target)):
        if cluster is not None:
            yield f"{name}: {_cluster(cluster)}"
    if report.source is not None or report.target is not None:
        yield ""


def _cluster(cluster: SeenCluster) -> str:
    brokers, topics = len(cluster.brokers), len(cluster.topics) + cluster.topics_omitted
    return (
        f"{cluster.bootstrap_servers}, cluster {cluster.id or 'without an ID'}, {brokers:,} "
        f"broker{'' if brokers == 1 else 's'}, {topics:,} topic{'' if topics == 1 else 's'} checked"
    )


def _findings(report: DoctorReport) -> Iterator[str]:
    for one in report.findings:
        yield from _finding(one)
        yield ""


def _finding(one: DoctorFinding) -> Iterator[str]:
    place = f": {one.where}" if one.where else ""
    yield f"{one.severity.upper()}  {one.id} ({one.side}{place})"
    yield from _wrapped(one.message)
    yield from _wrapped(f"To do: {one.action}")
    if one.danger:
        yield from _wrapped(f"DANGER: {one.danger}")


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent="  ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
