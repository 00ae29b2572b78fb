"""Owns when the page is written and the members that it adds to the report; must not know how a page looks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gapless_api.base.files import write_atomically
from gapless_spark.output.report_page.model import biggest_gaps, gap_map
from gapless_spark.output.report_page.next_steps import steps_after_findings, steps_after_verify
from gapless_spark.output.report_page.page import render_findings, render_verified

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gapless_spark.model.outcome import Conclusion


def add_page_members(report: dict[str, Any], conclusion: Conclusion, page: Path | None) -> dict[str, Any]:
    """Return the `report` of a job with the members that the page needs; unchanged without a page."""
    if page is None:
        return report
    return {
        **report,
        "biggest_gaps": biggest_gaps(conclusion.results, conclusion.inferred),
        "gap_map": gap_map(conclusion.results, conclusion.inferred),
    }


def write_page(report: Mapping[str, Any], page: Path | None, servers: str | None) -> None:
    """Write `page`, if any, from a `report` with the members of `add_page_members`. Raises LocalStorageError."""
    if page is not None:
        write_atomically(page, render_findings(report, steps_after_findings(report, servers)).encode(), what="page")


def write_verify_page(report: Mapping[str, Any], page: Path | None, servers: str | None) -> None:
    """Write `page`, if any, from the `report` of a ``verify``. Raises LocalStorageError."""
    if page is not None:
        write_atomically(page, render_verified(report, steps_after_verify(report, servers)).encode(), what="page")
