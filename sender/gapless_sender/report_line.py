"""Owns the report of a resend, or its plan, as one line of a log; must not know how either is made.

A pod's log is read by programs that keep little of it, so lists are cut and say by how much; totals stay complete.
"""

from __future__ import annotations

import json
import sys
from itertools import islice
from typing import Any

from gapless_sender.report import unavailable_ranges

MOST_RANGES = 200
MOST_PARTITIONS = 100


def short_report(report: dict[str, Any]) -> dict[str, Any]:
    """Cut a report down to what a log carries.

    Partitions come without their ranges, those with the most unavailable events first; the ranges that could not be
    sent are listed in all.
    """
    partitions = report["partitions"]
    ranges = list(islice(unavailable_ranges(partitions), MOST_RANGES))
    all_ranges = sum(1 for _ in unavailable_ranges(partitions))
    return {
        **report,
        "unavailableRanges": ranges,
        "unavailableRangesOmitted": all_ranges - len(ranges),
        **_cut(report, "partitions", lambda entry: -entry["unavailable"]),
        **_cut(report, "skipped", lambda entry: -entry["events"]),
    }


def short_plan(plan: dict[str, Any]) -> dict[str, Any]:
    """Cut a plan down to what a log carries, the partitions with the most unavailable events first."""
    return {
        **plan,
        **_cut(plan, "partitions", lambda entry: -(entry["expired"] + entry["notYetWritten"])),
        **_cut(plan, "skipped", lambda entry: -entry["events"]),
    }


def write_report_line(report: dict[str, Any]) -> None:
    """Write `report` to standard error, where progress lines go, so that the two cannot get into each other."""
    sys.stderr.write(json.dumps({"event": "report", **report}, separators=(",", ":")) + "\n")
    sys.stderr.flush()


def _cut(report: dict[str, Any], name: str, order: Any) -> dict[str, Any]:
    entries = sorted(report[name], key=order)
    kept = [{key: value for key, value in entry.items() if key != "ranges"} for entry in entries[:MOST_PARTITIONS]]
    return {name: kept, f"{name}Omitted": len(entries) - len(kept)}
