"""The part of a result that is written to a log: the short form of the report, and the bundle if it is small.

Must not know how the result is divided into lines: see `gapless_api.wire.result_lines`.
"""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gapless_api.wire.form import members_of
from gapless_api.wire.result_lines import result_lines
from gapless_api.wire.scan_result import SCAN_REPORT, SCAN_RESULT, ScanFindings, ScanReport

MAX_ENTRIES = 100
_READ_BYTES = 1024 * 1024


def short_report(report: Mapping[str, Any], *, omits_bundle: bool) -> ScanReport:
    """Shorten the lists of a report to the partitions with the most missing events; totals stay complete.

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
            key=lambda each: (-each["missing"], -each.get("unknown", 0), each["topic"], each["partition"]),
        )
        comparison = short.pop("reconciliation", None)
        is_compared = comparison is not None and comparison["with"] is not None
        findings = {
            "unknown": None,
            "stale_events": None,
            **short,
            "missing_ranges": sum(partition["ranges"] for partition in partitions),
            "inferred_events": report["inferred_events"] if infers else None,
            "cleanup_policy": report.get("cleanup_policy"),
            "partitions": [
                {"unknown": None, **each, "inferred_events": each["inferred_events"] if infers else None}
                for each in worst[:MAX_ENTRIES]
            ],
            "partitions_omitted": max(len(partitions) - MAX_ENTRIES, 0),
            "bundle": {**report["bundle"], "omitted": omits_bundle},
            "reconciliation": comparison if is_compared else None,
            "comparison_problem": None if comparison is None or is_compared else comparison["problem"],
        }
        short["partitions_in_all"] = len(partitions)
        short["partitions_incomplete"] = sum(bool(partition["missing"]) for partition in partitions)
    for name in ("topics", "read"):
        if len(report.get(name, ())) > MAX_ENTRIES:
            short[name] = report[name][:MAX_ENTRIES]
            short[f"{name}_omitted"] = len(report[name]) - MAX_ENTRIES
    known = {*members_of(ScanReport, snake_case=True), *members_of(ScanFindings, snake_case=True), SCAN_REPORT[0]}
    details = {name: value for name, value in short.items() if name not in known}
    members = {"read_by": None, **short, "findings": findings, "details": details}
    return SCAN_RESULT.from_members(json.loads(json.dumps(members)))  # converts enums to strings and tuples to lists


def gzip_within(file: Path, max_bytes: int) -> bytes | None:
    """Compress `file` with gzip, deterministically; ``None`` if the result is larger than `max_bytes`."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = bytearray()
    with file.open("rb") as stream:
        while piece := stream.read(_READ_BYTES):
            packed += packer.compress(piece)
            if len(packed) > max_bytes:
                return None
    packed += packer.flush()
    return bytes(packed) if len(packed) <= max_bytes else None


def write_result(report: dict[str, Any], bundle: Path | None = None, *, max_bundle_bytes: int = 0) -> None:
    """Write the short form of `report` and the `bundle` to standard output; omit a bundle that is too large."""
    packed = None
    if "bundle" in report and bundle is not None and bundle.is_file():
        packed = gzip_within(bundle, max_bundle_bytes)
    short = short_report(report, omits_bundle=packed is None)
    sys.stdout.write("".join(f"{line}\n" for line in result_lines(short, packed)))
    sys.stdout.flush()
