"""Owns what is found in the log of one of our pods: progress, report, plan, preflight, result, the final complaint.

Must not know how a log is read, nor what follows from it. Our pods have no access to the API server, so their log is
all they can say; a log may be cut at either end and hold lines of other programs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gapless_api.result_lines import ResultLinesError, ScanResult, find_result

if TYPE_CHECKING:
    from collections.abc import Mapping

_COMPLAINT = "gapless: "
_LONGEST_COMPLAINT = 1000


@dataclass(frozen=True, slots=True)
class PodOutput:
    """The last of each kind of line in one log."""

    progress: Mapping[str, Any] | None = None
    """The last line of progress."""
    report: Mapping[str, Any] | None = None
    """The final report of a resend, or its plan."""
    preflight: Mapping[str, Any] | None = None
    """What ``gapless link preflight`` found."""
    result: ScanResult | None = None
    result_error: str = ""
    """Why there is no `result`."""
    complaint: str = ""
    """The sentence with which a command ended that failed."""


def read_output(log: str) -> PodOutput:
    """Find in a `log` what our programs say; anything else is passed over."""
    found: dict[str, Mapping[str, Any]] = {}
    complaint = ""
    lines = log.splitlines()
    for line in lines:
        if line.startswith(_COMPLAINT):
            complaint = line.removeprefix(_COMPLAINT).strip()[:_LONGEST_COMPLAINT]
        elif line.startswith("{") and (entry := _entry(line)) is not None:
            found[str(entry["event"])] = entry
    result, result_error = None, ""
    try:
        result = find_result(lines)
    except ResultLinesError as error:
        result_error = str(error)
    return PodOutput(
        progress=found.get("progress"),
        report=_inner(found.get("report")),
        preflight=_inner(found.get("preflight")),
        result=result,
        result_error=result_error,
        complaint=complaint,
    )


def _entry(line: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) and isinstance(entry.get("event"), str) else None


def _inner(entry: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Take the report out of a line that wraps it, or the line itself without its mark."""
    if entry is None:
        return None
    wrapped = entry.get("report")
    if isinstance(wrapped, dict):
        return wrapped
    return {key: value for key, value in entry.items() if key != "event"}
