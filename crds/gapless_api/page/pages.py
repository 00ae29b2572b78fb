"""What a page is made of, and when it is written; must not know how a page looks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gapless_api.base.files import write_atomically
from gapless_api.base.quantities import quantity
from gapless_api.bundle.form import Bundle, BundleKind, PartitionGaps
from gapless_api.codec.canonical import moment_text
from gapless_api.page.model import LostBetween, biggest_gaps, gap_map, missing_row, never_known
from gapless_api.page.next_steps import steps_after_findings, steps_after_verify, steps_with_bundle
from gapless_api.page.render import render_findings, render_verified

_WHEN = "What was missing when it was written; gapless verify tells what has arrived since."


def page_members(
    results: Sequence[PartitionGaps], inferred: Sequence[PartitionGaps], lost_between: LostBetween = never_known
) -> dict[str, Any]:
    """Return the members of a report that only the page needs, of all missing and of the inferred offsets."""
    return {"biggest_gaps": biggest_gaps(results, inferred, lost_between), "gap_map": gap_map(results, inferred)}


def write_page(report: Mapping[str, Any], page: Path, servers: str | None) -> None:
    """Write `page` from the `report` of a scan or an audit with the `page_members`. Raises LocalStorageError."""
    _write(page, render_findings(report, steps_after_findings(report, servers)))


def write_verify_page(report: Mapping[str, Any], page: Path, servers: str | None) -> None:
    """Write `page` from the `report` of a ``verify``. Raises LocalStorageError."""
    _write(page, render_verified(report, steps_after_verify(report, servers)))


def write_bundle_page(bundle: Bundle, called: str, page: Path) -> None:
    """Write `page` from a bundle alone, `called` so by the person who has it. Raises LocalStorageError."""
    _write(page, render_findings(_report_of(bundle), steps_with_bundle(called, is_empty=not bundle.missing)))


def _write(page: Path, html: str) -> None:
    write_atomically(page, html.encode(), what="page")


def _report_of(bundle: Bundle) -> dict[str, Any]:
    """Return what a bundle tells of the report of the command that has found its contents."""
    metadata = bundle.metadata
    inferred = metadata.inferred if metadata is not None else ()
    inferred_ranges = {(entry.topic, entry.partition): entry.ranges.count for entry in inferred}
    scope = "" if bundle.kind is BundleKind.ALL else " All from the first missing offset on is sent."
    return {
        "command": "bundle",
        "topics": sorted({entry.topic for entry in bundle.results}),
        "created": moment_text(metadata.created) if metadata is not None else None,
        "message": f"The bundle lists {quantity(bundle.missing, 'missing event')}. {_WHEN}{scope}",
        "exit_code": 0,
        "missing": bundle.missing,
        "inferred_events": sum(inferred_ranges.values()),
        "partitions": [
            {
                **missing_row(entry.topic, entry.partition, entry.ranges),
                "inferred_events": inferred_ranges.get((entry.topic, entry.partition), 0),
                "looked_up_to": entry.window_max,
            }
            for entry in bundle.results
        ],
        "bundle": {"id": metadata.id if metadata is not None else None, "sha256": bundle.sha256},
        **page_members(bundle.results, inferred),
    }
