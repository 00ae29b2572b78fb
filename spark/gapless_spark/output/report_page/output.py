"""Owns when the page is written and what the report gains by it; must not know how a page looks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gapless_api.base.files import write_whole
from gapless_spark.output.report_page.model import biggest_gaps, gap_map
from gapless_spark.output.report_page.next_steps import after_findings, after_verify
from gapless_spark.output.report_page.page import render_findings, render_verified

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gapless_spark.model.outcome import Conclusion


def told_by_page(report: dict[str, Any], conclusion: Conclusion, values: Mapping[str, Any]) -> dict[str, Any]:
    """The `report` of a job with what the page shows, if `values` name a page."""
    if values["html"] is None:
        return report
    return {
        **report,
        "biggest_gaps": biggest_gaps(conclusion.results, conclusion.inferred),
        "gap_map": gap_map(conclusion.results, conclusion.inferred),
    }


def write_page(report: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Write the page, if `values` name one, from a `report` as `told_by_page` made it. Raises LocalStorageError."""
    if values["html"] is not None:
        write_whole(values["html"], render_findings(report, after_findings(report, values)).encode(), what="page")


def write_page_of_verify(report: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Write the page of the `report` of a ``verify``, if `values` ask for it. Raises LocalStorageError."""
    if values["html"] is not None:
        write_whole(values["html"], render_verified(report, after_verify(report, values)).encode(), what="page")
