"""Measures scans of two million uncompacted gap records and of a small compacted topic; bundles of ten million gaps.

`make bench-scan` writes build/bench/scan.json. Each measured program is a process of its own, from start to exit. The
topics are scanned without Spark, and again with it (``--engine=spark``), including the start of Java. The large topic
is also counted by a plain Spark count(): on a busy machine the ratio and the CPU seconds are more meaningful than the
seconds. Memory is the peak of the largest process.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import struct
import sys
import tempfile
from array import array
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench_audit import count_command
from measurement import GAPLESS, measure_command
from pyroaring import BitMap

from gapless_api.bundle.form import BundleKind, PartitionGaps
from gapless_api.bundle.writer import write_bundle
from gapless_api.offsets.ranges import OffsetRanges
from kit.kafka.broker import KafkaBroker

RECORDS = 2_000_000
PARTITIONS = 5
WINDOWS, WINDOW_SIZE = 100_000, 1000
SOURCES = 400
GAPPY_SHARE = 0.1
SMALL_WINDOWS = 500
RANGES = 10_000_000
GOAL_SECONDS, GOAL_SMALL_SECONDS, GOAL_MIB = 15, 6, 1024


def gap_records(windows: int, emissions: int, seed: int) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield partition, key and value of a detector that reports each window several times; most gaps are closed."""
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
        records = [(key, value) for number, key, value in gap_records(windows, emissions, 7) if number == partition]
        kafka.produce(topic, [value for _, value in records], partition=partition, keys=[key for key, _ in records])


def scan_command(kafka: KafkaBroker, topic: str, folder: Path, *more: str) -> list[str]:
    files = [f"--report={folder / 'report.json'}", f"--resend-file-name={folder / 'bundle.json'}"]
    return [GAPLESS, "scan", f"--bootstrap-servers={kafka.bootstrap}", f"--topic={topic}", *files, *more]


def best(command: list[str], turns: int) -> dict[str, float]:
    return min((measure_command(command) for _ in range(turns)), key=lambda run: run["seconds"])


def scans(records: int, turns: int, folder: Path) -> dict[str, Any]:
    with KafkaBroker(jvm_options=["-Xmx512m"]) as kafka:
        large, small = kafka.create_topic("gaps-large", PARTITIONS), kafka.create_topic("gaps-small", PARTITIONS)
        fill(kafka, large, WINDOWS, records // WINDOWS)
        fill(kafka, small, SMALL_WINDOWS, 1)
        counted = best(count_command(kafka, large), turns)
        scanned = best(scan_command(kafka, large, folder), turns)
        report = json.loads((folder / "report.json").read_text())
        assert report["windows"] == WINDOWS, report["windows"]
        inferring = best(scan_command(kafka, large, folder, "--infer", "--skip-stale"), turns)
        with_spark = best(scan_command(kafka, large, folder, "--engine=spark"), turns)
        measure_command(scan_command(kafka, small, folder, "--engine=spark"))
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
    """Write a bundle of ten million gaps; every second one is inferred."""
    firsts = array("q", range(begin, begin + 4 * RANGES, 4))
    entry = PartitionGaps("transfer", 0, 0, 8 * RANGES, OffsetRanges.of_canonical(firsts, firsts))
    inferred = PartitionGaps("transfer", 0, 0, 0, OffsetRanges.of_canonical(firsts[::2], firsts[::2]))
    write_bundle(path, BundleKind.ALL, [entry], created=datetime.now(UTC), source={}, inferred=[inferred])


def bundles(folder: Path) -> dict[str, Any]:
    first, second = folder / "a.json", folder / "b.json"
    found: dict[str, Any] = {"ranges": RANGES, "goals": {"peak_mib": GOAL_MIB}}
    found["write"] = measure_command([sys.executable, __file__, "--write", str(first), "0"])
    measure_command([sys.executable, __file__, "--write", str(second), str(2 * RANGES)])
    found["read"] = measure_command([GAPLESS, "bundle", "show", str(first)])
    found["diff"] = measure_command([GAPLESS, "bundle", "diff", str(first), str(second)])
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
