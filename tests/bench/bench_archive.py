"""Compares gapless archive with a plain write of the same topic to Parquet by Spark's Kafka connector.

`make bench-archive` writes build/bench/archive.json. Each measured program is a process of its own, from start to exit.
On a busy machine only the ratios are meaningful; the two programs alternate, and the fastest of several turns counts.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from measurement import GAPLESS, Usage

from kit.kafka.broker import KafkaBroker

MASTER, CORES = "local[2]", 2


@dataclass(frozen=True)
class Workload:
    name: str
    records: int
    value_bytes: int
    partitions: int = 8


def fill(kafka: KafkaBroker, topic: str, workload: Workload) -> None:
    """Write records with keys and distinct values that compress to about a half."""
    chance = random.Random(3)
    text, size = chance.randbytes(16 << 20).hex().encode(), workload.value_bytes
    options = {"linger.ms": 20, "batch.size": 1 << 20, "queue.buffering.max.messages": 200_000}
    producer = Producer(kafka.client_options(**options))
    for number in range(workload.records):
        while True:
            try:
                at = number * 7919 % (len(text) - size)
                partition = number // 500 % workload.partitions
                producer.produce(topic, text[at : at + size], f"key-{number}".encode(), partition=partition)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush()


def measure_processes(command: list[str]) -> dict[str, Any]:
    """Run a program and wait; return its seconds, and the CPU seconds and peak memory of all its processes."""
    start = time.monotonic()
    usage = Usage()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        while process.poll() is None:
            usage.sample(process.pid)
            time.sleep(0.05)
        seconds = time.monotonic() - start
        if process.returncode != 0:
            raise SystemExit(f"{command[:3]} failed with exit code {process.returncode}")
    return {"seconds": round(seconds, 2), "cpu_seconds": round(usage.cpu_seconds, 1), "peak_mib": usage.peak_mib}


def measure(kafka: KafkaBroker, workload: Workload, turns: int, folder: Path) -> dict[str, Any]:
    """Fill a topic, and alternately write and archive it."""
    topic = kafka.create_topic(workload.name, workload.partitions)
    fill(kafka, topic, workload)
    connector = [sys.executable, str(Path(__file__).with_name("connector_count.py"))]
    arguments = [kafka.bootstrap, topic, MASTER, str(CORES)]
    subprocess.run([*connector, "prepare", *arguments], check=True, capture_output=True)
    writes, archives = [], []
    for turn in range(turns):
        written, archive = folder / f"written-{turn}", folder / f"archive-{turn}"
        usage = measure_processes([*connector, "write", *arguments, str(written)])
        writes.append({**usage, "stored_bytes": size_of(written)})
        shutil.rmtree(written)
        report = folder / "report.json"
        usage = measure_processes(archive_command(kafka, topic, archive, report))
        archives.append({**usage, "stored_bytes": size_of(archive)})
        (archived_topic,) = json.loads(report.read_text())["topics"]
        if archived_topic["records"] != workload.records:
            raise SystemExit(f"{archived_topic['records']} of {workload.records} records were archived")
        shutil.rmtree(archive)
    wrote, archived = (min(runs, key=lambda run: run["seconds"]) for runs in (writes, archives))
    kafka.admin().delete_topics([topic])[topic].result()
    gigabytes = archived_topic["bytes"] / 1e9
    return {
        "name": workload.name,
        "records": workload.records,
        "content_bytes": archived_topic["bytes"],
        "bare_write": wrote,
        "archive": archived,
        "ratio_to_bare_write": round(wrote["seconds"] / archived["seconds"], 3),
        "records_per_second": round(workload.records / archived["seconds"]),
        "mb_per_second": round(gigabytes * 1000 / archived["seconds"], 1),
        "cpu_seconds_per_gb": round(archived["cpu_seconds"] / gigabytes, 2),
        "seconds_per_gb": round(archived["seconds"] / gigabytes, 2),
    }


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*.parquet"))


def archive_command(kafka: KafkaBroker, topic: str, archive: Path, report: Path) -> list[str]:
    options = {"bootstrap-servers": kafka.bootstrap, "topics": topic, "master": MASTER, "archive": archive}
    options |= {"region": "bench", "report": report, "engine": "spark"}
    return [GAPLESS, "archive", "--once", *(f"--{name}={value}" for name, value in options.items())]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000, help="records of 1 KiB; twice as many have 200 bytes")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument(
        "--growth", type=int, default=8, help="gigabytes of the larger growth run (the other has 1); 0 skips both"
    )
    parser.add_argument("--output", type=Path, default=Path("build/bench/archive.json"))
    options = parser.parse_args()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    workloads = [(Workload("kibibytes", options.records, 1024), options.turns)]
    workloads.append((Workload("log-lines", 2 * options.records, 200), options.turns))
    if options.growth:
        workloads += [(Workload(f"growth-{size}", size * 1_000_000, 984), 1) for size in (1, options.growth)]
    with tempfile.TemporaryDirectory(prefix="gapless-bench-") as folder, KafkaBroker(jvm_options=["-Xmx512m"]) as kafka:
        runs = {}
        for workload, turns in workloads:
            runs[workload.name] = measure(kafka, workload, turns, Path(folder))
            print(json.dumps(runs[workload.name]), flush=True)
            found = {
                "made": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "ratio_to_bare_write": runs["kibibytes"]["ratio_to_bare_write"],
                "records_per_second": runs["kibibytes"]["records_per_second"],
                "runs": list(runs.values()),
            }
            growth = [run["seconds_per_gb"] for name, run in runs.items() if name.startswith("growth")]
            if len(growth) > 1:
                found["growth_seconds_per_gb"] = growth
            options.output.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
