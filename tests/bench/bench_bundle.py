"""Measures writing and reading a bundle with ten million ranges, each in a process of its own.

`python tests/bench/bench_bundle.py` exits with 1 if a step needs more than 1 GiB.
"""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import tempfile
import time
from array import array
from datetime import UTC, datetime
from pathlib import Path

from gapless_api.bundle.form import BundleKind, PartitionGaps
from gapless_api.bundle.reader import read_bundle
from gapless_api.bundle.writer import write_bundle
from gapless_api.offsets.ranges import OffsetRanges

RANGES = 10_000_000
LIMIT_MIB = 1024


def write(path: Path) -> None:
    firsts = array("q", range(10**15, 10**15 + 3 * RANGES, 3))
    lasts = array("q", (first + (first & 1) for first in firsts))
    entry = PartitionGaps("transfer", 0, 0, 2 * 10**15, OffsetRanges.of_canonical(firsts, lasts))
    write_bundle(path, BundleKind.ALL, [entry], created=datetime.now(UTC), source={})


def shuffle(path: Path) -> None:
    """Shuffle the ranges, because the reader must also accept unsorted ones."""
    before, _, rest = path.read_text().partition("[[")
    listed, _, after = rest.partition("]]")
    ranges = listed.split("],[")
    random.Random(1).shuffle(ranges)
    path.write_text(f"{before}[[{'],['.join(ranges)}]]{after}")


def main() -> int:
    if len(sys.argv) == 3:
        begun = time.monotonic()
        {"write": write, "read": read_bundle, "shuffle": shuffle}[sys.argv[1]](Path(sys.argv[2]))
        peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(f"{sys.argv[1]:8} {time.monotonic() - begun:6.1f} s {peak_mib:6} MiB")
        return int(peak_mib > LIMIT_MIB and sys.argv[1] != "shuffle")
    with tempfile.TemporaryDirectory() as folder:
        steps = ("write", "read", "shuffle", "read")
        path = Path(folder) / "bundle.json"
        return max(subprocess.run([sys.executable, __file__, step, path], check=False).returncode for step in steps)


if __name__ == "__main__":
    sys.exit(main())
