"""Measures gapless archive beside a bare write of the same topic to Parquet by Spark's Kafka connector.

`make bench-archive` writes build/bench/archive.json. Each measured program is a process of its own, from its start to
its end. On a machine that has other work only the ratios mean something; the two take turns, and of several turns the
quickest counts.
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
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from kit.kafka.broker import KafkaBroker

MASTER, CORES = "local[2]", 2
_TICKS = 100
"""Of a second, in /proc."""


@dataclass(frozen=True)
class Workload:
    name: str
    records: int
    value_bytes: int
    partitions: int = 8


def fill(kafka: KafkaBroker, topic: str, workload: Workload) -> None:
    """Write records with keys, and with values that shrink to about a half, as text does, none twice."""
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


def measured(command: list[str]) -> dict[str, Any]:
    """Run a program to its end: seconds, CPU seconds, and the largest memory of each of its processes together."""
    begun = time.monotonic()
    cpu: dict[int, float] = {}
    memory: dict[int, int] = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        while process.poll() is None:
            for pid in _family(process.pid):
                with suppress(OSError, IndexError, ValueError):
                    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                    cpu[pid] = (int(words[11]) + int(words[12])) / _TICKS
                    status = Path(f"/proc/{pid}/status").read_text()
                    memory[pid] = int(status.partition("VmHWM:")[2].split()[0]) // 1024
            time.sleep(0.05)
        seconds = time.monotonic() - begun
        if process.returncode != 0:
            raise SystemExit(f"{command[:3]} ended with {process.returncode}")
    return {"seconds": round(seconds, 2), "cpu_seconds": round(sum(cpu.values()), 1), "peak_mib": sum(memory.values())}


def _family(pid: int) -> list[int]:
    found = [pid]
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += _family(int(child))
    return found


def measure(kafka: KafkaBroker, workload: Workload, turns: int, folder: Path) -> dict[str, Any]:
    """Fill a topic, and write and archive it in turns."""
    topic = kafka.create_topic(workload.name, workload.partitions)
    fill(kafka, topic, workload)
    connector = [sys.executable, str(Path(__file__).with_name("connector_count.py"))]
    place = [kafka.bootstrap, topic, MASTER, str(CORES)]
    subprocess.run([*connector, "prepare", *place], check=True, capture_output=True)
    writes, archives = [], []
    for turn in range(turns):
        written, archive = folder / f"written-{turn}", folder / f"archive-{turn}"
        writes.append({**measured([*connector, "write", *place, str(written)]), "stored_bytes": size_of(written)})
        shutil.rmtree(written)
        report = folder / "report.json"
        archives.append({**measured(archive_command(kafka, topic, archive, report)), "stored_bytes": size_of(archive)})
        (told,) = json.loads(report.read_text())["topics"]
        if told["records"] != workload.records:
            raise SystemExit(f"{told['records']} records were archived of {workload.records}")
        shutil.rmtree(archive)
    wrote, archived = (min(runs, key=lambda run: run["seconds"]) for runs in (writes, archives))
    kafka.admin().delete_topics([topic])[topic].result()
    gigabytes = told["bytes"] / 1e9
    return {
        "name": workload.name,
        "records": workload.records,
        "content_bytes": told["bytes"],
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
    program = str(Path(sys.executable).parent / "gapless")
    given = {"bootstrap-servers": kafka.bootstrap, "topics": topic, "master": MASTER, "archive": archive}
    more = {"region": "bench", "report": report, "engine": "spark"}
    return [program, "archive", "--once", *(f"--{name}={value}" for name, value in {**given, **more}.items())]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000, help="of 1 KiB, and twice as many of 200 bytes")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument(
        "--growth", type=int, default=8, help="gigabytes of the largest run, beside one of 1; 0 for none"
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
