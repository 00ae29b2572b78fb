"""Owns what of a result goes into a log: the report cut down to what a log carries, and the bundle while it is small.

Must not know how lines are cut: see `gapless_api.wire.result_lines`.
"""

from __future__ import annotations

import json
import sys
import zlib
from typing import TYPE_CHECKING, Any

from gapless_api.wire.form import members_of
from gapless_api.wire.result_lines import result_lines
from gapless_api.wire.scan_result import SCAN_REPORT, SCAN_RESULT, ScanFindings, ScanReport

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MOST_ENTRIES = 100
_READ_BYTES = 1024 * 1024


def short_report(report: Mapping[str, Any], *, omits_bundle: bool) -> ScanReport:
    """Cut the lists of a report, the partitions with the most missing events first; totals stay complete.

    Args:
        report: as the file of ``--report`` holds it.
        omits_bundle: whether the bundle is too large for the log.
    """
    short = dict(report)
    findings: dict[str, Any] | None = None
    if "partitions" in report:
        infers, partitions = report.get("infer") is True, report["partitions"]
        worst = sorted(
            partitions,
            key=lambda found: (-found["missing"], -found.get("unknown", 0), found["topic"], found["partition"]),
        )
        compared = short.pop("reconciliation", None)
        findings = {
            "unknown": None,
            **short,
            "missing_ranges": sum(partition["ranges"] for partition in partitions),
            "inferred_events": report["inferred_events"] if infers else None,
            "cleanup_policy": report.get("cleanup_policy"),
            "partitions": [
                {"unknown": None, **found, "inferred_events": found["inferred_events"] if infers else None}
                for found in worst[:MOST_ENTRIES]
            ],
            "partitions_omitted": max(len(partitions) - MOST_ENTRIES, 0),
            "bundle": {**report["bundle"], "omitted": omits_bundle},
            "reconciliation": compared if compared is not None and compared["with"] is not None else None,
            "comparison_problem": compared["problem"] if compared is not None and compared["with"] is None else None,
        }
        short["partitions_in_all"] = len(partitions)
        short["partitions_incomplete"] = sum(bool(partition["missing"]) for partition in partitions)
    for name in ("topics", "read"):
        if len(report.get(name, ())) > MOST_ENTRIES:
            short[name] = report[name][:MOST_ENTRIES]
            short[f"{name}_omitted"] = len(report[name]) - MOST_ENTRIES
    known = {*members_of(ScanReport, snake_case=True), *members_of(ScanFindings, snake_case=True), SCAN_REPORT[0]}
    details = {name: value for name, value in short.items() if name not in known}
    whole = {"read_by": None, **short, "findings": findings, "details": details}
    return SCAN_RESULT.from_members(json.loads(json.dumps(whole)))  # which makes plain words and lists of everything


def packed_within(file: Path, most_bytes: int) -> bytes | None:
    """Compress `file` with gzip, the same bytes for the same content; ``None`` when it has more than `most_bytes`."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = bytearray()
    with file.open("rb") as stream:
        while piece := stream.read(_READ_BYTES):
            packed += packer.compress(piece)
            if len(packed) > most_bytes:
                return None
    packed += packer.flush()
    return bytes(packed) if len(packed) <= most_bytes else None


def write_result(report: dict[str, Any], bundle: Path | None = None, *, most_bundle_bytes: int = 0) -> None:
    """Write `report`, cut down, and `bundle` to standard output; a bundle that is too large is only spoken of."""
    packed = None
    if "bundle" in report and bundle is not None and bundle.is_file():
        packed = packed_within(bundle, most_bundle_bytes)
    short = short_report(report, omits_bundle=packed is None)
    sys.stdout.write("".join(f"{line}\n" for line in result_lines(short, packed)))
    sys.stdout.flush()
