"""Measures scans of two million uncompacted gap records and of a small compacted topic; bundles of ten million gaps.

`make bench-scan` writes build/bench/scan.json. Each measured program is a process of its own, from its start to its
end. Topics of these sizes are scanned without Spark, and once more with it (``--engine=spark``), where the start of
Java counts. Beside the scan of the large topic a bare Spark count() of it runs: on a machine that has other work,
seconds mean little, and the ratio and the seconds of the processors (which are comparable with other programs on the
same machine) mean more. Memory is the largest of any process of a program.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
from array import array
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_audit import counting
from pyroaring import BitMap

from gapless_api.bundle.form import BundleKind, PartitionGaps
from gapless_api.bundle.writer import write_bundle
from gapless_api.offsets.ranges import OffsetRanges
from kit.kafka.broker import KafkaBroker

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORDS = 2_000_000
PARTITIONS = 5
WINDOWS, WINDOW_SIZE = 100_000, 1000
SOURCES = 400
GAPPY_SHARE = 0.1
SMALL_WINDOWS = 500
RANGES = 10_000_000
GOAL_SECONDS, GOAL_SMALL_SECONDS, GOAL_MIB = 15, 6, 1024
GAPLESS = str(Path(sys.executable).parent / "gapless")


def gap_records(windows: int, emissions: int, seed: int) -> Iterator[tuple[int, bytes, bytes]]:
    """Partition, key and value of what a detector writes that reports each window several times; most have closed."""
    chance = random.Random(seed)
    empty = BitMap().serialize()
    holes = [BitMap(chance.sample(range(WINDOW_SIZE), chance.randint(1, 20))).serialize() for _ in range(500)]
    for emission in range(emissions):
        for window in range(windows):
            source, first = window % SOURCES, window // SOURCES * WINDOW_SIZE
            gappy = emission < emissions - 1 or chance.random() < GAPPY_SHARE
            bitmap = holes[(window + emission) % len(holes)] if gappy else empty
            value = struct.pack(">Bqq", 1, first, first + WINDOW_SIZE - 1) + bitmap
            yield window % PARTITIONS, f"transfer:{source}:{first}".encode(), value


def fill(kafka: KafkaBroker, topic: str, windows: int, emissions: int) -> None:
    for partition in range(PARTITIONS):
        mine = [(key, value) for at, key, value in gap_records(windows, emissions, 7) if at == partition]
        kafka.produce(topic, [value for _, value in mine], partition=partition, keys=[key for key, _ in mine])


def measured(command: list[str]) -> dict[str, float]:
    """Run a program to its end: its seconds, those of the processors, and its largest memory."""
    begun = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        said = process.stderr.read() if process.stderr is not None else b""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command[:4]} ended with {process.returncode}: {said.decode()[-500:]}")
    return {
        "seconds": round(time.monotonic() - begun, 2),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 2),
        "peak_mib": usage.ru_maxrss // 1024,
    }


def scan_command(kafka: KafkaBroker, topic: str, folder: Path, *more: str) -> list[str]:
    written = [f"--report={folder / 'report.json'}", f"--resend-file-name={folder / 'bundle.json'}"]
    return [GAPLESS, "scan", f"--bootstrap-servers={kafka.bootstrap}", f"--topic={topic}", *written, *more]


def best(command: list[str], turns: int) -> dict[str, float]:
    return min((measured(command) for _ in range(turns)), key=lambda run: run["seconds"])


def scans(records: int, turns: int, folder: Path) -> dict[str, Any]:
    with KafkaBroker(jvm_options=["-Xmx512m"]) as kafka:
        large, small = kafka.create_topic("gaps-large", PARTITIONS), kafka.create_topic("gaps-small", PARTITIONS)
        fill(kafka, large, WINDOWS, records // WINDOWS)
        fill(kafka, small, SMALL_WINDOWS, 1)
        counted = best(counting(kafka, large), turns)
        scanned = best(scan_command(kafka, large, folder), turns)
        report = json.loads((folder / "report.json").read_text())
        assert report["windows"] == WINDOWS, report["windows"]
        inferring = best(scan_command(kafka, large, folder, "--infer", "--skip-stale"), turns)
        with_spark = best(scan_command(kafka, large, folder, "--engine=spark"), turns)
        measured(scan_command(kafka, small, folder, "--engine=spark"))
        warm_with_spark = best(scan_command(kafka, small, folder, "--engine=spark"), turns)
        warm = best(scan_command(kafka, small, folder), turns)
    return {
        "records": records,
        "windows": report["windows"],
        "missing": report["missing"],
        "count": counted,
        "scan": scanned,
        "ratio_to_count": round(counted["cpu_seconds"] / scanned["cpu_seconds"], 3),
        "scan_with_spark": with_spark,
        "small_with_spark": warm_with_spark,
        "scan_with_infer": inferring,
        "small": warm,
        "goals": {"scan_seconds": GOAL_SECONDS, "small_seconds": GOAL_SMALL_SECONDS},
    }


def write_large(path: Path, begin: int) -> None:
    """A bundle of ten million gaps, every second of them inferred."""
    firsts = array("q", range(begin, begin + 4 * RANGES, 4))
    entry = PartitionGaps("transfer", 0, 0, 8 * RANGES, OffsetRanges.of_canonical(firsts, firsts))
    inferred = PartitionGaps("transfer", 0, 0, 0, OffsetRanges.of_canonical(firsts[::2], firsts[::2]))
    write_bundle(path, BundleKind.ALL, [entry], created=datetime.now(UTC), source={}, inferred=[inferred])


def bundles(folder: Path) -> dict[str, Any]:
    first, second = folder / "a.json", folder / "b.json"
    found: dict[str, Any] = {"ranges": RANGES, "goals": {"peak_mib": GOAL_MIB}}
    found["write"] = measured([sys.executable, __file__, "--write", str(first), "0"])
    measured([sys.executable, __file__, "--write", str(second), str(2 * RANGES)])
    found["read"] = measured([GAPLESS, "bundle", "show", str(first)])
    found["diff"] = measured([GAPLESS, "bundle", "diff", str(first), str(second)])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--only", choices=("scans", "bundles"))
    parser.add_argument("--output", type=Path, default=Path("build/bench/scan.json"))
    parser.add_argument("--write", nargs=2, metavar=("FILE", "OFFSET"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        write_large(Path(options.write[0]), int(options.write[1]))
        return 0
    options.output.parent.mkdir(parents=True, exist_ok=True)
    figures: dict[str, Any] = {"machine": {"cores": os.cpu_count(), "load_before": round(os.getloadavg()[0], 1)}}
    with tempfile.TemporaryDirectory(prefix="gapless-bench-") as folder:
        if options.only != "bundles":
            figures["scan"] = scans(options.records, options.turns, Path(folder))
        if options.only != "scans":
            figures["bundle"] = bundles(Path(folder))
    options.output.write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures, indent=2))
    peaks = [figures.get("bundle", {}).get(step, {}).get("peak_mib", 0) for step in ("write", "read", "diff")]
    return int(max(peaks) > GOAL_MIB)


if __name__ == "__main__":
    sys.exit(main())
