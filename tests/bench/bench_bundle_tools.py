"""Measures the bundle tools and a reconciliation with ten million ranges, each in a process of its own.

`python tests/bench/bench_bundle_tools.py` exits with 1 if a step needs more than 1 GiB.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from array import array
from datetime import UTC, datetime
from pathlib import Path

from gapless_api.bundle.algebra import Limits, diff_bundles, merge_bundles, split_bundle, subtract_bundle
from gapless_api.bundle.form import BundleKind, PartitionGaps
from gapless_api.bundle.reader import read_bundle
from gapless_api.bundle.reconciliation import NewerFinding, reconcile
from gapless_api.bundle.writer import write_bundle
from gapless_api.offsets.ranges import OffsetRanges
from gapless_api.wire.form import members_of
from gapless_api.wire.resend_report_files import read_resend_reports
from gapless_api.wire.totals import Totals

RANGES = 10_000_000
LIMIT_MIB = 1024
STEP = 4
NAMES = ("a", "b")


def make(folder: Path) -> None:
    """Write two bundles that share half of their ranges, and the report of a resend that could not send a tenth."""
    for name, begin in zip(NAMES, (0, STEP * RANGES // 2), strict=True):
        firsts = array("q", range(begin, begin + STEP * RANGES, STEP))
        lasts = array("q", (first + (first >> 2 & 1) for first in firsts))
        entry = PartitionGaps("transfer", 0, 0, 2 * STEP * RANGES, OffsetRanges.of_canonical(firsts, lasts))
        write_bundle(folder / name, BundleKind.ALL, [entry], created=datetime.now(UTC), source={})
    ranges = {"Expired": [[first, first] for first in range(0, STEP * RANGES, STEP * 10)]}
    report = {"gaplessReport": 1, "started": "2026-11-20T10:00:00Z"}
    names = {"topic": "transfer", "partition": 0, "upstreamTopic": "transfer", "upstreamPartition": 0}
    partition = {**names, **dict.fromkeys(members_of(Totals), 0), "ranges": ranges}
    (folder / "report.json").write_text(json.dumps({**report, "partitions": [partition]}))


def compare(folder: Path) -> str:
    found = reconcile(read_bundle(folder / "a"), NewerFinding.of_bundle(read_bundle(folder / "b")))
    return found.sentence()


def compare_with_report(folder: Path) -> str:
    said = read_resend_reports([folder / "report.json"])
    return reconcile(read_bundle(folder / "a"), NewerFinding.of_bundle(read_bundle(folder / "b")), said).sentence()


def diff(folder: Path) -> str:
    first, second = (read_bundle(folder / name) for name in NAMES)
    return ", ".join(
        f"{each.only_first.count} {each.only_second.count} {each.both}"
        for each in diff_bundles(first, second, names=("a", "b"))
    )


def merge(folder: Path) -> str:
    return str(merge_bundles({name: read_bundle(folder / name) for name in NAMES}).missing)


def subtract(folder: Path) -> str:
    return str(subtract_bundle(*(read_bundle(folder / name) for name in NAMES), names=("a", "b")).missing)


def split(folder: Path) -> str:
    return str(sum(1 for _ in split_bundle(read_bundle(folder / "a"), Limits(max_ranges=100_000))))


STEPS = {step.__name__: step for step in (compare, compare_with_report, diff, merge, subtract, split)}


def main() -> int:
    if len(sys.argv) == 3:
        begun = time.monotonic()
        result = STEPS[sys.argv[1]](Path(sys.argv[2]))
        peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(f"{sys.argv[1]:20} {time.monotonic() - begun:6.1f} s {peak_mib:6} MiB  {result}", flush=True)
        return int(peak_mib > LIMIT_MIB)
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder))
        return max(subprocess.run([sys.executable, __file__, step, folder], check=False).returncode for step in STEPS)


if __name__ == "__main__":
    sys.exit(main())
