"""Where the report and the plan of a resend are written: the report to a file, both in short form to a log.

Must not know how either is built. Programs read only a small part of a pod's log, so lists are truncated and give the
number of omitted entries; totals stay complete.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

from gapless_api.base.errors import LocalStorageError
from gapless_api.base.files import atomic_writer
from gapless_api.wire.resend_plan import SHORT_PLAN, ResendPlan, ShortPlan
from gapless_api.wire.resend_report import SHORT_REPORT, ResendReport, ShortReport, report_text
from gapless_sender.replay.report import unavailable_ranges

MAX_RANGES = 200
MAX_PARTITIONS = 100

Entry = TypeVar("Entry")


def short_report(report: ResendReport) -> ShortReport:
    """Shorten a report for the log: the unavailable ranges of all partitions become one list."""
    head, figures = report.head, [partition.figures for partition in report.partitions]
    ranges = tuple(islice(unavailable_ranges(report.partitions), MAX_RANGES))
    all_ranges = sum(1 for _ in unavailable_ranges(report.partitions))
    skipped = _first(head.skipped, lambda entry: -entry.events)
    partitions = _first(figures, lambda entry: -entry.ledger.unavailable)
    return ShortReport(
        head=replace(head, skipped=skipped),
        skipped_omitted=len(head.skipped) - len(skipped),
        partitions=partitions,
        partitions_omitted=len(figures) - len(partitions),
        unavailable_ranges=ranges,
        unavailable_ranges_omitted=all_ranges - len(ranges),
    )


def short_plan(plan: ResendPlan) -> ShortPlan:
    """Shorten a plan for the log."""
    skipped = _first(plan.skipped, lambda entry: -entry.events)
    partitions = _first(plan.partitions, lambda entry: -(entry.expired + entry.not_yet_written))
    return ShortPlan(
        plan=replace(plan, skipped=skipped, partitions=partitions),
        skipped_omitted=len(plan.skipped) - len(skipped),
        partitions_omitted=len(plan.partitions) - len(partitions),
    )


def write_report(path: Path, report: ResendReport) -> None:
    """Write `report`; if that fails it goes to standard error, so that it is not lost.

    Raises:
        LocalStorageError: the file cannot be written.
    """
    try:
        with atomic_writer(path, what="report") as stream:
            stream.writelines(part.encode() for part in report_text(report))
    except LocalStorageError:
        sys.stderr.writelines(report_text(report))
        sys.stderr.flush()
        raise


def write_report_line(report: ResendReport) -> None:
    """Write the `report` to standard error, like progress lines, so that the two are never interleaved."""
    _write(SHORT_REPORT.to_line(short_report(report)))


def write_plan_line(plan: ResendPlan) -> None:
    """Write the `plan` to standard error, like a report."""
    _write(SHORT_PLAN.to_line(short_plan(plan)))


def _write(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _first(entries: Iterable[Entry], order: Callable[[Entry], int]) -> tuple[Entry, ...]:
    return tuple(sorted(entries, key=order)[:MAX_PARTITIONS])
