"""Owns when page and history are written and what the report gains by them; must not know how a page looks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gapless_api.base.files import write_whole
from gapless_spark.output.report_page.history import extended, read_history, write_history
from gapless_spark.output.report_page.model import biggest_gaps, gap_map
from gapless_spark.output.report_page.next_steps import after_findings, after_verify
from gapless_spark.output.report_page.page import render_findings, render_verified

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gapless_spark.model.outcome import Conclusion


def check_history(values: Mapping[str, Any]) -> None:
    """Find out before the work whether the history can go on. Raises ConfigurationError."""
    if values["history"] is not None:
        read_history(values["history"])


def told_by_page(report: dict[str, Any], conclusion: Conclusion, values: Mapping[str, Any]) -> dict[str, Any]:
    """The `report` of a job with what page and history show, as far as `values` ask for them.

    Raises:
        ConfigurationError: the history was spoiled while the job ran.
    """
    if values["html"] is None and values["history"] is None:
        return report
    entries = extended(read_history(values["history"]), report) if values["history"] is not None else []
    full = {**report, "biggest_gaps": biggest_gaps(conclusion.results, conclusion.inferred), "history": entries}
    if values["html"] is not None:
        full["gap_map"] = gap_map(conclusion.results, conclusion.inferred)
    return full


def write_page_and_history(report: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Write what `values` ask for from a `report` as `told_by_page` made it. Raises LocalStorageError."""
    if values["html"] is not None:
        write_whole(values["html"], render_findings(report, after_findings(report, values)).encode(), what="page")
    if values["history"] is not None:
        write_history(values["history"], report["history"])


def write_page_of_verify(report: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Write the page of the `report` of a ``verify``, if `values` ask for it. Raises LocalStorageError."""
    if values["html"] is not None:
        write_whole(values["html"], render_verified(report, after_verify(report, values)).encode(), what="page")
