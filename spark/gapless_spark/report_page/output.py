"""Owns when page and history are written and what the report gains by them; must not know how a page looks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gapless_api.files import write_whole
from gapless_spark.report_page.history import extended, read_history, write_history
from gapless_spark.report_page.model import biggest_gaps, gap_map
from gapless_spark.report_page.next_steps import next_steps
from gapless_spark.report_page.page import render

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gapless_spark.outcome import Conclusion


def check_history(values: Mapping[str, Any]) -> None:
    """Find out before the work whether the history can go on. Raises ConfigurationError."""
    if values["history"] is not None:
        read_history(values["history"])


def with_page(report: dict[str, Any], conclusion: Conclusion, values: Mapping[str, Any]) -> dict[str, Any]:
    """Write page and history as far as `values` ask for them, and return the report with what they show.

    Raises:
        ConfigurationError: the history was spoiled while the job ran.
        LocalStorageError: one of them cannot be written.
    """
    page, history = values["html"], values["history"]
    if page is None and history is None:
        return report
    entries = extended(read_history(history), report) if history is not None else []
    full = {**report, "biggest_gaps": biggest_gaps(conclusion.results, conclusion.inferred), "history": entries}
    if page is not None:
        full["gap_map"] = gap_map(conclusion.results, conclusion.inferred)
        write_whole(page, render(full, next_steps(full, values)).encode(), what="page")
    if history is not None:
        write_history(history, entries)
    return full
