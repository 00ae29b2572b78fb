"""Compares gapless mirror with MirrorMaker 2: two million records of 1 KiB and five million of 200 bytes.

`make bench-mirror` writes build/bench/mirror.json. All copies of a run use the same two brokers one after the other,
with the same compression, commit interval and guarantee: exactly once, or at least once. The source is full before a
copy starts. The steady rate is measured from the first records that a reader of the target sees to the last; memory is
the sum of the peaks of all processes of a mirror. Latency is measured separately, at 10,000 records per second.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench_archive import Workload, fill
from measurement import GAPLESS
from mirror_idle import measure_idle
from mirror_latency import measure_latency
from mirror_runs import Mirror, measure_copy
from mirrormaker import Copy, mirrormaker

from kit.kafka.broker import KafkaBroker
from kit.machine.processes import wait_until

PARTITIONS = 8
WORKLOADS = {"1KiB": Workload("kibibytes", 2_000_000, 1024), "200B": Workload("log-lines", 5_000_000, 200)}
RATE, SECONDS = 10_000, 20
PLAIN_LOOP = "plain-loop"
"""Not a mirror: a minimal loop that shows the share of Kafka's Python client. Its latency is not measured."""
MIRRORS = ("mirrormaker2", "workers", "spark", PLAIN_LOOP)
GUARANTEES = ("exactly-once", "at-least-once")
GOALS = {
    "ratio_to_mirrormaker2": 2.0,
    "start_to_done_ratio": 0.3,
    "cpu_ratio_to_mirrormaker2": 0.25,
    "memory_ratio_to_mirrormaker2": 0.4,
    "latency_p99_seconds": 1.0,
    "spark_ratio_to_mirrormaker2": 0.8,
    "spark_latency_p99_seconds": 5.0,
    "many_partitions_start_seconds": 10.0,
    "many_partitions_idle_cpu_percent": 5.0,
    "many_partitions_peak_mib": 300,
}
_MINIMUM_GOALS = ("ratio_to_mirrormaker2", "spark_ratio_to_mirrormaker2")
"""A figure must reach these goals, and must not exceed the others."""


class Bench:
    """The measurements between two brokers."""

    def __init__(self, source: KafkaBroker, target: KafkaBroker, folder: Path, options: argparse.Namespace) -> None:
        self._source, self._target, self._folder, self._options = source, target, folder, options
        self._number = 0

    def copies(self, name: str) -> dict[str, Any]:
        """Copy one workload with each mirror and each guarantee; the fastest of the turns counts."""
        workload = WORKLOADS[name]
        records = int(workload.records * self._options.scale)
        topic = self._source.create_topic(workload.name, PARTITIONS)
        fill(self._source, topic, Workload(workload.name, records, workload.value_bytes, PARTITIONS))
        found: dict[str, Any] = {"records": records, "record_bytes": workload.value_bytes}
        for guarantee in GUARANTEES:
            turns: dict[str, list[dict[str, Any]]] = {}
            for _ in range(self._options.turns):
                for mirror in self._options.mirrors:
                    with self._mirror(mirror, topic, guarantee) as process:
                        run = measure_copy(process, self._target, topic, records, PARTITIONS)
                    print(f"{name} {guarantee} {mirror}: {json.dumps(run)}", file=sys.stderr, flush=True)
                    turns.setdefault(mirror, []).append(run)
                    self._delete(topic)
            found[guarantee] = {mirror: min(runs, key=_duration) for mirror, runs in turns.items()}
        self._source.admin().delete_topics([topic])[topic].result()
        return found

    def latency(self) -> dict[str, Any]:
        """Measure the latency of each mirror with exactly once."""
        found = {}
        for mirror in (name for name in self._options.mirrors if name != PLAIN_LOOP):
            topic = self._source.create_topic(f"paced-{mirror}", PARTITIONS)
            with self._mirror(mirror, topic, "exactly-once") as process:
                found[mirror] = measure_latency(
                    process, self._source, self._target, topic, partitions=PARTITIONS, rate=RATE, seconds=SECONDS
                )
            print(f"latency {mirror}: {json.dumps(found[mirror])}", file=sys.stderr, flush=True)
            self._delete(topic)
        return found

    def many_partitions(self) -> dict[str, Any]:
        """Measure 1,000 partitions with two workers."""
        copy = self._copy("many-partitions", "exactly-once")
        command = [*gapless(copy, "workers"), "--workers=2"]
        return measure_idle(command, self._source, self._target, copy.topic, self._folder / f"{copy.name}.log")

    def _mirror(self, mirror: str, topic: str, guarantee: str) -> Mirror:
        copy = self._copy(topic, guarantee)
        log = self._folder / f"{copy.name}.log"
        if mirror == "mirrormaker2":
            return Mirror(mirrormaker(copy, self._folder / copy.name), log)
        if mirror == PLAIN_LOOP:
            self._target.create_topic(topic, PARTITIONS)
            return Mirror(plain_loop(copy), log)
        return Mirror(gapless(copy, mirror), log)

    def _copy(self, topic: str, guarantee: str) -> Copy:
        self._number += 1
        return Copy(
            source=self._source.bootstrap,
            target=self._target.bootstrap,
            topic=topic,
            name=f"bench{self._number}",
            exactly_once=guarantee == "exactly-once",
            compression=self._options.compression,
        )

    def _delete(self, topic: str) -> None:
        admin = self._target.admin()
        admin.delete_topics([topic])[topic].result()
        wait_until(
            lambda: topic not in admin.list_topics(timeout=10).topics, timeout_seconds=30, what="the topic's deletion"
        )


def gapless(copy: Copy, engine: str) -> list[str]:
    """Return the command of our mirror."""
    options = {
        "engine": engine,
        "name": copy.name,
        "source-bootstrap-servers": copy.source,
        "target-bootstrap-servers": copy.target,
        "topics": copy.topic,
        "delivery": "exactly-once" if copy.exactly_once else "at-least-once",
        "compression": copy.compression,
        "commit-interval": f"{copy.interval_ms / 1000}s",
    }
    return [GAPLESS, "mirror", *(f"--{name}={value}" for name, value in options.items())]


def plain_loop(copy: Copy) -> list[str]:
    """Return the command of the plain loop."""
    settings = {**asdict(copy), "partitions": PARTITIONS}
    return [sys.executable, str(Path(__file__).with_name("plain_loop.py")), json.dumps(settings)]


def _duration(run: dict[str, Any]) -> float:
    return float(run["done_seconds"])


def figures(found: dict[str, Any], engine: str, prefix: str) -> dict[str, float]:
    """Compare an engine with MirrorMaker 2; each figure is the worst of all workloads and guarantees."""
    pairs = [
        (runs["mirrormaker2"], runs[engine])
        for workload in WORKLOADS
        for runs in (found.get(workload, {}).get(guarantee, {}) for guarantee in GUARANTEES)
        if {"mirrormaker2", engine} <= set(runs)
    ]
    result: dict[str, float] = {}
    if pairs:
        result["ratio_to_mirrormaker2"] = min(
            our["records_per_second"] / its["records_per_second"] for its, our in pairs
        )
        for name, field in (("start_to_done_ratio", "done_seconds"), ("cpu_ratio_to_mirrormaker2", "cpu_seconds")):
            result[name] = max(our[field] / its[field] for its, our in pairs)
        result["memory_ratio_to_mirrormaker2"] = max(our["peak_mib"] / its["peak_mib"] for its, our in pairs)
    if engine in found.get("latency", {}):
        result["latency_p50_seconds"] = found["latency"][engine]["p50_seconds"]
        result["latency_p99_seconds"] = found["latency"][engine]["p99_seconds"]
    return {prefix + name: round(value, 3) for name, value in result.items()}


def missed(found: dict[str, Any]) -> list[str]:
    """Return the measured goals that were not reached."""
    return [
        name
        for name, goal in GOALS.items()
        if name in found and (found[name] < goal if name in _MINIMUM_GOALS else found[name] > goal)
    ]


def measure(bench: Bench, only: Sequence[str]) -> dict[str, Any]:
    """Run the measurements in `only`, and compare the results."""
    found: dict[str, Any] = {name: bench.copies(name) for name in WORKLOADS if name in only}
    if "latency" in only:
        found["latency"] = bench.latency()
    found |= figures(found, "workers", "") | figures(found, "spark", "spark_")
    if "many-partitions" in only:
        many = found["many_partitions"] = bench.many_partitions()
        found["many_partitions_start_seconds"] = many["start_seconds"]
        found["many_partitions_idle_cpu_percent"] = many["idle_cpu_percent_of_a_core"]
        found["many_partitions_peak_mib"] = many["peak_mib"]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="fraction of the records, such as 0.1 for a short run")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--compression", default="none", help="compression of every mirror's producer")
    parts = [*WORKLOADS, "latency", "many-partitions"]
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    parser.add_argument("--mirrors", nargs="+", choices=MIRRORS, default=list(MIRRORS))
    parser.add_argument("--output", type=Path, default=Path("build/bench/mirror.json"))
    options = parser.parse_args()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {
        "made": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "machine": {"cores": os.cpu_count(), "load_before": round(os.getloadavg()[0], 1)},
    }
    heap = ["-Xmx768m"]
    with (
        tempfile.TemporaryDirectory(prefix="gapless-bench-") as folder,
        KafkaBroker(jvm_options=heap) as source,
        KafkaBroker(jvm_options=heap) as target,
    ):
        found |= measure(Bench(source, target, Path(folder), options), options.only)
    found["goals"], found["goals_missed"] = GOALS, missed(found)
    options.output.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))
    return int(options.scale >= 1 and bool(found["goals_missed"]))


if __name__ == "__main__":
    sys.exit(main())
