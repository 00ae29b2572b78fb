"""How a report becomes one HTML file that loads nothing; must not know how its contents were found."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

from gapless_api.page.bins import edge
from gapless_api.page.shading import HEIGHTS, SHADES, TRACK, bars, strip

if TYPE_CHECKING:
    from jinja2 import Environment

    from gapless_api.page.next_steps import Step

MAX_ROWS = 2_000
MAX_OPEN_MAPS = 12
"""Further maps are collapsed, so that the tables stay near the top."""
_TOTALS = {
    "Missing": "missing",
    "Unknown": "unknown",
    "Received": "received",
    "Duplicates": "duplicates",
    "Inferred": "inferred_events",
    "No longer tracked": "stale_events",
}
_RECONCILIATION = ("listed", "closed", "filled", "unavailable", "open", "unknown", "new")
_COLUMNS = {
    "missing": "missing",
    "unknown": "unknown",
    "ranges": "ranges",
    "first_missing": "first missing",
    "last_missing": "last missing",
    "lost_after": "lost after",
    "lost_before": "lost before",
    "inferred_events": "inferred",
    "stale_events": "no longer tracked",
    "received": "received",
    "duplicates": "duplicates",
    "first_expected": "expected from",
    "last_expected": "expected to",
    "looked_up_to": "looked up to",
}


def render_findings(report: Mapping[str, Any], steps: Sequence[Step]) -> str:
    """Render the page of a scan or an audit from its `report` with the members of `page.model`."""
    partitions = sorted(report["partitions"], key=lambda each: (-each["missing"], -each.get("unknown", 0)))
    missing = report.get("missing_now", report["missing"])  # Only a scan tells them apart.
    return _render(
        "findings.html",
        report,
        steps,
        title=f"Gapless {report['command']}: {missing:,} missing",
        subject=", ".join(report["topics"]),
        good=not (missing or report["exit_code"]),
        totals=_totals(report),
        maps=[_drawing(gap_map) for gap_map in report["gap_map"]],
        maps_at_once=MAX_OPEN_MAPS,
        unmapped=sum(bool(each["missing"]) for each in partitions) - len(report["gap_map"]),
        shades=[(name, HEIGHTS[index]) for index, (_, name) in enumerate(SHADES)],
        track=TRACK,
        source=[_script_data(gap_map) for gap_map in report["gap_map"]],
        columns={name: head for name, head in _COLUMNS.items() if partitions and name in partitions[0]},
        became=_reconciliation_counts(report.get("reconciliation", {})),
        lost=report.get("lost"),
        **_rows(partitions),
    )


def render_verified(report: Mapping[str, Any], steps: Sequence[Step]) -> str:
    """Render the page of a ``verify`` from its `report`."""
    result = report["reconciliation"]
    return _render(
        "verified.html",
        report,
        steps,
        title=f"Gapless verify: {result['open']:,} open, {result['unknown']:,} unknown",
        subject=report["older"],
        good=not report["exit_code"],
        totals=_reconciliation_counts(result),
        counts=_RECONCILIATION,
        source=[],
        **_rows(result["partitions"]),
    )


def _render(template: str, report: Mapping[str, Any], steps: Sequence[Step], **more: Any) -> str:
    style, script = _part("page.css"), _part("page.js")
    hashes = {"style_hash": _hash(style), "script_hash": _hash(script)}
    verdict, stop, explained = report["message"].partition(". ")
    message = {"verdict": verdict + stop.rstrip(), "explained": explained, "origin": _origin(report)}
    page = _environment().get_template(template)
    return page.render(report=report, steps=steps, style=style, script=script, **message, **hashes, **more)


def _origin(report: Mapping[str, Any]) -> list[str]:
    """Return how the report was made; a bundle alone does not tell."""
    texts = {"outcome": "{}", "cluster_id": "cluster {}", "read_by": "read by {}", "seconds": "{} s"}
    return [text.format(report[name]) for name, text in texts.items() if report.get(name) not in {None, ""}]


def _rows(partitions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"rows": partitions[:MAX_ROWS], "more_rows": max(len(partitions) - MAX_ROWS, 0)}


def _reconciliation_counts(reconciliation: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return the counts of the comparison with an older bundle; empty if it was not compared."""
    return [(name.capitalize(), reconciliation[name]) for name in _RECONCILIATION if name in reconciliation]


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 -- only for pages

    environment = Environment(
        loader=PackageLoader("gapless_api.page", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = _number_text
    return environment


def _number_text(value: float | str | None) -> str:
    """Return a number with separators of thousands; a text, such as a time, as it is."""
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:,}"


@cache
def _part(name: str) -> str:
    return files("gapless_api.page").joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _totals(report: Mapping[str, Any]) -> list[tuple[str, int]]:
    partitions = report["partitions"]
    complete = sum(not (each["missing"] or each.get("unknown")) for each in partitions)
    totals = [(name, report[member]) for name, member in _TOTALS.items() if member in report]
    return [*totals, ("Partitions", len(partitions)), ("Complete partitions", complete)]


def _drawing(gap_map: Mapping[str, Any]) -> dict[str, Any]:
    amount = len(gap_map["bins"])
    edges = [edge(gap_map["first_offset"], gap_map["last_offset"], amount, index) for index in range(amount + 1)]
    sizes = [after - before for before, after in pairwise(edges)]
    inferred = gap_map["inferred_bins"]
    return {**gap_map, "bars": bars(gap_map["bins"], sizes), "strip": strip(inferred or ()), "width": amount}


def _script_data(gap_map: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data for zooming, with numbers as text, because those of JavaScript are exact only up to 2^53."""
    exact = gap_map["ranges"] is not None
    missing, inferred = gap_map["fine_bins"], gap_map["fine_inferred_bins"] or ()
    if exact:
        missing, inferred = chain(*gap_map["ranges"]), chain(*gap_map["inferred_ranges"])
    return {
        "first": str(gap_map["first_offset"]),
        "last": str(gap_map["last_offset"]),
        "exact": exact,
        "missing": _join_numbers(missing),
        "inferred": _join_numbers(inferred),
    }


def _join_numbers(numbers: Iterable[int]) -> str:
    return " ".join(map(str, numbers))
