"""Owns how a report becomes one HTML file that loads nothing; must not know how anything in it was found."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from gapless_spark.output.report_page.bins import edge
from gapless_spark.output.report_page.shading import HEIGHTS, SHADES, TRACK, bars, strip

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jinja2 import Environment

    from gapless_spark.output.report_page.next_steps import Step

MOST_ROWS = 2_000
MOST_MAPS_AT_ONCE = 12
"""The others are there to be unfolded, so that the tables are not far away."""
_AT_ONCE = {
    "Missing": "missing",
    "Unknown": "unknown",
    "Received": "received",
    "Duplicates": "duplicates",
    "Inferred": "inferred_events",
}
_BECAME = ("listed", "closed", "filled", "unavailable", "open", "unknown", "new")
_COLUMNS = {
    "missing": "missing",
    "unknown": "unknown",
    "ranges": "ranges",
    "first_missing": "first missing",
    "last_missing": "last missing",
    "inferred_events": "inferred",
    "stale_events": "stale",
    "received": "received",
    "duplicates": "duplicates",
    "first_expected": "expected from",
    "last_expected": "expected to",
    "looked_up_to": "looked up to",
}


def render_findings(report: Mapping[str, Any], steps: Sequence[Step]) -> str:
    """The page of a scan or an audit: its `report` with the members of `report_page.model`."""
    partitions = sorted(report["partitions"], key=lambda found: (-found["missing"], -found.get("unknown", 0)))
    return _render(
        "findings.html",
        report,
        steps,
        title=f"Gapless {report['command']}: {report['missing']:,} missing",
        subject=", ".join(report["topics"]),
        good=not (report["missing"] or report["exit_code"]),
        totals=_totals(report),
        maps=[_drawn(found) for found in report["gap_map"]],
        maps_at_once=MOST_MAPS_AT_ONCE,
        unmapped=sum(bool(found["missing"]) for found in partitions) - len(report["gap_map"]),
        shades=[(name, HEIGHTS[index]) for index, (_, name) in enumerate(SHADES)],
        track=TRACK,
        source=[_for_script(found) for found in report["gap_map"]],
        columns={name: head for name, head in _COLUMNS.items() if partitions and name in partitions[0]},
        became=_became(report.get("reconciliation", {})),
        **_rows(partitions),
    )


def render_verified(report: Mapping[str, Any], steps: Sequence[Step]) -> str:
    """The page of a ``verify``: its `report`."""
    became = report["reconciliation"]
    return _render(
        "verified.html",
        report,
        steps,
        title=f"Gapless verify: {became['open']:,} open, {became['unknown']:,} unknown",
        subject=report["older"],
        good=not report["exit_code"],
        totals=_became(became),
        counts=_BECAME,
        source=[],
        **_rows(became["partitions"]),
    )


def _render(template: str, report: Mapping[str, Any], steps: Sequence[Step], **more: Any) -> str:
    style, script = _part("page.css"), _part("page.js")
    hashes = {"style_hash": _hash(style), "script_hash": _hash(script)}
    verdict, stop, explained = report["message"].partition(". ")
    said = {"verdict": verdict + stop.rstrip(), "explained": explained}
    found = _environment().get_template(template)
    return found.render(report=report, steps=steps, style=style, script=script, **said, **hashes, **more)


def _rows(partitions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"rows": partitions[:MOST_ROWS], "more_rows": max(len(partitions) - MOST_ROWS, 0)}


def _became(reconciliation: Mapping[str, Any]) -> list[tuple[str, int]]:
    """What became of an older bundle, as far as it was compared."""
    return [(name.capitalize(), reconciliation[name]) for name in _BECAME if name in reconciliation]


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 -- only for pages

    made = Environment(
        loader=PackageLoader("gapless_spark.output.report_page", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["number"] = lambda value: "-" if value is None else f"{value:,}"
    return made


@cache
def _part(name: str) -> str:
    return files("gapless_spark.output.report_page").joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _totals(report: Mapping[str, Any]) -> list[tuple[str, int]]:
    partitions = report["partitions"]
    complete = sum(not (found["missing"] or found.get("unknown")) for found in partitions)
    counted = [(name, report[member]) for name, member in _AT_ONCE.items() if member in report]
    return [*counted, ("Partitions", len(partitions)), ("Complete partitions", complete)]


def _drawn(found: Mapping[str, Any]) -> dict[str, Any]:
    amount = len(found["bins"])
    edges = [edge(found["first_offset"], found["last_offset"], amount, index) for index in range(amount + 1)]
    sizes = [after - before for before, after in pairwise(edges)]
    inferred = found["inferred_bins"]
    return {**found, "bars": bars(found["bins"], sizes), "strip": strip(inferred or ()), "width": amount}


def _for_script(found: Mapping[str, Any]) -> dict[str, Any]:
    """What zooming needs, with numbers as text: JavaScript's own end at 2^53."""
    exact = found["ranges"] is not None
    return {
        "first": str(found["first_offset"]),
        "last": str(found["last_offset"]),
        "exact": exact,
        "missing": _texts([end for pair in found["ranges"] for end in pair] if exact else found["fine_bins"]),
        "inferred": _texts(
            [end for pair in found["inferred_ranges"] for end in pair] if exact else found["fine_inferred_bins"] or ()
        ),
    }


def _texts(numbers: Sequence[int]) -> str:
    return " ".join(map(str, numbers))
