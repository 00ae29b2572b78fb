"""Owns what of a result goes into a log: the report cut down to what a log carries, and the bundle while it is small.

Must not know how lines are cut: see `gapless_api.wire.result_lines`.
"""

from __future__ import annotations

import sys
import zlib
from typing import TYPE_CHECKING, Any

from gapless_api.wire.result_lines import result_lines

if TYPE_CHECKING:
    from pathlib import Path

MOST_ENTRIES = 100
_READ_BYTES = 1024 * 1024


def short_report(report: dict[str, Any]) -> dict[str, Any]:
    """Cut the lists of a report, the partitions with the most missing events first; totals stay complete."""
    short = dict(report)
    if "partitions" in report:
        partitions = report["partitions"]
        short["missing_ranges"] = sum(partition["ranges"] for partition in partitions)
        short["partitions_in_all"] = len(partitions)
        short["partitions_incomplete"] = sum(bool(partition["missing"]) for partition in partitions)
        worst = sorted(partitions, key=lambda found: (-found["missing"], found["topic"], found["partition"]))
        short["partitions"] = worst[:MOST_ENTRIES]
        short["partitions_omitted"] = max(len(partitions) - MOST_ENTRIES, 0)
    for name in ("topics", "read"):
        if len(report.get(name, ())) > MOST_ENTRIES:
            short[name] = report[name][:MOST_ENTRIES]
            short[f"{name}_omitted"] = len(report[name]) - MOST_ENTRIES
    return short


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
    short = short_report(report)
    packed = None
    if "bundle" in report:
        if bundle is not None and bundle.is_file():
            packed = packed_within(bundle, most_bundle_bytes)
        short["bundle"] = {**report["bundle"], "omitted": packed is None}
    sys.stdout.write("".join(f"{line}\n" for line in result_lines(short, packed)))
    sys.stdout.flush()
