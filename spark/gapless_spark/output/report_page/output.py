"""Owns when the page is written and what the report gains by it; must not know how a page looks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gapless_api.base.files import write_atomically
from gapless_spark.output.report_page.model import biggest_gaps, gap_map
from gapless_spark.output.report_page.next_steps import after_findings, after_verify
from gapless_spark.output.report_page.page import render_findings, render_verified

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gapless_spark.model.outcome import Conclusion


def told_by_page(report: dict[str, Any], conclusion: Conclusion, page: Path | None) -> dict[str, Any]:
    """The `report` of a job with what the page shows, if there is to be one."""
    if page is None:
        return report
    return {
        **report,
        "biggest_gaps": biggest_gaps(conclusion.results, conclusion.inferred),
        "gap_map": gap_map(conclusion.results, conclusion.inferred),
    }


def write_page(report: Mapping[str, Any], page: Path | None, servers: str | None) -> None:
    """Write `page`, if there is to be one, from a `report` as `told_by_page` made it. Raises LocalStorageError."""
    if page is not None:
        write_atomically(page, render_findings(report, after_findings(report, servers)).encode(), what="page")


def write_page_of_verify(report: Mapping[str, Any], page: Path | None, servers: str | None) -> None:
    """Write `page`, if there is to be one, from the `report` of a ``verify``. Raises LocalStorageError."""
    if page is not None:
        write_atomically(page, render_verified(report, after_verify(report, servers)).encode(), what="page")
